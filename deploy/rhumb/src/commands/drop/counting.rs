//! How much a drop would end: the schedulers count, piece by piece.

use crate::commands::progress::Progress;
use crate::control::ask_all;
use crate::handle::Running;
use crate::inspect::schedulers;
use crate::output::line;
use rhumb_config::orders::Selection;
use rhumb_stage::{ControlRequest, CountQuestion, Counted, ProcessCount};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How often a scheduler is asked again that does not answer while it counts, and how often
/// partitions are counted anew that moved meanwhile.
const TRIES: usize = 3;
/// URLs that are shown as examples, at most.
const EXAMPLES_MAX: usize = 5;

/// How much waits, and how much of it is meant.
#[derive(Debug, Default)]
pub(super) struct Count {
    rows: u64,
    pub(super) found: u64,
    /// All that waits, by scheduler.
    waiting_at: BTreeMap<u16, u64>,
    pub(super) examples: Vec<String>,
    /// Schedulers that do not answer.
    silent: BTreeSet<u16>,
    /// Partitions moved meanwhile: some may be missing, or counted twice.
    moved: bool,
}

/// A count as JSON.
#[derive(Serialize)]
struct Told<'a> {
    what: &'a Selection,
    counted: u64,
    of: u64,
    examples: &'a [String],
    silent: &'a BTreeSet<u16>,
    moved: bool,
}

impl Count {
    /// Has the schedulers count, anew when partitions move meanwhile.
    ///
    /// # Errors
    /// The broker does not answer, or a scheduler cannot count.
    pub(super) async fn of(running: &Running, what: &Selection) -> anyhow::Result<Count> {
        let mut tries = TRIES;
        loop {
            let before = schedulers::settled(running).await?;
            let count = Count::once(running, what).await?;
            let moved = before.is_none() || before != schedulers::settled(running).await?;
            tries -= 1;
            if !moved || tries == 0 {
                return Ok(Count { moved, ..count });
            }
        }
    }

    /// Has the schedulers count, each from where its answer before ended.
    async fn once(running: &Running, what: &Selection) -> anyhow::Result<Count> {
        let mut count = Count::default();
        let mut progress = Progress::new();
        count.silent = schedulers::needed(running).await?;
        let mut after = BTreeMap::new();
        let mut tries = TRIES;
        loop {
            let asked = if after.is_empty() {
                count.silent.len()
            } else {
                after.len()
            };
            let question = ControlRequest::Count(CountQuestion {
                what: what.clone(),
                after: after.clone(),
            });
            let answers: Vec<ProcessCount> = ask_all(&running.bus, &question, Some(asked)).await?;
            tries = if answers.is_empty() { tries - 1 } else { TRIES };
            for ProcessCount {
                instance, counted, ..
            } in answers
            {
                let counted = counted.map_err(|error| {
                    anyhow::anyhow!("scheduler.{instance} cannot count: {error}")
                })?;
                count.add(instance, &counted);
                count.silent.remove(&instance);
                match counted.next {
                    Some(next) => after.insert(instance, next),
                    None => after.remove(&instance),
                };
            }
            progress.show(format!(
                "{} found among {} URLs that wait",
                count.found, count.rows
            ));
            if after.is_empty() || tries == 0 {
                progress.end();
                count.silent.extend(after.into_keys());
                return Ok(count);
            }
        }
    }

    /// All URLs that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting_at.values().sum()
    }

    /// Returns whether all that waits was counted.
    pub(super) fn is_whole(&self) -> bool {
        self.silent.is_empty() && !self.moved
    }

    /// The count in words, with what it lacks.
    ///
    /// # Errors
    /// The broker does not tell.
    pub(super) async fn in_words(
        &self,
        running: &Running,
        what: &Selection,
    ) -> anyhow::Result<String> {
        let mut says = format!(
            "{} of {} URLs that wait are of {what}",
            self.found,
            self.waiting()
        );
        if !self.silent.is_empty() {
            says = format!(
                "{says}; not counted: {} (no answer)",
                schedulers::in_words(running, &self.silent).await?
            );
        }
        if self.moved {
            says += "; partitions moved meanwhile: some may be missing, or counted twice";
        }
        Ok(says)
    }

    /// Tells the count, and what is meant by examples.
    ///
    /// # Errors
    /// Not all that waits was counted.
    pub(super) async fn tell(
        &self,
        running: &Running,
        what: &Selection,
        as_json: bool,
    ) -> anyhow::Result<()> {
        let says = self.in_words(running, what).await?;
        if as_json {
            let counted = self.found;
            let of = self.waiting();
            let moved = self.moved;
            let told = Told {
                what,
                counted,
                of,
                examples: &self.examples,
                silent: &self.silent,
                moved,
            };
            line(serde_json::to_string(&told)?);
        } else {
            line(&says);
            self.examples
                .iter()
                .for_each(|url| line(format_args!("  {url}")));
        }
        anyhow::ensure!(
            self.is_whole(),
            "not all that waits was counted: {says}. Count again when all schedulers answer"
        );
        Ok(())
    }

    fn add(&mut self, instance: u16, counted: &Counted) {
        self.waiting_at.insert(instance, counted.waiting);
        self.rows += counted.rows;
        self.found += counted.found;
        let wanted = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples
            .extend(counted.examples.iter().take(wanted).cloned());
    }
}

#[cfg(test)]
impl Count {
    /// A count of `found` URLs of those that wait at one scheduler; another one may be silent.
    pub(super) fn example(found: u64, waiting: u64, silent: Option<u16>) -> Self {
        let silent = silent.into_iter().collect();
        Count {
            found,
            waiting_at: BTreeMap::from([(0, waiting)]),
            silent,
            ..Count::default()
        }
    }
}
