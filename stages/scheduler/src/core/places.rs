//! Keeps each server in the place where it belongs, and ends the URLs of servers that will not be
//! contacted.
//!
//! In: servers that a step touched, and those whose wait is over. Out: questions that have to be
//! answered before a server can be contacted (its address, its robots.txt), and outcomes of URLs
//! that end without a contact.
//!
//! Invariant: when a server does not take the room it waited for, the next one that waits for it is
//! looked after.

use crate::core::errands::Errands;
use crate::core::yields::Yields;
use crate::frontier::queue::{Queue, Wanted};
use crate::frontier::url_end::UrlEnd;
use crate::keys::budget::{Budget, Budgets};
use crate::keys::circle::Circle;
use crate::keys::room::Room;
use crate::keys::server_key::ServerKey;
use crate::keys::topic::{TopicIndex, TopicNumber};
use crate::keys::wait_for::WaitFor;
use crate::politeness::circles::Circles;
use crate::ranking::policy::Rank;
use crate::ranking::ready_queue::{MoveTo, ReadyQueue, Standing};
use crate::ranking::speeds::Speeds;
use crate::ranking::turns::Account;
use crate::servers::in_play::{InPlay, Servers};
use crate::servers::lease::Lease;
use crate::servers::server::Server;
use crate::servers::todo::Todo;
use crate::servers::topic_numbers::TopicNumbers;
use crate::settings::Settings;
use crate::step::staged::Staged;
use crate::store::rows::corrupt;
use rhumb_stage::store::{StoreError, Table};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{JobKind, Outcome};
use std::cmp::Reverse;
use std::time::Duration;

/// Table of topics: name, none for those that are not configured → how it stands in the turns.
pub(crate) const TURNS: Table = "turns";

/// The key of a topic's row: no store takes an empty one.
fn turns_key(name: &str) -> Vec<u8> {
    [b"t", name.as_bytes()].concat()
}

/// Topics for which a server stands at once, at most. They change with each of its jobs.
const STANDS_MAX: usize = 8;

/// The places of all servers, and what decides them beside the servers themselves.
pub(crate) struct Places {
    pub(crate) queue: ReadyQueue,
    pub(crate) circles: Circles,
    pub(crate) speeds: Speeds,
    pub(crate) yields: Yields,
}

impl Places {
    /// No places yet, but for the jobs that are out, of which `circles` do not know yet. The topics
    /// stand as they were stored.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn open(
        circles: Circles,
        settings: &Settings,
        servers: &Servers,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut queue = ReadyQueue::new(&settings.topics, now);
        for (index, name) in settings
            .topics
            .names()
            .filter(|_| !settings.topics.is_one())
        {
            if let Some(row) = servers.store().get(TURNS, &turns_key(name))? {
                let account = Account::from_row(&row)
                    .ok_or_else(|| corrupt(TURNS, "a topic's row is unreadable"))?;
                queue.turns.restore(index, account);
            }
        }
        queue.limits.has_part(servers.part());
        let mut places = Places {
            queue,
            circles,
            speeds: Speeds::default(),
            yields: Yields::default(),
        };
        servers
            .connected()
            .for_each(|(key, server, lease)| places.restore(key, server, lease, settings));
        Ok(places)
    }

    /// Writes how topics stand whose turns a step changed.
    pub(crate) fn save(&self, staged: &mut Staged<'_>) {
        let changed = std::mem::take(&mut staged.turns);
        let topics = &staged.settings.topics;
        for (index, name) in topics
            .names()
            .filter(|(index, _)| !topics.is_one() && changed.contains(index))
        {
            staged.rows.put(
                TURNS,
                turns_key(name),
                self.queue.turns.account(index).to_row(),
            );
        }
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
        let now = staged.now;
        let settings = staged.settings;
        servers.account(key);
        let connections = servers.load_of_all().jobs;
        // Each round but the last takes away what made it: a question asked, errands refused,
        // robots given up.
        loop {
            let budgets = servers.budgets(key);
            if servers.get(key).is_none() {
                return Ok(());
            }
            let Some(InPlay {
                server, partition, ..
            }) = servers.in_play(key, "finding its place")
            else {
                return Ok(());
            };
            let to = match server.todo(key, now, settings, budgets, &self.circles) {
                Todo::Nothing => {
                    staged.idle.insert(key);
                    MoveTo::Idle
                }
                Todo::Wait(until, what) => {
                    self.yield_to_own(key, server, &partition.topics, connections, staged);
                    MoveTo::Until(until, what)
                }
                Todo::Hold(room) => {
                    if let Room::Circle(circle) = room {
                        self.circles.want(circle, now, settings);
                    }
                    MoveTo::Held(room)
                }
                Todo::Job => self.ready(key, server, &partition.topics, staged)?,
                Todo::End => MoveTo::Ending,
                Todo::Resolve => {
                    server.address.asked(now, settings);
                    staged
                        .messages
                        .refresh(key.partition, server.name.to_string());
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

    /// The place of a server that may get a job, by its ranks.
    fn ready(
        &self,
        key: ServerKey,
        server: &mut Server,
        topics: &TopicNumbers,
        staged: &Staged<'_>,
    ) -> Result<MoveTo, StoreError> {
        let standing = self.standing(key, server, topics, staged)?;
        if let (true, Some(at)) = (standing.ranks.is_empty(), standing.more_at) {
            return Ok(MoveTo::Until(at, WaitFor::Retry));
        }
        Ok(if server.is_in_trouble() {
            MoveTo::Troubled(standing)
        } else {
            MoveTo::Ready(standing)
        })
    }

    /// For what a server may be contacted: to prepare it, or for the topics of its URLs.
    fn standing(
        &self,
        key: ServerKey,
        server: &mut Server,
        numbers: &TopicNumbers,
        staged: &Staged<'_>,
    ) -> Result<Standing, StoreError> {
        let now = staged.now;
        let settings = staged.settings;
        let topics = &settings.topics;
        // Other servers wait for errands, which are served even when no pages are left.
        if !server.errands.is_empty() {
            return Ok(Standing {
                ranks: vec![(topics.first_preparation(), Rank::FIRST)],
                more_at: None,
            });
        }
        let priority = |number| topics.priority(numbers.index_of(number));
        let goes_on = |queue: &&Queue| {
            self.queue.limits.budget(numbers.index_of(queue.topic())) != Budget::UsedUp
        };
        let later = server
            .queues
            .going()
            .filter(goes_on)
            .map(Queue::ready_at)
            .filter(|at| *at > now)
            .min();
        let due = server
            .queues
            .going()
            .filter(goes_on)
            .filter(|queue| queue.ready_at() <= now);
        let mut due: Vec<TopicNumber> = due.map(Queue::topic).collect();
        if due.len() > 1 {
            // Not what its rate or its budget keeps from going.
            let waits = |number| self.queue.limits.waits(numbers.index_of(number), now);
            due.sort_by_key(|&number| {
                (
                    waits(number),
                    Reverse(priority(number)),
                    number <= server.served,
                    number,
                )
            });
            due.truncate(STANDS_MAX);
        }
        let prepares = server.needs_robots(now, settings) && !topics.is_one();
        let mut ranks: Vec<(TopicIndex, Rank)> = Vec::with_capacity(1);
        for number in due {
            let rank = server.rank(&staged.rows, key, (number, now), settings, &self.speeds)?;
            if prepares {
                return Ok(Standing {
                    ranks: vec![(topics.preparation(priority(number)), rank)],
                    more_at: None,
                });
            }
            let index = numbers.index_of(number);
            match ranks.iter_mut().find(|(other, _)| *other == index) {
                // The highest rank sorts first.
                Some((_, other)) => *other = rank.min(*other),
                None => ranks.push((index, rank)),
            }
        }
        Ok(Standing {
            ranks,
            more_at: later,
        })
    }

    /// Moves a server, and passes on the room that it does not take.
    fn put(
        &mut self,
        key: ServerKey,
        server: &mut Server,
        to: MoveTo,
        budgets: Budgets,
        staged: &mut Staged<'_>,
    ) {
        // Room that this server does not take now goes to one that is held, which passes it on the
        // same way.
        let circles = server.circles(staged.settings);
        let full = if let MoveTo::Held(Room::Circle(full)) = to {
            Some(full)
        } else {
            None
        };
        let contends = match (&to, full) {
            (MoveTo::Ready(_) | MoveTo::Troubled(_), _) => circles,
            // It has found room in the circles before the one that is full, and needs them still.
            (_, Some(full)) => [circles[0], (circles[0] != Some(full)).then_some(full)],
            _ => [None; 2],
        };
        let is_ready = matches!(to, MoveTo::Ready(_));
        self.queue.place(key, &mut server.place, to);
        let contended = std::mem::replace(&mut server.contends, contends);
        if !is_ready {
            let rooms = [
                (budgets.host, Room::Host(key.host)),
                (budgets.domain, Room::Domain(server.domain)),
            ];
            for (budget, room) in rooms {
                if matches!(budget, Budget::Left(_)) {
                    self.pass_on(room, staged);
                }
            }
        }
        let lets_go = |circle: &Circle| !contends.contains(&Some(*circle));
        for circle in contends
            .into_iter()
            .flatten()
            .filter(|circle| !contended.contains(&Some(*circle)))
        {
            self.circles.contend(circle, staged.settings);
        }
        for circle in contended.into_iter().flatten().filter(lets_go) {
            self.circles.withdraw(circle, staged.now);
            self.pass_on_circle(circle, staged);
        }
        // Another server may find room in the next circle as well.
        if let Some(full) = full
            && let Some(circle) = contends[0].filter(|circle| *circle != full)
        {
            self.pass_on_circle(circle, staged);
        }
    }

    /// The job of a server yields when URLs of a higher topic wait there: a server has one
    /// connection.
    fn yield_to_own(
        &mut self,
        key: ServerKey,
        server: &mut Server,
        numbers: &TopicNumbers,
        connections: u64,
        staged: &mut Staged<'_>,
    ) {
        let topics = &staged.settings.topics;
        let (Some(lease), false) = (server.lease.as_mut(), topics.is_one()) else {
            return;
        };
        let priority = topics.priority(lease.topic);
        let due = server
            .queues
            .going()
            .filter(|queue| queue.ready_at() <= staged.now);
        let mut due = due.map(|queue| numbers.index_of(queue.topic()));
        let may = |topic| self.queue.limits.may(topic, staged.now, connections);
        let is_higher = due.any(|topic| topics.priority(topic) > priority && may(topic));
        if is_higher && self.yields.ask(priority, key) {
            staged.stopped.push(lease.yields());
        }
    }

    /// Jobs of lower topics yield, as many as servers of the highest one wait for connections.
    pub(crate) fn preempt(&mut self, servers: &mut Servers, staged: &mut Staged<'_>) {
        let connections = servers.load_of_all().jobs;
        let topics = &staged.settings.topics;
        let Some(lowest) = self.yields.lowest().filter(|_| !topics.is_one()) else {
            return;
        };
        let urgent = self
            .queue
            .most_urgent(topics, staged.now, connections)
            .filter(|(priority, _)| *priority > lowest);
        let Some((priority, waiting)) = urgent else {
            return;
        };
        for (priority, key) in self.yields.for_servers(priority, waiting) {
            self.yields.ask(priority, key);
            let lease = servers
                .get_mut(key)
                .and_then(|server| server.lease.as_mut());
            staged.stopped.extend(lease.map(|lease| lease.yields()));
        }
    }

    /// A job of a server that was out when this life began counts again.
    fn restore(&mut self, key: ServerKey, server: &Server, lease: &Lease, settings: &Settings) {
        self.began(key, lease, settings);
        self.queue.turns.charge(lease.topic, Duration::ZERO);
        self.queue.limits.connected(lease.topic);
        for circle in server.circles_of(lease, settings).into_iter().flatten() {
            self.circles.restore(circle, settings);
        }
    }

    /// A granted job counts from now on.
    pub(crate) fn connect(
        &mut self,
        key: ServerKey,
        server: &Server,
        lease: &mut Lease,
        staged: &mut Staged<'_>,
    ) {
        let settings = staged.settings;
        self.began(key, lease, settings);
        self.queue.turns.charge(lease.topic, lease.expected);
        self.queue.limits.connected(lease.topic);
        lease.page_bytes = self
            .queue
            .limits
            .request(lease.topic, staged.now, lease.slots.len());
        staged.turns.insert(lease.topic);
        for circle in server.circles_of(lease, settings).into_iter().flatten() {
            self.circles.connect(circle, settings);
        }
    }

    /// So many pages of a job were not requested. Those of one from an earlier life were never
    /// charged to this one.
    pub(crate) fn spare(&mut self, lease: &Lease, pages: usize, now: Timestamp) {
        if !lease.is_restored() {
            self.queue
                .limits
                .spare(lease.topic, now, pages, lease.page_bytes);
        }
    }

    fn began(&mut self, key: ServerKey, lease: &Lease, settings: &Settings) {
        if lease.kind() == JobKind::Pages && !lease.is_stopped {
            self.yields
                .began(settings.topics.priority(lease.topic), key);
        }
    }

    /// The connection of a lease is closed.
    pub(crate) fn close(
        &mut self,
        key: ServerKey,
        server: &Server,
        lease: &Lease,
        staged: &mut Staged<'_>,
    ) {
        self.yields
            .ended(staged.settings.topics.priority(lease.topic), key);
        self.queue.limits.closed(lease.topic);
        self.spare(lease, lease.slots.len(), staged.now);
        self.queue
            .turns
            .settle(lease.topic, lease.expected, lease.lasted(staged.now));
        staged.turns.insert(lease.topic);
        for circle in server
            .circles_of(lease, staged.settings)
            .into_iter()
            .flatten()
        {
            self.circles.close(circle, staged.now, staged.settings);
            self.pass_on_circle(circle, staged);
        }
    }

    /// Looks after circles; servers that find room now are looked after next. False when there are
    /// none.
    pub(crate) fn tend_circles(&mut self, staged: &mut Staged<'_>) -> bool {
        let with_room = self.circles.tend(staged);
        for circle in &with_room {
            self.pass_on(Room::Circle(*circle), staged);
        }
        !with_room.is_empty()
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
        let Some(in_play) = servers.in_play(key, "ending the URLs of a server") else {
            return Ok(());
        };
        let server = in_play.server;
        let partition = in_play.partition;
        let Some((outcome, reason)) = server.why_urls_end(staged.now, staged.settings, budgets)
        else {
            return Ok(());
        };
        let clock = partition.clock;
        let limit = staged.endings_left;
        let end_of_time = Timestamp::from_micros(u64::MAX);
        let restore = |stored| clock.restore(stored);
        let urls = match outcome {
            Outcome::Trapped => server.queues.take_trapped(&staged.rows, key, limit)?,
            _ => server
                .queues
                .take(&staged.rows, key, end_of_time, restore, Wanted::all(limit))?,
        };
        staged.endings_left -= urls.len();
        for (slot, url) in urls {
            partition.end(
                staged,
                key,
                slot,
                url,
                UrlEnd::without_response(outcome, reason),
            );
        }
        staged.touch(key);
        Ok(())
    }
}
