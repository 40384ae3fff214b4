//! Webs on which contenders take turns.

use clap::ValueEnum;
use synthetic_web::{Latency, PagesPerHost, Profile};

/// A web.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Web {
    /// 50 hosts of 200 pages that answer at once: all is CPU time
    Raw,
    /// 500 hosts of 60 pages that answer after 5 or 50 ms, and close the connection after one
    /// request or after a hundred
    Wide,
    /// 50 hosts of 40 pages as most are sent today: 240 kB, packed, in TLS 1.3, half of them by
    /// HTTP/2, ten on a connection
    Modern,
}

impl Web {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Web::Raw => "raw",
            Web::Wide => "wide",
            Web::Modern => "modern",
        }
    }

    /// With as many threads wget2 does best: with more it takes more CPU time, and is no faster.
    pub(super) fn wget2_threads(self) -> u32 {
        match self {
            Web::Raw | Web::Modern => 8,
            Web::Wide => 128,
        }
    }

    /// What it is, with another number of hosts, of pages, and of requests that a connection serves
    /// where these are given.
    pub fn profile(
        self,
        hosts: Option<u32>,
        pages: Option<u32>,
        request_cap: Option<u32>,
    ) -> Profile {
        let (mut profile, pages_of_it) = match self {
            Web::Raw => (Profile::raw(), 200),
            Web::Wide => {
                let latency = Latency::FastAndSlow {
                    fast_ms: 5,
                    slow_ms: 50,
                };
                let request_caps = vec![(0.25, 1), (0.75, 100)];
                (
                    Profile {
                        hosts: 500,
                        latency,
                        request_caps,
                        ..Profile::raw()
                    },
                    60,
                )
            }
            Web::Modern => (Profile::modern(), 40),
        };
        if let Some(cap) = request_cap {
            profile.request_caps = vec![(1.0, cap)];
        }
        let pages_per_host = PagesPerHost::Exactly(pages.unwrap_or(pages_of_it));
        Profile {
            hosts: hosts.unwrap_or(profile.hosts),
            pages_per_host,
            ..profile
        }
    }
}
