//! Hit rates: which share of the names does a cache of a size know?
//!
//! Each name is resolved at once and stays good. All names of the trace count, from an empty cache
//! on. Three caches are compared: the paper's list ([`ChainedCache`]), the crawler's
//! ([`NameCache`], CLOCK), and LRU. Beside them stands the limit for a cache of any size: each name
//! is a miss once.

use super::chained_cache::ChainedCache;
use super::trace::Trace;
use resolver::name_cache::NameCache;
use rhumb_url::fingerprint;
use rhumb_url::time::Timestamp;
use rhumb_url::url_cache::{Lru, UrlCache};
use rhumb_wire::message::Resolution;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// How long a name stays good.
const LIFETIME: Duration = Duration::from_secs(86_400);

/// The rule that says which name goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// No name goes.
    Infinite,
    /// The least recently used name goes.
    Lru,
    /// The crawler's rule.
    Clock,
    /// The paper's rule.
    Transposition,
}

impl Policy {
    /// All rules, the best first.
    pub(super) const ALL: [Policy; 4] = [
        Policy::Infinite,
        Policy::Lru,
        Policy::Clock,
        Policy::Transposition,
    ];
    /// The rules whose hits depend on the size.
    pub(super) const SIZED: [Policy; 3] = [Policy::Lru, Policy::Clock, Policy::Transposition];

    /// Its name in table and figure.
    pub(super) fn name(self) -> &'static str {
        match self {
            Policy::Infinite => "INFINITE",
            Policy::Lru => "LRU",
            Policy::Clock => "CLOCK",
            Policy::Transposition => "TRANSPOSITION",
        }
    }
}

/// Hits of a policy at a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) policy: Policy,
    /// Names that the cache has room for; INFINITE has as many as there are.
    pub(super) entries: usize,
    pub(super) hits: u64,
}

/// All points of a trace.
#[derive(Clone, Debug)]
pub(super) struct HitRates {
    /// Names of the trace.
    pub(super) names: u64,
    pub(super) points: Vec<Point>,
}

impl HitRates {
    /// Runs every policy at these sizes.
    pub(super) fn measure(trace: &Trace, sizes: &[usize], progress: &mut dyn FnMut(&str)) -> Self {
        let distinct = trace.draws.iter().collect::<HashSet<_>>().len();
        let names = trace.draws.len() as u64;
        let mut points = vec![Point {
            policy: Policy::Infinite,
            entries: distinct,
            hits: names - distinct as u64,
        }];
        let fingerprints: Vec<u64> = trace
            .names
            .all()
            .iter()
            .map(|name| fingerprint(name))
            .collect();
        for policy in Policy::SIZED {
            for &entries in sizes {
                let hits = match policy {
                    Policy::Lru => lru(trace, &fingerprints, entries),
                    Policy::Clock => clock(trace, entries),
                    _ => transposition(trace, entries),
                };
                points.push(Point {
                    policy,
                    entries,
                    hits,
                });
            }
            progress(&format!(
                "hit rates of {} at {} sizes",
                policy.name(),
                sizes.len()
            ));
        }
        HitRates { names, points }
    }

    /// The points of a policy, in the order in which the sizes were given.
    pub(super) fn of(&self, policy: Policy) -> impl Iterator<Item = Point> {
        self.points
            .iter()
            .copied()
            .filter(move |point| point.policy == policy)
    }

    /// Hits of a policy at a size in per cent.
    pub(super) fn percent(&self, policy: Policy, entries: usize) -> Option<f64> {
        self.of(policy)
            .find(|point| point.entries == entries)
            .map(|point| 100.0 * self.rate(point))
    }

    /// Hits per name.
    pub(super) fn rate(&self, point: Point) -> f64 {
        point.hits as f64 / self.names.max(1) as f64
    }
}

fn lru(trace: &Trace, fingerprints: &[u64], entries: usize) -> u64 {
    let mut cache = UrlCache::replacing(entries, Box::new(Lru::new(entries)));
    let mut hits = 0;
    for &draw in &trace.draws {
        let name = fingerprints[draw as usize];
        if cache.contains(name) {
            hits += 1;
        } else {
            cache.insert(name);
        }
    }
    hits
}

fn clock(trace: &Trace, entries: usize) -> u64 {
    let mut cache = NameCache::new(entries);
    let mut hits = 0;
    for &draw in &trace.draws {
        let name = trace.name(draw);
        if cache.get(name, Timestamp::ZERO).is_some() {
            hits += 1;
        } else {
            cache.insert(name, &address(draw), LIFETIME, Timestamp::ZERO);
        }
    }
    hits
}

fn transposition(trace: &Trace, entries: usize) -> u64 {
    let mut cache = ChainedCache::new(entries, None);
    let mut hits = 0;
    for &draw in &trace.draws {
        let name = trace.name(draw);
        if cache.get(name, Duration::ZERO) {
            hits += 1;
        } else {
            cache.insert(name, Duration::ZERO);
        }
    }
    hits
}

/// What a name server says of a name: one address.
pub(super) fn address(number: u32) -> Resolution {
    Resolution::Addresses {
        addresses: vec![IpAddr::V4(Ipv4Addr::from_bits(number))],
        ttl_s: 300,
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::Names;
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn trace(draws: Vec<u32>) -> Trace {
        Trace {
            names: Arc::new(Names::new(40, 1)),
            draws,
        }
    }

    fn hits(trace: &Trace, policy: Policy, entries: usize) -> u64 {
        HitRates::measure(trace, &[entries], &mut |_| ())
            .of(policy)
            .next()
            .unwrap()
            .hits
    }

    /// Names from the one to go first on; a hit moves one to the end.
    fn naive_lru(draws: &[u32], entries: usize) -> u64 {
        let mut list = Vec::new();
        let mut hits = 0;
        for draw in draws {
            if let Some(at) = list.iter().position(|known| known == draw) {
                list.remove(at);
                hits += 1;
            } else if list.len() == entries {
                list.remove(0);
            }
            list.push(*draw);
        }
        hits
    }

    /// Names with their marks, and a hand.
    fn naive_clock(draws: &[u32], entries: usize) -> u64 {
        let mut slots = Vec::<(u32, bool)>::new();
        let mut hand = 0;
        let mut hits = 0;
        for &draw in draws {
            if let Some(slot) = slots.iter_mut().find(|(known, _)| *known == draw) {
                slot.1 = true;
                hits += 1;
            } else if slots.len() < entries {
                slots.push((draw, false));
            } else {
                while slots[hand].1 {
                    slots[hand].1 = false;
                    hand = (hand + 1) % entries;
                }
                slots[hand] = (draw, false);
                hand = (hand + 1) % entries;
            }
        }
        hits
    }

    /// Names from the head on; a hit moves one up by a place.
    fn naive_transposition(draws: &[u32], entries: usize) -> u64 {
        let mut list = Vec::new();
        let mut hits = 0;
        for draw in draws {
            if let Some(at) = list.iter().position(|known| known == draw) {
                list.swap(at, at.saturating_sub(1));
                hits += 1;
            } else {
                list.truncate(entries - 1);
                list.insert(0, *draw);
            }
        }
        hits
    }

    proptest! {
        #[test]
        fn caches_do_what_their_models_do(
            draws in proptest::collection::vec(0u32..40, 0..300), entries in 1usize..30,
        ) {
            let distinct = draws.iter().collect::<HashSet<_>>().len() as u64;
            let trace = trace(draws);
            let draws = &trace.draws;
            prop_assert_eq!(hits(&trace, Policy::Infinite, entries), draws.len() as u64 - distinct);
            prop_assert_eq!(hits(&trace, Policy::Lru, entries), naive_lru(draws, entries));
            prop_assert_eq!(hits(&trace, Policy::Clock, entries), naive_clock(draws, entries));
            prop_assert_eq!(hits(&trace, Policy::Transposition, entries), naive_transposition(draws, entries));
        }
    }
}
