//! The places of servers, and the room that they take there: in circles, in the turns and the rates
//! of topics.
//!
//! Invariant: when a server does not take the room it waited for, the next one that waits for it is
//! looked after.

use crate::frontier::queue::Queue;
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
use crate::servers::in_play::Servers;
use crate::servers::lease::Lease;
use crate::servers::server::Server;
use crate::servers::topic_numbers::TopicNumbers;
use crate::settings::Settings;
use crate::step::staged::Staged;
use crate::store::rows::corrupt;
use rhumb_stage::store::{StoreError, Table};
use rhumb_url::time::Timestamp;
use std::cmp::Reverse;

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
}

impl Places {
    /// No places yet. The topics stand as they were stored.
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
        Ok(Places {
            queue,
            circles,
            speeds: Speeds::default(),
        })
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

    /// The place of a server that may get a job, by its ranks.
    pub(crate) fn ready(
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
    pub(crate) fn put(
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

    /// A job has a turn of its topic: granted now, or in an earlier life.
    pub(crate) fn take_turn(&mut self, lease: &Lease) {
        self.queue.turns.charge(lease.topic, lease.expected);
        self.queue.limits.connected(lease.topic);
    }

    /// The pages of a job count for the rates of its topic from now on.
    pub(crate) fn take_rate(&mut self, lease: &mut Lease, staged: &mut Staged<'_>) {
        lease.page_bytes = self
            .queue
            .limits
            .request(lease.topic, staged.now, lease.slots.len());
        staged.turns.insert(lease.topic);
    }

    /// So many pages of a job were not requested. Those of one from an earlier life were never
    /// charged to this one.
    pub(crate) fn give_rate_back(&mut self, lease: &Lease, pages: usize, now: Timestamp) {
        if !lease.is_restored() {
            self.queue
                .limits
                .spare(lease.topic, now, pages, lease.page_bytes);
        }
    }

    /// The turn of a job is over.
    pub(crate) fn end_turn(&mut self, lease: &Lease, staged: &mut Staged<'_>) {
        self.queue.limits.closed(lease.topic);
        self.give_rate_back(lease, lease.slots.len(), staged.now);
        self.queue
            .turns
            .settle(lease.topic, lease.expected, lease.lasted(staged.now));
        staged.turns.insert(lease.topic);
    }

    /// A job leaves the circles that it counted for.
    pub(crate) fn leave_circles(&mut self, circles: [Option<Circle>; 2], staged: &mut Staged<'_>) {
        for circle in circles.into_iter().flatten() {
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
}
