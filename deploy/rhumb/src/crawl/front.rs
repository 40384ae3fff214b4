//! The front of the conductor: its health, and what an autoscaler asks, over HTTP.
//!
//! In: each snapshot of the crawl. Out: `/healthz`, `/readyz`, `/metrics`, and `/scale`: how many
//! connections and fetchers the schedulers could use, on `conductor.listen`.

use super::metrics::{CrawlMetrics, Picture, Unaccounted};
use crate::status::{Snapshot, Summary};
use rhumb_bus::Bus;
use rhumb_config::Pipeline;
use rhumb_node::health::{Health, NOT_CONNECTED, Pages, Readiness};
use rhumb_partition::Owners;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What is told of a crawl between two snapshots: what an autoscaler asks, and all of it for
/// metrics.
type Told = Arc<Mutex<Option<Scale>>>;
type Seen = Arc<Mutex<Option<Picture>>>;

/// The front.
pub(super) struct Front {
    pub(super) health: Health,
    told: Told,
    seen: Seen,
    unaccounted: Unaccounted,
    connections_each: u64,
}

impl Front {
    /// Begins to serve.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub(super) fn open(pipeline: &Pipeline) -> anyhow::Result<Self> {
        let listen = pipeline.conductor.listen;
        let connections_each = u64::from(pipeline.stages.fetcher.connections);
        let told = Told::default();
        let shown = told.clone();
        let scale = move || {
            // Nothing is known before the first snapshot: an autoscaler keeps what there is when a
            // number is missing.
            let scale = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            scale.map_or_else(
                || "{}".to_owned(),
                |scale| serde_json::to_string(&scale).unwrap_or_default(),
            )
        };
        let seen = Seen::default();
        let pages = |readiness: Readiness| {
            let metrics = CrawlMetrics {
                seen: seen.clone(),
                is_ready: move || readiness.now().is_ok(),
            };
            Pages::default().json("/scale", scale).metrics(metrics)
        };
        let health = Health::begin(listen, pages).map_err(|error| {
            anyhow::anyhow!("cannot listen on conductor.listen = {listen}: {error}")
        })?;
        health.waits(NOT_CONNECTED);
        Ok(Front {
            health,
            told,
            seen,
            unaccounted: Unaccounted::default(),
            connections_each,
        })
    }

    /// Where it is served.
    pub(super) fn listen(&self) -> SocketAddr {
        self.health.listen()
    }

    /// There is a connection to the broker.
    pub(super) fn connected(&self, bus: &Bus) {
        let bus = bus.clone();
        self.health.connected(move || bus.is_connected());
    }

    /// Tells what was seen of the crawl.
    ///
    /// `expected`: processes that there should be; `missing`: instances with partitions that do not
    /// run.
    pub(super) fn learn(
        &mut self,
        snapshot: &Snapshot,
        summary: Summary,
        owners: &BTreeMap<String, Owners>,
        expected: usize,
        missing: usize,
    ) {
        let scale = Scale::of(snapshot, self.connections_each);
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(scale);
        let picture = Picture {
            violations: self
                .unaccounted
                .look(Instant::now(), snapshot.violations().len()),
            moving: owners
                .iter()
                .map(|(stage, owners)| (stage.clone(), owners.moving() as u64))
                .collect(),
            expected: expected as u64,
            missing: missing as u64,
            snapshot: snapshot.clone(),
            summary,
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(picture);
    }
}

/// What an autoscaler asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Scale {
    fetchers: Fetchers,
}

/// How many fetchers could be of use. A server has one connection (P1): those that are connected,
/// and those that could be contacted now if there were a connection for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Fetchers {
    /// Connections that the schedulers have given out or could give out.
    connections_wanted: u64,
    /// Connections of a fetcher.
    connections_each: u64,
    /// Fetchers that have so many connections together; at least one.
    instances_wanted: u64,
    /// Fetchers that there are.
    instances: u64,
}

impl Scale {
    fn of(snapshot: &Snapshot, connections_each: u64) -> Scale {
        let of_schedulers = |count| snapshot.total("scheduler", count);
        let connections_wanted =
            of_schedulers("connections_in_use") + of_schedulers("servers_ready");
        let instances = snapshot
            .processes
            .iter()
            .filter(|process| process.stage == "fetcher")
            .count() as u64;
        let instances_wanted = connections_wanted.div_ceil(connections_each.max(1)).max(1);
        Scale {
            fetchers: Fetchers {
                connections_wanted,
                connections_each,
                instances_wanted,
                instances,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_stage::ProcessStatus;

    fn process(stage: &str, instance: u16, counts: &[(&str, u64)]) -> ProcessStatus {
        let counts: serde_json::Map<String, serde_json::Value> = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), (*count).into()))
            .collect();
        let json = serde_json::json!({
            "stage": stage, "instance": instance, "pid": 1, "life": 1, "listen": "", "cpu_s": 0.0, "peak_rss_bytes": 0,
            "ready": true, "idle": true, "counts": counts,
        });
        serde_json::from_value(json).expect("a status")
    }

    #[test]
    fn fetchers_are_wanted_for_all_servers_that_have_a_connection_or_could_use_one() {
        let scheduler = |n| {
            process(
                "scheduler",
                n,
                &[("servers_ready", 100), ("connections_in_use", 28)],
            )
        };
        let processes = vec![
            process("fetcher", 0, &[]),
            process("fetcher", 1, &[]),
            scheduler(0),
            scheduler(1),
        ];
        let scale = Scale::of(
            &Snapshot {
                processes,
                ..Snapshot::default()
            },
            64,
        );
        let fetchers = Fetchers {
            connections_wanted: 256,
            connections_each: 64,
            instances_wanted: 4,
            instances: 2,
        };
        assert_eq!(scale, Scale { fetchers });
        assert_eq!(
            Scale::of(&Snapshot::default(), 64)
                .fetchers
                .instances_wanted,
            1
        );
        assert!(
            serde_json::to_string(&scale)
                .unwrap()
                .starts_with(r#"{"fetchers":{"connections_wanted":256,"#)
        );
    }
}
