//! Verdict: what a run that ended must have come to, and what keeps one from its end.

use super::agenda::{Place, Process};
use super::checks::url_of;
use super::node::AnyNode;
use super::plan::SECOND;
use super::world::{Ended, Failure, World};
use rhumb_config::RecrawlPolicy;
use rhumb_stage::settled_count;
use rhumb_url::server_of;
use rhumb_wire::message::{Change, Outcome};
use rhumb_wire::topology::StageName;
use std::collections::BTreeSet;

impl World {
    /// What keeps a run from its end.
    pub(crate) fn what_waits(&self) -> Vec<String> {
        let mut lines = vec!["P3: the crawl does not end".to_owned()];
        lines.extend(self.around.broker.pending());
        for (stage, table) in &self.around.moves.tables {
            lines.push(format!("{stage:?}: {:?}", table.owners));
        }
        for (place, node) in &self.nodes {
            let quiet = node.is_quiet();
            if !quiet || open_urls(node.as_ref()) > 0 {
                lines.push(format!("{place:?}: quiet {quiet}, {:?}", node.counts()));
            }
        }
        let checks = &self.around.checks;
        for url in checks
            .new
            .keys()
            .filter(|url| !checks.outcomes.contains_key(*url))
            .take(5)
        {
            let why = self
                .nodes
                .values()
                .find_map(|node| node.why_idle(self.around.now, server_of(url)));
            lines.push(format!(
                "without outcome: {url} ({})",
                why.as_deref().unwrap_or("no scheduler knows why")
            ));
        }
        lines
    }

    /// What must be true when all is quiet: every URL that can be met was new once (and once more
    /// for each injection that wanted it again, or for that alone when it came first) and ended as
    /// the web has it, or over a budget when as many pages were fetched.
    pub(crate) fn end(self) -> Result<Ended, Failure> {
        let checks = &self.around.checks;
        let graph = &self.around.web.graph;
        let follow = self.plan.pipeline.scope.follow;
        let sitemaps = self.plan.pipeline.limits.sitemaps_per_server;
        let met = graph.truth(follow, sitemaps, |url| checks.is_over_budget(url));
        // With faults, a page may have been fetched whose URL was in the end over budget.
        let truth = if self.plan.faults.is_none() {
            met.clone()
        } else {
            graph.truth(follow, sitemaps, |_| false)
        };
        let mut wrong = Vec::new();
        let new: BTreeSet<&str> = checks.new.keys().map(|url| url_of(url)).collect();
        for url in met.keys().filter(|url| !new.contains(url.as_str())) {
            wrong.push(format!("P4: {url} never was new"));
        }
        for url in checks.new.keys() {
            match (checks.outcomes.get(url), truth.get(url_of(url))) {
                (_, None) => wrong.push(format!("P4: {url} is new, and no page links to it")),
                (None, _) => wrong.push(format!("P3: {url} has no outcome")),
                (Some((outcome, _)), Some(expected)) if outcome == expected => {}
                (Some((Outcome::NotModified, _)), Some(Outcome::Fetched)) if url_of(url) != url => {
                }
                (Some((Outcome::OverBudget, reason)), _) if checks.is_used_up(url, reason) => {}
                (Some(end), Some(expected)) => {
                    wrong.push(format!(
                        "P3: {url} ends {end:?}, the web has it as {expected:?}"
                    ));
                }
            }
        }
        let mut refetched = 0;
        for (url, &times) in &self.around.web.served {
            let is_page = checks.new.contains_key(url);
            refetched += if is_page { u64::from(times - 1) } else { 0 };
            let is_alone = self.plan.faults.is_none() && self.plan.pipeline.recrawl.visits_max == 0;
            if is_alone && is_page && (times > 1 || checks.is_over_budget(url)) {
                wrong.push(format!(
                    "{url} was served {times} times, and nothing went wrong"
                ));
            }
        }
        for (url, (outcome, _)) in &checks.outcomes {
            if *outcome == Outcome::Fetched && !self.around.web.served.contains_key(url_of(url)) {
                wrong.push(format!("P3: {url} was fetched, and nobody served it"));
            }
        }
        wrong.extend(self.miscounted());
        wrong.extend(self.visited_too_seldom());
        if !wrong.is_empty() {
            return Err(self.failure(wrong));
        }
        Ok(Ended {
            steps: self.steps,
            seconds: self.around.now / SECOND,
            urls: checks.new.len(),
            not_modified: checks
                .outcomes
                .values()
                .filter(|(outcome, _)| *outcome == Outcome::NotModified)
                .count(),
            fetched: checks
                .outcomes
                .values()
                .filter(|(outcome, _)| *outcome == Outcome::Fetched)
                .count(),
            over_budget: checks
                .outcomes
                .keys()
                .filter(|url| checks.is_over_budget(url))
                .count(),
            contacts: self.around.web.contacts,
            batches: self.around.batches,
            batches_lost: self.around.batches_lost,
            refetched,
            visits: checks.visits.values().map(|last| u64::from(last - 1)).sum(),
            crashes: self.crashes,
            unanswered: self.around.names.unanswered,
            moved: self.around.moves.taken,
            halved: self.around.moves.halved,
            entries: self.around.entries,
            ..Ended::default()
        })
    }

    /// What the stages with state have counted otherwise than it was (P3).
    fn miscounted(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let new = self.around.checks.new.len() as u64;
        let dedup: u64 = self.sum(StageName::Dedup, "new_total");
        let scheduler: u64 = self.sum(StageName::Scheduler, "new_total");
        if dedup != new || scheduler != dedup {
            wrong.push(format!(
                "P3: {new} URLs were new, dedup counts {dedup}, the scheduler {scheduler}"
            ));
        }
        wrong.extend(self.miscounted_visits());
        for (edge, messages) in self.around.broker.sequences() {
            let Some(name) = settled_count(edge) else {
                continue;
            };
            let settled: u64 = self
                .nodes
                .values()
                .map(|node| count(node.as_ref(), name))
                .sum();
            // A broker that was restored from a copy may have lost what was settled, after all else
            // was done.
            let may_have_lost = self.around.faults.copies > 0 && settled > messages as u64;
            if settled != messages as u64 && !may_have_lost {
                wrong.push(format!(
                    "P3: of {messages} messages of {} {settled} are settled",
                    edge.name()
                ));
            }
        }
        wrong
    }

    /// What schedulers have counted otherwise than it was of known pages and their visits.
    fn miscounted_visits(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let counted = |name: &str| self.sum(StageName::Scheduler, name);
        let checks = &self.around.checks;
        let policy = self.plan.pipeline.recrawl.policy;
        let known = match policy {
            RecrawlPolicy::None => 0,
            _ => checks.known(),
        };
        let counted_known = counted("pages_known_total");
        if counted_known != known {
            wrong.push(format!(
                "{known} pages were known, schedulers count {counted_known}"
            ));
        }
        let told: u64 = checks.visits.values().map(|last| u64::from(last - 1)).sum();
        let ended: u64 = Change::ALL
            .iter()
            .map(|change| counted(&format!("visits_{}_total", change.name())))
            .sum();
        let withdrawn = counted("visits_withdrawn_total");
        let planned = counted("visits_planned_total");
        let out = counted("visits_out");
        if ended != told || planned != ended + withdrawn + out {
            wrong.push(format!(
                "{told} visits are told, {ended} counted; planned {planned}, withdrawn \
                 {withdrawn}, out {out}"
            ));
        }
        wrong
    }

    /// Pages that were fetched and have not had all their visits, although nothing went wrong.
    fn visited_too_seldom(&self) -> Vec<String> {
        let checks = &self.around.checks;
        let most = self.plan.pipeline.recrawl.visits_max;
        if most == 0 || !self.plan.faults.is_none() {
            return Vec::new();
        }
        let fetched = checks.outcomes.iter();
        let fetched = fetched.filter(|(_, (outcome, _))| *outcome == Outcome::Fetched);
        let visits = fetched.map(|(url, _)| {
            let serial = checks.new.get(url).map_or(0, |(_, serial)| *serial);
            let last = checks.visits.get(&(url.clone(), serial));
            (url, last.copied().unwrap_or(1))
        });
        let seldom = visits.filter(|(_, visits)| *visits != most);
        seldom
            .map(|(url, visits)| format!("{url} was visited {visits} times, not {most}"))
            .collect()
    }

    /// Known pages that have a visit to come.
    pub(crate) fn due(&self) -> u64 {
        let counted = |name: &str| self.sum(StageName::Scheduler, name);
        let known = counted("pages_known_total") - counted("pages_forgotten_total");
        known + counted("pages_woken_total") - counted("pages_rested_total")
    }

    fn sum(&self, stage: StageName, name: &str) -> u64 {
        let of_stage = self.nodes.iter().filter(|(place, _)| place.stage == stage);
        of_stage.map(|(_, node)| count(node.as_ref(), name)).sum()
    }
}

fn count(node: &dyn AnyNode, name: &str) -> u64 {
    node.counts()
        .into_iter()
        .find(|(other, _)| *other == name)
        .map_or(0, |(_, value)| value)
}

/// URLs that wait or are in flight for their first visit, at a scheduler.
pub(crate) fn open_urls(node: &dyn AnyNode) -> u64 {
    match node.process() {
        Some(Process {
            place:
                Place {
                    stage: StageName::Scheduler,
                    ..
                },
            ..
        }) => count(node, "waiting") + count(node, "in_flight") - count(node, "visits_out"),
        _ => 0,
    }
}
