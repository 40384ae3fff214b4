//! How long messages take from the moment when their stream stored them until they are settled.
//!
//! In: the broker's time stamp of each input, and the clock of the process. Out: a histogram for each edge. While nobody has
//! told what time it is, nothing is measured.

use crate::message::Edge;
use crate::metrics::Histogram;
use crate::time::Timestamp;
use std::time::Duration;

/// Histograms by edge.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    /// [`Timestamp::ZERO`], in nanoseconds since 1970.
    origin_ns: Option<i64>,
    /// A stage reads from three edges at most.
    edges: Vec<(Edge, Histogram)>,
}

impl Latencies {
    /// What time it is now, in nanoseconds since 1970.
    pub(super) fn is_now(&mut self, now: Timestamp, since_1970_ns: i64) {
        self.origin_ns = Some(since_1970_ns.saturating_sub(nanos(now)));
    }

    /// A message of an edge that was stored at `stamp`, in nanoseconds since 1970, is settled. A clock that is behind that of
    /// the broker makes it last no time.
    pub(super) fn settled(&mut self, now: Timestamp, edge: Edge, stamp: i64) {
        let Some(origin_ns) = self.origin_ns else { return };
        let took = origin_ns.saturating_add(nanos(now)).saturating_sub(stamp);
        let took = Duration::from_nanos(u64::try_from(took).unwrap_or(0));
        match self.edges.iter_mut().find(|(of, _)| *of == edge) {
            Some((_, histogram)) => histogram.observe(took),
            None => {
                let mut histogram = Histogram::default();
                histogram.observe(took);
                self.edges.push((edge, histogram));
            }
        }
    }

    pub(super) fn by_edge(&self) -> &[(Edge, Histogram)] {
        &self.edges
    }
}

fn nanos(at: Timestamp) -> i64 {
    i64::try_from(at.as_micros()).unwrap_or(i64::MAX).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_from_its_time_stamp_until_it_is_settled() {
        let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
        let mut latencies = Latencies::default();
        latencies.settled(at(5), Edge::Pages, 0);
        assert!(latencies.by_edge().is_empty(), "nobody has told what time it is");
        let second = 1_000_000_000;
        latencies.is_now(at(10), 1_000 * second);
        latencies.settled(at(12), Edge::Pages, 999 * second);
        latencies.settled(at(12), Edge::Pages, 1_003 * second);
        latencies.settled(at(13), Edge::UrlsSplit, 1_003 * second);
        // The clock of the machine was set back by half a minute.
        latencies.is_now(at(20), 980 * second);
        latencies.settled(at(20), Edge::UrlsSplit, 979 * second);
        let seconds = |edge: usize| {
            let (edge, histogram) = &latencies.by_edge()[edge];
            (*edge, histogram.count(), histogram.sum().as_secs())
        };
        assert_eq!(seconds(0), (Edge::Pages, 2, 3), "one came from a broker whose clock is ahead");
        assert_eq!(seconds(1), (Edge::UrlsSplit, 2, 1));
    }
}
