//! Heads: the first page of each class of each server that may be visited, and which of them is
//! worth most.
//!
//! Values grow all the time, each in its own way, so no order of them lasts. But none grows faster
//! than a known line. So each head is kept by its value when it was last looked at, plus that line:
//! an upper bound. Lines of one slope keep their order. A pick looks at the head of the highest
//! bound, until that one's bound is its value.
//!
//! Invariants: a pick is a head of the largest value; memory is that of servers in play times their
//! classes.

use super::class::Class;
use super::key::VisitKey;
use super::known_page::KnownPage;
use foldhash::{HashMap, HashMapExt as _};
use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::Hash;

/// Bounds that are kept for each head, at most.
const KEPT_MAX: usize = 8;

/// A head that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick<S> {
    /// Its server.
    pub server: S,
    /// Its key there.
    pub key: VisitKey,
    /// What its visit is worth.
    pub value: f64,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    page: KnownPage,
    clock_ms: u64,
    /// Tells it from heads of before, of which bounds are still about.
    number: u64,
}

/// What a head's value is at most, as a line over time.
#[derive(Clone, Copy, Debug)]
struct Bound<S> {
    /// Where the line is at time 0: lines of one slope are in this order.
    start: f64,
    /// When the value was looked at, and what it was.
    at_ms: u64,
    value: f64,
    server: S,
    class: Class,
    number: u64,
}

impl<S> Bound<S> {
    /// Returns whether it is the value of this moment.
    fn is_exact(&self, now_ms: u64) -> bool {
        self.at_ms == now_ms && self.start < f64::INFINITY
    }
}

impl<S> PartialEq for Bound<S> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<S> Eq for Bound<S> {}

impl<S> PartialOrd for Bound<S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<S> Ord for Bound<S> {
    fn cmp(&self, other: &Self) -> Ordering {
        let starts = self.start.total_cmp(&other.start);
        starts.then(other.number.cmp(&self.number))
    }
}

/// The first page of each class of each server.
#[derive(Clone, Debug)]
pub struct Heads<S> {
    heads: HashMap<(S, Class), Head>,
    /// By the bits of the slope, in value a second.
    bounds: BTreeMap<u64, BinaryHeap<Bound<S>>>,
    /// How many bounds there are, also of what is no head any more.
    kept: usize,
    number: u64,
    picked_ms: u64,
}

impl<S> Default for Heads<S> {
    fn default() -> Self {
        Heads {
            heads: HashMap::new(),
            bounds: BTreeMap::new(),
            kept: 0,
            number: 0,
            picked_ms: 0,
        }
    }
}

impl<S: Copy + Ord + Hash> Heads<S> {
    /// The first page of a class is this one now. A page is no head of two classes.
    pub fn put(&mut self, server: S, key: VisitKey, page: KnownPage) {
        self.number += 1;
        let number = self.number;
        let head = Head {
            page,
            clock_ms: key.clock_ms,
            number,
        };
        self.heads.insert((server, key.class), head);
        self.look_at(server, key.class, &head);
        if self.kept > KEPT_MAX * self.heads.len() {
            self.look_anew();
        }
    }

    /// A class of a server has no page that may be visited now.
    pub fn remove(&mut self, server: S, class: Class) {
        self.heads.remove(&(server, class));
    }

    /// How many heads there are.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The head of the largest value now; it stays a head. None when there is none.
    pub fn pick(&mut self, now_ms: u64) -> Option<Pick<S>> {
        if now_ms < self.picked_ms {
            // The clock jumped back, and bounds hold forwards alone.
            self.look_anew();
        }
        self.picked_ms = now_ms;
        loop {
            let slope = self.highest(now_ms)?;
            let bounds = self.bounds.get_mut(&slope)?;
            let mut bound = bounds.peek_mut()?;
            let head = self.heads.get(&(bound.server, bound.class));
            let Some(head) = head.filter(|head| head.number == bound.number) else {
                PeekMut::pop(bound);
                self.kept -= 1;
                continue;
            };
            if bound.is_exact(now_ms) {
                return Some(Pick {
                    server: bound.server,
                    key: VisitKey {
                        class: bound.class,
                        clock_ms: head.clock_ms,
                    },
                    value: bound.value,
                });
            }
            let value = head.page.value(now_ms);
            bound.start = value - f64::from_bits(slope) * seconds(now_ms);
            bound.at_ms = now_ms;
            bound.value = value;
        }
    }

    /// Puts a head where it is looked at next: above all bounds.
    fn look_at(&mut self, server: S, class: Class, head: &Head) {
        let slope = head.page.growth_max().to_bits();
        self.bounds.entry(slope).or_default().push(Bound {
            start: f64::INFINITY,
            at_ms: 0,
            value: 0.0,
            server,
            class,
            number: head.number,
        });
        self.kept += 1;
    }

    /// Forgets all bounds.
    fn look_anew(&mut self) {
        self.bounds.clear();
        self.kept = 0;
        // Bounds are in the order of their heads' numbers, whatever order the heads come in.
        for ((server, class), head) in self.heads.clone() {
            self.look_at(server, class, &head);
        }
    }

    /// The slope of the highest bound.
    fn highest(&self, now_ms: u64) -> Option<u64> {
        let height = |slope: u64, bound: &Bound<S>| {
            if bound.is_exact(now_ms) {
                bound.value
            } else {
                bound.start + f64::from_bits(slope) * seconds(now_ms)
            }
        };
        let heights = self
            .bounds
            .iter()
            .filter_map(|(slope, bounds)| Some((height(*slope, bounds.peek()?), *slope)));
        let highest = heights.max_by(|(one, _), (other, _)| one.total_cmp(other));
        highest.map(|(_, slope)| slope)
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::super::estimate::Estimate;
    use super::super::interval::Interval;
    use super::super::known_page::Rule;
    use super::super::posterior::Posterior;
    use super::super::prior::Prior;
    use super::super::rates::Rates;
    use super::super::signals::Signals;
    use super::super::threshold::Threshold;
    use super::*;
    use proptest::prelude::*;

    fn page(rule: Rule, importance: f64, visited_ms: u64) -> KnownPage {
        KnownPage {
            importance,
            rule,
            visited_ms,
            signals: 0,
        }
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let fresh = proptest::array::uniform12(0u8..=254).prop_map(|bytes| Rule::Fresh {
            posterior: Posterior::new(
                Estimate::from_bytes(bytes),
                &Prior::default(),
                &Rates::default(),
            ),
            signals: Signals::new(0.5, 0.5),
        });
        let interval = (60.0f64..1e6).prop_map(|s| Rule::Interval(Interval::from_secs(s)));
        prop_oneof![4 => fresh, 1 => interval, 1 => Just(Rule::Uniform)]
    }

    proptest! {
        #[test]
        fn a_pick_is_the_largest_value_whatever_came_and_went(
            changes in proptest::collection::vec(
                (0u32..4, rule(), -3.0f64..3.0, 0u64..1_000_000_000, 0u32..3, 0u64..50_000_000),
                1..80,
            ),
        ) {
            let mut heads = Heads::default();
            let mut all: BTreeMap<(u32, Class), KnownPage> = BTreeMap::new();
            let mut now = 1_000_000_000;
            for (server, rule, log, visited, signals, step) in changes {
                let known = KnownPage { signals, ..page(rule, log.exp(), visited) };
                let key = known.key(&Threshold::default());
                heads.put(server, key, known);
                all.insert((server, key.class), known);
                if step % 5 == 0 {
                    heads.remove(server, key.class);
                    all.remove(&(server, key.class));
                }
                // Sometimes the clock jumps back.
                now = if step % 7 == 0 { now - step / 10 } else { now + step };
                let largest = all.values().map(|page| page.value(now)).reduce(f64::max);
                let pick = heads.pick(now);
                prop_assert_eq!(pick.map(|pick| pick.value), largest);
                prop_assert_eq!(heads.len(), all.len());
                if let Some(pick) = pick {
                    let chosen = all[&(pick.server, pick.key.class)];
                    prop_assert_eq!(chosen.value(now), pick.value);
                }
            }
        }
    }

    #[test]
    fn little_is_kept_of_heads_that_went() {
        let mut heads = Heads::default();
        let known = page(Rule::Uniform, 1.0, 0);
        for clock_ms in 0..10_000 {
            let key = VisitKey {
                class: Class::default(),
                clock_ms,
            };
            heads.put((), key, known);
        }
        assert!(heads.kept <= KEPT_MAX, "{}", heads.kept);
    }
}
