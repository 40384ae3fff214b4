//! How fast the URL cache answers: lookups a second on one core, by policy.

use rhumb_url::fingerprint;
use rhumb_url::url_cache::{Clock, Lru, Random, Replacement, UrlCache};
use std::hint::black_box;
use std::time::Instant;

/// Entries of the cache: that of the configuration.
const ENTRIES: usize = 1 << 16;
/// Links looked up in a round.
const LINKS: u64 = 1 << 22;
const ROUNDS: usize = 5;

/// A policy and its median.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Speed {
    /// The policy.
    pub policy: &'static str,
    /// Lookups a second; each miss is followed by an insertion, which is not counted.
    pub lookups_per_s: f64,
    /// Share of the lookups that hit.
    pub hit_rate: f64,
}

/// Measures each policy with a stream of which four fifths repeat one of the 40,000 latest links.
pub fn speeds() -> Vec<Speed> {
    let stream = stream();
    ["clock", "lru", "random"]
        .into_iter()
        .map(|policy| {
            let mut hits = 0;
            let mut rates: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    let mut cache = UrlCache::replacing(ENTRIES, replacement(policy));
                    let began = Instant::now();
                    hits = run(&mut cache, &stream);
                    LINKS as f64 / began.elapsed().as_secs_f64()
                })
                .collect();
            rates.sort_by(f64::total_cmp);
            Speed {
                policy,
                lookups_per_s: rates[ROUNDS / 2],
                hit_rate: hits as f64 / LINKS as f64,
            }
        })
        .collect()
}

fn replacement(policy: &str) -> Box<dyn Replacement> {
    match policy {
        "lru" => Box::new(Lru::new(ENTRIES)),
        "random" => Box::new(Random::new(ENTRIES)),
        _ => Box::new(Clock::new(ENTRIES)),
    }
}

fn run(cache: &mut UrlCache, stream: &[u64]) -> u64 {
    let mut hits = 0;
    for &link in stream {
        if black_box(cache.contains(link)) {
            hits += 1;
        } else {
            cache.insert(link);
        }
    }
    hits
}

fn stream() -> Vec<u64> {
    let mut stream: Vec<u64> = Vec::with_capacity(LINKS as usize);
    for n in 0..LINKS {
        // Any numbers that are spread well and the same in every run.
        let dice = fingerprint(&n.to_string());
        let back = (dice >> 8) % 40_000 + 1;
        let repeats = !dice.is_multiple_of(5) && n > back;
        stream.push(if repeats {
            stream[(n - back) as usize]
        } else {
            dice
        });
    }
    stream
}
