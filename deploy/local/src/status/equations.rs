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
        violations.extend(self.strangers());
        // Since a loss was accepted last: what was given before it and did not come is counted as lost.
        let (accepted, received) =
            (self.total("dedup", "new_in_generation"), self.total("scheduler", "new_in_generation"));
        if received > accepted {
            violations
                .push(format!("the schedulers took {received} new URLs, the URL-seen test passed only {accepted}"));
        }
        let under_way: u64 = ["urls.new", "urls.ready"].iter().filter_map(|edge| self.backlog.get(*edge)).sum();
        if received < accepted && under_way == 0 && self.processes.iter().all(|p| p.idle) {
            violations.push(format!(
                "the URL-seen test passed {accepted} new URLs, the schedulers took {received}, and none is under way"
            ));
        }
        violations
    }

    /// Says whether a loss was accepted in this crawl.
    pub(super) fn has_lost(&self) -> bool {
        self.processes.iter().filter_map(|process| process.crawl.as_ref()).any(|crawl| crawl.generation > 1)
    }

    /// New URLs of earlier generations that no scheduler took on. Some may still be under way.
    pub(super) fn lost(&self) -> u64 {
        let earlier = |stage| self.total(stage, "new_total").saturating_sub(self.total(stage, "new_in_generation"));
        if self.has_lost() { earlier("dedup").saturating_sub(earlier("scheduler")) } else { 0 }
    }

    /// Processes that take part in another crawl or generation than the rest.
    fn strangers(&self) -> Option<String> {
        let mut crawls = self.processes.iter().filter_map(|process| Some((process, process.crawl.as_ref()?)));
        let (_, crawl) = crawls.next()?;
        let (stranger, other) = crawls.find(|(_, other)| *other != crawl)?;
        Some(format!("{}.{} takes part in {other}, others in {crawl}", stranger.stage, stranger.instance))
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
