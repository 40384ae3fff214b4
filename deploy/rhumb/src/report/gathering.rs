//! What is asked for a report: the schedulers, and what operators have set.
//!
//! In: which of them there are. Out: one sum, and who is missing in it. Each answer looks at a
//! bounded number of rows, so that no scheduler stands still; who has more is asked again, as long
//! as there is time.

use crate::control::ask_all;
use rhumb_bus::{Bus, find_orders};
use rhumb_config::orders::Setting;
use rhumb_stage::{ControlRequest, Leaders, ProcessReport, ReportQuestion, Reported, Tallied};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often a scheduler is asked again that does not answer.
const TRIES: usize = 3;

/// What was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    /// What ended, over all partitions.
    pub(crate) tallied: Tallied,
    /// For how long the oldest partition was worked with.
    pub(crate) ran: Duration,
    /// Hosts and servers that stand out.
    pub(crate) leaders: Leaders,
    /// Schedulers that did not answer: what ended in their partitions is missing.
    pub(crate) silent: BTreeSet<u16>,
    /// Not all hosts and servers were looked at.
    pub(crate) is_partial: bool,
    /// Why schedulers cannot tell.
    pub(crate) errors: Vec<String>,
    /// Keys of the configuration that have other values than it says.
    pub(crate) set: Vec<Setting>,
}

/// Asks these schedulers, for so many hosts and servers of each list, and for so long.
///
/// # Errors
/// The broker does not take the question, or does not tell what is set.
pub(crate) async fn gather(
    bus: &Bus,
    schedulers: BTreeSet<u16>,
    hosts: usize,
    at_most: Duration,
) -> anyhow::Result<Gathered> {
    let end = Instant::now() + at_most;
    let of_all = schedulers.len();
    let set = match find_orders(bus).await? {
        Some(orders) => orders.read().await?.orders.set,
        None => Vec::new(),
    };
    let mut gathered = Gathered {
        silent: schedulers,
        set,
        ..Gathered::default()
    };
    // Where those go on that have more to tell.
    let mut after = BTreeMap::new();
    for _ in 0..TRIES {
        if gathered.silent.is_empty() {
            break;
        }
        for (instance, told) in ask(bus, hosts, BTreeMap::new(), of_all).await? {
            // One that has answered before is asked with the others.
            if gathered.silent.remove(&instance) {
                gathered.take_in(instance, told, hosts, &mut after);
            }
        }
    }
    let mut tries = TRIES;
    while !after.is_empty() && tries > 0 && Instant::now() < end {
        let answers = ask(bus, hosts, after.clone(), after.len()).await?;
        tries = if answers.is_empty() { tries - 1 } else { TRIES };
        for (instance, told) in answers {
            gathered.take_in(instance, told, hosts, &mut after);
        }
    }
    gathered.is_partial = !after.is_empty();
    Ok(gathered)
}

/// Asks all schedulers, or those that are to go on, of which there are so many.
async fn ask(
    bus: &Bus,
    hosts: usize,
    after: BTreeMap<u16, Vec<u8>>,
    expected: usize,
) -> anyhow::Result<Vec<(u16, Result<Reported, String>)>> {
    let question = ControlRequest::Report(ReportQuestion { hosts, after });
    let answers: Vec<ProcessReport> = ask_all(bus, &question, Some(expected)).await?;
    Ok(answers
        .into_iter()
        .map(|answer| (answer.instance, answer.told))
        .collect())
}

impl Gathered {
    /// Takes an answer in, and notes where its scheduler is to go on.
    fn take_in(
        &mut self,
        instance: u16,
        told: Result<Reported, String>,
        hosts: usize,
        after: &mut BTreeMap<u16, Vec<u8>>,
    ) {
        after.remove(&instance);
        match told {
            Ok(Reported {
                tallied,
                ran_ms,
                leaders,
                next,
            }) => {
                self.tallied.add(tallied.unwrap_or_default());
                self.ran = self.ran.max(Duration::from_millis(ran_ms));
                self.leaders.add(leaders, hosts);
                after.extend(next.map(|next| (instance, next)));
            }
            Err(error) => self.errors.push(format!("scheduler.{instance}: {error}")),
        }
    }
}
