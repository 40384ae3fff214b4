//! Webs: hosts with the hash of their names, their URLs, and the time that those take.

use crate::random::normal;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rhumb_url::host_hash;
use std::fmt;

/// Standard deviation of the logarithm of sizes, where hosts are alike.
const SIZE_DEVIATION: f64 = 1.0;
/// The same of what a URL of a host costs.
const TIME_DEVIATION: f64 = 0.5;

/// How URLs are spread over hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sizes of one order (lognormal).
    Alike,
    /// The size of a host is one by its rank (Zipf).
    Zipf,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Alike, Kind::Zipf];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Alike => "hosts alike",
            Kind::Zipf => "Zipf hosts",
        })
    }
}

/// A host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Host {
    pub(super) hash: u64,
    /// Its part of all URLs.
    pub(super) urls: f64,
    /// Its part of the time that all URLs take.
    pub(super) time: f64,
}

/// A web of hosts, whose URLs are 1 together, and whose times are, too.
#[derive(Clone, Debug)]
pub(super) struct Web {
    pub(super) kind: Kind,
    pub(super) seed: u64,
    /// In the order of their hashes.
    pub(super) hosts: Vec<Host>,
}

impl Web {
    pub(super) fn generate(kind: Kind, n_hosts: usize, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        // Names of another word for each web: so are their hashes.
        let word: u32 = random.random();
        let mut host = |number: usize| {
            let urls = match kind {
                Kind::Alike => (SIZE_DEVIATION * normal(&mut random)).exp(),
                Kind::Zipf => 1.0 / (number + 1) as f64,
            };
            let time = urls * (TIME_DEVIATION * normal(&mut random)).exp();
            Host {
                hash: host_hash(&format!("h{number}.w{word:08x}.example")),
                urls,
                time,
            }
        };
        let mut hosts: Vec<Host> = (0..n_hosts).map(&mut host).collect();
        let (urls, time) = hosts.iter().fold((0.0, 0.0), |(urls, time), host| {
            (urls + host.urls, time + host.time)
        });
        for host in &mut hosts {
            host.urls /= urls;
            host.time /= time;
        }
        hosts.sort_by_key(|host| host.hash);
        Web { kind, seed, hosts }
    }
}
