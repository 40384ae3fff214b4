//! Themes: what the topics of a node are about, and so how many servers they have, how dense their
//! links are and how slow their servers.

use std::fmt;

/// Topics of a node.
pub(super) const TOPICS: usize = 3;

/// The web of a topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) name: &'static str,
    pub(super) servers: u64,
    /// New pages that a page leads to.
    pub(super) links: u64,
    /// Mean time to connect and to answer, in milliseconds: each server has its own.
    pub(super) connect_ms: f64,
    pub(super) response_ms: f64,
}

/// Three themes that share a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Themes {
    pub(super) name: &'static str,
    pub(super) topics: [Theme; TOPICS],
}

const fn theme(
    name: &'static str,
    servers: u64,
    links: u64,
    connect_ms: f64,
    response_ms: f64,
) -> Theme {
    Theme {
        name,
        servers,
        links,
        connect_ms,
        response_ms,
    }
}

impl Theme {
    /// The webs: that of the claims, and the same with the latencies the other way round, and with
    /// equal ones.
    pub(super) const KINDS: [Themes; 3] = [
        Themes {
            name: "dense is slow",
            topics: [
                theme("sources", 40, 2, 30.0, 100.0),
                theme("experience", 120, 4, 60.0, 300.0),
                theme("news", 400, 10, 120.0, 900.0),
            ],
        },
        Themes {
            name: "dense is fast",
            topics: [
                theme("sources", 40, 2, 120.0, 900.0),
                theme("experience", 120, 4, 60.0, 300.0),
                theme("news", 400, 10, 30.0, 100.0),
            ],
        },
        Themes {
            name: "alike",
            topics: [
                theme("sources", 40, 2, 60.0, 300.0),
                theme("experience", 120, 4, 60.0, 300.0),
                theme("news", 400, 10, 60.0, 300.0),
            ],
        },
    ];
}

/// How topics share the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Not at all: servers are connected to in the order in which they became ready.
    Fifo,
    /// In turns of equal slices.
    Turns,
}

impl Way {
    pub(super) const ALL: [Way; 2] = [Way::Fifo, Way::Turns];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Fifo => "FIFO",
            Way::Turns => "turns",
        })
    }
}
