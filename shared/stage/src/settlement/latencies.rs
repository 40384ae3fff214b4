//! How long messages take: from the moment when their stream stored them until they are settled,
//! and the whole way so far.
//!
//! In: the stamps of each input, and the clock of the process. Out: two histograms for each edge.
//! While nobody has told what time it is, nothing is measured.
//!
//! The way begins when a page's last byte comes, or when a URL is injected. A message that was made
//! from several began with the first of them, and says so in a header: so a histogram never makes
//! the way shorter than it was.

use rhumb_telemetry::metrics::Histogram;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Edge;
use std::time::Duration;

/// The header that says when the way of a message began, in nanoseconds since 1970.
pub const BEGUN: &str = "Rhumb-Begun";

/// When a message was stored, and when its way began, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// When its stream stored it.
    pub stored: i64,
    /// When its way began.
    pub begun: i64,
}

impl From<i64> for Stamps {
    /// The way of a message that does not tell began when it was stored.
    fn from(stored: i64) -> Stamps {
        Stamps {
            stored,
            begun: stored,
        }
    }
}

/// How long messages of an edge took.
#[derive(Clone, Debug)]
pub struct Took {
    /// The edge.
    pub edge: Edge,
    /// From when they were stored until they were settled.
    pub here: Histogram,
    /// From when their way began.
    pub so_far: Histogram,
}

/// Histograms by edge.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    /// [`Timestamp::ZERO`], in nanoseconds since 1970.
    origin_ns: Option<i64>,
    /// A stage reads from three edges at most.
    edges: Vec<Took>,
}

impl Latencies {
    /// What time it is now, in nanoseconds since 1970.
    pub(super) fn is_now(&mut self, now: Timestamp, since_1970_ns: i64) {
        self.origin_ns = Some(since_1970_ns.saturating_sub(nanos(now)));
    }

    /// A time of this process, in nanoseconds since 1970.
    pub(super) fn since_1970_ns(&self, at: Timestamp) -> Option<i64> {
        Some(self.origin_ns?.saturating_add(nanos(at)))
    }

    /// A message of an edge is settled. A clock that is behind that of the broker makes it last no
    /// time.
    pub(super) fn settled(&mut self, now: Timestamp, edge: Edge, stamps: Stamps) {
        let Some(now_ns) = self.since_1970_ns(now) else {
            return;
        };
        let since = |then: i64| {
            Duration::from_nanos(u64::try_from(now_ns.saturating_sub(then)).unwrap_or(0))
        };
        let at = self
            .edges
            .iter()
            .position(|took| took.edge == edge)
            .unwrap_or_else(|| {
                self.edges.push(Took {
                    edge,
                    here: Histogram::default(),
                    so_far: Histogram::default(),
                });
                self.edges.len() - 1
            });
        self.edges[at].here.observe(since(stamps.stored));
        self.edges[at].so_far.observe(since(stamps.begun));
    }

    pub(super) fn by_edge(&self) -> &[Took] {
        &self.edges
    }
}

fn nanos(at: Timestamp) -> i64 {
    i64::try_from(at.as_micros())
        .unwrap_or(i64::MAX)
        .saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_from_its_time_stamp_until_it_is_settled() {
        let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
        let mut latencies = Latencies::default();
        latencies.settled(at(5), Edge::Pages, 0.into());
        assert!(
            latencies.by_edge().is_empty(),
            "nobody has told what time it is"
        );
        let second = 1_000_000_000;
        latencies.is_now(at(10), 1_000 * second);
        latencies.settled(
            at(12),
            Edge::Pages,
            Stamps {
                stored: 999 * second,
                begun: 992 * second,
            },
        );
        latencies.settled(at(12), Edge::Pages, (1_003 * second).into());
        latencies.settled(at(13), Edge::UrlsSplit, (1_003 * second).into());
        // The clock of the machine was set back by half a minute.
        latencies.is_now(at(20), 980 * second);
        latencies.settled(at(20), Edge::UrlsSplit, (979 * second).into());
        let seconds = |edge: usize| {
            let Took { edge, here, so_far } = &latencies.by_edge()[edge];
            assert_eq!(here.count(), so_far.count());
            (
                *edge,
                here.count(),
                here.sum().as_secs(),
                so_far.sum().as_secs(),
            )
        };
        assert_eq!(
            seconds(0),
            (Edge::Pages, 2, 3, 10),
            "one came from a broker whose clock is ahead"
        );
        assert_eq!(seconds(1), (Edge::UrlsSplit, 2, 1, 1));
    }
}
