//! The queue of servers. Servers that may be contacted stand in it by rank and then by the order in which they became
//! ready; servers in trouble stand apart. Others wait for a point in time, or for room that others take.
//!
//! Invariant: a server is in one place only. Source: Cao, Jiang and Singh 2003, server level.

use crate::keys::room::Room;
use crate::keys::server_key::ServerKey;
use crate::keys::wait_for::WaitFor;
use crate::ranking::policy::Rank;
use shared::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Servers that are counted to say how many go before another one, at most: a question may not hold up the scheduler.
pub(crate) const BEFORE_MAX: usize = 10_000;

/// Where a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QueuePlace {
    /// Nothing is to be done for it.
    #[default]
    Idle,
    /// Nothing is to be done before then: a contact, an answer that is awaited, the end of a lease.
    Until(Timestamp, WaitFor),
    /// A job can be granted; by rank and turn.
    Ready(Rank, u64),
    /// A job can be granted, but the server is in trouble; by rank and turn.
    Troubled(Rank, u64),
    /// Nothing can be done before there is room; by turn.
    Held(Room, u64),
    /// Its URLs end without a contact.
    Ending,
}

/// Where a server is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveTo {
    Idle,
    Until(Timestamp, WaitFor),
    Ready(Rank),
    Troubled(Rank),
    Held(Room),
    Ending,
}

/// Servers by what they wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) delay: u64,
    pub(crate) back_off: u64,
    pub(crate) retry: u64,
    pub(crate) address: u64,
    pub(crate) robots: u64,
    pub(crate) budget: u64,
    pub(crate) room: u64,
    pub(crate) pause: u64,
}

impl Waits {
    /// The number that a server in that place counts for.
    fn of(&mut self, place: QueuePlace) -> Option<&mut u64> {
        match place {
            QueuePlace::Until(_, what) => match what {
                WaitFor::Contact => Some(&mut self.delay),
                WaitFor::BackOff => Some(&mut self.back_off),
                WaitFor::Retry => Some(&mut self.retry),
                WaitFor::Address => Some(&mut self.address),
                WaitFor::Robots => Some(&mut self.robots),
                WaitFor::Lease | WaitFor::Nobody => None,
            },
            QueuePlace::Held(Room::Host(_) | Room::Domain(_), _) => Some(&mut self.budget),
            QueuePlace::Held(Room::Circle(_), _) => Some(&mut self.room),
            QueuePlace::Held(Room::Paused, _) => Some(&mut self.pause),
            QueuePlace::Idle | QueuePlace::Ready(..) | QueuePlace::Troubled(..) | QueuePlace::Ending => None,
        }
    }
}

/// All servers with something to do, by place.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    waiting: BTreeSet<(Timestamp, ServerKey)>,
    ready: BTreeMap<(Rank, u64), ServerKey>,
    troubled: BTreeMap<(Rank, u64), ServerKey>,
    held: BTreeMap<(Room, u64), ServerKey>,
    ending: BTreeSet<ServerKey>,
    turns: u64,
    waits: Waits,
}

impl ReadyQueue {
    /// Moves a server; one that stays ready, or held, keeps its turn.
    pub(crate) fn place(&mut self, server: ServerKey, place: &mut QueuePlace, to: MoveTo) {
        let turn = match (*place, to) {
            (QueuePlace::Held(room, _), MoveTo::Held(same)) if room == same => return,
            (QueuePlace::Ready(rank, _), MoveTo::Ready(same)) if rank == same => return,
            (QueuePlace::Troubled(rank, _), MoveTo::Troubled(same)) if rank == same => return,
            (QueuePlace::Ready(_, turn), MoveTo::Ready(_)) | (QueuePlace::Troubled(_, turn), MoveTo::Troubled(_)) => {
                turn
            }
            _ => {
                self.turns += 1;
                self.turns
            }
        };
        self.waits.of(*place).into_iter().for_each(|count| *count -= 1);
        match *place {
            QueuePlace::Idle => {}
            QueuePlace::Until(at, _) => {
                self.waiting.remove(&(at, server));
            }
            QueuePlace::Ready(rank, turn) => {
                self.ready.remove(&(rank, turn));
            }
            QueuePlace::Troubled(rank, turn) => {
                self.troubled.remove(&(rank, turn));
            }
            QueuePlace::Held(room, turn) => {
                self.held.remove(&(room, turn));
            }
            QueuePlace::Ending => {
                self.ending.remove(&server);
            }
        }
        *place = match to {
            MoveTo::Idle => QueuePlace::Idle,
            MoveTo::Until(at, what) => {
                self.waiting.insert((at, server));
                QueuePlace::Until(at, what)
            }
            MoveTo::Ready(rank) => {
                self.ready.insert((rank, turn), server);
                QueuePlace::Ready(rank, turn)
            }
            MoveTo::Troubled(rank) => {
                self.troubled.insert((rank, turn), server);
                QueuePlace::Troubled(rank, turn)
            }
            MoveTo::Held(room) => {
                self.held.insert((room, turn), server);
                QueuePlace::Held(room, turn)
            }
            MoveTo::Ending => {
                self.ending.insert(server);
                QueuePlace::Ending
            }
        };
        self.waits.of(*place).into_iter().for_each(|count| *count += 1);
    }

    /// The server that goes next. `troubled_too`: it may be one in trouble.
    pub(crate) fn first_ready(&self, troubled_too: bool) -> Option<ServerKey> {
        let troubled = self.troubled.first_key_value().filter(|_| troubled_too);
        self.ready.first_key_value().into_iter().chain(troubled).min_by_key(|(order, _)| **order).map(|(_, key)| *key)
    }

    /// The server that has been held for longest for want of this room.
    pub(crate) fn first_held(&self, room: Room) -> Option<ServerKey> {
        self.held.range((room, 0)..=(room, u64::MAX)).next().map(|(_, server)| *server)
    }

    /// A server whose URLs end without a contact.
    pub(crate) fn first_ending(&self) -> Option<ServerKey> {
        self.ending.first().copied()
    }

    /// The server whose wait is over at `now`, the earliest first.
    pub(crate) fn first_due(&self, now: Timestamp) -> Option<ServerKey> {
        self.waiting.first().filter(|(at, _)| *at <= now).map(|(_, server)| *server)
    }

    /// When the next wait is over.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// Number of servers of its kind that go before one in that place, up to [`BEFORE_MAX`].
    pub(crate) fn before(&self, place: QueuePlace) -> usize {
        match place {
            QueuePlace::Ready(rank, turn) => self.ready.range(..(rank, turn)).take(BEFORE_MAX).count(),
            QueuePlace::Troubled(rank, turn) => self.troubled.range(..(rank, turn)).take(BEFORE_MAX).count(),
            _ => self.ready.len().min(BEFORE_MAX),
        }
    }

    /// Numbers of servers by what they wait for.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Number of servers that are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len() + self.troubled.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::circle::Circle;

    const fn server(id: u64) -> ServerKey {
        ServerKey::numbered(id)
    }

    #[test]
    fn held_servers_go_in_the_order_in_which_they_came() {
        let mut queue = ReadyQueue::default();
        let mut places = [QueuePlace::Idle; 4];
        let [seven, eight] = [7, 8].map(Room::Host);
        for (id, room) in [(2, seven), (0, seven), (3, eight), (1, seven), (2, seven)] {
            queue.place(server(id as u64), &mut places[id], MoveTo::Held(room));
        }
        let mut order = Vec::new();
        while let Some(next) = queue.first_held(seven) {
            order.push(next.host);
            queue.place(next, &mut places[next.host as usize], MoveTo::Ready(Rank::default()));
        }
        assert_eq!(order, [2, 0, 1]);
        assert_eq!((queue.first_held(Room::Host(6)), queue.first_held(eight)), (None, Some(server(3))));
        // The same server is held for want of another room.
        let address = Room::Circle(Circle::Address("192.0.2.1".parse().unwrap()));
        queue.place(server(3), &mut places[3], MoveTo::Held(address));
        assert_eq!((queue.first_held(eight), queue.first_held(address)), (None, Some(server(3))));
    }

    #[test]
    fn servers_in_trouble_take_turns_with_the_others_while_they_may() {
        let mut queue = ReadyQueue::default();
        let mut places = [QueuePlace::Idle; 4];
        for (id, to) in [MoveTo::Troubled, MoveTo::Ready, MoveTo::Troubled, MoveTo::Ready].into_iter().enumerate() {
            queue.place(server(id as u64), &mut places[id], to(Rank::default()));
        }
        assert_eq!(queue.ready(), 4);
        for (troubled_too, next) in [(false, 1), (true, 0), (true, 2), (true, 3)] {
            assert_eq!(queue.first_ready(troubled_too), Some(server(next)));
            queue.place(server(next), &mut places[next as usize], MoveTo::Idle);
        }
        assert_eq!((queue.first_ready(true), queue.ready()), (None, 0));
    }

    #[test]
    fn servers_are_counted_by_what_they_wait_for() {
        let mut queue = ReadyQueue::default();
        let mut places = [QueuePlace::Idle; 4];
        let until = |what| MoveTo::Until(Timestamp::from_micros(5), what);
        let address = Room::Circle(Circle::Address("192.0.2.1".parse().unwrap()));
        let all =
            [until(WaitFor::Address), until(WaitFor::Address), MoveTo::Held(Room::Host(7)), MoveTo::Held(address)];
        for (id, to) in all.into_iter().enumerate() {
            queue.place(server(id as u64), &mut places[id], to);
        }
        assert_eq!(*queue.waits(), Waits { address: 2, budget: 1, room: 1, ..Waits::default() });
        // One that stays where it is counts once.
        for (id, to) in [(0, until(WaitFor::BackOff)), (1, until(WaitFor::Lease)), (2, MoveTo::Held(Room::Host(7)))] {
            queue.place(server(id as u64), &mut places[id], to);
        }
        assert_eq!(*queue.waits(), Waits { back_off: 1, budget: 1, room: 1, ..Waits::default() });
        for (id, place) in places.iter_mut().enumerate() {
            queue.place(server(id as u64), place, MoveTo::Idle);
        }
        assert_eq!(*queue.waits(), Waits::default());
    }

    #[test]
    fn servers_go_in_the_order_in_which_they_became_ready() {
        let mut queue = ReadyQueue::default();
        let mut places = [QueuePlace::Idle; 4];
        for id in [2, 0, 3, 1] {
            queue.place(server(id as u64), &mut places[id], MoveTo::Ready(Rank::default()));
        }
        queue.place(server(3), &mut places[3], MoveTo::Until(Timestamp::from_micros(5), WaitFor::Contact));
        queue.place(server(2), &mut places[2], MoveTo::Ready(Rank::default()));
        let mut order = Vec::new();
        while let Some(next) = queue.first_ready(false) {
            order.push(next.host);
            queue.place(next, &mut places[next.host as usize], MoveTo::Idle);
        }
        assert_eq!(order, [2, 0, 1]);
        assert_eq!(queue.first_due(Timestamp::from_micros(4)), None);
        assert_eq!(queue.first_due(Timestamp::from_micros(5)), Some(server(3)));
        assert_eq!(queue.next_due(), Some(Timestamp::from_micros(5)));
    }
}
