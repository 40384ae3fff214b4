//! What schedulers counted of the URLs that ended, and the hosts and servers that stand out: the
//! basis of `rhumb report`.
//!
//! In: what each partition counted. Out: one sum. Invariant: a sum over partitions, or over
//! schedulers, does not depend on their order, as long as no list of it is cut
//! ([`Tallied::bound`]).

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Under this name stands what a bounded list has no place for.
pub const OTHER: &str = "other";
/// Statuses that a bounded list has no place for.
pub const OTHER_STATUS: u16 = 0;
/// Depths that are counted by themselves: the last place of [`Tallied::depths`] is for all that are
/// deeper.
pub const DEPTHS: usize = 32;
/// The length of a slot of time at first, in seconds.
pub const SLOT_S: u64 = 10;
/// Slots of time, at most.
pub const SLOTS_MAX: usize = 240;
/// Hosts of each kind that one answer names, at most: it stays well below the smallest
/// `broker.max_payload`.
pub const NAMED_MAX: usize = 200;

/// What was counted of URLs that ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Tallied {
    /// URLs by outcome and reason.
    pub ends: BTreeMap<String, BTreeMap<String, u64>>,
    /// URLs by the HTTP status of the last response.
    pub statuses: BTreeMap<u16, u64>,
    /// Fetched pages by media type; those without one under the empty name.
    pub media_types: BTreeMap<String, u64>,
    /// URLs that ended by their depth: 0, 1, … and in the last place all that are deeper.
    pub depths: Vec<u64>,
    /// Fetched pages by the bytes of their bodies: none, then below 2, below 4, below 8, …
    pub sizes: Vec<u64>,
    /// Fetched pages by the milliseconds of their last request: none, then below 2, below 4, below
    /// 8, …
    pub times: Vec<u64>,
    /// Fetched pages whose bodies were cut.
    pub truncated: u64,
    /// The pace of the crawl.
    pub pace: Pace,
}

/// What ended in each slot of the time that a crawl ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Pace {
    /// How often the slots were doubled.
    pub doublings: u8,
    /// The slots, from the beginning of the crawl.
    pub slots: Vec<Slot>,
}

/// What ended in a slot of time.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Slot {
    /// Pages fetched.
    pub pages: u64,
    /// Bytes of their bodies, as sent.
    pub bytes: u64,
    /// URLs that ended otherwise.
    pub others: u64,
}

impl Slot {
    /// Adds what ended in another slot.
    pub fn add(&mut self, other: Slot) {
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.others += other.others;
    }
}

impl Pace {
    /// The length of a slot in seconds.
    pub fn slot_s(&self) -> u64 {
        SLOT_S.saturating_mul(1u64.checked_shl(self.doublings.into()).unwrap_or(u64::MAX))
    }

    /// Makes each two slots one.
    pub fn double(&mut self) {
        self.doublings = self.doublings.saturating_add(1);
        for at in 0..self.slots.len().div_ceil(2) {
            let mut both = self.slots[2 * at];
            both.add(self.slots.get(2 * at + 1).copied().unwrap_or_default());
            self.slots[at] = both;
        }
        self.slots.truncate(self.slots.len().div_ceil(2));
    }

    /// Adds what another partition counted, slot by slot.
    pub fn add(&mut self, mut other: Pace) {
        while self.doublings < other.doublings {
            self.double();
        }
        while other.doublings < self.doublings {
            other.double();
        }
        let longer = self.slots.len().max(other.slots.len());
        self.slots.resize(longer, Slot::default());
        for (mine, theirs) in self.slots.iter_mut().zip(other.slots) {
            mine.add(theirs);
        }
    }
}

impl Tallied {
    /// Counts URLs that ended so.
    pub fn add_end(&mut self, outcome: &str, reason: &str, urls: u64) {
        *self
            .ends
            .entry(outcome.to_owned())
            .or_default()
            .entry(reason.to_owned())
            .or_default() += urls;
    }

    /// URLs that were counted.
    pub fn counted(&self) -> u64 {
        self.ends.values().flat_map(BTreeMap::values).sum()
    }

    /// Adds another sum.
    pub fn add(&mut self, other: Tallied) {
        for (outcome, reasons) in other.ends {
            add_all(self.ends.entry(outcome).or_default(), reasons);
        }
        add_all(&mut self.statuses, other.statuses);
        add_all(&mut self.media_types, other.media_types);
        add_places(&mut self.depths, &other.depths);
        add_places(&mut self.sizes, &other.sizes);
        add_places(&mut self.times, &other.times);
        self.truncated += other.truncated;
        self.pace.add(other.pace);
    }

    /// Keeps so many of each list, those with most, and counts what is left of it as others.
    pub fn bound(&mut self, max: usize) {
        for reasons in self.ends.values_mut() {
            keep_most(reasons, max, OTHER.to_owned());
        }
        keep_most(&mut self.statuses, max, OTHER_STATUS);
        keep_most(&mut self.media_types, max, OTHER.to_owned());
    }
}

/// Adds numbers by name.
fn add_all<K: Ord>(to: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
    for (name, n) in from {
        *to.entry(name).or_default() += n;
    }
}

/// Adds numbers by place.
pub fn add_places(to: &mut Vec<u64>, from: &[u64]) {
    to.resize(to.len().max(from.len()), 0);
    for (mine, theirs) in to.iter_mut().zip(from) {
        *mine += theirs;
    }
}

/// Keeps those with most. The others need no place of their own.
fn keep_most<K: Ord>(of: &mut BTreeMap<K, u64>, max: usize, other: K) {
    let mut others = of.remove(&other).unwrap_or_default();
    let mut all: Vec<(K, u64)> = std::mem::take(of).into_iter().collect();
    all.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    others += all.drain(max.min(all.len())..).map(|(_, n)| n).sum::<u64>();
    of.extend(all);
    if others > 0 {
        of.insert(other, others);
    }
}

/// What is known of a host.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct HostTold {
    /// Its name; its hash where no server of it is known any more.
    pub host: String,
    /// Pages fetched.
    pub pages: u64,
    /// Bytes of their bodies, as sent.
    pub bytes: u64,
    /// URLs that ended as failed or refused.
    pub errors: u64,
}

/// What is known of a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(default)]
pub struct ServerTold {
    /// `scheme://host[:port]`.
    pub server: String,
    /// Smoothed time of a request, in microseconds; 0: not known.
    pub response_us: u32,
    /// Times in a row that it was set aside: it has not answered since.
    pub failures: u8,
}

/// The hosts and servers that stand out, each list with the first at its head.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Leaders {
    /// Hosts by pages.
    pub by_pages: Vec<HostTold>,
    /// Hosts by bytes.
    pub by_bytes: Vec<HostTold>,
    /// Hosts by URLs that ended as failed or refused.
    pub by_errors: Vec<HostTold>,
    /// Servers by the time of a request.
    pub slowest: Vec<ServerTold>,
    /// Servers by failures in a row.
    pub troubled: Vec<ServerTold>,
}

impl Leaders {
    /// Adds those of another scheduler, or of another part of its hosts; so many of each list are
    /// kept.
    pub fn add(&mut self, other: Leaders, max: usize) {
        let name = |host: &HostTold| host.host.clone();
        merge(
            &mut self.by_pages,
            other.by_pages,
            max,
            |host| host.pages,
            name,
        );
        merge(
            &mut self.by_bytes,
            other.by_bytes,
            max,
            |host| host.bytes,
            name,
        );
        merge(
            &mut self.by_errors,
            other.by_errors,
            max,
            |host| host.errors,
            name,
        );
        let name = |server: &ServerTold| server.server.clone();
        merge(
            &mut self.slowest,
            other.slowest,
            max,
            |server| server.response_us.into(),
            name,
        );
        merge(
            &mut self.troubled,
            other.troubled,
            max,
            |server| server.failures.into(),
            name,
        );
    }
}

/// Merges two lists. What is in both, because its partition moved between two answers, counts once.
fn merge<T>(
    to: &mut Vec<T>,
    from: Vec<T>,
    max: usize,
    of: impl Fn(&T) -> u64,
    name: impl Fn(&T) -> String,
) {
    to.extend(from);
    to.sort_by_cached_key(|one| (Reverse(of(one)), name(one)));
    let mut known = BTreeSet::new();
    to.retain(|one| known.insert(name(one)));
    to.truncate(max);
}

/// A question for a report.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ReportQuestion {
    /// Hosts and servers of each list, at most.
    pub hosts: usize,
    /// The instances that are to go on, each from where its answer before ended
    /// ([`Reported::next`]); all of them from the beginning when it is empty.
    pub after: BTreeMap<u16, Vec<u8>>,
}

/// What a scheduler tells for a report.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Reported {
    /// What its partitions counted; in the answer to a question from the beginning.
    pub tallied: Option<Tallied>,
    /// For how long its partitions were worked with, in milliseconds: that of the oldest. The same.
    pub ran_ms: u64,
    /// Who stands out of the hosts and servers that it looked at.
    pub leaders: Leaders,
    /// Where it is to go on; none at the end.
    pub next: Option<Vec<u8>>,
}

/// A scheduler's answer to the question for a report.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ProcessReport {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// What it tells, or why it cannot.
    pub told: Result<Reported, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(pages: u64) -> Slot {
        Slot {
            pages,
            bytes: 10 * pages,
            others: 1,
        }
    }

    #[test]
    fn slots_double_in_pairs_and_lose_nothing() {
        let mut pace = Pace {
            doublings: 0,
            slots: (1..=5).map(slot).collect(),
        };
        pace.double();
        assert_eq!((pace.slot_s(), pace.slots.len()), (20, 3));
        assert_eq!(
            pace.slots[0],
            Slot {
                pages: 3,
                bytes: 30,
                others: 2
            }
        );
        assert_eq!(pace.slots[2], slot(5));
        let empty = Pace {
            doublings: u8::MAX,
            slots: Vec::new(),
        };
        assert_eq!(empty.slot_s(), u64::MAX);
    }

    #[test]
    fn slots_of_different_lengths_are_added_as_the_longer_ones() {
        let fine = Pace {
            doublings: 0,
            slots: (1..=4).map(slot).collect(),
        };
        let coarse = Pace {
            doublings: 1,
            slots: vec![slot(100)],
        };
        let sums = [(fine.clone(), coarse.clone()), (coarse, fine)].map(|(mut one, other)| {
            one.add(other);
            one
        });
        assert_eq!(sums[0], sums[1]);
        assert_eq!(
            sums[0]
                .slots
                .iter()
                .map(|slot| slot.pages)
                .collect::<Vec<_>>(),
            [103, 7]
        );
    }

    #[test]
    fn sums_do_not_depend_on_their_order() {
        let mut one = Tallied {
            depths: vec![1, 2],
            truncated: 1,
            ..Tallied::default()
        };
        one.add_end("fetched", "", 3);
        one.statuses.insert(200, 3);
        let mut other = Tallied {
            depths: vec![0, 0, 5],
            sizes: vec![7],
            ..Tallied::default()
        };
        other.add_end("failed", "timeout", 5);
        other.media_types.insert("text/html".into(), 3);
        let mut ab = one.clone();
        let mut ba = other.clone();
        ab.add(other);
        ba.add(one);
        assert_eq!(ab, ba);
        assert_eq!(
            (ab.counted(), ab.depths.as_slice()),
            (8, [1, 2, 5].as_slice())
        );
    }

    #[test]
    fn what_a_list_has_no_place_for_counts_as_other() {
        let mut tallied = Tallied::default();
        for n in 1..=9u64 {
            tallied.media_types.insert(format!("a/{n}"), n);
            tallied.add_end("failed", &format!("reason {n}"), n);
        }
        tallied.bound(2);
        let expected = [("a/8", 8), ("a/9", 9), (OTHER, 28)].map(|(name, n)| (name.to_owned(), n));
        assert_eq!(tallied.media_types, BTreeMap::from(expected));
        assert_eq!(tallied.counted(), 45);
        let before = tallied.clone();
        tallied.bound(2);
        assert_eq!(tallied, before);
    }

    #[test]
    fn a_host_that_two_schedulers_name_stands_once_with_the_higher_number() {
        let host = |name: &str, pages| HostTold {
            host: name.into(),
            pages,
            ..HostTold::default()
        };
        let mut leaders = Leaders {
            by_pages: vec![host("b", 7), host("a", 5)],
            ..Leaders::default()
        };
        leaders.add(
            Leaders {
                by_pages: vec![host("a", 6), host("c", 1)],
                ..Leaders::default()
            },
            2,
        );
        assert_eq!(leaders.by_pages, [host("b", 7), host("a", 6)]);
    }
}
