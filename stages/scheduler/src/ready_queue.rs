//! Which server next: those that may be contacted, by rank (Cao, Jiang and Singh 2003, server level) and the order in
//! which they became so; those that wait for a point in time; and those that wait for room in their host's budget.
//!
//! A server is in one place only.

use crate::policy::Rank;
use crate::server::ServerKey;
use shared::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Where a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing is to be done for it.
    #[default]
    Idle,
    /// Nothing before then: a contact, an answer that is awaited, the end of a lease.
    Until(Timestamp),
    /// A job can be granted; by rank and turn.
    Ready(Rank, u64),
    /// Nothing before a URL of its host ends, which is in flight; by host and turn.
    Held(u64, u64),
    /// Its URLs end without a contact.
    Ending,
}

/// Where a server is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Idle,
    Until(Timestamp),
    Ready(Rank),
    Held(u64),
    Ending,
}

/// All servers with something to do, by place.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    waiting: BTreeSet<(Timestamp, ServerKey)>,
    ready: BTreeMap<(Rank, u64), ServerKey>,
    held: BTreeMap<(u64, u64), ServerKey>,
    ending: BTreeSet<ServerKey>,
    turns: u64,
}

impl ReadyQueue {
    /// Moves a server; one that stays ready, or held, keeps its turn.
    pub(crate) fn place(&mut self, server: ServerKey, place: &mut Place, to: Move) {
        let turn = match (*place, to) {
            (Place::Held(..), Move::Held(_)) => return,
            (Place::Ready(rank, _), Move::Ready(same)) if rank == same => return,
            (Place::Ready(_, turn), Move::Ready(_)) => turn,
            _ => {
                self.turns += 1;
                self.turns
            }
        };
        match *place {
            Place::Idle => {}
            Place::Until(at) => {
                self.waiting.remove(&(at, server));
            }
            Place::Ready(rank, turn) => {
                self.ready.remove(&(rank, turn));
            }
            Place::Held(host, turn) => {
                self.held.remove(&(host, turn));
            }
            Place::Ending => {
                self.ending.remove(&server);
            }
        }
        *place = match to {
            Move::Idle => Place::Idle,
            Move::Until(at) => {
                self.waiting.insert((at, server));
                Place::Until(at)
            }
            Move::Ready(rank) => {
                self.ready.insert((rank, turn), server);
                Place::Ready(rank, turn)
            }
            Move::Held(host) => {
                self.held.insert((host, turn), server);
                Place::Held(host, turn)
            }
            Move::Ending => {
                self.ending.insert(server);
                Place::Ending
            }
        };
    }

    /// The server that goes next.
    pub(crate) fn first_ready(&self) -> Option<ServerKey> {
        self.ready.first_key_value().map(|(_, server)| *server)
    }

    /// The server of a host that has been held for longest.
    pub(crate) fn first_held(&self, host: u64) -> Option<ServerKey> {
        self.held.range((host, 0)..=(host, u64::MAX)).next().map(|(_, server)| *server)
    }

    /// A server whose URLs end without a contact.
    pub(crate) fn first_ending(&self) -> Option<ServerKey> {
        self.ending.first().copied()
    }

    /// The server that has waited until `now` or before, longest first.
    pub(crate) fn first_due(&self, now: Timestamp) -> Option<ServerKey> {
        self.waiting.first().filter(|(at, _)| *at <= now).map(|(_, server)| *server)
    }

    /// When the next wait is over.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// How many servers are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn server(id: u64) -> ServerKey {
        ServerKey { partition: 0, id }
    }

    #[test]
    fn held_servers_of_a_host_go_in_the_order_in_which_they_came() {
        let mut queue = ReadyQueue::default();
        let mut places = [Place::Idle; 4];
        for (id, host) in [(2, 7), (0, 7), (3, 8), (1, 7), (2, 7)] {
            queue.place(server(id as u64), &mut places[id], Move::Held(host));
        }
        let mut order = Vec::new();
        while let Some(next) = queue.first_held(7) {
            order.push(next.id);
            queue.place(next, &mut places[next.id as usize], Move::Ready(Rank::default()));
        }
        assert_eq!(order, [2, 0, 1]);
        assert_eq!((queue.first_held(6), queue.first_held(8)), (None, Some(server(3))));
    }

    #[test]
    fn servers_go_in_the_order_in_which_they_became_ready() {
        let mut queue = ReadyQueue::default();
        let mut places = [Place::Idle; 4];
        for id in [2, 0, 3, 1] {
            queue.place(server(id as u64), &mut places[id], Move::Ready(Rank::default()));
        }
        queue.place(server(3), &mut places[3], Move::Until(Timestamp::from_micros(5)));
        queue.place(server(2), &mut places[2], Move::Ready(Rank::default()));
        let mut order = Vec::new();
        while let Some(next) = queue.first_ready() {
            order.push(next.id);
            queue.place(next, &mut places[next.id as usize], Move::Idle);
        }
        assert_eq!(order, [2, 0, 1]);
        assert_eq!(queue.first_due(Timestamp::from_micros(4)), None);
        assert_eq!(queue.first_due(Timestamp::from_micros(5)), Some(server(3)));
        assert_eq!(queue.next_due(), Some(Timestamp::from_micros(5)));
    }
}
