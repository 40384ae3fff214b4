//! A queue against plain lists.

use super::*;
use crate::frontier::rows::tests::url;
use crate::keys::slot::lane_of;
use proptest::prelude::*;
use rhumb_stage::Output;
use rhumb_stage::store::{MemoryStore, Store as _};
use rhumb_wire::message::Quality;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const SERVER: ServerKey = ServerKey::numbered(0xfeed);
const TOPIC: TopicNumber = TopicNumber(3);

#[derive(Clone, Debug)]
enum Move {
    Push(u8, Lane),
    Retry(u64),
    Take(usize, bool, bool),
    GiveBack,
    EndTaken,
    Commit {
        reopen: bool,
    },
    Look(usize),
    /// Every so manieth of those that wait, from one on.
    Forget(usize, usize),
    /// A fresh URL that waits gets another quality.
    Lift(usize, u8, Lane),
    Pass(u64),
}

fn lanes() -> impl Strategy<Value = Lane> {
    prop_oneof![4 => Just(Lane::Ahead), 1 => Just(Lane::Behind), 1 => Just(Lane::Trapped)]
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (0u8..5, lanes()).prop_map(|(quality, lane)| Move::Push(quality, lane)),
        2 => (0u64..20).prop_map(Move::Retry),
        4 => (0usize..5, any::<bool>(), any::<bool>()).prop_map(|(limit, first, all)| Move::Take(limit, first, all)),
        1 => Just(Move::GiveBack),
        1 => Just(Move::EndTaken),
        2 => any::<bool>().prop_map(|reopen| Move::Commit { reopen }),
        3 => (0usize..8).prop_map(Move::Look),
        2 => (0usize..4, 1usize..4).prop_map(|(first, step)| Move::Forget(first, step)),
        3 => (0usize..40, 0u8..6, lanes()).prop_map(|(place, quality, lane)| Move::Lift(place, quality, lane)),
        1 => (0u64..10).prop_map(Move::Pass),
    ];
    proptest::collection::vec(one, 0..80)
}

/// What a queue is to hold, as plain lists of serial numbers.
struct Model<'a> {
    rows: Rows<'a>,
    queue: Queue,
    by_quality: bool,
    head_max: usize,
    now: Timestamp,
    /// URLs pushed so far.
    pushed: u64,
    /// While URLs are in flight, no others are taken, except at once by those who took them.
    pushed_since_taken: bool,
    /// Numbers given to fresh URLs so far.
    numbers: u64,
    /// Order and number of each.
    places: BTreeMap<u64, (Order, u64)>,
    returned: VecDeque<u64>,
    retries: VecDeque<(u64, Timestamp)>,
    /// Order, number and serial: the best go first, and of equal ones the first.
    fresh: BTreeSet<(Order, u64, u64)>,
    taken: Vec<(u64, FrontierUrl)>,
}

impl<'a> Model<'a> {
    fn new(store: &'a MemoryStore, by_quality: bool, head_max: usize) -> Self {
        Model {
            rows: Rows::new(store),
            queue: Queue::new(TOPIC),
            by_quality,
            head_max,
            now: Timestamp::ZERO,
            pushed: 0,
            pushed_since_taken: false,
            numbers: 0,
            places: BTreeMap::new(),
            returned: VecDeque::new(),
            retries: VecDeque::new(),
            fresh: BTreeSet::new(),
            taken: Vec::new(),
        }
    }

    fn make(&mut self, store: &'a MemoryStore, next: Move) {
        match next {
            Move::Push(quality, lane) => self.push(quality, lane),
            Move::Retry(wait) => self.retry(wait),
            Move::Look(slots) if self.taken.is_empty() => self.look(slots.min(self.head_max)),
            Move::Take(..) if self.pushed_since_taken && !self.taken.is_empty() => {}
            Move::Take(limit, fresh_first, all_lanes) => self.take(Wanted {
                limit,
                fresh_first,
                all_lanes,
            }),
            Move::Look(_) => {}
            Move::GiveBack => self.give_back(),
            Move::EndTaken => {
                for (slot, _) in self.taken.drain(..) {
                    remove_url(&mut self.rows, SERVER, slot);
                }
            }
            Move::Commit { reopen } => self.commit(store, reopen),
            Move::Forget(first, step) => self.forget(first, step),
            Move::Lift(place, quality, lane) => self.lift(place, quality, lane),
            Move::Pass(micros) => self.now = self.now + Duration::from_micros(micros),
        }
    }

    fn order(&self, quality: u8, lane: Lane) -> Order {
        let order = Order::of(Quality::new(quality.into()).unwrap());
        if self.by_quality {
            order.in_lane(lane)
        } else {
            Order::LAST.in_lane(lane)
        }
    }

    fn push(&mut self, quality: u8, lane: Lane) {
        self.pushed += 1;
        let order = self.order(quality, lane);
        self.queue.push(
            &mut self.rows,
            SERVER,
            &url(self.pushed),
            order,
            self.head_max,
        );
        self.wait(order, self.pushed);
    }

    fn retry(&mut self, wait: u64) {
        let Some((slot, failed)) = self.taken.pop() else {
            return;
        };
        remove_url(&mut self.rows, SERVER, slot);
        let at = self.now + Duration::from_micros(wait);
        let failed = FrontierUrl {
            not_before: at.as_micros(),
            ..failed
        };
        self.queue.push_retry(&mut self.rows, SERVER, &failed, at);
        self.retries.push_back((failed.serial, at));
    }

    fn look(&mut self, slots: usize) {
        self.queue.read_head(&self.rows, SERVER, slots).unwrap();
        assert!(self.queue.head().len() >= slots.min(self.fresh.len()));
        let first: Vec<u64> = self
            .fresh
            .iter()
            .map(|(order, number, _)| order.slot(TOPIC, *number))
            .collect();
        assert!(first.starts_with(self.queue.head()));
    }

    /// The lane of the one that goes next.
    fn lane_of_all(&self) -> Lane {
        let is_due = self
            .retries
            .front()
            .is_some_and(|(_, at)| self.returned.is_empty() && *at <= self.now);
        if is_due || !self.returned.is_empty() {
            Lane::Ahead
        } else {
            self.lane()
        }
    }

    /// The lane of the fresh one that goes next.
    fn lane(&self) -> Lane {
        self.fresh
            .first()
            .map_or(Lane::Trapped, |(order, ..)| lane_of(order.slot(TOPIC, 0)))
    }

    /// Takes the first fresh ones, of one lane unless all are wanted.
    fn take_fresh(&mut self, wanted: Wanted, lane: Lane, expected: &mut Vec<u64>) {
        let in_reach = wanted.all_lanes || lane != Lane::Trapped;
        while in_reach
            && expected.len() < wanted.limit
            && !self.fresh.is_empty()
            && (wanted.all_lanes || self.lane() == lane)
            && let Some((_, _, serial)) = self.fresh.pop_first()
        {
            expected.push(serial);
        }
    }

    fn take(&mut self, wanted: Wanted) {
        self.pushed_since_taken = false;
        let Wanted {
            limit, fresh_first, ..
        } = wanted;
        let lane = self.lane_of_all();
        let restore = Timestamp::from_micros;
        let urls = self
            .queue
            .take(&self.rows, SERVER, self.now, restore, wanted)
            .unwrap();
        let mut expected = Vec::new();
        if fresh_first {
            self.take_fresh(wanted, lane, &mut expected);
        }
        while expected.len() < limit
            && let Some(serial) = self.returned.pop_front()
        {
            expected.push(serial);
        }
        while expected.len() < limit && self.retries.front().is_some_and(|&(_, at)| at <= self.now)
        {
            expected.extend(self.retries.pop_front().map(|(serial, _)| serial));
        }
        self.take_fresh(wanted, lane, &mut expected);
        assert_eq!(
            urls.iter().map(|(_, url)| url.serial).collect::<Vec<_>>(),
            expected
        );
        self.taken.extend(urls);
    }

    fn give_back(&mut self) {
        self.taken
            .iter()
            .rev()
            .for_each(|(slot, _)| self.queue.give_back(*slot, self.head_max));
        for (slot, url) in self.taken.drain(..).rev() {
            if slot < RETRIES {
                let (order, number) = self.places[&url.serial];
                self.fresh.insert((order, number, url.serial));
            } else {
                self.returned.push_front(url.serial);
            }
        }
    }

    fn forget(&mut self, first: usize, step: usize) {
        let mut waiting = Vec::new();
        visit_urls(&self.rows, SERVER, 0..u64::MAX, &mut |slot, url| {
            waiting.push((slot, url.serial));
            true
        })
        .unwrap();
        waiting.retain(|(slot, _)| self.taken.iter().all(|(taken, _)| taken != slot));
        let (slots, serials): (Vec<_>, Vec<_>) =
            waiting.into_iter().skip(first).step_by(step).unzip();
        slots
            .iter()
            .for_each(|slot| remove_url(&mut self.rows, SERVER, *slot));
        self.queue
            .forget(&mut self.rows, SERVER, Timestamp::from_micros, &slots)
            .unwrap();
        self.returned.retain(|serial| !serials.contains(serial));
        self.retries.retain(|(serial, _)| !serials.contains(serial));
        self.fresh
            .retain(|(_, _, serial)| !serials.contains(serial));
    }

    fn lift(&mut self, place: usize, quality: u8, lane: Lane) {
        let Some(&(before, number, serial)) =
            self.fresh.iter().nth(place).filter(|_| self.by_quality)
        else {
            return;
        };
        let order = self.order(quality, lane);
        let from = before.slot(TOPIC, number);
        let (slot, _) = self.queue.lift(
            &mut self.rows,
            SERVER,
            from,
            &url(serial),
            order,
            self.head_max,
        );
        assert_eq!(
            slot,
            order.slot(TOPIC, self.numbers),
            "behind the equal ones"
        );
        self.fresh.remove(&(before, number, serial));
        self.wait(order, serial);
    }

    /// It waits among the fresh ones with the next number.
    fn wait(&mut self, order: Order, serial: u64) {
        self.fresh.insert((order, self.numbers, serial));
        self.places.insert(serial, (order, self.numbers));
        self.numbers += 1;
        self.pushed_since_taken = true;
    }

    fn commit(&mut self, store: &'a MemoryStore, reopen: bool) {
        let mut out = Output::<()>::default();
        std::mem::replace(&mut self.rows, Rows::new(store)).flush(&mut out);
        store.commit(&out.changes).unwrap();
        let mut row = Writer::with_capacity(0);
        self.queue.write(&mut row, Timestamp::as_micros);
        self.queue.write_lanes(&mut row);
        let row = row.finish();
        let mut reader = Reader::new(&row).unwrap();
        let mut read = Queue::read(&mut reader, TOPIC, Timestamp::from_micros).unwrap();
        read.read_lanes(&mut reader).unwrap();
        assert_eq!(read.len(), self.queue.len());
        assert!(read.is_trapped() || read.ready_at() == self.queue.ready_at());
        if reopen {
            self.queue = read;
        }
    }

    fn check(&self) {
        assert_eq!(
            self.queue.len() as usize,
            self.returned.len() + self.retries.len() + self.fresh.len()
        );
        let trapped = self
            .fresh
            .iter()
            .filter(|(order, ..)| lane_of(order.slot(TOPIC, 0)) == Lane::Trapped)
            .count();
        assert_eq!(self.queue.trapped() as usize, trapped);
        assert_eq!(self.queue.lane(self.now), self.lane_of_all());
        if self.returned.is_empty()
            && trapped == self.fresh.len()
            && let Some(&(_, at)) = self.retries.front()
        {
            assert_eq!(self.queue.ready_at(), at);
        }
    }
}

proptest! {
    /// Goal: no URL is lost or doubled; returned retries come first, retries not before their time,
    /// fresh ones in order. Method: against plain lists, with commits and reopening between any two
    /// moves.
    #[test]
    fn a_queue_gives_retries_first_and_the_best_of_the_others(
        moves in moves(),
        by_quality: bool,
        head_max in 0usize..6,
    ) {
        let store = MemoryStore::default();
        let mut model = Model::new(&store, by_quality, head_max);
        for next in moves {
            model.make(&store, next);
            model.check();
        }
    }
}
