//! How far schedulers have come with an order, until all have carried it out; then it is forgotten.
//!
//! Invariant: an order counts as carried out when all schedulers say so and no partition was on its
//! way between two of them meanwhile: that one would be in nobody's answer.

use crate::commands::orders::Heard;
use crate::commands::progress::Progress;
use crate::control::{Awaited, ask_all};
use crate::handle::Running;
use crate::inspect::schedulers;
use anyhow::Context as _;
use rhumb_bus::{OrdersBucket, find_orders};
use rhumb_config::orders::DropOrder;
use rhumb_stage::{ControlRequest, ProcessDrop};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long a scheduler may be silent that has heard an order.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// Between two questions how far schedulers have come.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// How long an order stays that was carried out, for its own command to see it.
const FORGET_AFTER: Duration = Duration::from_secs(2);

/// What schedulers answer about an order.
struct Answers {
    /// URLs that ended, by scheduler.
    dropped: BTreeMap<u16, u64>,
    /// Who has carried it out.
    done: BTreeSet<u16>,
    /// Who has to.
    needed: BTreeSet<u16>,
    /// No partition was on its way.
    are_settled: bool,
}

impl Answers {
    async fn about(running: &Running, id: u64) -> anyhow::Result<Answers> {
        let before = schedulers::settled(running).await?;
        let needed = schedulers::needed(running).await?;
        let awaited = Awaited::at_least(needed.len());
        let answers: Vec<ProcessDrop> =
            ask_all(&running.bus, &ControlRequest::Dropped(id), awaited).await?;
        let are_settled = before.is_some() && before == schedulers::settled(running).await?;
        let done = answers
            .iter()
            .filter(|answer| answer.progress.is_done)
            .map(|answer| answer.instance)
            .collect();
        let dropped = answers
            .iter()
            .map(|answer| (answer.instance, answer.progress.dropped))
            .collect();
        Ok(Answers {
            dropped,
            done,
            needed,
            are_settled,
        })
    }

    fn are_done(&self) -> bool {
        self.are_settled && self.needed.is_subset(&self.done)
    }

    /// Returns whether somebody who answers is at it.
    fn are_at_it(&self) -> bool {
        let is_at_it =
            |instance: &u16| self.dropped.contains_key(instance) && !self.done.contains(instance);
        self.needed.iter().any(is_at_it) || self.needed.is_subset(&self.done)
    }
}

/// Waits until all schedulers have carried the order out. Gives how many URLs ended, and the
/// schedulers that are silent.
///
/// # Errors
/// The broker does not answer, or the order is not given any more.
pub(super) async fn carry_out(
    running: &Running,
    order: &DropOrder,
    heard: &Heard,
) -> anyhow::Result<(u64, BTreeSet<u16>)> {
    let bucket = find_orders(&running.bus)
        .await?
        .context("the broker has no orders of the crawl any more")?;
    let mut progress = Progress::new();
    let mut last_answer = Instant::now();
    let mut dropped_by = BTreeMap::new();
    let mut unheard = heard.silent.clone();
    loop {
        let answers = Answers::about(running, order.id).await?;
        dropped_by.extend(&answers.dropped);
        unheard.retain(|instance| !answers.dropped.contains_key(instance));
        // Who has no partition any more has given them away with what it had dropped of them.
        dropped_by.retain(|instance, _| answers.needed.contains(instance));
        let dropped = dropped_by.values().sum();
        if answers.are_done() {
            progress.end();
            forget(&bucket, &BTreeSet::from([order.id])).await?;
            return Ok((dropped, BTreeSet::new()));
        }
        if answers.are_at_it() {
            last_answer = Instant::now();
        }
        let silent = &answers.needed - &answers.done;
        // Who did not hear it in time, and has not answered since, is not waited for.
        let patience = if silent.is_subset(&unheard) {
            Duration::ZERO
        } else {
            SILENT_MAX
        };
        if !silent.is_empty() && last_answer.elapsed() >= patience {
            progress.end();
            return Ok((dropped, silent));
        }
        if let Some(why) = why_gone(&bucket.read().await?.orders.drops, order) {
            progress.end();
            anyhow::bail!(
                "the order to drop {} is given no more: {why}. {dropped} URLs were dropped before",
                order.what
            );
        }
        progress.show(format!("dropped {dropped} URLs"));
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Why an order is not among those that are given; none while it is.
fn why_gone(given: &[DropOrder], order: &DropOrder) -> Option<String> {
    if given.iter().any(|known| known.id == order.id) {
        return None;
    }
    Some(match given.iter().find(|known| known.what == order.what) {
        Some(other) => format!("another has taken its place ({other})"),
        None => "it was taken back, or another command saw that it was carried out".to_owned(),
    })
}

/// Takes back orders about what waited that all schedulers have carried out, and whose commands did
/// not live to see it.
///
/// # Errors
/// The broker does not answer.
pub(super) async fn forget_done(running: &Running) -> anyhow::Result<()> {
    let Some(bucket) = find_orders(&running.bus).await? else {
        return Ok(());
    };
    let mut done = BTreeSet::new();
    for DropOrder { id, .. } in bucket
        .read()
        .await?
        .orders
        .drops
        .into_iter()
        .filter(|order| !order.and_later)
    {
        if Answers::about(running, id).await?.are_done() {
            done.insert(id);
        }
    }
    if !done.is_empty() {
        tokio::time::sleep(FORGET_AFTER).await;
        forget(&bucket, &done).await?;
    }
    Ok(())
}

/// Takes these orders back, unless they hold for what is found later.
async fn forget(bucket: &OrdersBucket, done: &BTreeSet<u64>) -> anyhow::Result<()> {
    let forget = bucket.change(|orders| {
        let before = orders.drops.len();
        orders
            .drops
            .retain(|order| order.and_later || !done.contains(&order.id));
        orders.drops.len() < before
    });
    forget.await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::orders::{Author, Selection};

    #[test]
    fn an_order_is_carried_out_when_all_say_so_and_nothing_is_on_its_way() {
        let answers = |done: &[u16], are_settled| Answers {
            dropped: BTreeMap::from([(0, 5), (1, 0)]),
            done: done.iter().copied().collect(),
            needed: BTreeSet::from([0, 1]),
            are_settled,
        };
        for (done, are_settled, are_done) in [
            (&[0, 1][..], true, true),
            (&[0, 1], false, false),
            (&[0], true, false),
            (&[0, 1, 2], true, true),
        ] {
            let answers = answers(done, are_settled);
            assert_eq!(answers.are_done(), are_done, "{done:?} {are_settled}");
            assert!(answers.are_at_it(), "{done:?}");
        }
        let silent = Answers {
            dropped: BTreeMap::from([(0, 5)]),
            ..answers(&[0], true)
        };
        assert!(!silent.are_done() && !silent.are_at_it());
    }

    #[test]
    fn an_order_that_is_gone_was_replaced_or_taken_back() {
        let order = |id, host: &str| {
            let what = Selection::Host(host.to_owned());
            let author = Author {
                by: "anna".into(),
                ..Author::default()
            };
            DropOrder {
                id,
                what,
                and_later: false,
                author,
            }
        };
        let own = order(1, "a.test");
        assert_eq!(
            why_gone(&[order(1, "a.test"), order(2, "b.test")], &own),
            None
        );
        let replaced = why_gone(&[order(2, "a.test")], &own).expect("it is gone");
        assert!(
            replaced.starts_with("another has taken its place (host a.test is dropped by anna"),
            "{replaced}"
        );
        let taken_back = why_gone(&[order(2, "b.test")], &own).expect("it is gone");
        assert!(taken_back.starts_with("it was taken back"), "{taken_back}");
    }
}
