//! Draining: waiting until all that a crawl knows is in the stores of dedup and scheduler.
//!
//! In: looks at a crawl that is held. Out: a look in which nothing is in flight, in hand or in a
//! stream, the second of two between which nothing was published.

use super::super::progress::Progress;
use crate::control::Awaited;
use crate::handle::Running;
use crate::inspect::look;
use crate::status::Snapshot;
use anyhow::Context as _;
use std::time::{Duration, Instant};

/// Between two looks: each asks all processes and the broker.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What a message shows of what is still under way, at most.
const SHOWN: usize = 6;

/// Waits for it.
///
/// # Errors
/// It takes longer than `at_most`: what is still under way. Or something would not be in the
/// checkpoint.
pub(super) async fn drain(
    running: &Running,
    at_most: Duration,
    shows: bool,
) -> anyhow::Result<Snapshot> {
    let began = Instant::now();
    let mut progress = shows.then(Progress::new);
    let mut before = None;
    let mut awaited = look::awaited(running).await;
    loop {
        let snapshot = look(running, awaited).await?;
        awaited = Awaited::at_least(snapshot.processes.len());
        let under_way = snapshot.under_way(&running.pipeline);
        let is_quiet =
            under_way.is_empty() && snapshot.total("scheduler", "connections_in_use") == 0;
        if is_quiet && before.as_ref() == Some(&snapshot.last_sequences) {
            if let Some(progress) = &progress {
                progress.end();
            }
            check(&snapshot)?;
            return Ok(snapshot);
        }
        before = is_quiet.then(|| snapshot.last_sequences.clone());
        if !is_quiet && began.elapsed() >= at_most {
            anyhow::bail!(
                "the crawl has not drained within {}: {}; no checkpoint is taken, the crawl goes \
                 on (--drain-max)",
                humantime::format_duration(at_most),
                in_words(&under_way)
            );
        }
        if let Some(progress) = &mut progress {
            progress.show(format!("draining: {}", in_words(&under_way)));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Looks again: nothing may have happened since.
///
/// # Errors
/// Something has.
pub(super) async fn is_still(running: &Running, drained: &Snapshot) -> anyhow::Result<()> {
    let awaited = Awaited::at_least(drained.processes.len());
    let snapshot = look(running, awaited).await?;
    let under_way = snapshot.under_way(&running.pipeline);
    anyhow::ensure!(
        under_way.is_empty() && snapshot.last_sequences == drained.last_sequences,
        "the crawl did not stand still while its partitions were captured ({}): take the \
         checkpoint again",
        if under_way.is_empty() {
            "messages were published".to_owned()
        } else {
            in_words(&under_way)
        }
    );
    Ok(())
}

async fn look(running: &Running, awaited: Awaited) -> anyhow::Result<Snapshot> {
    let snapshot = Snapshot::take(&running.bus, &running.pipeline, awaited).await;
    snapshot.context("the broker does not answer")
}

/// What lies beside the streams is in no checkpoint.
fn check(snapshot: &Snapshot) -> anyhow::Result<()> {
    anyhow::ensure!(
        snapshot.dead_with_new == 0,
        "{} dead letters may hold new URLs, which would be lost: send them again first (rhumb dead \
         --replay)",
        snapshot.dead_with_new
    );
    Ok(())
}

fn in_words(under_way: &[String]) -> String {
    let more = under_way.len().saturating_sub(SHOWN);
    let shown = under_way[..under_way.len() - more].join(", ");
    match (shown.as_str(), more) {
        ("", _) => "jobs are ending".to_owned(),
        (_, 0) => shown,
        (_, more) => format!("{shown}, and {more} more"),
    }
}
