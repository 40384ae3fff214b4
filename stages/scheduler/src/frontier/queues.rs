//! The queues of a server: one for each topic whose URLs came to it.
//!
//! Invariant: a queue stays when it is empty, because URLs of it may be in flight, and its numbers
//! go on.

use crate::frontier::queue::{Queue, Wanted};
use crate::frontier::rows::FrontierUrl;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{Lane, Order, topic_of};
use crate::keys::topic::TopicNumber;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::Rows;
use rhumb_stage::store::StoreError;
use rhumb_url::time::Timestamp;
use std::ops::Range;

/// The URLs that wait at a server, by topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queues {
    /// In the order of their topics' numbers.
    of_topics: Vec<Queue>,
}

impl Queues {
    /// Number of URLs that wait.
    pub(crate) fn len(&self) -> u64 {
        self.of_topics.iter().map(Queue::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.of_topics.iter().all(Queue::is_empty)
    }

    /// Numbers that were given out.
    pub(crate) fn numbered(&self) -> u64 {
        self.of_topics.iter().map(Queue::numbered).sum()
    }

    /// Number of URLs of traps.
    pub(crate) fn trapped(&self) -> u64 {
        self.of_topics.iter().map(Queue::trapped).sum()
    }

    /// Returns whether no URL waits but those of traps.
    pub(crate) fn has_none_to_go(&self) -> bool {
        self.of_topics.iter().all(Queue::is_trapped)
    }

    /// The queues in which URLs wait that are not of traps.
    pub(crate) fn going(&self) -> impl Iterator<Item = &Queue> {
        self.of_topics.iter().filter(|queue| !queue.is_trapped())
    }

    /// The queues in which URLs wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Queue> {
        self.of_topics.iter().filter(|queue| !queue.is_empty())
    }

    /// When the first URL may be tried. There must be one that is not of a trap.
    pub(crate) fn ready_at(&self) -> Timestamp {
        self.going().map(Queue::ready_at).min().unwrap_or_default()
    }

    /// The queue of a topic; none when no URL of it came here.
    pub(crate) fn get_mut(&mut self, topic: TopicNumber) -> Option<&mut Queue> {
        let place = self
            .of_topics
            .binary_search_by_key(&topic, Queue::topic)
            .ok()?;
        self.of_topics.get_mut(place)
    }

    fn of(&mut self, topic: TopicNumber) -> &mut Queue {
        let place = self.of_topics.binary_search_by_key(&topic, Queue::topic);
        let place = place.unwrap_or_else(|place| {
            // Most servers have one, and there are many servers.
            self.of_topics.reserve_exact(1);
            self.of_topics.insert(place, Queue::new(topic));
            place
        });
        &mut self.of_topics[place]
    }

    /// Takes on a new URL of a topic. Gives its slot. `head_max`: slots of fresh URLs of the topic
    /// that are to be in memory.
    pub(crate) fn push(
        &mut self,
        rows: &mut Rows<'_>,
        server: ServerKey,
        topic: TopicNumber,
        url: &FrontierUrl,
        order: Order,
        head_max: usize,
    ) -> u64 {
        self.of(topic).push(rows, server, url, order, head_max)
    }

    /// Appends a URL that failed, and had this slot, to those of its topic. It is not to be tried
    /// before `at`, which its `not_before` says too.
    pub(crate) fn push_retry(
        &mut self,
        rows: &mut Rows<'_>,
        server: ServerKey,
        slot: u64,
        url: &FrontierUrl,
        at: Timestamp,
    ) {
        self.of(topic_of(slot)).push_retry(rows, server, url, at);
    }

    /// Puts slots that were taken back to where they were.
    pub(crate) fn give_back(
        &mut self,
        slots: impl DoubleEndedIterator<Item = u64>,
        head_max: usize,
    ) {
        for slot in slots.rev() {
            self.of(topic_of(slot)).give_back(slot, head_max);
        }
    }

    /// Of each topic the URL that has waited for the longest time among those of its kind.
    pub(crate) fn firsts(
        &self,
        rows: &Rows<'_>,
        server: ServerKey,
    ) -> Result<Vec<FrontierUrl>, StoreError> {
        self.waiting()
            .filter_map(|queue| queue.first(rows, server).transpose())
            .collect()
    }

    /// The ranges of slots in which the waiting URLs lie, in the order in which those of each topic
    /// go.
    pub(crate) fn spans(&self) -> Vec<Range<u64>> {
        self.waiting().flat_map(Queue::spans).collect()
    }

    /// The first lane in which URLs of some topics wait that may be tried.
    pub(crate) fn lane(&self, topics: &[TopicNumber], now: Timestamp) -> Lane {
        let due = self
            .going()
            .filter(|queue| topics.contains(&queue.topic()) && queue.ready_at() <= now);
        due.map(|queue| queue.lane(now))
            .min()
            .unwrap_or(Lane::Trapped)
    }

    /// Takes URLs of some topics from the first lane in which any wait, topic by topic, as
    /// [`Queue::take`] does.
    pub(crate) fn take_of(
        &mut self,
        topics: &[TopicNumber],
        rows: &Rows<'_>,
        server: ServerKey,
        now: Timestamp,
        restore: impl Fn(u64) -> Timestamp + Copy,
        wanted: Wanted,
    ) -> Result<Vec<(u64, FrontierUrl)>, StoreError> {
        let lane = self.lane(topics, now);
        let mut taken = Vec::new();
        for queue in self
            .of_topics
            .iter_mut()
            .filter(|of| topics.contains(&of.topic()) && of.lane(now) == lane)
        {
            let wanted = Wanted {
                limit: wanted.limit - taken.len(),
                ..wanted
            };
            taken.extend(queue.take(rows, server, now, restore, wanted)?);
        }
        Ok(taken)
    }

    /// Takes URLs of traps, topic by topic, up to `limit`. Their rows stay.
    pub(crate) fn take_trapped(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        limit: usize,
    ) -> Result<Vec<(u64, FrontierUrl)>, StoreError> {
        let mut taken = Vec::new();
        for queue in &mut self.of_topics {
            taken.extend(queue.take_trapped(rows, server, limit - taken.len())?);
        }
        Ok(taken)
    }

    /// Takes URLs, topic by topic, as [`Queue::take`] does.
    pub(crate) fn take(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        now: Timestamp,
        restore: impl Fn(u64) -> Timestamp + Copy,
        wanted: Wanted,
    ) -> Result<Vec<(u64, FrontierUrl)>, StoreError> {
        let mut taken = Vec::new();
        for queue in &mut self.of_topics {
            let wanted = Wanted {
                limit: wanted.limit - taken.len(),
                ..wanted
            };
            taken.extend(queue.take(rows, server, now, restore, wanted)?);
        }
        Ok(taken)
    }

    /// URLs that wait no longer, wherever they stand; their rows are gone. `slots` is in order.
    pub(crate) fn forget(
        &mut self,
        rows: &mut Rows<'_>,
        server: ServerKey,
        restore: impl Fn(u64) -> Timestamp + Copy,
        slots: &[u64],
    ) -> Result<(), StoreError> {
        for queue in &mut self.of_topics {
            let of_topic: Vec<u64> = slots
                .iter()
                .copied()
                .filter(|slot| topic_of(*slot) == queue.topic())
                .collect();
            queue.forget(rows, server, restore, &of_topic)?;
        }
        Ok(())
    }

    /// Writes it into the server's record.
    pub(crate) fn write(&self, row: &mut Writer, store: impl Fn(Timestamp) -> u64 + Copy) {
        row.number(self.of_topics.len() as u64);
        for queue in &self.of_topics {
            row.byte(queue.topic().0);
            queue.write(row, store);
        }
    }

    /// Writes the lanes of those that have any but the first.
    pub(crate) fn write_lanes(&self, row: &mut Writer) {
        let has_lanes = |queue: &&Queue| queue.has_lanes();
        row.number(self.of_topics.iter().filter(has_lanes).count() as u64);
        for queue in self.of_topics.iter().filter(has_lanes) {
            row.byte(queue.topic().0);
            queue.write_lanes(row);
        }
    }

    /// Reads them.
    pub(crate) fn read_lanes(&mut self, row: &mut Reader<'_>) -> Option<()> {
        for _ in 0..row.number()? {
            let topic = TopicNumber(row.byte()?);
            self.get_mut(topic)?.read_lanes(row)?;
        }
        Some(())
    }

    pub(crate) fn read(
        row: &mut Reader<'_>,
        restore: impl Fn(u64) -> Timestamp + Copy,
    ) -> Option<Self> {
        let mut of_topics: Vec<Queue> = Vec::new();
        for _ in 0..row.number()? {
            let topic = TopicNumber(row.byte()?);
            if of_topics.last().is_some_and(|last| last.topic() >= topic) {
                return None;
            }
            of_topics.reserve_exact(1);
            of_topics.push(Queue::read(row, topic, restore)?);
        }
        Some(Queues { of_topics })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::rows::remove_url;
    use crate::frontier::rows::tests::url;
    use rhumb_stage::store::MemoryStore;

    const SERVER: ServerKey = ServerKey::numbered(0xfeed);

    #[test]
    fn each_topic_has_a_queue_of_its_own_also_for_what_failed_and_after_a_restart() {
        let store = MemoryStore::default();
        let restore = Timestamp::from_micros;
        let mut rows = Rows::new(&store);
        let [low, high] = [TopicNumber::OTHERS, TopicNumber::MAX];
        let mut queues = Queues::default();
        for (number, topic) in [(1, high), (2, low), (3, high), (4, low)] {
            queues.push(&mut rows, SERVER, topic, &url(number), Order::LAST, 0);
        }
        let serials = |taken: &[(u64, FrontierUrl)]| {
            taken.iter().map(|(_, url)| url.serial).collect::<Vec<_>>()
        };
        let now = Timestamp::from_micros(5);
        let take = |queues: &mut Queues, rows: &Rows<'_>, topic| {
            queues
                .get_mut(topic)
                .unwrap()
                .take(rows, SERVER, now, restore, Wanted::all(1))
                .unwrap()
        };
        let failed = take(&mut queues, &rows, high);
        assert_eq!(serials(&failed), [1]);
        for (slot, url) in failed {
            remove_url(&mut rows, SERVER, slot);
            let url = FrontierUrl {
                not_before: 9,
                ..url
            };
            queues.push_retry(&mut rows, SERVER, slot, &url, Timestamp::from_micros(9));
        }
        let untried = take(&mut queues, &rows, low);
        queues.give_back(untried.into_iter().map(|(slot, _)| slot), 0);
        let mut row = Writer::with_capacity(0);
        queues.write(&mut row, Timestamp::as_micros);
        let row = row.finish();
        let mut queues = Queues::read(&mut Reader::new(&row).unwrap(), restore).unwrap();
        assert_eq!((queues.len(), queues.waiting().count()), (4, 2));
        assert_eq!(serials(&take(&mut queues, &rows, high)), [3]);
        assert_eq!(
            serials(&take(&mut queues, &rows, high)),
            [] as [u64; 0],
            "its time has not come"
        );
        let rest = queues
            .take(
                &rows,
                SERVER,
                Timestamp::from_micros(9),
                restore,
                Wanted::all(9),
            )
            .unwrap();
        assert_eq!(serials(&rest), [2, 4, 1]);
        for length in 0..row.len() {
            assert_eq!(
                Queues::read(&mut Reader::new(&row[..length.max(1)]).unwrap(), restore),
                None
            );
        }
    }

    #[test]
    fn what_is_forgotten_of_one_topic_leaves_the_others_as_they_are() {
        let store = MemoryStore::default();
        let mut rows = Rows::new(&store);
        let [one, two] = [1, 2].map(TopicNumber);
        let mut queues = Queues::default();
        for (number, topic) in [(1, one), (2, two), (3, one)] {
            queues.push(&mut rows, SERVER, topic, &url(number), Order::LAST, 2);
        }
        let slot = Order::LAST.slot(one, 0);
        remove_url(&mut rows, SERVER, slot);
        queues
            .forget(&mut rows, SERVER, Timestamp::from_micros, &[slot])
            .unwrap();
        let rest = queues
            .take(
                &rows,
                SERVER,
                Timestamp::ZERO,
                Timestamp::from_micros,
                Wanted::all(9),
            )
            .unwrap();
        assert_eq!(
            rest.iter().map(|(_, url)| url.serial).collect::<Vec<_>>(),
            [3, 2]
        );
        assert!(queues.is_empty());
    }
}
