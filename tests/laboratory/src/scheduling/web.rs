//! Web: servers, their pages and links, made up after the web on which the paper crawled.
//!
//! What the paper says of its test set (Cao, Jiang and Singh 2003, section 5): one university's
//! domain, more than 500 servers and 30,000 pages; 24 % of the servers allow one request per
//! connection, 66 % a hundred; 20 answer within 100 ms. What it leaves open is chosen here, before
//! anything was measured on it ([`Traits`] has the other choices):
//!
//! - Requests per connection of the other 10 %: one of 5, 10, 20, 50, 200, 1,000, evenly.
//! - Pages of a server: lognormal with mean 60 and deviation 0.5, at least one. The server that
//!   takes longest has one connection, and then takes as long as 64 connections take for all pages:
//!   349 s and 352 s. With a heavier tail it takes longer (504 s and 351 s with deviation 1). Then
//!   breadth-first waits for it with nine tenths of the pages at half time, and no policy can have
//!   half as many again, as one has in the paper.
//! - Response time of a server: lognormal, stretched so that fastest and slowest are exactly so
//!   many decades apart, and so that 4 % (20 of 500) are below 100 ms. That of a page varies around
//!   its server's, lognormal.
//! - Connection time of a server: lognormal over one decade; its mean lies between half the mean
//!   response time and all of it. It is the same for all connections to the server.
//! - Pages, response time, connection time and requests per connection of a server do not depend on
//!   one another.
//! - Links: eight a page on average, lognormal (Broder and others 2000 count 7.2). Each page but
//!   the home page stands on an earlier page of its server, each home page but the first on a page
//!   of an earlier server, so that a crawl that starts at the first home page finds everything. All
//!   others lead with the locality's share to the page's own server; server and page are drawn by
//!   Zipf's law, which gives in-degrees a power law of exponent 2 (2.1 there).
//!
//! Invariant: deterministic; the shape decides every number.

use super::traits::{Depth, Spread, Targets, Traits};
use crate::random::normal;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rhumb_url::partition;
use std::fmt;
use std::ops::Range;

/// Shares of the servers that allow one request per connection, and a hundred.
const SHARE_OF_ONE: f64 = 0.24;
const SHARE_OF_A_HUNDRED: f64 = 0.66;

/// Share of the servers that answer within [`FAST_US`] microseconds.
const SHARE_OF_FAST: f64 = 0.04;
const FAST_US: f64 = 100_000.0;
/// Pages of each server of a web of fast ones.
const FAST_PAGES: usize = 200;

/// Decades between the shortest and the longest connection time.
const CONNECT_DECADES: f64 = 1.0;

/// Deviation of the logarithm of a page's links.
const LINKS_DEVIATION: f64 = 1.0;
/// Of how many pages before it one leads to a page, where sites are deep.
const DEEP: usize = 3;

/// What a web is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) servers: usize,
    pub(super) pages: usize,
    /// Share of the links that stay on their server, about.
    pub(super) locality: f64,
    /// Decades between the response times of the fastest server and the slowest.
    pub(super) decades: f64,
    /// Deviation of the logarithm of a server's pages.
    pub(super) pages_deviation: f64,
    /// Returns whether all servers are fast and allow a hundred requests per connection.
    pub(super) fast: bool,
    pub(super) traits: Traits,
    pub(super) seed: u64,
}

impl Shape {
    /// The web of its fast servers alone, each with pages enough for throughput to be measured.
    pub(super) fn of_fast_servers(self) -> Shape {
        let servers = fast_servers(self.servers);
        Shape {
            servers,
            pages: servers * FAST_PAGES,
            pages_deviation: 0.0,
            fast: true,
            ..self
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape {
            locality,
            decades,
            pages_deviation,
            fast,
            seed,
            ..
        } = self;
        let fast = if *fast { ", fast servers" } else { "" };
        write!(
            f,
            "locality {locality}, {decades} decades, deviation of pages {pages_deviation}{fast}, \
             seed {seed}"
        )
    }
}

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// The first is its home page.
    pub(super) pages: Range<usize>,
    /// Requests that a connection serves.
    pub(super) requests: u32,
    /// Time to open a connection, and to close it, in microseconds.
    pub(super) connect_us: u64,
}

/// A page.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) server: usize,
    /// Time from sending the request to the end of the body, in microseconds.
    pub(super) response_us: u64,
    /// Pages it links to, each once.
    pub(super) links: Vec<usize>,
}

/// Servers and pages, by number.
#[derive(Clone, Debug)]
pub(super) struct Web {
    pub(super) servers: Vec<Server>,
    pub(super) pages: Vec<Page>,
}

impl Web {
    /// The web of that shape.
    pub(super) fn generate(shape: Shape) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(shape.seed);
        let ranges = ranges(shape, &mut random);
        let mut limits = limits(shape, &mut random);
        let mut responses = response_times(shape, &mut random);
        let mut connects = connection_times(&responses, shape.traits.connect_mean, &mut random);
        let sizes: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
        let times = responses.clone();
        shape.traits.fast.hand_out(&mut responses, &sizes, &times);
        shape
            .traits
            .one_request
            .hand_out(&mut limits, &sizes, &responses);
        shape
            .traits
            .near
            .hand_out(&mut connects, &sizes, &responses);
        let mut servers = Vec::with_capacity(shape.servers);
        let mut pages = Vec::with_capacity(shape.pages);
        for (server, range) in ranges.into_iter().enumerate() {
            for _ in range.clone() {
                let response =
                    responses[server] * lognormal(shape.traits.response_deviation, &mut random);
                pages.push(Page {
                    server,
                    response_us: response as u64,
                    links: Vec::new(),
                });
            }
            servers.push(Server {
                pages: range,
                requests: limits[server],
                connect_us: connects[server] as u64,
            });
        }
        let mut web = Web { servers, pages };
        web.link(shape.locality, shape.traits, &mut random);
        web
    }

    /// What a server is called: its partition depends on it.
    pub(super) fn name(server: usize) -> String {
        format!("http://s{server}.example")
    }

    /// A page's URL.
    pub(super) fn url(&self, page: usize) -> String {
        format!("{}/{page}", Web::name(self.pages[page].server))
    }

    /// The page of a URL.
    pub(super) fn page(url: &str) -> Option<usize> {
        url.rsplit('/').next()?.parse().ok()
    }

    /// The number of the partition, of `partitions`, that a server belongs to.
    pub(super) fn partition(server: usize, partitions: u16) -> u16 {
        partition(&format!("s{server}.example"), partitions)
    }

    fn link(&mut self, locality: f64, traits: Traits, random: &mut Xoshiro256PlusPlus) {
        // One link of each page makes another one reachable and stays on its server. The other
        // links make up for that.
        let others = traits.links_mean - 1.0;
        let drawn_locality = ((locality * traits.links_mean - 1.0) / others).max(0.0);
        for server in 0..self.servers.len() {
            let pages = self.servers[server].pages.clone();
            if server > 0 {
                let from = random.random_range(0..pages.start);
                self.pages[from].links.push(pages.start);
            }
            for page in pages.clone() {
                if page > pages.start {
                    let from = match traits.depth {
                        Depth::Tree => random.random_range(pages.start..page),
                        Depth::Deep => {
                            random.random_range(pages.start.max(page.saturating_sub(DEEP))..page)
                        }
                        Depth::Flat => pages.start,
                    };
                    self.pages[from].links.push(page);
                }
                let drawn = others * lognormal(LINKS_DEVIATION, random);
                for _ in 0..drawn.round() as usize {
                    let local = random.random::<f64>() < drawn_locality;
                    let to = self.target(server, local, traits.targets, random);
                    self.pages[page].links.push(to);
                }
            }
        }
        for (number, page) in self.pages.iter_mut().enumerate() {
            page.links.sort_unstable();
            page.links.dedup();
            page.links.retain(|&to| to != number);
            // The order on the page is not that of the pages' numbers.
            page.links.shuffle(random);
        }
    }

    /// The page that a link of a server's page leads to.
    fn target(
        &self,
        server: usize,
        local: bool,
        targets: Targets,
        random: &mut Xoshiro256PlusPlus,
    ) -> usize {
        let draw = |count: usize, random: &mut Xoshiro256PlusPlus| match targets {
            Targets::Popular | Targets::HomePages => zipf(count, random),
            Targets::Even => random.random_range(0..count),
        };
        let server = if local {
            server
        } else {
            draw(self.servers.len(), random)
        };
        let pages = &self.servers[server].pages;
        match targets {
            Targets::HomePages if !local => pages.start,
            _ => pages.start + draw(pages.len(), random),
        }
    }
}

/// The pages of each server.
fn ranges(shape: Shape, random: &mut Xoshiro256PlusPlus) -> Vec<Range<usize>> {
    let mut weights: Vec<f64> = (0..shape.servers)
        .map(|_| lognormal(shape.pages_deviation, random))
        .collect();
    let main_site = shape.traits.main_site;
    if main_site > 0.0 {
        weights[0] = weights[1..].iter().sum::<f64>() * main_site / (1.0 - main_site);
    }
    let total: f64 = weights.iter().sum();
    let shared_out = (shape.pages - shape.servers) as f64;
    let mut sum = 0.0;
    let mut start = 0;
    let mut ranges = Vec::with_capacity(shape.servers);
    for (server, weight) in weights.into_iter().enumerate() {
        sum += weight;
        let last = server + 1 == shape.servers;
        let end = if last {
            shape.pages
        } else {
            server + 1 + (sum / total * shared_out) as usize
        };
        ranges.push(start..end);
        start = end;
    }
    ranges
}

/// Requests per connection of each server.
fn limits(shape: Shape, random: &mut Xoshiro256PlusPlus) -> Vec<u32> {
    let servers = shape.servers;
    let others = shape.traits.other_limits;
    if shape.fast {
        return vec![100; servers];
    }
    let of = |share: f64| (share * servers as f64).round() as usize;
    let mut limits = vec![1; of(SHARE_OF_ONE)];
    limits.resize(of(SHARE_OF_ONE) + of(SHARE_OF_A_HUNDRED), 100);
    while limits.len() < servers {
        limits.push(others[random.random_range(0..others.len())]);
    }
    limits.shuffle(random);
    limits
}

/// How many of `servers` are fast.
fn fast_servers(servers: usize) -> usize {
    ((SHARE_OF_FAST * servers as f64).round() as usize).max(1)
}

/// Response time of each server, in microseconds.
fn response_times(shape: Shape, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    // Fast servers are drawn as those of a web of all kinds.
    let servers = if shape.fast {
        (shape.servers as f64 / SHARE_OF_FAST).round() as usize
    } else {
        shape.servers
    };
    let mut times = stretched(servers, shape.decades, shape.traits.spread, random);
    let mut ascending = times.clone();
    ascending.sort_unstable_by(f64::total_cmp);
    let scale = FAST_US / ascending[fast_servers(servers).min(servers - 1)];
    times.iter_mut().for_each(|time| *time *= scale);
    times.retain(|&time| !shape.fast || time < FAST_US);
    times
}

/// Connection time of each server, in microseconds.
fn connection_times(responses: &[f64], mean: f64, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let mut times = stretched(responses.len(), CONNECT_DECADES, Spread::Normal, random);
    let scale = mean * responses.iter().sum::<f64>() / times.iter().sum::<f64>();
    times.iter_mut().for_each(|time| *time *= scale);
    times
}

/// Numbers whose logarithms are so distributed. `decades` lie between the least and the greatest.
fn stretched(
    count: usize,
    decades: f64,
    spread: Spread,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<f64> {
    let draw = |random: &mut Xoshiro256PlusPlus| match spread {
        Spread::Normal => normal(random),
        Spread::Even => random.random(),
    };
    let logarithms: Vec<f64> = (0..count).map(|_| draw(random)).collect();
    let least = logarithms.iter().copied().fold(f64::INFINITY, f64::min);
    let most = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let step = decades / (most - least).max(f64::MIN_POSITIVE);
    logarithms
        .into_iter()
        .map(|logarithm| 10f64.powf((logarithm - least) * step))
        .collect()
}

/// A number of mean 1 whose logarithm is normally distributed.
fn lognormal(deviation: f64, random: &mut Xoshiro256PlusPlus) -> f64 {
    (deviation * normal(random) - deviation * deviation / 2.0).exp()
}

/// A number below `count`, by Zipf's law with exponent 1: the inverse of its continuous
/// distribution.
fn zipf(count: usize, random: &mut Xoshiro256PlusPlus) -> usize {
    let rank = ((count + 1) as f64).powf(random.random::<f64>()) as usize;
    rank.clamp(1, count) - 1
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::BTreeSet;

    pub(crate) const SMALL: Shape = Shape {
        servers: 40,
        pages: 400,
        locality: 0.8,
        decades: 2.0,
        pages_deviation: 1.0,
        fast: false,
        traits: Traits::CHOSEN,
        seed: 7,
    };

    /// Goal: the make-up that the module promises, at full size.
    #[test]
    fn servers_and_links_have_the_shares_of_the_paper() {
        let web = Web::generate(Shape {
            servers: 500,
            pages: 30_000,
            ..SMALL
        });
        let allowing = |requests: u32| {
            web.servers
                .iter()
                .filter(|server| server.requests == requests)
                .count()
        };
        assert_eq!(
            (web.pages.len(), allowing(1), allowing(100)),
            (30_000, 120, 330)
        );
        assert!(
            web.servers
                .iter()
                .all(|server| server.requests <= 1_000 && !server.pages.is_empty())
        );

        let links: usize = web.pages.iter().map(|page| page.links.len()).sum();
        let stays = |page: &Page, &to: &&usize| web.pages[*to].server == page.server;
        let local: usize = web
            .pages
            .iter()
            .map(|page| page.links.iter().filter(|to| stays(page, to)).count())
            .sum();
        let per_page = links as f64 / 30_000.0;
        let locality = local as f64 / links as f64;
        assert!(
            (6.0..9.0).contains(&per_page) && (0.75..0.85).contains(&locality),
            "{per_page} {locality}"
        );
    }

    #[test]
    fn response_times_span_the_decades_and_4_percent_are_fast() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let responses = response_times(
            Shape {
                servers: 500,
                ..SMALL
            },
            &mut random,
        );
        assert_eq!(responses.iter().filter(|&&time| time < FAST_US).count(), 20);
        let least = responses.iter().copied().fold(f64::INFINITY, f64::min);
        let most = responses.iter().copied().fold(0.0, f64::max);
        assert!(
            ((most / least).log10() - 2.0).abs() < 1e-9,
            "{least} {most}"
        );
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let connects = connection_times(&responses, 0.75, &mut random);
        assert!((mean(&connects) / mean(&responses) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn evenly_spread_response_times_have_many_slow_servers() {
        let slow = |spread| {
            let traits = Traits {
                spread,
                ..Traits::CHOSEN
            };
            let shape = Shape {
                servers: 500,
                traits,
                ..SMALL
            };
            let responses = response_times(shape, &mut Xoshiro256PlusPlus::seed_from_u64(3));
            let most = responses.iter().copied().fold(0.0, f64::max);
            responses
                .iter()
                .filter(|&&time| time > most / 10f64.sqrt())
                .count()
        };
        // A quarter of the logarithms lie in the upper quarter.
        assert!(slow(Spread::Normal) < 50 && (100..150).contains(&slow(Spread::Even)));
    }

    #[test]
    fn fast_servers_are_as_fast_as_the_fast_ones_of_the_whole_web() {
        let shape = Shape {
            servers: 500,
            pages: 30_000,
            ..SMALL
        }
        .of_fast_servers();
        let web = Web::generate(shape);
        assert_eq!((web.servers.len(), web.pages.len()), (20, 4_000));
        assert!(
            web.servers
                .iter()
                .all(|server| (server.requests, server.pages.len()) == (100, 200))
        );
        let responses = response_times(shape, &mut Xoshiro256PlusPlus::seed_from_u64(3));
        assert!(
            responses.len() == 20 && responses.iter().all(|&time| time < FAST_US),
            "{responses:?}"
        );
    }

    #[test]
    fn all_pages_are_reached_from_the_first_whatever_the_seed() {
        for seed in 0..20 {
            let web = Web::generate(Shape {
                servers: 10,
                pages: 60,
                seed,
                ..SMALL
            });
            let mut reached = BTreeSet::from([0]);
            let mut ahead = vec![0];
            while let Some(page) = ahead.pop() {
                assert!(!web.pages[page].links.contains(&page));
                ahead.extend(
                    web.pages[page]
                        .links
                        .iter()
                        .filter(|&&to| reached.insert(to)),
                );
            }
            assert_eq!(reached.len(), 60);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_web() {
        let [one, same, other] =
            [7, 7, 8].map(|seed| format!("{:?}", Web::generate(Shape { seed, ..SMALL })));
        assert_eq!(one, same);
        assert_ne!(one, other);
    }

    #[test]
    fn a_url_leads_to_its_page() {
        let web = Web::generate(SMALL);
        assert!((0..400).all(|page| Web::page(&web.url(page)) == Some(page)));
        assert_eq!(web.url(0), "http://s0.example/0");
    }
}
