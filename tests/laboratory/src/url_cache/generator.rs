//! Generator: the links of a crawler process that serves a number of hosts at once, page by page in
//! random order.
//!
//! A made-up web with what makes a cache of URLs work (Broder, Najork and Wiener 2003, section 5):
//! each host repeats its own links on page after page, and a few URLs elsewhere are popular with
//! all.
//!
//! - A host has 10 to 5,000 pages, by a Pareto distribution of exponent 1.2. When all were served,
//!   a new host takes its place.
//! - Every page of a host has the same block: links to URLs of the host that nothing else links to
//!   (lognormal, at least three), and a fifth as many links to popular URLs.
//! - To these a page adds links of its own (lognormal). A fifth of them lead to popular URLs, the
//!   others to any of the host's other URLs, of which there are twice as many as pages.
//! - Two million URLs are popular, each on a host of its own, by a Zipf distribution of exponent
//!   0.9.
//!
//! That makes a little over 60 links per page, about a fifth of them off the host. All hosts served
//! belong to the one process, and so does a quarter of the popular ones. Links to the others are
//! the cross stream.
//!
//! Invariant: deterministic; numbers and seed decide every link.

use super::trace::{Trace, process_of};
use crate::random::normal;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

/// The process whose links these are.
const PROCESS: u16 = 0;

const PAGES_MIN: f64 = 10.0;
const PAGES_MAX: f64 = 5_000.0;
const PAGES_EXPONENT: f64 = 1.2;

/// URLs of a host for each of its pages, without those of its block.
const URLS_PER_PAGE: u32 = 2;

/// Mean and deviation of the logarithm of a block's links to its own host.
const BLOCK: (f64, f64) = (2.9, 0.8);
const BLOCK_MIN: usize = 3;
/// Popular links in a block, for each link to its own host.
const BLOCK_POPULAR: f64 = 0.2;

/// Mean and deviation of the logarithm of the links that a page adds.
const ADDED: (f64, f64) = (2.9, 1.1);
/// Share of popular ones among them.
const ADDED_POPULAR: f64 = 0.2;

const POPULAR_URLS: u32 = 2_000_000;
const POPULAR_EXPONENT: f64 = 0.9;

/// A link: its URL's fingerprint, and whether it leaves the process.
type Link = (u64, bool);

/// The links that a process with that many hosts in flight finds: at least `links`, up to the end
/// of a page.
pub(super) fn generate(hosts_in_flight: usize, links: u64, seed: u64) -> Trace {
    let mut web = Web::new(seed);
    let mut hosts: Vec<Host> = (0..hosts_in_flight).map(|_| web.host()).collect();
    let mut trace = Trace {
        hosts_in_flight: Some(hosts_in_flight),
        ..Trace::default()
    };
    let mut pages = 0;
    while (trace.fingerprints.len() as u64) < links {
        let place = web.random.random_range(0..hosts.len());
        let host = &mut hosts[place];
        web.serve(host, &mut trace);
        pages += 1;
        if host.pages_left == 0 {
            *host = web.host();
        }
    }
    trace.pages = Some(pages);
    trace
}

/// A host that is being served.
struct Host {
    number: u32,
    urls: u32,
    pages_left: u32,
    /// The links that stand on every page.
    block: Vec<Link>,
}

struct Web {
    random: Xoshiro256PlusPlus,
    /// The weight of each popular URL and of all more popular ones together, by rank.
    weights: Vec<f64>,
    /// Hosts are numbered in the order in which they were first heard of. The number of a popular
    /// host is its rank.
    next_host: u32,
}

impl Web {
    fn new(seed: u64) -> Self {
        let mut total = 0.0;
        let weight = |rank: u32| {
            total += f64::from(rank).powf(-POPULAR_EXPONENT);
            total
        };
        Web {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            weights: (1..=POPULAR_URLS).map(weight).collect(),
            next_host: POPULAR_URLS,
        }
    }

    /// The next host that belongs to the process.
    fn host(&mut self) -> Host {
        while process_of(&name(self.next_host)) != PROCESS {
            self.next_host += 1;
        }
        let number = self.next_host;
        self.next_host += 1;
        // The inverse of the distribution, of a number in (0, 1].
        let pages = PAGES_MIN * (1.0 - self.random.random::<f64>()).powf(-1.0 / PAGES_EXPONENT);
        let pages = pages.min(PAGES_MAX) as u32;
        let mut host = Host {
            number,
            urls: pages * URLS_PER_PAGE,
            pages_left: pages,
            block: Vec::new(),
        };
        let own = self.lognormal(BLOCK).max(BLOCK_MIN);
        for url in 0..own as u32 {
            host.block
                .push((fingerprint(host.number, host.urls + url), false));
        }
        for _ in 0..(own as f64 * BLOCK_POPULAR).round() as usize {
            host.block.push(self.popular());
        }
        host
    }

    /// The links of the host's next page.
    fn serve(&mut self, host: &mut Host, trace: &mut Trace) {
        host.pages_left -= 1;
        for &(fingerprint, leaves) in &host.block {
            trace.push(fingerprint, leaves);
        }
        for _ in 0..self.lognormal(ADDED) {
            let popular = self.random.random::<f64>() < ADDED_POPULAR;
            let (fingerprint, leaves) = if popular {
                self.popular()
            } else {
                self.own(host)
            };
            trace.push(fingerprint, leaves);
        }
    }

    fn own(&mut self, host: &Host) -> Link {
        (
            fingerprint(host.number, self.random.random_range(0..host.urls)),
            false,
        )
    }

    fn popular(&mut self) -> Link {
        let total = self.weights.last().copied().unwrap_or_default();
        let drawn = self.random.random::<f64>() * total;
        let rank = self.weights.partition_point(|&weight| weight <= drawn) as u32;
        (fingerprint(rank, 0), process_of(&name(rank)) != PROCESS)
    }

    /// A number whose logarithm is normally distributed, cut to an integer.
    fn lognormal(&mut self, (mean, deviation): (f64, f64)) -> usize {
        (mean + deviation * normal(&mut self.random)).exp() as usize
    }
}

/// What a host is called: its process depends on it.
fn name(host: u32) -> String {
    format!("{host}.example")
}

/// The fingerprint of a URL on a host. No two URLs share one: each step can be undone (Steele, Lea
/// and Flood 2014, SplitMix64).
fn fingerprint(host: u32, url: u32) -> u64 {
    let mut bits = u64::from(host) << 32 | u64::from(url);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_links() {
        let [one, same, other] = [7, 7, 8].map(|seed| generate(20, 20_000, seed));
        assert!(
            one.fingerprints == same.fingerprints
                && one.leaves == same.leaves
                && one.pages == same.pages
        );
        assert!(one.fingerprints != other.fingerprints);
    }

    /// Goal: the make-up that the module promises. Method: averages over so many hosts that they
    /// hardly depend on the seed. Three quarters of the links off the host leave the process.
    #[test]
    fn there_are_about_61_links_per_page_and_a_fifth_is_off_the_host() {
        let trace = generate(500, 1_000_000, 1);
        assert!((1_000_000..1_050_000).contains(&trace.fingerprints.len()));
        let links_per_page = trace.links_per_page().unwrap();
        assert!((56.0..66.0).contains(&links_per_page), "{links_per_page}");
        let leaving = trace.leaves.iter().filter(|leaves| **leaves).count() as f64
            / trace.leaves.len() as f64;
        assert!((0.17..0.22).contains(&(leaving / 0.75)), "{leaving}");
    }

    #[test]
    fn a_host_stays_with_its_process_and_within_its_limits() {
        let mut web = Web::new(3);
        for _ in 0..300 {
            let host = web.host();
            assert_eq!(process_of(&name(host.number)), PROCESS);
            assert!((10..=5_000).contains(&host.pages_left));
            assert!(host.block.len() > BLOCK_MIN);
        }
    }
}
