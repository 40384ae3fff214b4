//! Optional consumers, as the supervisor sees them: one that holds the crawl back is removed (P8).
//!
//! In: who reads the streams that are kept by interest, and how far behind each is. Out: who is to
//! go, and why.
//!
//! Invariant: a required consumer is never named.

use rhumb_bus::Interested;
use rhumb_config::Pipeline;
use rhumb_wire::topology::Edge;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The optional consumers of a crawl.
#[derive(Debug, Default)]
pub(super) struct Bystanders {
    /// When each acked last, by the broker's clock, and since when that is known here.
    acked: HashMap<(Edge, String), (Option<i128>, Instant)>,
    /// Those that were removed, each with the reason.
    removed: Vec<String>,
}

/// A consumer that is to go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) edge: Edge,
    pub(super) name: String,
    pub(super) reason: String,
}

impl Bystanders {
    /// Says which of the consumers hold the crawl back.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        consumers: &[Interested],
        pipeline: &Pipeline,
    ) -> Vec<Leaving> {
        let optional: Vec<&Interested> = consumers
            .iter()
            .filter(|consumer| !consumer.is_required)
            .collect();
        let is_there = |(edge, name): &(Edge, String)| {
            optional
                .iter()
                .any(|one| one.edge == *edge && one.name == *name)
        };
        self.acked.retain(|key, _| is_there(key));
        let expiry = pipeline.broker.consumer_expiry;
        let leaving = optional.into_iter().filter_map(|consumer| {
            let edge = consumer.edge;
            let name = consumer.name.clone();
            let idle = self.idle(now, consumer);
            let lag_max = pipeline
                .edges
                .stream(edge)
                .map_or(0, |stream| stream.bytes_max.0 / 2);
            let reason = if lag_max > 0 && consumer.bytes > lag_max {
                format!(
                    "it is about {} bytes behind, more than half of edges.{}.bytes_max",
                    consumer.bytes,
                    edge.name()
                )
            } else if idle >= expiry {
                let messages = consumer.messages();
                format!(
                    "{messages} messages wait for it, and it acked none for {expiry:?} \
                     (broker.consumer_expiry)"
                )
            } else {
                return None;
            };
            Some(Leaving { edge, name, reason })
        });
        leaving.collect()
    }

    /// How long a consumer has acked nothing although something waits for it.
    fn idle(&mut self, now: Instant, consumer: &Interested) -> Duration {
        let key = (consumer.edge, consumer.name.clone());
        let known = self.acked.entry(key).or_insert((consumer.acked_at, now));
        if known.0 != consumer.acked_at || consumer.messages() == 0 {
            *known = (consumer.acked_at, now);
        }
        now.saturating_duration_since(known.1)
    }

    /// A consumer was removed.
    pub(super) fn left(&mut self, Leaving { edge, name, reason }: &Leaving) {
        self.removed
            .push(format!("{name} from {}: {reason}", edge.name()));
    }

    /// Those that were removed, each with the reason.
    pub(super) fn removed(&self) -> &[String] {
        &self.removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline() -> Pipeline {
        let set = [
            "broker.consumer_expiry=10s",
            "edges.pages.bytes_max=16MiB",
            "network.allow_private_addresses=true",
        ];
        let layers = rhumb_config::Layers {
            file: None,
            set: set.map(str::to_owned).to_vec(),
        };
        layers
            .load_with(std::iter::empty())
            .expect("a configuration")
    }

    fn consumer(waiting: u64, bytes: u64, acked_at: i128) -> Interested {
        let name = "guest".to_owned();
        let acked_at = Some(acked_at);
        Interested {
            edge: Edge::Pages,
            name,
            is_required: false,
            waiting,
            unacked: 0,
            redelivered: 0,
            bytes,
            acked_at,
        }
    }

    #[test]
    fn who_lags_by_more_than_half_of_the_stream_goes_at_once() {
        let mut bystanders = Bystanders::default();
        let now = Instant::now();
        let pipeline = pipeline();
        assert_eq!(
            bystanders.judge(now, &[consumer(9, 8 << 20, 1)], &pipeline),
            []
        );
        let leaving = bystanders.judge(now, &[consumer(9, (8 << 20) + 1, 1)], &pipeline);
        assert_eq!(leaving.len(), 1);
        assert!(
            leaving[0].reason.contains("8388609 bytes behind"),
            "{leaving:?}"
        );
        bystanders.left(&leaving[0]);
        assert!(
            bystanders.removed()[0].starts_with("guest from pages: it is"),
            "{:?}",
            bystanders.removed()
        );
        let required = Interested {
            is_required: true,
            ..consumer(9, 16 << 20, 1)
        };
        assert_eq!(
            bystanders.judge(now + 99 * Duration::from_secs(1), &[required], &pipeline),
            []
        );
    }

    #[test]
    fn who_acks_nothing_of_what_waits_goes_after_a_while() {
        let mut bystanders = Bystanders::default();
        let start = Instant::now();
        let pipeline = pipeline();
        let mut goes = |after_s, consumer| {
            !bystanders
                .judge(start + Duration::from_secs(after_s), &[consumer], &pipeline)
                .is_empty()
        };
        assert!(!goes(0, consumer(1, 1, 1)) && !goes(9, consumer(5, 5, 1)));
        assert!(!goes(10, consumer(5, 5, 2)), "it acked");
        assert!(!goes(19, consumer(0, 0, 2)), "nothing waits");
        assert!(!goes(28, consumer(1, 1, 2)));
        assert!(goes(29, consumer(1, 1, 2)));
    }
}
