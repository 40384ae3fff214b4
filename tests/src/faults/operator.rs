//! Operator: gives a running crawl one order after the other to scale, move and split.
//!
//! Flow: an order is given again while `rhumb` or the broker is away. It is cut off, with SIGKILL,
//! when the next one comes. When it is carried out, `rhumb status --check` is asked. What came of
//! each is in `order-1.log` and so on, beside the data directory.
//!
//! Invariant: an order fails only while `rhumb` or the broker is away, and says why. Moves and
//! splits may be refused, since the partition or the instance may not be what it was.

use super::command_line::{CommandLine, LOOK_EVERY};
use crate::harness::{Running, rhumb};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// After a kill of `rhumb` or the broker an order may fail for so long.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// Before an order that failed is given again.
const PAUSE: Duration = Duration::from_millis(500);
/// The exit code of a refusal.
const REFUSED: i32 = 2;

/// Somebody who gives orders.
pub(super) struct Operator {
    data: PathBuf,
    /// When `rhumb` or the broker was killed last.
    killed_at: Arc<Mutex<Option<Instant>>>,
    orders: Vec<Order>,
}

/// An order that was given.
struct Order {
    text: String,
    given_at: Instant,
    is_cut_off: Arc<AtomicBool>,
    /// How long after it was given it was carried out; none when it was cut off or refused.
    outcome: JoinHandle<Result<Option<Duration>, String>>,
}

impl Operator {
    /// Somebody who has given no order to the crawl in this data directory.
    pub(super) fn new(data: PathBuf) -> Operator {
        Operator {
            data,
            killed_at: Arc::default(),
            orders: Vec::new(),
        }
    }

    /// `rhumb` or the broker is killed just now.
    pub(super) fn sees_a_kill(&self) {
        *self
            .killed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Gives an order, and waits for nothing.
    pub(super) fn order(&mut self, text: &str) {
        self.cut_off();
        let is_cut_off = Arc::<AtomicBool>::default();
        let attempts = Attempts {
            line: CommandLine::new(
                &self.data,
                text,
                &format!("order-{}.log", self.orders.len() + 1),
            ),
            killed_at: Arc::clone(&self.killed_at),
            is_cut_off: Arc::clone(&is_cut_off),
        };
        let outcome = thread::spawn(move || attempts.carry_out());
        self.orders.push(Order {
            text: text.to_owned(),
            given_at: Instant::now(),
            is_cut_off,
            outcome,
        });
    }

    /// Waits until the last order, if there is one, is carried out. Gives the time that it took.
    ///
    /// # Panics
    /// When one has failed, or the last is not carried out within a time.
    pub(super) fn finish(&mut self, at_most: Duration) -> Option<Duration> {
        let last = self.orders.last()?;
        while !last.outcome.is_finished() && last.given_at.elapsed() < at_most {
            thread::sleep(LOOK_EVERY);
        }
        self.cut_off();
        let mut took = None;
        for Order { text, outcome, .. } in self.orders.drain(..) {
            let outcome = outcome
                .join()
                .unwrap_or_else(|_| Err("its thread panicked".to_owned()));
            took = outcome.unwrap_or_else(|why| panic!("`rhumb {text}`: {why}"));
        }
        assert!(
            took.is_some(),
            "the last order is not carried out within {at_most:?}"
        );
        took
    }

    fn cut_off(&self) {
        self.orders
            .iter()
            .for_each(|order| order.is_cut_off.store(true, Ordering::Relaxed));
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.cut_off();
    }
}

/// An order that is given until it is carried out.
struct Attempts {
    line: CommandLine,
    killed_at: Arc<Mutex<Option<Instant>>>,
    is_cut_off: Arc<AtomicBool>,
}

impl Attempts {
    fn carry_out(&self) -> Result<Option<Duration>, String> {
        let given_at = Instant::now();
        let may_be_refused = !self.line.text.starts_with("scale");
        loop {
            let Some(code) = self
                .line
                .once(&self.is_cut_off)
                .map_err(|error| error.to_string())?
            else {
                return Ok(None);
            };
            let took = given_at.elapsed();
            if code == 0 {
                return self.check().map(|()| Some(took));
            }
            let why = self.why()?;
            match self.is_hindered() {
                true => thread::sleep(PAUSE),
                false if code == REFUSED && may_be_refused => return Ok(None),
                false => return Err(why),
            }
        }
    }

    /// Looks whether every URL is accounted for. It cannot be told while a process is away.
    fn check(&self) -> Result<(), String> {
        let said = rhumb(&[
            OsStr::new("status"),
            OsStr::new("--check"),
            OsStr::new("--data"),
            self.line.data.as_os_str(),
        ]);
        let wrong: Vec<&str> = said
            .err
            .lines()
            .filter(|line| line.starts_with("check failed"))
            .collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong.join("; "))
        }
    }

    /// The error message of an attempt that failed, with what was said before.
    fn why(&self) -> Result<String, String> {
        let said = fs::read_to_string(&self.line.log).map_err(|error| error.to_string())?;
        let is_message =
            said.lines().any(|line| line.starts_with("rhumb: ")) && !said.contains("panicked at");
        if is_message {
            Ok(said)
        } else {
            Err(format!("no error message: {said}"))
        }
    }

    fn is_hindered(&self) -> bool {
        let killed_at = *self
            .killed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        killed_at.is_some_and(|killed_at| killed_at.elapsed() < AWAY_MAX)
    }
}

/// Asserts that the instances that an order wants share the partitions of their stage evenly.
///
/// # Panics
/// When they do not.
pub(super) fn assert_even(crawl: &Running, order: &str) {
    let said = crawl.rhumb(&["partitions", "--json"]);
    assert_eq!(said.code, 0, "{}\n{}", said.err, crawl.log());
    let uneven = uneven(&said.out, order);
    assert!(
        uneven.is_empty(),
        "after `rhumb {order}`: {}\n{}",
        uneven.join("; "),
        said.out
    );
}

/// What is not as an order wants it, by the lines of `rhumb partitions --json`.
fn uneven(lines: &str, order: &str) -> Vec<String> {
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut wrong = Vec::new();
    for (stage, wanted) in order.split(' ').filter_map(|word| word.split_once('=')) {
        let of_stage: Vec<&serde_json::Value> =
            lines.iter().filter(|line| line["stage"] == stage).collect();
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for line in &of_stage {
            match line["state"].as_str() {
                Some("owned") => {
                    *counts
                        .entry(line["owner"].as_u64().unwrap_or(u64::MAX))
                        .or_default() += 1
                }
                // Nothing is of it any more but what comes late.
                Some("split") => {}
                state => wrong.push(format!(
                    "partition {} of {stage} is {state:?}",
                    line["partition"]
                )),
            }
        }
        let most = counts.values().max().copied().unwrap_or_default();
        let is_even = counts.values().all(|count| count + 1 >= most);
        if !is_even || counts.len().to_string() != wanted {
            wrong.push(format!(
                "{wanted} instances of {stage} are wanted; these have partitions: {counts:?}"
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: &str, owner: u16, state: &str) -> String {
        format!(r#"{{"stage":"{stage}","partition":3,"owner":{owner},"state":"{state}"}}"#)
    }

    #[test]
    fn partitions_are_even_when_all_that_are_wanted_have_as_many_as_another_or_one_more() {
        let of = |owners: &[u16]| -> Vec<String> {
            owners
                .iter()
                .map(|owner| line("dedup", *owner, "owned"))
                .collect()
        };
        let wrong = |lines: &[String], order: &str| uneven(&lines.join("\n"), order).len();
        assert_eq!(wrong(&of(&[0, 1, 0]), "scale dedup=2"), 0);
        assert_eq!(wrong(&of(&[0, 1, 0, 0]), "scale dedup=2"), 1);
        assert_eq!(wrong(&of(&[0, 1]), "scale dedup=3"), 1);
        assert_eq!(
            wrong(&of(&[0, 1]), "scale dedup=2 scheduler=1"),
            1,
            "nobody has those of the scheduler"
        );
        let split = [of(&[0, 1]), vec![line("dedup", 0, "split")]].concat();
        assert_eq!(wrong(&split, "scale dedup=2"), 0);
        let leaving = [of(&[0, 1]), vec![line("dedup", 0, "leaving")]].concat();
        assert_eq!(wrong(&leaving, "scale dedup=2"), 1);
    }
}
