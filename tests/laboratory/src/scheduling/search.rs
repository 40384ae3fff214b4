//! Search: which conditions, of those that the paper leaves open, bring about the claims that fail.
//!
//! In: a seed. Out: `scheduling-search.csv` (a row for each condition and reading), and lines that
//! say of each claim where it holds, or how near the search came and what its number depends on.
//!
//! ```text
//!  each level alone ─▶ for each claim the levels that help most ─▶ all pairs of these ─▶ the best, with each level
//! ```
//!
//! A level is a value of a condition (`condition`): of sizes, times, links, start or connections.
//! Every condition is crawled on webs of several seeds by all policies of the paper, with 64
//! connections, and then judged by each `reading` of the paper's words. The last step takes the
//! condition under which most claims hold, and adds each other level to it. Levels that the paper
//! rules out stand alone.
//!
//! Claims on throughput by connections are not searched: they compare other crawls.
//!
//! Invariant: nothing is tuned to a seed; a claim holds when it holds on most webs.

mod condition;
mod reading;
mod report;
mod row;
#[cfg(test)]
mod tests;

use super::claims::{keep_alive_twice_as_fast, of_policies};
use super::runs::{CONNECTIONS, Runs, breadth_first};
use super::web::Shape;
use super::{Settings, base, check, webs, write};
use condition::{Condition, LEVELS, Level};
use reading::Reading;
use row::{Row, failing};

/// Webs on which each condition is judged: that of the seed and those of the seeds after it.
pub const SEEDS: u64 = 3;
/// Levels that go into pairs, for each claim that fails.
const PAIRED: usize = 2;

/// Searches, writes the table, and gives what was found, a line for each thing to know.
///
/// `progress` is told what was crawled, a line at a time.
///
/// # Errors
/// When settings make no sense, the scheduler breaks a promise, or the file cannot be written.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<String>> {
    search(settings, LEVELS, progress)
}

fn search(
    settings: &Settings,
    levels: &'static [Level],
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<String>> {
    check(settings)?;
    let mut search = Search {
        webs: webs(base(settings), SEEDS),
        rows: Vec::new(),
        progress,
    };
    let chosen = Condition::default();
    search.measure(&chosen)?;
    for level in levels {
        search.measure_with(&chosen, level)?;
    }
    let helping = search.helping();
    for (number, &level) in helping.iter().enumerate() {
        for &other in &helping[..number] {
            search.measure_with(
                &Condition {
                    levels: vec![other],
                },
                level,
            )?;
        }
    }
    if let Some(best) = search.best_open() {
        for level in levels.iter().filter(|level| level.open) {
            search.measure_with(&best, level)?;
        }
    }
    let Search { rows, .. } = search;
    write(
        settings,
        "scheduling-search.csv",
        &report::csv(&rows),
        progress,
    )?;
    Ok(report::lines(&rows))
}

struct Search<'a> {
    webs: Vec<Shape>,
    rows: Vec<Row>,
    progress: &'a mut dyn FnMut(&str),
}

impl Search<'_> {
    /// Measures a condition with one more level, unless the two exclude each other.
    fn measure_with(&mut self, condition: &Condition, level: &'static Level) -> anyhow::Result<()> {
        condition
            .with(level)
            .map_or(Ok(()), |condition| self.measure(&condition))
    }

    /// Crawls all webs under a condition, unless that was done: a row for each reading.
    fn measure(&mut self, condition: &Condition) -> anyhow::Result<()> {
        if self.rows.iter().any(|row| row.condition.is_same(condition)) {
            return Ok(());
        }
        let mut rows: Vec<Row> = Reading::all()
            .map(|reading| Row::new(condition.clone(), reading))
            .collect();
        for &web in &self.webs {
            let (shape, setup) = condition.apply(web, breadth_first(CONNECTIONS));
            let mut runs = Runs::default();
            runs.measure_condition(shape, setup)?;
            for row in &mut rows {
                // Of throughput there is one reading.
                let mut findings: Vec<_> = keep_alive_twice_as_fast(&runs, shape, setup)
                    .into_iter()
                    .collect();
                findings.extend(of_policies(&row.reading.of(&runs), shape, setup));
                row.add(&findings)?;
            }
        }
        (self.progress)(&format!("{condition}: {} claims hold", rows[0].held().0));
        self.rows.extend(rows);
        Ok(())
    }

    /// For each claim that fails as chosen, the levels of different factors that help it most when
    /// they stand alone, of those that the paper leaves room for.
    fn helping(&self) -> Vec<&'static Level> {
        let mut helping: Vec<&'static Level> = Vec::new();
        for (claim, _) in failing() {
            let chosen = self.rows[0].missed_by(claim);
            let alone =
                |row: &&Row| row.reading == Reading::CHOSEN && row.condition.levels.len() == 1;
            let helps = |row: &&Row| row.condition.is_open() && row.missed_by(claim) < chosen;
            let mut rows: Vec<&Row> = self.rows.iter().filter(alone).filter(helps).collect();
            rows.sort_by(|one, other| one.cmp_for(claim, other));
            let mut factors: Vec<&str> = Vec::new();
            for row in rows {
                let level = row.condition.levels[0];
                if factors.len() < PAIRED && !factors.contains(&level.factor) {
                    factors.push(level.factor);
                    if !helping.contains(&level) {
                        helping.push(level);
                    }
                }
            }
        }
        helping
    }

    /// The condition under which most claims hold by some reading, of those that the paper leaves
    /// room for.
    fn best_open(&self) -> Option<Condition> {
        let open = self.rows.iter().rev().filter(|row| row.condition.is_open());
        open.max_by_key(|row| row.held())
            .map(|row| row.condition.clone())
    }
}
