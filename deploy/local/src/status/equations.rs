//! What must add up when no URL is lost (P3), at each process and between the URL-seen test and the schedulers.
//!
//! Invariant: the numbers of a process are those of one commit, so its own equation holds in every snapshot.

use super::snapshot::{Snapshot, outcome_count};
use shared::config::Pipeline;
use shared::message::Outcome;
use shared::stage::ProcessStatus;

impl Snapshot {
    /// Says why the equations cannot be checked; nothing when they can.
    pub(crate) fn unknown(&self, pipeline: &Pipeline) -> Option<String> {
        (!self.covers_partitions(pipeline)).then(|| {
            "not every dedup and scheduler answers: what they hold is not known (try again in a moment)".to_owned()
        })
    }

    /// Tells in words which equations do not hold.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut violations: Vec<String> = self.processes.iter().filter_map(violation).collect();
        let (accepted, received) = (self.total("dedup", "new_total"), self.total("scheduler", "new_total"));
        if received > accepted {
            violations
                .push(format!("the schedulers took {received} new URLs, the URL-seen test passed only {accepted}"));
        }
        let between = ["urls.new", "urls.ready"];
        let parked = self.parked.iter().filter(|parked| between.contains(&parked.edge.as_str()));
        let under_way = between.iter().filter_map(|edge| self.backlog.get(*edge)).sum::<u64>()
            + parked.map(|parked| parked.messages).sum::<u64>();
        if received < accepted && under_way == 0 && self.processes.iter().all(|p| p.idle) {
            violations.push(format!(
                "the URL-seen test passed {accepted} new URLs, the schedulers took {received}, and none is under way"
            ));
        }
        violations
    }
}

/// Tells in words that the equation of a process does not hold.
fn violation(process: &ProcessStatus) -> Option<String> {
    let count = |name: &str| process.counts.get(name).copied().unwrap_or(0);
    let name = format!("{}.{}", process.stage, process.instance);
    match process.stage.as_str() {
        "dedup" => {
            let found = count("found_total");
            let parts = count("filtered_total") + count("repeated_total") + count("new_total");
            (found != parts).then(|| format!("{name}: found {found} is not filtered + repeated + new = {parts}"))
        }
        "scheduler" => {
            let outcomes: u64 = Outcome::ALL.iter().map(|outcome| count(&outcome_count(*outcome))).sum();
            let (new, parts) = (count("new_total"), outcomes + count("waiting") + count("in_flight"));
            (new != parts).then(|| format!("{name}: new {new} is not outcomes + waiting + in flight = {parts}"))
        }
        _ => None,
    }
}
