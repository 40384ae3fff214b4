//! Profile: everything that decides what a synthetic web looks like and how its servers behave.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};

use super::change::Change;
use super::hostility::Hostility;

/// The largest number of hosts a web can have; each has a loopback address of its own.
pub const HOSTS_MAX: u32 = 50_000;

/// How many pages a host has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PagesPerHost {
    /// Every host has this many.
    Exactly(u32),
    /// A Pareto distribution (shape 1.5, cut at 50 times the mean) with about this mean: many small
    /// hosts, few large.
    HeavyTail {
        /// Mean pages per host.
        mean: u32,
    },
}

/// How long a server thinks before it answers. The same URL always takes the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// Answers at once.
    None,
    /// The same for every request.
    Fixed {
        /// Milliseconds.
        ms: u64,
    },
    /// Every second host, from the first on, is fast, the others are slow.
    FastAndSlow {
        /// Milliseconds of a request to a fast host.
        fast_ms: u64,
        /// Milliseconds of a request to a slow host.
        slow_ms: u64,
    },
    /// Lognormal over URLs, at most [`LATENCY_MS_MAX`].
    Lognormal {
        /// Median in milliseconds.
        median_ms: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// The longest latency a lognormal spread gives, in milliseconds.
pub const LATENCY_MS_MAX: u64 = 3_000;

/// Which hosts have what kind of robots.txt. What is left of 1 after `rules` and `missing` allows
/// everything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RobotsShares {
    /// Share of hosts with Disallow rules.
    pub rules: f64,
    /// Share of hosts that answer 404 to /robots.txt.
    pub missing: f64,
    /// Share of the pages of a host with rules that are disallowed.
    pub disallowed_pages: f64,
    /// Share of the hosts with rules that also ask for a Crawl-delay.
    pub crawl_delay: f64,
    /// The Crawl-delay in milliseconds (written in seconds in robots.txt).
    pub crawl_delay_ms: u64,
}

/// Which hosts have what kind of TLS, when all that are not hostile have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecureShares {
    /// Share of hosts that speak HTTP/2 beside HTTP/1.1.
    pub http2: f64,
    /// Share of hosts with a key of RSA; the others have one of ECDSA.
    pub rsa: f64,
}

/// Which hosts pack their pages for clients that can unpack them, how; the others never do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodingShares {
    /// Share of hosts that send gzip.
    pub gzip: f64,
    /// Share of hosts that send brotli.
    pub brotli: f64,
}

/// Limits of the crawler that is judged. Some hostile hosts have no end: a perfect crawl finds as
/// much of them as these limits let it find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrawlLimits {
    /// Redirects in a row that are followed.
    pub redirects: u32,
    /// How often the same segment may stand in a path, at least 1.
    pub segment_repeats: u32,
    /// Parameters of a URL, at least 1.
    pub query_parameters: u32,
    /// Pages fetched of one host, after which its other URLs are over budget. It must be more than
    /// twice the pages of a host of [`Hostility::Calendar`]. Otherwise chance decides which of them
    /// are fetched before its months have used up the budget.
    pub pages_per_host: u32,
    /// Images are fetched, too.
    pub images: bool,
}

impl Default for CrawlLimits {
    fn default() -> Self {
        Self {
            redirects: 10,
            segment_repeats: 5,
            query_parameters: 100,
            pages_per_host: 1_000,
            images: false,
        }
    }
}

/// What a synthetic web looks like. Two webs of equal profile and port are equal byte by byte; where
/// pages change, their versions are, at the same time since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Seed of every random decision.
    pub seed: u64,
    /// Number of hosts, 1 to [`HOSTS_MAX`].
    pub hosts: u32,
    /// Pages per host.
    pub pages_per_host: PagesPerHost,
    /// Fewest links on a page (the links that make every page reachable come in any case).
    pub links_min: u32,
    /// Most links on a page; the count is uniform between the two.
    pub links_max: u32,
    /// Median page size in bytes (lognormal).
    pub page_bytes_median: u32,
    /// Standard deviation of the logarithm of the page size; 0.835 makes the mean 1.42 times the
    /// median.
    pub page_bytes_sigma: f64,
    /// Share of links that stay on the server.
    pub locality: f64,
    /// Server latency.
    pub latency: Latency,
    /// Share of servers and after how many requests they close the connection; the others never do.
    pub request_caps: Vec<(f64, u32)>,
    /// TLS of all hosts that are not hostile, if they have it.
    pub secure: Option<SecureShares>,
    /// How pages are packed.
    pub codings: CodingShares,
    /// Kinds of robots.txt.
    pub robots: RobotsShares,
    /// Share of pages that answer 301 to another page.
    pub redirects: f64,
    /// Share of links that lead to a 404.
    pub not_found: f64,
    /// Share of the hosts that are hostile: the last ones, never the first, and never those that
    /// lead to others. So the other hosts have the same pages with hostile ones and without.
    pub hostile: f64,
    /// The kinds of hostile hosts, each kind in turn.
    pub hostilities: Vec<Hostility>,
    /// Limits of the crawler. The truth counts with them where nothing else ends what a hostile
    /// host offers.
    pub crawl_limits: CrawlLimits,
    /// Pages have an ETag and a Last-Modified, and are not sent again to a client that has them.
    /// Where pages change, [`Change::validators`] says so instead.
    pub validators: bool,
    /// How pages change, if they do. The truth counts pages that come later or are away for a
    /// while like others.
    pub change: Option<Change>,
    /// Least time between two requests to a host that the report demands, in milliseconds; 0
    /// demands none.
    pub delay_expected_ms: u64,
    /// The Retry-After of a host that is busy, in seconds.
    pub retry_after_s: u64,
    /// How long the DNS server waits before it answers, in milliseconds.
    pub dns_latency_ms: u64,
    /// Further names the DNS server knows.
    pub extra_hosts: Vec<(String, IpAddr)>,
    /// TCP port of all hosts; 0 picks a free one.
    pub port: u16,
    /// The one address of all hosts, and of the DNS server, instead of loopback addresses: for
    /// crawlers that reach no other, such as those in a cluster. Then each host has a port of its
    /// own, one above that of the host before.
    pub address: Option<Ipv4Addr>,
    /// UDP port of the DNS server on 127.0.0.1; 0 picks a free one.
    pub dns_port: u16,
    /// TCP port of the control server on 127.0.0.1; 0 picks a free one.
    pub control_port: u16,
}

impl Profile {
    /// 50 hosts of exactly 200 pages, nothing in the crawler's way: for measuring speed.
    pub fn raw() -> Self {
        Self {
            seed: 1,
            hosts: 50,
            pages_per_host: PagesPerHost::Exactly(200),
            links_min: 20,
            links_max: 80,
            page_bytes_median: 12_000,
            page_bytes_sigma: 0.835,
            locality: 0.8,
            latency: Latency::None,
            request_caps: Vec::new(),
            secure: None,
            codings: CodingShares {
                gzip: 0.0,
                brotli: 0.0,
            },
            robots: RobotsShares {
                rules: 0.0,
                missing: 0.5,
                disallowed_pages: 0.0,
                crawl_delay: 0.0,
                crawl_delay_ms: 0,
            },
            redirects: 0.0,
            not_found: 0.0,
            hostile: 0.0,
            hostilities: Hostility::ALL.to_vec(),
            crawl_limits: CrawlLimits::default(),
            validators: false,
            change: None,
            delay_expected_ms: 0,
            retry_after_s: 1,
            dns_latency_ms: 0,
            extra_hosts: Vec::new(),
            port: 0,
            address: None,
            dns_port: 0,
            control_port: 0,
        }
    }

    /// What servers out there do: latencies, closed connections, robots rules, redirects, dead
    /// links.
    pub fn mixed() -> Self {
        Self {
            pages_per_host: PagesPerHost::HeavyTail { mean: 200 },
            latency: Latency::Lognormal {
                median_ms: 20.0,
                sigma: 0.8,
            },
            request_caps: vec![
                (0.24, 1),
                (0.66, 100),
                (0.025, 5),
                (0.025, 10),
                (0.025, 20),
                (0.025, 50),
            ],
            robots: RobotsShares {
                rules: 0.4,
                missing: 0.3,
                disallowed_pages: 0.15,
                crawl_delay: 0.25,
                crawl_delay_ms: 500,
            },
            redirects: 0.05,
            not_found: 0.03,
            ..Self::raw()
        }
    }

    /// 50 hosts of exactly 40 pages as most pages are sent today: large, packed, in TLS 1.3, half
    /// of them by HTTP/2, ten on a connection. The sizes are those of a crawl of a billion pages in
    /// 2025: a median of 140 kB, and a mean of 240.
    pub fn modern() -> Self {
        Self {
            pages_per_host: PagesPerHost::Exactly(40),
            links_min: 100,
            links_max: 200,
            page_bytes_median: 140_000,
            page_bytes_sigma: 1.04,
            request_caps: vec![(1.0, 10)],
            secure: Some(SecureShares {
                http2: 0.5,
                rsa: 0.3,
            }),
            codings: CodingShares {
                gzip: 0.5,
                brotli: 0.4,
            },
            ..Self::raw()
        }
    }

    /// The same, with one hostile host of each kind behind its hosts.
    #[must_use]
    pub fn with_all_hazards(mut self) -> Self {
        let kinds = Hostility::ALL.len() as u32;
        self.hosts += kinds;
        self.hostile = f64::from(kinds) / f64::from(self.hosts);
        self.hostilities = Hostility::ALL.to_vec();
        self
    }

    /// Number of hosts that are not hostile: the first ones.
    pub fn honest_hosts(&self) -> u32 {
        let hostile = (f64::from(self.hosts) * self.hostile).round() as u32;
        self.hosts.saturating_sub(hostile).max(1)
    }

    /// What a host does if it is hostile.
    pub fn hostility(&self, host: u32) -> Option<Hostility> {
        let number = host.checked_sub(self.honest_hosts())? as usize;
        Some(self.hostilities[number % self.hostilities.len()])
    }

    /// The shares among its numbers, by name.
    fn shares(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let secure = self.secure.unwrap_or(SecureShares {
            http2: 0.0,
            rsa: 0.0,
        });
        let shares = [
            ("secure.http2", secure.http2),
            ("secure.rsa", secure.rsa),
            ("codings.gzip", self.codings.gzip),
            ("codings.brotli", self.codings.brotli),
            (
                "codings.gzip + codings.brotli",
                self.codings.gzip + self.codings.brotli,
            ),
            ("locality", self.locality),
            ("redirects", self.redirects),
            ("not_found", self.not_found),
            ("hostile", self.hostile),
            ("robots.rules", self.robots.rules),
            ("robots.missing", self.robots.missing),
            (
                "robots.rules + robots.missing",
                self.robots.rules + self.robots.missing,
            ),
            ("robots.disallowed_pages", self.robots.disallowed_pages),
            ("robots.crawl_delay", self.robots.crawl_delay),
            (
                "sum of request_caps",
                self.request_caps.iter().map(|(share, _)| share).sum(),
            ),
        ];
        let of_change = self.change.as_ref().map(Change::shares);
        shares.into_iter().chain(of_change.into_iter().flatten())
    }

    /// Checks every number against its range.
    ///
    /// # Errors
    /// Names the first value that is out of range, and the range.
    pub fn validate(&self) -> Result<()> {
        ensure!(
            (1..=HOSTS_MAX).contains(&self.hosts),
            "hosts must be 1 to {HOSTS_MAX}, not {}",
            self.hosts
        );
        let (PagesPerHost::Exactly(pages) | PagesPerHost::HeavyTail { mean: pages }) =
            self.pages_per_host;
        ensure!(
            (1..=10_000_000).contains(&pages),
            "pages per host must be 1 to 10,000,000, not {pages}"
        );
        ensure!(
            self.links_min <= self.links_max && self.links_max <= 10_000,
            "links per page must be MIN to MAX of at most 10,000, not {} to {}",
            self.links_min,
            self.links_max
        );
        for (name, share) in self.shares() {
            ensure!(
                (-1e-9..=1.0 + 1e-9).contains(&share),
                "{name} must be 0 to 1, not {share}"
            );
        }
        if let Some(change) = &self.change {
            change.validate()?;
            ensure!(
                !self.validators,
                "where pages change, change.validators says which validators they have"
            );
        }
        let limits = &self.crawl_limits;
        ensure!(
            limits.segment_repeats > 0 && limits.query_parameters > 0,
            "a path must be allowed a segment and a query a parameter"
        );
        let has_calendar = self.hostile > 0.0 && self.hostilities.contains(&Hostility::Calendar);
        ensure!(
            !has_calendar || u64::from(limits.pages_per_host) > 2 * u64::from(pages),
            "a host that is a calendar needs crawl_limits.pages_per_host above twice its {pages} \
             pages"
        );
        ensure!(
            !self.hostilities.is_empty(),
            "hostile hosts need at least one kind of hostility"
        );
        for (share, cap) in &self.request_caps {
            ensure!(
                *share >= 0.0 && *cap > 0,
                "a request cap must be at least 1 with a share of at least 0"
            );
        }
        if let Latency::Lognormal { median_ms, sigma } = self.latency {
            ensure!(
                median_ms > 0.0 && sigma >= 0.0,
                "lognormal latency needs a median above 0 and a sigma of at least 0"
            );
        }
        ensure!(
            self.page_bytes_median > 0 && self.page_bytes_sigma >= 0.0,
            "page bytes must be above 0"
        );
        Ok(())
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::raw()
    }
}
