//! The queue of servers. Servers that may be contacted stand in it by topic, by rank, and then by
//! the order in which they became ready; servers in trouble stand apart. Others wait for a point in
//! time, or for room that others take.
//!
//! Invariants: a server is in one kind of place only; while it is ready it stands for each topic of
//! its ranks. Source: Cao, Jiang and Singh 2003, server level.

use crate::keys::room::Room;
use crate::keys::server_key::ServerKey;
use crate::keys::topic::TopicIndex;
use crate::keys::wait_for::WaitFor;
use crate::ranking::limits::Limits;
use crate::ranking::policy::Rank;
use crate::ranking::topics::Topics;
use crate::ranking::turns::{Stands, Turns};
use rhumb_url::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Servers that are counted to say how many go before another one, at most: a question may not hold
/// up the scheduler.
pub(crate) const BEFORE_MAX: usize = 10_000;

/// For what a server may be contacted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its ranks, by the topics for which it may be contacted.
    pub(crate) ranks: Vec<(TopicIndex, Rank)>,
    /// When there is one more topic: a URL is due then that failed before.
    pub(crate) more_at: Option<Timestamp>,
}

/// Where a server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum QueuePlace {
    /// Nothing is to be done for it.
    #[default]
    Idle,
    /// Nothing is to be done before then: a contact, an answer that is awaited, the end of a lease.
    Until(Timestamp, WaitFor),
    /// A job can be granted; by topic, rank and turn.
    Ready(Standing, u64),
    /// A job can be granted, but the server is in trouble; by topic, rank and turn.
    Troubled(Standing, u64),
    /// Nothing can be done before there is room; by turn.
    Held(Room, u64),
    /// Its URLs end without a contact.
    Ending,
}

/// Where a server is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MoveTo {
    Idle,
    Until(Timestamp, WaitFor),
    Ready(Standing),
    Troubled(Standing),
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
    pub(crate) trap: u64,
}

impl Waits {
    /// The number that a server in that place counts for.
    fn of(&mut self, place: &QueuePlace) -> Option<&mut u64> {
        match place {
            QueuePlace::Until(_, what) => match what {
                WaitFor::Contact => Some(&mut self.delay),
                WaitFor::BackOff => Some(&mut self.back_off),
                WaitFor::Retry => Some(&mut self.retry),
                WaitFor::Address => Some(&mut self.address),
                WaitFor::Robots => Some(&mut self.robots),
                WaitFor::Lease | WaitFor::Nobody => None,
            },
            QueuePlace::Held(Room::Host(_) | Room::Domain(_) | Room::Topics, _) => {
                Some(&mut self.budget)
            }
            QueuePlace::Held(Room::Circle(_), _) => Some(&mut self.room),
            QueuePlace::Held(Room::Paused, _) => Some(&mut self.pause),
            QueuePlace::Held(Room::Trap, _) => Some(&mut self.trap),
            QueuePlace::Idle
            | QueuePlace::Ready(..)
            | QueuePlace::Troubled(..)
            | QueuePlace::Ending => None,
        }
    }
}

/// Servers that may be contacted for a topic.
#[derive(Debug, Default)]
struct OfTopic {
    ready: BTreeMap<(Rank, u64), ServerKey>,
    troubled: BTreeMap<(Rank, u64), ServerKey>,
}

impl OfTopic {
    /// The server that goes next. `troubled_too`: it may be one in trouble.
    fn first(&self, troubled_too: bool) -> Option<ServerKey> {
        let troubled = self.troubled.first_key_value().filter(|_| troubled_too);
        self.ready
            .first_key_value()
            .into_iter()
            .chain(troubled)
            .min_by_key(|(order, _)| **order)
            .map(|(_, key)| *key)
    }

    fn stands(&self, troubled_too: bool) -> Stands {
        match (self.ready.is_empty(), self.troubled.is_empty()) {
            (false, _) => Stands::Server,
            (true, false) if troubled_too => Stands::Server,
            (true, false) => Stands::Blocked,
            (true, true) => Stands::Nothing,
        }
    }
}

/// What stands for a topic, as far as its limits let it have another job.
fn stands(
    of_topics: &[OfTopic],
    limits: &Limits,
    topic: TopicIndex,
    now: Timestamp,
    connections: u64,
    troubled_too: bool,
) -> Stands {
    match of_topics[usize::from(topic.0)].stands(troubled_too) {
        Stands::Server if !limits.may(topic, now, connections) => Stands::Blocked,
        stands => stands,
    }
}

/// All servers with something to do, by place.
#[derive(Debug)]
pub(crate) struct ReadyQueue {
    waiting: BTreeSet<(Timestamp, ServerKey)>,
    /// By the indices of the topics.
    of_topics: Vec<OfTopic>,
    pub(crate) turns: Turns,
    pub(crate) limits: Limits,
    /// Servers that may be contacted.
    ready: usize,
    held: BTreeMap<(Room, u64), ServerKey>,
    ending: BTreeSet<ServerKey>,
    /// Of the latest step.
    now: Timestamp,
    /// Places that were given so far.
    places_taken: u64,
    waits: Waits,
}

impl ReadyQueue {
    pub(crate) fn new(topics: &Topics, now: Timestamp) -> Self {
        ReadyQueue {
            waiting: BTreeSet::new(),
            of_topics: topics.rules().iter().map(|_| OfTopic::default()).collect(),
            turns: Turns::new(topics, now),
            limits: Limits::new(topics, now),
            ready: 0,
            held: BTreeMap::new(),
            ending: BTreeSet::new(),
            now,
            places_taken: 0,
            waits: Waits::default(),
        }
    }

    /// Moves a server; one that stays ready, or held, keeps its turn.
    pub(crate) fn place(&mut self, server: ServerKey, place: &mut QueuePlace, to: MoveTo) {
        let turn = match (&*place, &to) {
            (QueuePlace::Held(room, _), MoveTo::Held(same)) if room == same => return,
            (QueuePlace::Ready(standing, _), MoveTo::Ready(same)) if standing == same => return,
            (QueuePlace::Troubled(standing, _), MoveTo::Troubled(same)) if standing == same => {
                return;
            }
            (QueuePlace::Ready(_, turn), MoveTo::Ready(_))
            | (QueuePlace::Troubled(_, turn), MoveTo::Troubled(_)) => *turn,
            _ => {
                self.places_taken += 1;
                self.places_taken
            }
        };
        self.waits
            .of(place)
            .into_iter()
            .for_each(|count| *count -= 1);
        self.take_out(server, place);
        *place = match to {
            MoveTo::Idle => QueuePlace::Idle,
            MoveTo::Until(at, what) => {
                self.waiting.insert((at, server));
                QueuePlace::Until(at, what)
            }
            MoveTo::Ready(standing) => {
                self.stand(server, &standing, turn, |of| &mut of.ready);
                QueuePlace::Ready(standing, turn)
            }
            MoveTo::Troubled(standing) => {
                self.stand(server, &standing, turn, |of| &mut of.troubled);
                QueuePlace::Troubled(standing, turn)
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
        self.waits
            .of(place)
            .into_iter()
            .for_each(|count| *count += 1);
    }

    fn take_out(&mut self, server: ServerKey, place: &QueuePlace) {
        let mut leave =
            |standing: &Standing,
             turn,
             of: fn(&mut OfTopic) -> &mut BTreeMap<(Rank, u64), ServerKey>| {
                self.ready -= 1;
                standing
                    .more_at
                    .inspect(|at| _ = self.waiting.remove(&(*at, server)));
                for (topic, rank) in &standing.ranks {
                    of(&mut self.of_topics[usize::from(topic.0)]).remove(&(*rank, turn));
                }
            };
        match place {
            QueuePlace::Idle => {}
            QueuePlace::Until(at, _) => {
                self.waiting.remove(&(*at, server));
            }
            QueuePlace::Ready(standing, turn) => leave(standing, *turn, |of| &mut of.ready),
            QueuePlace::Troubled(standing, turn) => leave(standing, *turn, |of| &mut of.troubled),
            QueuePlace::Held(room, turn) => {
                self.held.remove(&(*room, *turn));
            }
            QueuePlace::Ending => {
                self.ending.remove(&server);
            }
        }
    }

    fn stand(
        &mut self,
        server: ServerKey,
        standing: &Standing,
        turn: u64,
        of: fn(&mut OfTopic) -> &mut BTreeMap<(Rank, u64), ServerKey>,
    ) {
        self.ready += 1;
        self.waiting.extend(standing.more_at.map(|at| (at, server)));
        for (topic, rank) in &standing.ranks {
            of(&mut self.of_topics[usize::from(topic.0)]).insert((*rank, turn), server);
            self.turns.enter(*topic);
        }
    }

    /// The server that goes next, and the topic whose turn it is. `connections`: of all fetchers,
    /// free ones too. `troubled_too`: it may be one in trouble.
    pub(crate) fn next(
        &mut self,
        now: Timestamp,
        connections: u64,
        troubled_too: bool,
    ) -> Option<(ServerKey, TopicIndex)> {
        let ReadyQueue {
            of_topics,
            limits,
            turns,
            ..
        } = self;
        let topic =
            turns.next(|topic| stands(of_topics, limits, topic, now, connections, troubled_too))?;
        Some((of_topics[usize::from(topic.0)].first(troubled_too)?, topic))
    }

    /// The server that goes first for one topic, whoever's turn it is.
    pub(crate) fn first_of(
        &self,
        topic: TopicIndex,
        troubled_too: bool,
    ) -> Option<(ServerKey, TopicIndex)> {
        self.of_topics
            .get(usize::from(topic.0))?
            .first(troubled_too)
            .map(|server| (server, topic))
    }

    /// Looks after turns and limits at the end of a period.
    pub(crate) fn tend(&mut self, now: Timestamp) {
        self.turns.tend(now, self.limits.part());
        self.now = now;
    }

    /// When the rates of a topic let the first server go on that waits for that alone.
    pub(crate) fn unlimited_at(&self) -> Option<Timestamp> {
        let standing = (0..)
            .map(TopicIndex)
            .zip(&self.of_topics)
            .filter(|(_, of)| of.stands(true) == Stands::Server);
        standing
            .filter_map(|(topic, _)| self.limits.due(topic, self.now))
            .min()
    }

    /// The highest priority of which servers may be contacted, and how many of them its topics may
    /// have.
    pub(crate) fn most_urgent(
        &self,
        topics: &Topics,
        now: Timestamp,
        connections: u64,
    ) -> Option<(u8, usize)> {
        let stands = |topic| {
            stands(
                &self.of_topics,
                &self.limits,
                topic,
                now,
                connections,
                false,
            )
        };
        let highest = self.turns.highest(stands)?;
        let all = (0..)
            .map(TopicIndex)
            .zip(&self.of_topics)
            .zip(topics.rules());
        let of_it = all.filter(|((topic, _), rules)| {
            rules.priority == highest && stands(*topic) == Stands::Server
        });
        let wanted = of_it.map(|((topic, of), _)| {
            of.ready
                .len()
                .min(self.limits.jobs_max(topic, now, connections))
        });
        Some((highest, wanted.sum()))
    }

    /// The server that has been held for longest for want of this room.
    pub(crate) fn first_held(&self, room: Room) -> Option<ServerKey> {
        self.held
            .range((room, 0)..=(room, u64::MAX))
            .next()
            .map(|(_, server)| *server)
    }

    /// A server whose URLs end without a contact.
    pub(crate) fn first_ending(&self) -> Option<ServerKey> {
        self.ending.first().copied()
    }

    /// The server whose wait is over at `now`, the earliest first.
    pub(crate) fn first_due(&self, now: Timestamp) -> Option<ServerKey> {
        self.waiting
            .first()
            .filter(|(at, _)| *at <= now)
            .map(|(_, server)| *server)
    }

    /// When the next wait is over.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// Number of servers of its kind and topic that go before one in that place, up to
    /// [`BEFORE_MAX`].
    pub(crate) fn before(&self, place: &QueuePlace) -> usize {
        let before =
            |standing: &Standing, turn, of: fn(&OfTopic) -> &BTreeMap<(Rank, u64), ServerKey>| {
                let before = standing.ranks.iter().map(|(topic, rank)| {
                    of(&self.of_topics[usize::from(topic.0)])
                        .range(..(*rank, turn))
                        .take(BEFORE_MAX)
                        .count()
                });
                before.min().unwrap_or_default()
            };
        match place {
            QueuePlace::Ready(standing, turn) => before(standing, *turn, |of| &of.ready),
            QueuePlace::Troubled(standing, turn) => before(standing, *turn, |of| &of.troubled),
            _ => self.ready.min(BEFORE_MAX),
        }
    }

    /// Numbers of servers by what they wait for.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Number of servers that are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::circle::Circle;
    use crate::ranking::topics::tests::topics;

    const fn server(id: u64) -> ServerKey {
        ServerKey::numbered(id)
    }

    fn queue() -> ReadyQueue {
        ReadyQueue::new(&topics(&[]), Timestamp::ZERO)
    }

    /// For the one topic that there is.
    fn standing() -> Standing {
        Standing {
            ranks: vec![(TopicIndex::OTHERS, Rank::default())],
            more_at: None,
        }
    }

    fn first(queue: &mut ReadyQueue, troubled_too: bool) -> Option<ServerKey> {
        queue
            .next(Timestamp::ZERO, 64, troubled_too)
            .map(|(server, _)| server)
    }

    #[test]
    fn held_servers_go_in_the_order_in_which_they_came() {
        let mut queue = queue();
        let mut places = [const { QueuePlace::Idle }; 4];
        let [seven, eight] = [7, 8].map(Room::Host);
        for (id, room) in [(2, seven), (0, seven), (3, eight), (1, seven), (2, seven)] {
            queue.place(server(id as u64), &mut places[id], MoveTo::Held(room));
        }
        let mut order = Vec::new();
        while let Some(next) = queue.first_held(seven) {
            order.push(next.host);
            queue.place(
                next,
                &mut places[next.host as usize],
                MoveTo::Ready(standing()),
            );
        }
        assert_eq!(order, [2, 0, 1]);
        assert_eq!(
            (queue.first_held(Room::Host(6)), queue.first_held(eight)),
            (None, Some(server(3)))
        );
        // The same server is held for want of another room.
        let address = Room::Circle(Circle::Address("192.0.2.1".parse().unwrap()));
        queue.place(server(3), &mut places[3], MoveTo::Held(address));
        assert_eq!(
            (queue.first_held(eight), queue.first_held(address)),
            (None, Some(server(3)))
        );
    }

    #[test]
    fn servers_in_trouble_take_turns_with_the_others_while_they_may() {
        let mut queue = queue();
        let mut places = [const { QueuePlace::Idle }; 4];
        for (id, to) in [
            MoveTo::Troubled,
            MoveTo::Ready,
            MoveTo::Troubled,
            MoveTo::Ready,
        ]
        .into_iter()
        .enumerate()
        {
            queue.place(server(id as u64), &mut places[id], to(standing()));
        }
        assert_eq!(queue.ready(), 4);
        for (troubled_too, next) in [(false, 1), (true, 0), (true, 2), (true, 3)] {
            assert_eq!(first(&mut queue, troubled_too), Some(server(next)));
            queue.place(server(next), &mut places[next as usize], MoveTo::Idle);
        }
        assert_eq!((first(&mut queue, true), queue.ready()), (None, 0));
    }

    #[test]
    fn servers_are_counted_by_what_they_wait_for() {
        let mut queue = queue();
        let mut places = [const { QueuePlace::Idle }; 4];
        let until = |what| MoveTo::Until(Timestamp::from_micros(5), what);
        let address = Room::Circle(Circle::Address("192.0.2.1".parse().unwrap()));
        let all = [
            until(WaitFor::Address),
            until(WaitFor::Address),
            MoveTo::Held(Room::Host(7)),
            MoveTo::Held(address),
        ];
        for (id, to) in all.into_iter().enumerate() {
            queue.place(server(id as u64), &mut places[id], to);
        }
        assert_eq!(
            *queue.waits(),
            Waits {
                address: 2,
                budget: 1,
                room: 1,
                ..Waits::default()
            }
        );
        // One that stays where it is counts once.
        for (id, to) in [
            (0, until(WaitFor::BackOff)),
            (1, until(WaitFor::Lease)),
            (2, MoveTo::Held(Room::Host(7))),
        ] {
            queue.place(server(id as u64), &mut places[id], to);
        }
        assert_eq!(
            *queue.waits(),
            Waits {
                back_off: 1,
                budget: 1,
                room: 1,
                ..Waits::default()
            }
        );
        for (id, place) in places.iter_mut().enumerate() {
            queue.place(server(id as u64), place, MoveTo::Idle);
        }
        assert_eq!(*queue.waits(), Waits::default());
    }

    #[test]
    fn servers_go_in_the_order_in_which_they_became_ready() {
        let mut queue = queue();
        let mut places = [const { QueuePlace::Idle }; 4];
        for id in [2, 0, 3, 1] {
            queue.place(
                server(id as u64),
                &mut places[id],
                MoveTo::Ready(standing()),
            );
        }
        queue.place(
            server(3),
            &mut places[3],
            MoveTo::Until(Timestamp::from_micros(5), WaitFor::Contact),
        );
        queue.place(server(2), &mut places[2], MoveTo::Ready(standing()));
        let mut order = Vec::new();
        while let Some(next) = first(&mut queue, false) {
            order.push(next.host);
            queue.place(next, &mut places[next.host as usize], MoveTo::Idle);
        }
        assert_eq!(order, [2, 0, 1]);
        assert_eq!(queue.first_due(Timestamp::from_micros(4)), None);
        assert_eq!(queue.first_due(Timestamp::from_micros(5)), Some(server(3)));
        assert_eq!(queue.next_due(), Some(Timestamp::from_micros(5)));
    }

    #[test]
    fn a_server_stands_for_each_topic_of_its_urls_and_leaves_all_at_once() {
        let mut queue = ReadyQueue::new(&topics(&[(0, 1000), (0, 1000)]), Timestamp::ZERO);
        let mut places = [const { QueuePlace::Idle }; 2];
        let of = |topics: &[u16], more_at| {
            let ranks = topics
                .iter()
                .map(|&index| (TopicIndex(index), Rank::default()));
            Standing {
                ranks: ranks.collect(),
                more_at,
            }
        };
        let later = Timestamp::from_micros(5);
        queue.place(
            server(0),
            &mut places[0],
            MoveTo::Ready(of(&[1, 2], Some(later))),
        );
        queue.place(server(1), &mut places[1], MoveTo::Troubled(of(&[2], None)));
        assert_eq!(
            (queue.next_due(), queue.first_due(later)),
            (Some(later), Some(server(0)))
        );
        assert_eq!(queue.ready(), 2);
        let mut next = || {
            queue
                .next(Timestamp::ZERO, 64, false)
                .map(|(key, topic)| (key.host, topic.0))
        };
        assert_eq!(next(), Some((0, 1)));
        queue
            .turns
            .charge(TopicIndex(1), std::time::Duration::from_secs(2));
        assert_eq!(
            queue.next(Timestamp::ZERO, 64, false),
            Some((server(0), TopicIndex(2))),
            "it is the other topic's turn"
        );
        queue.place(server(0), &mut places[0], MoveTo::Idle);
        assert_eq!(
            (
                queue.next(Timestamp::ZERO, 64, false),
                queue.ready(),
                queue.next_due()
            ),
            (None, 1, None)
        );
        assert_eq!(
            queue.next(Timestamp::ZERO, 64, true),
            Some((server(1), TopicIndex(2)))
        );
    }
}
