//! Order: how soon does a crawl through all processes come to the pages that matter?
//!
//! In: policies of the scheduler, each with a quality and further keys, and a web. Out: for each
//! the area under PageRank by pages, in the order in which the web saw them requested; where it
//! lies on the laboratory's scale of the same web ([`laboratory::order::Scale`]); pages a second
//! and CPU time.
//!
//! Invariants: no two crawls run at a time; every second round goes backwards; a crawl that was not
//! whole is an error.

use super::median;
use super::turns::{ROUND_AT_MOST, cpu_of_ended_processes};
use crate::harness::World;
use anyhow::{Context as _, ensure};
use laboratory::order::Scale;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use synthetic_web::{Graph, Profile};

/// A policy, perhaps with a quality and with further keys:
/// `capacity:flow,stages.fetcher.connections=8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    name: String,
    set: Vec<String>,
}

impl FromStr for Policy {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Policy> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (policy, quality) = first
            .split_once(':')
            .map_or((first, None), |(policy, of)| (policy, Some(of)));
        let keys: Vec<&str> = parts.collect();
        let are_named = !policy.is_empty() && quality.is_none_or(|quality| !quality.is_empty());
        ensure!(
            are_named && keys.iter().all(|key| key.contains('=')),
            "expected POLICY[:QUALITY][,KEY.PATH=VALUE]..."
        );
        let quality = quality.map(|quality| format!("stages.scheduler.quality={quality}"));
        let set = std::iter::once(format!("stages.scheduler.policy={policy}")).chain(quality);
        Ok(Policy {
            name: text.to_owned(),
            set: set.chain(keys.into_iter().map(str::to_owned)).collect(),
        })
    }
}

impl Policy {
    /// What it sets in the configuration.
    pub(super) fn set(&self) -> &[String] {
        &self.set
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What came of a policy: medians of its rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Its name.
    pub policy: String,
    /// The area under the share of PageRank by the share of pages.
    pub area: f64,
    /// Where that is, from the laboratory's order of discovery (0) to its best order (1).
    pub way: f64,
    /// From the first request that the web saw to the last.
    pub pages_per_s: f64,
    /// Of all processes.
    pub cpu_ms_per_page: f64,
}

/// The laboratory's scale of the web, and what came of each policy.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The area in order of discovery, each host a page a round.
    pub discovery: f64,
    /// The area in the best order that there is then.
    pub best: f64,
    /// By policy.
    pub measured: Vec<Measured>,
}

/// Crawls webs of a profile with each policy in turn. Tells on standard error how far it is.
///
/// # Errors
/// When a crawl fails or was not whole.
pub fn measure(
    policies: &[Policy],
    profile: &Profile,
    set: &[String],
    rounds: usize,
) -> anyhow::Result<Compared> {
    let graph = Graph::new(profile.clone())?;
    let scale = Scale::new(&graph, &[0]);
    let mut taken = vec![Vec::with_capacity(rounds); policies.len()];
    for round in 0..rounds {
        for turn in 0..policies.len() {
            let who = if round % 2 == 0 {
                turn
            } else {
                policies.len() - 1 - turn
            };
            let policy = &policies[who];
            let done = crawl(policy, profile, set, &scale).with_context(|| policy.name.clone())?;
            eprintln!(
                "round {} of {rounds}: {policy}: area {:.4}",
                round + 1,
                done.area
            );
            taken[who].push(done);
        }
    }
    let measured = policies.iter().zip(&taken).map(|(policy, rounds)| {
        let of = |number: fn(&Measured) -> f64| median(rounds.iter().map(number).collect());
        Measured {
            policy: policy.name.clone(),
            area: of(|round| round.area),
            way: of(|round| round.way),
            pages_per_s: of(|round| round.pages_per_s),
            cpu_ms_per_page: of(|round| round.cpu_ms_per_page),
        }
    });
    Ok(Compared {
        discovery: scale.discovery,
        best: scale.best,
        measured: measured.collect(),
    })
}

/// Crawls a web of its own from its first page.
fn crawl(
    policy: &Policy,
    profile: &Profile,
    set: &[String],
    scale: &Scale,
) -> anyhow::Result<Measured> {
    let world = World::alone(profile.clone());
    let cpu_before = cpu_of_ended_processes()?;
    let crawl = set
        .iter()
        .chain(&policy.set)
        .fold(world.crawl(), |crawl, assignment| crawl.set(assignment));
    let finished = crawl.run(ROUND_AT_MOST);
    let cpu_s = cpu_of_ended_processes()? - cpu_before;
    let report = world.web.report();
    ensure!(
        report.ok && finished.summary.complete,
        "the crawl was not perfect: {}",
        serde_json::to_string(&report)?
    );
    let pages = world.web.pages_in_order();
    let area = scale.area(&pages);
    Ok(Measured {
        policy: policy.name.clone(),
        area,
        way: scale.way(area),
        pages_per_s: pages.len() as f64 / report.elapsed_s,
        cpu_ms_per_page: cpu_s * 1e3 / pages.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_name_a_quality_and_keys() {
        let set = |text: &str| text.parse::<Policy>().map(|policy| policy.set).ok();
        let keys = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect());
        assert_eq!(
            set("breadth-first"),
            keys(&["stages.scheduler.policy=breadth-first"])
        );
        assert_eq!(
            set("capacity:flow,stages.fetcher.connections=8,partitions=2"),
            keys(&[
                "stages.scheduler.policy=capacity",
                "stages.scheduler.quality=flow",
                "stages.fetcher.connections=8",
                "partitions=2"
            ])
        );
        for wrong in ["", ":flow", "capacity:", "capacity,partitions", ",a=b"] {
            assert_eq!(set(wrong), None, "{wrong}");
        }
    }
}
