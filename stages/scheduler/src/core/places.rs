//! Keeps each server in the place where it belongs, and ends the URLs of servers that will not be contacted.
//!
//! In: servers that a step touched, and those whose wait is over. Out: questions that have to be answered before a
//! server can be contacted (its address, its robots.txt), and outcomes of URLs that end without a contact.
//!
//! Invariant: when a server does not take the room it waited for, the next one that waits for it is looked after.

use crate::budget::left::{Budget, Budgets};
use crate::core::errands::Errands;
use crate::frontier::url_end::UrlEnd;
use crate::keys::circle::Circle;
use crate::keys::room::Room;
use crate::keys::server_key::ServerKey;
use crate::politeness::circles::Circles;
use crate::ranking::policy::Rank;
use crate::ranking::ready_queue::{MoveTo, ReadyQueue};
use crate::ranking::speeds::Speeds;
use crate::rights::Settled;
use crate::servers::in_play::Servers;
use crate::servers::lease::Lease;
use crate::servers::server::Server;
use crate::servers::todo::Todo;
use crate::settings::Settings;
use crate::step::staged::Staged;
use shared::stage::store::StoreError;
use shared::time::Timestamp;

/// The places of all servers, and what decides them beside the servers themselves.
pub(crate) struct Places {
    pub(crate) queue: ReadyQueue,
    pub(crate) circles: Circles,
    pub(crate) speeds: Speeds,
}

impl Places {
    /// No places yet; `circles` know of no job yet.
    pub(crate) fn new(circles: Circles) -> Self {
        Places { queue: ReadyQueue::default(), circles, speeds: Speeds::default() }
    }

    /// Puts a server where it belongs, and asks the questions that have to be answered first.
    ///
    /// A server that is not in memory has no place: a report may name a server that is not known.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn find(
        &mut self,
        key: ServerKey,
        servers: &mut Servers,
        errands: &mut Errands,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        let (now, settings) = (staged.now, staged.settings);
        servers.account(key);
        // Each round but the last takes away what made it: a question asked, errands refused, robots given up.
        loop {
            let budgets = servers.budgets(key);
            let Some(server) = servers.get_mut(key) else { return Ok(()) };
            let to = match server.todo(key, now, settings, budgets, &self.circles) {
                Todo::Nothing => {
                    staged.idle.insert(key);
                    MoveTo::Idle
                }
                Todo::Wait(until, what) => MoveTo::Until(until, what),
                Todo::Hold(room) => {
                    if let Room::Circle(circle) = room {
                        self.circles.want(circle, now, settings);
                    }
                    MoveTo::Held(room)
                }
                Todo::Job => self.ready(key, server, staged)?,
                Todo::End => MoveTo::Ending,
                Todo::Resolve => {
                    server.address.asked(now, settings);
                    staged.messages.refresh(key.partition, server.name.to_string());
                    continue;
                }
                Todo::Errand(url) => {
                    server.robots.asked(now, settings);
                    let asker = server.name.to_string();
                    errands.want(url, asker, servers, staged)?;
                    continue;
                }
                Todo::Refuse => {
                    for task in std::mem::take(&mut server.errands) {
                        errands.deliver(&task.asker, None, servers, staged)?;
                    }
                    continue;
                }
            };
            self.put(key, server, to, budgets, staged);
            let domain = server.domain;
            servers.shares_mut().want_for_domain(now, domain);
            return Ok(());
        }
    }

    /// The place of a server that may get a job, by its rank.
    fn ready(&self, key: ServerKey, server: &mut Server, staged: &Staged<'_>) -> Result<MoveTo, StoreError> {
        // Other servers wait for errands, which are served even when no pages are left.
        let rank = match server.errands.is_empty() {
            true => server.rank(&staged.rows, key, staged.settings, &self.speeds)?,
            false => Rank::FIRST,
        };
        Ok(if server.is_in_trouble() { MoveTo::Troubled(rank) } else { MoveTo::Ready(rank) })
    }

    /// Moves a server, and passes on the room that it does not take.
    fn put(&mut self, key: ServerKey, server: &mut Server, to: MoveTo, budgets: Budgets, staged: &mut Staged<'_>) {
        self.queue.place(key, &mut server.place, to);
        // Room that this server does not take now goes to one that is held, which passes it on the same way.
        let circles = server.circles(staged.settings);
        let claimed = match to {
            MoveTo::Ready(_) | MoveTo::Troubled(_) => circles,
            // It has found room in the circles before the one that is full, and needs them still.
            MoveTo::Held(Room::Circle(full)) => [circles[0], (circles[0] != Some(full)).then_some(full)],
            _ => [None; 2],
        };
        let claimed_before = std::mem::replace(&mut server.claimed, claimed);
        if !matches!(to, MoveTo::Ready(_)) {
            let rooms = [(budgets.host, Room::Host(key.host)), (budgets.domain, Room::Domain(server.domain))];
            for (budget, room) in rooms {
                if matches!(budget, Budget::Left(_)) {
                    self.pass_on(room, staged);
                }
            }
        }
        let lets_go = |circle: &Circle| !claimed.contains(&Some(*circle));
        for circle in claimed.into_iter().flatten().filter(|circle| !claimed_before.contains(&Some(*circle))) {
            self.circles.claim(circle, staged.settings);
        }
        for circle in claimed_before.into_iter().flatten().filter(lets_go) {
            self.circles.unclaim(circle, staged.now);
            self.pass_on_circle(circle, staged);
        }
        // Another server may find room in the next circle as well.
        if let MoveTo::Held(Room::Circle(full)) = to
            && let Some(circle) = claimed[0].filter(|circle| *circle != full)
        {
            self.pass_on_circle(circle, staged);
        }
    }

    /// A job of a server that was out when this life began counts again.
    pub(crate) fn restore(&mut self, server: &Server, lease: &Lease, settings: &Settings) {
        for circle in server.circles_of(lease, settings).into_iter().flatten() {
            self.circles.restore(circle, settings);
        }
    }

    /// A granted job counts from now on.
    pub(crate) fn connect(&mut self, server: &Server, lease: &Lease, settings: &Settings) {
        for circle in server.circles_of(lease, settings).into_iter().flatten() {
            self.circles.connect(circle, settings);
        }
    }

    /// The connection of a lease is closed.
    pub(crate) fn close(&mut self, server: &Server, lease: &Lease, staged: &mut Staged<'_>) {
        for circle in server.circles_of(lease, staged.settings).into_iter().flatten() {
            self.circles.close(circle, staged.now, staged.settings);
            self.pass_on_circle(circle, staged);
        }
    }

    /// Looks after circles; servers that find room now are looked after next. False when there are none.
    pub(crate) fn tend_circles(&mut self, staged: &mut Staged<'_>) -> bool {
        let with_room = self.circles.tend(staged);
        for circle in &with_room {
            self.pass_on(Room::Circle(*circle), staged);
        }
        !with_room.is_empty()
    }

    /// Takes what the ledger of a circle says.
    pub(crate) fn settled(&mut self, settled: &Settled, staged: &mut Staged<'_>) {
        self.circles.settled(settled, staged);
    }

    /// Room in a circle goes to a server that is held for want of it.
    fn pass_on_circle(&self, circle: Circle, staged: &mut Staged<'_>) {
        if self.circles.has_room(circle, staged.now, staged.settings) {
            self.pass_on(Room::Circle(circle), staged);
        }
    }

    /// Room goes to the server that has been held for longest for want of it.
    pub(crate) fn pass_on(&self, room: Room, staged: &mut Staged<'_>) {
        if let Some(held) = self.queue.first_held(room) {
            staged.unsettle(held);
        }
    }

    /// Ends waiting URLs of a server that will not be contacted, as many as the step may.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn end_waiting(
        key: ServerKey,
        servers: &mut Servers,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        staged.unsettle(key);
        let budgets = servers.budgets(key);
        let Some(in_play) = servers.in_play(key, "ending the URLs of a server") else { return Ok(()) };
        let (server, partition) = (in_play.server, in_play.partition);
        let Some((outcome, reason)) = server.why_urls_end(staged.now, staged.settings, budgets) else { return Ok(()) };
        let (clock, limit) = (partition.clock, staged.endings_left);
        let end_of_time = Timestamp::from_micros(u64::MAX);
        let restore = |stored| clock.restore(stored);
        let urls = server.queue.take(&staged.rows, key, end_of_time, restore, limit, false)?;
        staged.endings_left -= urls.len();
        for (slot, url) in urls {
            partition.end(staged, key, slot, url, UrlEnd::without_response(outcome, reason));
        }
        staged.touch(key);
        Ok(())
    }
}
