//! Curves: the hits of each policy at each size, on one stream.

use super::optimal;
use super::stream::{Stream, StreamName};
use crate::text::grouped;
use rhumb_url::url_cache::{Clock, Lru, Random, UrlCache};
use std::fmt;

/// What a cache keeps (Broder, Najork and Wiener 2003, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// All URLs that it ever met: the limit of caches of any size that do not know the future.
    Infinite,
    /// The URLs that are met again soonest: needs the future.
    Min,
    /// The URLs met lately, roughly: a mark for each entry.
    Clock,
    /// The URLs met lately.
    Lru,
    /// Any URLs.
    Random,
    /// The most frequent URLs of the links counted: chosen beforehand, never replaced.
    Static,
}

impl Policy {
    /// The policies whose hits depend on the size, the best first.
    pub(super) const SIZED: [Policy; 5] = [
        Policy::Min,
        Policy::Clock,
        Policy::Lru,
        Policy::Random,
        Policy::Static,
    ];
    /// All policies.
    pub(super) const ALL: [Policy; 6] = [
        Policy::Infinite,
        Policy::Min,
        Policy::Clock,
        Policy::Lru,
        Policy::Random,
        Policy::Static,
    ];

    /// Its name, as the paper writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Policy::Infinite => "INFINITE",
            Policy::Min => "MIN",
            Policy::Clock => "CLOCK",
            Policy::Lru => "LRU",
            Policy::Random => "RANDOM",
            Policy::Static => "STATIC",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Hits of a policy at a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) policy: Policy,
    pub(super) entries: usize,
    pub(super) hits: u64,
}

/// The doubling of the size that gains the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Knee {
    /// Entries before the doubling.
    pub(super) entries: usize,
    /// Gain in hits per link.
    pub(super) gain: f64,
}

impl Knee {
    /// The size in the middle of the doubling, as a factor.
    pub(super) fn middle(self) -> f64 {
        self.entries as f64 * std::f64::consts::SQRT_2
    }
}

/// What was measured on a stream.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    pub(super) stream: StreamName,
    pub(super) hosts_in_flight: Option<usize>,
    pub(super) links_per_page: Option<f64>,
    /// Links counted.
    pub(super) links: u64,
    /// Hits of INFINITE.
    pub(super) infinite: u64,
    /// Hits of all other policies, by policy and then by size.
    pub(super) points: Vec<Point>,
}

impl Curves {
    /// Runs all policies at these sizes, which must ascend.
    pub(super) fn measure(
        stream: &Stream,
        sizes: &[usize],
        progress: &mut dyn FnMut(&str),
    ) -> Self {
        let repeats = &stream.repeats[stream.warm_up..];
        let mut curves = Curves {
            stream: stream.name,
            hosts_in_flight: stream.hosts_in_flight,
            links_per_page: stream.links_per_page,
            links: stream.counted(),
            infinite: repeats.iter().filter(|repeats| **repeats).count() as u64,
            points: Vec::with_capacity(Policy::SIZED.len() * sizes.len()),
        };
        let links = grouped(stream.fingerprints.len() as u64);
        progress(&format!(
            "{}: {links} links to {} URLs",
            curves.title(),
            grouped(stream.urls as u64)
        ));
        for policy in Policy::SIZED {
            for &entries in sizes {
                let replacing =
                    |replacement| hits(UrlCache::replacing(entries, replacement), stream);
                let hits = match policy {
                    Policy::Infinite => curves.infinite,
                    Policy::Min => optimal::hits(&stream.next, entries),
                    Policy::Clock => replacing(Box::new(Clock::new(entries))),
                    Policy::Lru => replacing(Box::new(Lru::new(entries))),
                    Policy::Random => replacing(Box::new(Random::new(entries))),
                    Policy::Static => {
                        let favourites = &stream.favourites[..entries.min(stream.favourites.len())];
                        hits(UrlCache::fixed(favourites), stream)
                    }
                };
                curves.points.push(Point {
                    policy,
                    entries,
                    hits,
                });
            }
            progress(&format!(
                "{}: {policy} at {} sizes",
                curves.title(),
                sizes.len()
            ));
        }
        curves
    }

    /// Which stream of which trace.
    pub(super) fn title(&self) -> String {
        match self.hosts_in_flight {
            Some(1) => format!("1 host in flight, {} stream", self.stream),
            Some(hosts) => format!(
                "{} hosts in flight, {} stream",
                grouped(hosts as u64),
                self.stream
            ),
            None => format!("recorded trace, {} stream", self.stream),
        }
    }

    /// Hits per link.
    pub(super) fn rate(&self, hits: u64) -> f64 {
        hits as f64 / self.links.max(1) as f64
    }

    /// The points of a policy, sizes ascending.
    pub(super) fn of(&self, policy: Policy) -> impl Iterator<Item = Point> {
        self.points
            .iter()
            .copied()
            .filter(move |point| point.policy == policy)
    }

    /// The hits of a policy at a size that was measured.
    pub(super) fn hits(&self, policy: Policy, entries: usize) -> Option<u64> {
        self.of(policy)
            .find(|point| point.entries == entries)
            .map(|point| point.hits)
    }

    /// The doubling of the size that gains the policy the most; the smallest size if several gain
    /// the same.
    pub(super) fn knee(&self, policy: Policy) -> Option<Knee> {
        let mut knee: Option<Knee> = None;
        for point in self.of(policy) {
            let Some(doubled) = self.hits(policy, point.entries * 2) else {
                continue;
            };
            let gain = self.rate(doubled) - self.rate(point.hits);
            if knee.is_none_or(|knee| gain > knee.gain) {
                knee = Some(Knee {
                    entries: point.entries,
                    gain,
                });
            }
        }
        knee
    }
}

/// Hits that count, of a cache that is given what it does not have.
fn hits(mut cache: UrlCache, stream: &Stream) -> u64 {
    let mut hits = 0;
    for (place, &fingerprint) in stream.fingerprints.iter().enumerate() {
        if !cache.contains(fingerprint) {
            cache.insert(fingerprint);
        } else if place >= stream.warm_up {
            hits += 1;
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::stream;
    use super::*;
    use proptest::prelude::*;

    fn line(curves: &Curves, policy: Policy) -> Vec<u64> {
        curves.of(policy).map(|point| point.hits).collect()
    }

    #[test]
    fn policies_do_what_they_are_named_for() {
        // Counted are the last eight: 1 2 3 1 2 3 4 4.
        let stream = stream(vec![1, 2, 3, 1, 1, 2, 3, 1, 2, 3, 4, 4]);
        let curves = Curves::measure(&stream, &[1, 2, 3, 4], &mut |_| ());
        assert_eq!((curves.links, curves.infinite), (8, 7));
        assert_eq!(line(&curves, Policy::Min), [3, 5, 7, 7]);
        assert_eq!(line(&curves, Policy::Lru), [2, 2, 7, 7]);
        // Told of 1 2 3 4 in this order; the first 4 is no hit.
        assert_eq!(line(&curves, Policy::Static), [2, 4, 6, 7]);
        assert_eq!(curves.hits(Policy::Lru, 3), Some(7));
        assert_eq!(curves.hits(Policy::Lru, 5), None);
        assert_eq!(
            curves.knee(Policy::Lru),
            Some(Knee {
                entries: 2,
                gain: 5.0 / 8.0
            })
        );
    }

    proptest! {
        /// On any links whatever: INFINITE, MIN, and then the others.
        #[test]
        fn nothing_surpasses_min_and_min_not_infinite(links in proptest::collection::vec(0u64..40, 0..400)) {
            let curves = Curves::measure(&stream(links), &[1, 2, 3, 5, 8, 13, 21, 34, 55], &mut |_| ());
            for point in &curves.points {
                let min = curves.hits(Policy::Min, point.entries).unwrap();
                prop_assert!(point.hits <= min && min <= curves.infinite, "{:?} {}", point, min);
            }
        }
    }
}
