//! What must add up when no URL is lost (P3): at each process, between the URL-seen test and the
//! schedulers, and between each stream and the stage with state that reads it.
//!
//! Invariants: the numbers of a process are those of one commit, so its own equation holds in every
//! snapshot. The streams of a snapshot were looked at before the processes were asked: what had
//! been taken from a stream then, they know of.

use super::snapshot::{Snapshot, outcome_count};
use rhumb_config::Pipeline;
use rhumb_stage::{ProcessStatus, settled_count};
use rhumb_wire::message::Outcome;
use rhumb_wire::topology::{self, Edge, STAGES};

/// What stages count of new URLs that they had to drop, and why.
const DROPPED: [(&str, &str); 3] = [
    (
        "misrouted_total",
        "URLs were misrouted: another instance owns their partition",
    ),
    (
        "foreign_urls_total",
        "new URLs were foreign: another instance owns their partition",
    ),
    ("malformed_urls_total", "new URLs were malformed"),
];

impl Snapshot {
    /// Says why the equations cannot be checked; nothing when they can.
    pub(crate) fn unknown(&self, pipeline: &Pipeline) -> Option<String> {
        let is_told =
            self.silent.is_empty() && !self.are_moving && self.covers_partitions(pipeline);
        (!is_told).then(|| {
            "not every dedup and scheduler answers: what they hold is not known (try again in a \
             moment)"
                .to_owned()
        })
    }

    /// Tells in words which equations do not hold.
    pub(crate) fn violations(&self) -> Vec<String> {
        let of_processes = self
            .processes
            .iter()
            .flat_map(|process| violation(process).into_iter().chain(drops(process)));
        let of_streams = settled().filter_map(|(edge, stage)| self.lost_on(edge, stage));
        of_processes
            .chain(self.strangers())
            .chain(of_streams)
            .chain(self.lost_before_schedulers())
            .collect()
    }

    /// What was taken from the stream of an edge and settled by none of the stage's instances.
    fn lost_on(&self, edge: Edge, stage: &str) -> Option<String> {
        let taken = *self.taken.get(edge.name())?;
        let instances = self
            .processes
            .iter()
            .filter(|process| process.stage == stage);
        let counts = instances.map(|process| process.counts.get(settled_count(edge)?).copied());
        // Unknown where a state began before this was counted, and since a loss was accepted.
        let settled: u64 = counts.collect::<Option<Vec<u64>>>()?.into_iter().sum();
        (settled < taken).then(|| {
            let lost = taken - settled;
            let edge = edge.name();
            format!(
                "{taken} messages have left the stream of {edge}, {stage} settled {settled}: \
                 {lost} are lost"
            )
        })
    }

    /// New URLs that the schedulers never took on, although none is under way, or that nobody
    /// passed to them. What lies in the dead letters is not known in URLs: it may be what is
    /// missing. Since a loss was accepted last: what was given before it and did not come is
    /// counted as lost.
    fn lost_before_schedulers(&self) -> Option<String> {
        let accepted = self.total("dedup", "new_in_generation");
        let dropped = self.total("scheduler", "foreign_urls_total")
            + self.total("scheduler", "malformed_urls_total");
        let received = self.total("scheduler", "new_in_generation") + dropped;
        if received > accepted {
            return Some(format!(
                "the schedulers took {received} new URLs, the URL-seen test passed only {accepted}"
            ));
        }
        let between = [Edge::UrlsNew, Edge::UrlsReady].map(Edge::name);
        let parked = self
            .parked
            .iter()
            .filter(|parked| between.contains(&parked.edge.as_str()));
        let under_way = between
            .iter()
            .filter_map(|edge| self.backlog.get(*edge))
            .sum::<u64>()
            + parked.map(|parked| parked.messages).sum::<u64>();
        let is_settled = under_way == 0 && self.processes.iter().all(|process| process.idle);
        (received < accepted && is_settled && self.dead_with_new == 0).then(|| {
            let lost = accepted - received;
            format!(
                "the URL-seen test passed {accepted} new URLs, the schedulers took {received}, and \
                 none is under way: {lost} are lost"
            )
        })
    }

    /// Returns whether a loss was accepted in this crawl.
    pub(super) fn has_lost(&self) -> bool {
        self.processes
            .iter()
            .filter_map(|process| process.crawl.as_ref())
            .any(|crawl| crawl.generation > 1)
    }

    /// New URLs of earlier generations that no scheduler took on. Some may still be under way.
    pub(super) fn lost(&self) -> u64 {
        let earlier = |stage| {
            self.total(stage, "new_total")
                .saturating_sub(self.total(stage, "new_in_generation"))
        };
        if self.has_lost() {
            earlier("dedup").saturating_sub(earlier("scheduler"))
        } else {
            0
        }
    }

    /// Processes that take part in another crawl or generation than the rest.
    fn strangers(&self) -> Option<String> {
        let mut crawls = self
            .processes
            .iter()
            .filter_map(|process| Some((process, process.crawl.as_ref()?)));
        let (_, crawl) = crawls.next()?;
        let (stranger, other) = crawls.find(|(_, other)| *other != crawl)?;
        Some(format!(
            "{}.{} takes part in {other}, others in {crawl}",
            stranger.stage, stranger.instance
        ))
    }
}

/// The edges whose messages stages with state count, with the stage.
fn settled() -> impl Iterator<Item = (Edge, &'static str)> {
    let edges = STAGES.iter().filter(|row| row.has_state).flat_map(|row| {
        topology::sources(row.stage)
            .iter()
            .map(|source| (source.edge(), row.name))
    });
    edges.filter(|(edge, _)| settled_count(*edge).is_some())
}

/// Tells in words that the equation of a process does not hold.
fn violation(process: &ProcessStatus) -> Option<String> {
    let count = |name: &str| process.counts.get(name).copied().unwrap_or(0);
    let name = format!("{}.{}", process.stage, process.instance);
    match process.stage.as_str() {
        "dedup" => {
            let found = count("found_total");
            let parts = count("filtered_total")
                + count("repeated_total")
                + count("new_total")
                + count("misrouted_total");
            (found != parts).then(|| {
                format!(
                    "{name}: found {found} is not filtered + repeated + new + misrouted = {parts}"
                )
            })
        }
        "scheduler" => {
            let outcomes: u64 = Outcome::ALL
                .iter()
                .map(|outcome| count(&outcome_count(*outcome)))
                .sum();
            let new = count("new_total");
            let visits = count("visits_out");
            let given = count("pages_given_total");
            let parts = outcomes + given + count("waiting") + count("in_flight");
            (new + visits != parts).then(|| {
                format!(
                    "{name}: new {new} + planned visits {visits} is not outcomes + given + waiting \
                     + in flight = {parts}"
                )
            })
        }
        _ => None,
    }
}

/// Tells in words what a process dropped.
fn drops(process: &ProcessStatus) -> Vec<String> {
    let of = |(count, what): &(&str, &str)| {
        let dropped = process
            .counts
            .get(*count)
            .copied()
            .filter(|dropped| *dropped > 0)?;
        Some(format!(
            "{}.{}: {dropped} {what}, and are lost",
            process.stage, process.instance
        ))
    };
    DROPPED.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn process(stage: &str, instance: u16, counts: &[(&str, u64)]) -> ProcessStatus {
        let counts: BTreeMap<String, u64> = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        let json = serde_json::json!({
            "stage": stage, "instance": instance, "pid": 1, "life": 1, "listen": "", "cpu_s": 0.0, "peak_rss_bytes": 0,
            "ready": true, "reason": "", "idle": true, "counts": counts,
        });
        serde_json::from_value(json).expect("a status")
    }

    fn snapshot(processes: Vec<ProcessStatus>, taken: u64) -> Snapshot {
        let taken = BTreeMap::from([("urls.split".to_owned(), taken)]);
        Snapshot {
            processes,
            taken,
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_message_that_left_its_stream_and_was_settled_by_nobody_is_lost() {
        let settled = |n| [("loop_settled_urls_split_total", n)];
        let two = |a, b| {
            vec![
                process("dedup", 0, &settled(a)),
                process("dedup", 1, &settled(b)),
            ]
        };
        for (settled, taken, holds) in [
            ((3, 4), 7, true),
            ((3, 4), 5, true),
            ((3, 4), 8, false),
            ((0, 0), 1, false),
        ] {
            let violations = snapshot(two(settled.0, settled.1), taken).violations();
            assert_eq!(violations.is_empty(), holds, "{violations:?}");
        }
        let said = snapshot(two(3, 4), 9).violations();
        assert_eq!(
            said,
            ["9 messages have left the stream of urls.split, dedup settled 7: 2 are lost"]
        );
        let unknown = vec![process("dedup", 0, &settled(3)), process("dedup", 1, &[])];
        assert_eq!(snapshot(unknown, 9).violations(), [""; 0]);
    }

    #[test]
    fn what_a_stage_had_to_drop_is_named() {
        let new = [("new_total", 3), ("new_in_generation", 3)];
        let dedup = process(
            "dedup",
            1,
            &[("found_total", 5), ("misrouted_total", 2), new[0], new[1]],
        );
        let scheduler = process(
            "scheduler",
            0,
            &[("foreign_urls_total", 1), ("malformed_urls_total", 2)],
        );
        let said = snapshot(vec![dedup, scheduler], 0).violations();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(
            said[0].starts_with("dedup.1: 2 URLs were misrouted")
                && said[2].starts_with("scheduler.0: 2 new")
        );
    }
}
