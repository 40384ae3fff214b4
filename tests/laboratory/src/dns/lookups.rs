//! Lookups: what it takes to find a name that is there, in each table.
//!
//! Each table is filled with the given number of names. Then each name is looked up equally often,
//! in random order. The paper's tables count what they compare. Time is CPU time, the median of
//! [`ROUNDS`] rounds. For the paper's tables it includes the counting.
//!
//! Sources: Yin, Yin and Huang 2008 ([`SkipCheck`]); the cached, non-blocking resolver for crawlers
//! (2008) ([`ChainedCache`], with its 21,911 buckets whatever the names).

use super::chained_cache::{ChainedCache, NODES};
use super::hit_rates::address;
use super::names::Names;
use super::skip_check::SkipCheck;
use super::work::Work;
use crate::cpu;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use resolver::name_cache::NameCache;
use rhumb_url::time::Timestamp;
use std::hint::black_box;
use std::time::Duration;

/// Rounds, of which the median counts.
const ROUNDS: usize = 5;
/// Lookups of a round, at least: fewer cannot be timed.
const LOOKUPS_MIN: usize = 50_000;
/// How long a name stays good.
const LIFETIME: Duration = Duration::from_secs(86_400);

/// A table of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By first character and length.
    SkipCheck,
    /// By the times-33 hash, with chains.
    Chained,
    /// The crawler's table.
    NameCache,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::SkipCheck, Kind::Chained, Kind::NameCache];

    /// Its name in table and figure.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::SkipCheck => "skip-check",
            Kind::Chained => "times-33 chains",
            Kind::NameCache => "crawler's cache",
        }
    }
}

/// What was measured of a table with a number of names.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub(super) kind: Kind,
    pub(super) names: usize,
    /// Slots or buckets that have a name, where that number says something.
    pub(super) slots: Option<usize>,
    /// Names compared in the mean. The crawler's cache hashes, and compares only the name that it
    /// finds.
    pub(super) candidates: Option<f64>,
    pub(super) characters: Option<f64>,
    /// CPU time of a lookup.
    pub(super) nanoseconds: f64,
    /// Memory for each name.
    pub(super) bytes_per_name: f64,
}

impl Lookup {
    /// Lookups per second of CPU time.
    pub(super) fn rate(&self) -> f64 {
        1e9 / self.nanoseconds.max(1e-3)
    }
}

/// Measures every table with each number of names.
pub(super) fn measure(sizes: &[usize], seed: u64, progress: &mut dyn FnMut(&str)) -> Vec<Lookup> {
    let mut measured = Vec::new();
    for &size in sizes {
        let names = Names::new(size, seed);
        let mut order: Vec<&str> = names.all().iter().map(String::as_str).collect();
        order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        measured.push(skip_check(&names, &order));
        measured.push(chained(&names, &order));
        measured.push(name_cache(&names, &order));
        progress(&format!("lookups among {size} names"));
    }
    measured
}

fn skip_check(names: &Names, order: &[&str]) -> Lookup {
    let mut table = SkipCheck::new();
    names.all().iter().for_each(|name| table.insert(name));
    let slots = Some(table.slots_taken());
    let bytes = table.bytes();
    counted(Kind::SkipCheck, slots, bytes, order, |name| {
        table.find(name).1
    })
}

fn chained(names: &Names, order: &[&str]) -> Lookup {
    let mut table = ChainedCache::new(NODES.max(names.all().len()), None);
    names
        .all()
        .iter()
        .for_each(|name| table.insert(name, Duration::ZERO));
    counted(Kind::Chained, None, table.bytes(), order, |name| {
        table.find(name).1
    })
}

/// A table that counts what it compares.
fn counted(
    kind: Kind,
    slots: Option<usize>,
    bytes: usize,
    order: &[&str],
    find: impl Fn(&str) -> Work,
) -> Lookup {
    let mut work = Work::default();
    order.iter().for_each(|name| work += find(name));
    let each = |all: u64| all as f64 / order.len() as f64;
    Lookup {
        kind,
        names: order.len(),
        slots,
        candidates: Some(each(work.candidates)),
        characters: Some(each(work.characters)),
        nanoseconds: nanoseconds(order, |name| {
            black_box(find(name));
        }),
        bytes_per_name: bytes as f64 / order.len() as f64,
    }
}

fn name_cache(names: &Names, order: &[&str]) -> Lookup {
    let mut cache = NameCache::new(names.all().len());
    for (name, number) in names.all().iter().zip(0..) {
        cache.insert(name, &address(number), LIFETIME, Timestamp::ZERO);
    }
    let bytes = cache.bytes();
    Lookup {
        kind: Kind::NameCache,
        names: order.len(),
        slots: None,
        candidates: None,
        characters: None,
        nanoseconds: nanoseconds(order, |name| {
            black_box(cache.get(name, Timestamp::ZERO).is_some());
        }),
        bytes_per_name: bytes as f64 / order.len() as f64,
    }
}

/// CPU time of a lookup, the median of all rounds.
fn nanoseconds(order: &[&str], mut look_up: impl FnMut(&str)) -> f64 {
    let passes = LOOKUPS_MIN.div_ceil(order.len().max(1));
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begun = cpu::of_this_thread();
            for _ in 0..passes {
                order.iter().for_each(|name| look_up(black_box(name)));
            }
            cpu::of_this_thread() - begun
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2].as_nanos() as f64 / (passes * order.len()).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_by_first_character_and_length_compares_more_and_more() {
        let measured = measure(&[50, 500], 1, &mut |_| ());
        assert_eq!(measured.len(), 2 * Kind::ALL.len());
        let candidates = |kind, names| {
            let found = measured
                .iter()
                .find(|lookup| (lookup.kind, lookup.names) == (kind, names))
                .unwrap();
            found.candidates.unwrap()
        };
        assert!(candidates(Kind::SkipCheck, 500) > 3.0 * candidates(Kind::SkipCheck, 50));
        assert!(candidates(Kind::Chained, 500) < 1.2);
        for lookup in &measured {
            assert!(
                lookup.nanoseconds > 0.0 && lookup.bytes_per_name > 20.0,
                "{lookup:?}"
            );
            assert!(
                lookup.characters.is_none_or(|characters| characters > 5.0),
                "{lookup:?}"
            );
        }
    }
}
