//! How a crawl stands, as its supervisor knows it: the latest snapshot, what the processes have
//! used, and whether anything is left to do.
//!
//! In: snapshots. Out: the summary, and what is known of processes with state. Invariant: totals do
//! not go back while a process is away or a partition moves.

use super::pace::Pace;
use crate::stages::owns_partitions;
use crate::status::{Known, LastKnown, ProcessUse, Snapshot, Summary};
use rhumb_config::Pipeline;
use rhumb_stage::ProcessStatus;
use rhumb_wire::message::Edge;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Returns whether a crawl has got any URL yet: before, there is nothing that could be over.
fn has_begun(snapshot: &Snapshot) -> bool {
    let has_passed = snapshot
        .last_sequences
        .get(Edge::UrlsFound.name())
        .is_some_and(|&last| last > 0);
    // A stream in the broker's memory may have begun anew.
    has_passed || snapshot.summary().urls_found > 0
}

/// How a crawl stands.
#[derive(Debug)]
pub(super) struct Standing {
    started: Instant,
    snapshot: Snapshot,
    /// Snapshots, and the processes that answered at the latest.
    looks: u64,
    answered: usize,
    /// When the latest snapshot came, and when processes with state answered last, by stage and
    /// instance.
    looked: Instant,
    heard: BTreeMap<(String, u16), Instant>,
    /// What processes with state told when each partition was counted once for the last time.
    /// Nothing before.
    whole: Vec<ProcessStatus>,
    is_whole: bool,
    pages: u64,
    pace: Pace,
    /// The streams' last sequences at the latest snapshot, when nothing was left to do in it.
    quiet_at: Option<BTreeMap<String, u64>>,
    is_still: bool,
    is_settled: bool,
    is_over: bool,
    is_complete: bool,
    /// Nothing but visits of known pages was left to do in the latest snapshot, …
    first_visits_seem_done: bool,
    /// … and in the one before it, too: what is kept back in traps is all that is left of first
    /// visits.
    first_visits_are_done: bool,
    /// Equations that do not hold although nothing is left to do (P3).
    violations: Vec<String>,
    /// Of stages with state: the instances that there are.
    instances: BTreeMap<String, BTreeSet<u16>>,
    /// Last known use of processes, those that have ended included: by stage, instance, and life or
    /// process id. On several machines, and in containers, many have the same process id.
    uses: BTreeMap<(String, u16, u64), ProcessUse>,
}

impl Standing {
    /// A crawl that was started so long ago.
    pub(super) fn since(elapsed: Duration) -> Self {
        let now = Instant::now();
        Standing {
            started: now.checked_sub(elapsed).unwrap_or(now),
            snapshot: Snapshot::default(),
            looked: now,
            looks: 0,
            answered: 0,
            heard: BTreeMap::new(),
            whole: Vec::new(),
            is_whole: false,
            pages: 0,
            pace: Pace::default(),
            quiet_at: None,
            is_still: false,
            is_settled: false,
            is_over: false,
            is_complete: false,
            first_visits_seem_done: false,
            first_visits_are_done: false,
            violations: Vec::new(),
            instances: BTreeMap::new(),
            uses: BTreeMap::new(),
        }
    }

    /// Time since the crawl was started, in this run; of one that is conducted, since it was for
    /// the first time.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Pages fetched, as far as each partition is counted once: while one moves it may be missing,
    /// or be there twice.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Whether the numbers of all partitions were known once.
    pub(super) fn was_whole(&self) -> bool {
        !self.whole.is_empty()
    }

    /// Whether nothing was left to do in two snapshots in a row, and nothing was published between
    /// them: it has not begun, or is over.
    pub(super) fn is_still(&self) -> bool {
        self.is_still
    }

    /// Whether nothing is left to do, except for URLs that wait for a larger budget.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether nothing is left to do but what is kept back in traps, and later visits, and the
    /// crawl is not paused: what is kept back is to end.
    pub(super) fn has_traps_alone(&self) -> bool {
        let has_traps = self.snapshot.summary().waiting_trapped > 0;
        has_traps && (self.is_settled || self.first_visits_are_done) && !self.snapshot.is_paused()
    }

    /// Equations that do not hold although nothing is left to do (P3).
    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Whether URLs wait, but for a larger budget or in traps, or are in flight.
    pub(super) fn has_work(&self) -> bool {
        let summary = self.snapshot.summary();
        summary.going() > 0 || summary.in_flight > 0
    }

    /// When to look again at a crawl in which something is left to do.
    pub(super) fn next_look(&self) -> Duration {
        let summary = self.snapshot.summary();
        let left = summary.going() + summary.in_flight;
        self.pace.next_look(self.elapsed(), left)
    }

    /// Takes in a snapshot and the use of the broker. Returns whether nothing was left to do in it;
    /// two such snapshots in a row with the same last sequences mean that the crawl is over.
    pub(super) fn learn(
        &mut self,
        snapshot: Snapshot,
        broker: Option<ProcessUse>,
        pipeline: &Pipeline,
        expected: usize,
    ) -> bool {
        self.remember(snapshot, broker, pipeline);
        self.pace.learn(
            self.elapsed(),
            self.snapshot.summary().outcomes.values().sum(),
        );
        let quiet = self.snapshot.is_quiet(pipeline, expected);
        tracing::debug!(
            quiet,
            under_way = self.snapshot.under_way(pipeline).join("; "),
            "looked"
        );
        self.is_still = quiet && self.quiet_at.as_ref() == Some(&self.snapshot.last_sequences);
        self.is_settled = self.is_still && has_begun(&self.snapshot);
        self.is_over = self.is_settled && self.snapshot.summary().waiting_trapped == 0;
        self.violations = if self.is_over {
            self.snapshot.violations()
        } else {
            Vec::new()
        };
        let visits = self.snapshot.visited_again();
        // One whose pages are visited again never is: it comes to its limit.
        self.is_complete = self.is_over
            && visits.is_none()
            && self.snapshot.summary().waiting == 0
            && self.violations.is_empty();
        let first_visits_are_done = visits.is_some_and(|visits| visits.first_visits_done);
        self.first_visits_are_done = self.first_visits_seem_done && first_visits_are_done;
        self.first_visits_seem_done = first_visits_are_done;
        self.quiet_at = quiet.then(|| self.snapshot.last_sequences.clone());
        quiet
    }

    /// Takes in the numbers of a snapshot alone.
    pub(super) fn remember(
        &mut self,
        mut snapshot: Snapshot,
        broker: Option<ProcessUse>,
        pipeline: &Pipeline,
    ) {
        let lives: Vec<u64> = snapshot
            .processes
            .iter()
            .map(|process| process.life)
            .collect();
        for (used, life) in snapshot.summary().processes.into_iter().zip(lives) {
            self.uses
                .insert((used.stage.clone(), used.instance, life), used);
        }
        if let Some(used) = broker {
            self.uses.insert(
                (used.stage.clone(), used.instance, u64::from(used.pid)),
                used,
            );
        }
        // Processes that could not answer just now keep their last known numbers: totals do not go
        // back.
        snapshot.processes.retain(|p| !self.has_left(p));
        self.looks += 1;
        self.answered = snapshot.processes.len();
        let answered: BTreeSet<(String, u16)> = snapshot
            .processes
            .iter()
            .filter(|p| has_state(p))
            .map(name)
            .collect();
        let silent = self
            .snapshot
            .processes
            .iter()
            .filter(|p| has_state(p) && !answered.contains(&name(p)));
        snapshot.processes.extend(silent.map(|p| ProcessStatus {
            idle: false,
            ..p.clone()
        }));
        self.looked = Instant::now();
        self.heard
            .extend(answered.into_iter().map(|name| (name, self.looked)));
        self.snapshot = snapshot;
        self.is_whole = self.snapshot.covers_partitions(pipeline);
        if self.is_whole {
            self.pages = self.snapshot.summary().pages;
            self.whole = self
                .snapshot
                .processes
                .iter()
                .filter(|p| has_state(p))
                .cloned()
                .collect();
        }
    }

    /// Looks so far.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// Processes that answered at the latest look.
    pub(super) fn answered(&self) -> usize {
        self.answered
    }

    /// What is known of the processes with state, for whoever asks how the crawl stands.
    pub(super) fn last_known(&self) -> LastKnown {
        let are_moving = !self.is_whole && !self.whole.is_empty();
        let last = if are_moving {
            &self.whole
        } else {
            &self.snapshot.processes
        };
        let known = last.iter().filter(|p| has_state(p)).map(|p| Known {
            told: p.clone(),
            age_s: self.age_s(p),
        });
        LastKnown {
            processes: known.collect(),
            are_moving,
        }
    }

    /// Seconds since a process answered; none when it did in the latest snapshot.
    fn age_s(&self, process: &ProcessStatus) -> Option<f64> {
        let heard = self
            .heard
            .get(&name(process))
            .filter(|heard| **heard < self.looked)?;
        Some(heard.elapsed().as_secs_f64())
    }

    /// Whether an instance that has no partition any more has nothing in hand either: it may end
    /// for good.
    pub(super) fn is_emptied(&self, stage: &str, instance: u16) -> bool {
        let of = |p: &&ProcessStatus| p.stage == stage && p.instance == instance;
        let is_empty = |p: &ProcessStatus| p.idle && p.counts.get("partitions") == Some(&0);
        self.snapshot
            .processes
            .iter()
            .find(of)
            .is_some_and(is_empty)
    }

    /// A stage has these instances. Others end, and what they counted counts elsewhere: also when
    /// one of them has answered a question that was asked before.
    pub(super) fn has(&mut self, stage: &str, instances: BTreeSet<u16>) {
        self.instances.insert(stage.to_owned(), instances);
        let mut processes = std::mem::take(&mut self.snapshot.processes);
        processes.retain(|p| !self.has_left(p));
        self.snapshot.processes = processes;
    }

    fn has_left(&self, process: &ProcessStatus) -> bool {
        self.instances
            .get(&process.stage)
            .is_some_and(|instances| !instances.contains(&process.instance))
    }

    /// Whether a process gives a reason not to be ready that contains these words.
    pub(super) fn says(&self, words: &str) -> bool {
        self.snapshot
            .processes
            .iter()
            .any(|process| process.reason.contains(words))
    }

    /// Forgets the reasons that processes gave: they are outdated.
    pub(super) fn forget_reasons(&mut self) {
        self.snapshot
            .processes
            .iter_mut()
            .for_each(|process| process.reason.clear());
    }

    /// The latest snapshot; with the last known numbers of processes that could not answer.
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Sums up. `restarts`: processes that died and were started again.
    pub(super) fn summary(&self, restarts: u64) -> Summary {
        let mut told = self.snapshot.clone();
        told.take_over(self.last_known());
        Summary {
            restarts,
            elapsed_s: self.elapsed().as_secs_f64(),
            complete: self.is_complete,
            processes: self.uses.values().cloned().collect(),
            ..told.summary()
        }
    }
}

fn has_state(process: &ProcessStatus) -> bool {
    owns_partitions(&process.stage)
}

fn name(process: &ProcessStatus) -> (String, u16) {
    (process.stage.clone(), process.instance)
}
