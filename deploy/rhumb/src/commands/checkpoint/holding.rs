//! Holding: the crawl stands still for as long as this lasts.
//!
//! In: who asks. Out: an order that all processes heed, renewed until it is lifted. Invariant: only
//! one command holds a crawl at a time; when it dies, the hold is over a few seconds later.

use super::interrupt::Interrupt;
use crate::commands::orders::{Heard, change};
use crate::control::ask_all;
use crate::handle::Running;
use anyhow::Context as _;
use rhumb_bus::{OrdersBucket, find_orders};
use rhumb_config::orders::{Author, HOLD_LASTS, Hold, Orders};
use rhumb_stage::{ControlRequest, ProcessHeeds, ProcessStatus};
use std::time::{Duration, Instant, SystemTime};

/// How often the hold is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// How often it is looked whether somebody else's is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A hold that was given.
pub(super) struct Holding<'a> {
    running: &'a Running,
    author: Author,
    renewing: tokio::task::JoinHandle<()>,
    /// Since when no job is handed out, at the latest.
    pub(super) since: Instant,
}

impl<'a> Holding<'a> {
    /// Gives the order, and waits until all processes heed it; none when it was interrupted.
    ///
    /// # Errors
    /// Another command holds the crawl, or a process does not hear. Then the order is taken back.
    pub(super) async fn begin(
        running: &'a Running,
        author: Author,
        interrupt: &mut Interrupt,
    ) -> anyhow::Result<Option<Self>> {
        let bucket = find_orders(&running.bus).await?;
        let left_over = tokio::select! {
            left_over = left_over(running) => left_over?,
            () = interrupt.comes() => return Ok(None),
        };
        let mut other = None;
        let since = Instant::now();
        // From here on the order may be there, and has to be taken back.
        let given = change(running, |orders| {
            other = orders
                .hold
                .take()
                .filter(|hold| Some(hold) != left_over.as_ref());
            orders.hold = Some(Hold {
                author: author.clone(),
                renewed_s: now_s(),
            });
            other.is_none()
        });
        let revision = given.await?.revision;
        if let Some(other) = other {
            return Err(is_taken(&other));
        }
        let renewing = tokio::spawn(renew(bucket, author.clone()));
        let holding = Holding {
            running,
            author,
            renewing,
            since,
        };
        let heard = async {
            let heard = Heard::of(running, revision).await?;
            heard.check(running, "the crawl cannot be held").await
        };
        let heard = tokio::select! {
            heard = heard => Some(heard),
            () = interrupt.comes() => None,
        };
        match heard {
            Some(Ok(())) => Ok(Some(holding)),
            Some(Err(error)) => {
                holding.lift().await?;
                Err(error.context("no checkpoint is taken, the crawl goes on"))
            }
            None => holding.lift().await.map(|_| None),
        }
    }

    /// Takes the order back, and waits until the processes that answer heed that. Gives for how
    /// long the crawl was held.
    ///
    /// # Errors
    /// The broker does not answer: the hold is over when it is renewed no more. Or somebody else
    /// has taken it back.
    pub(super) async fn lift(self) -> anyhow::Result<Duration> {
        self.renewing.abort();
        let mut is_ours = false;
        let given = change(self.running, |orders| {
            is_ours = is_of(orders, &self.author);
            if is_ours {
                orders.hold = None;
            }
            is_ours
        });
        given
            .await
            .context("the crawl goes on by itself in some seconds")?;
        anyhow::ensure!(
            is_ours,
            "the crawl was not held to the end: another command took the hold, which could not be \
             renewed for {} s; take the checkpoint again",
            HOLD_LASTS.as_secs()
        );
        let _: Vec<ProcessHeeds> = ask_all(&self.running.bus, &ControlRequest::Heed, None).await?;
        Ok(self.since.elapsed())
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// Waits until it is clear whether somebody else holds the crawl. Gives a hold that nobody renews
/// any more and no process heeds, whatever the clock of its giver says.
async fn left_over(running: &Running) -> anyhow::Result<Option<Hold>> {
    let mut found = None;
    let since = Instant::now();
    loop {
        let Some(hold) = change(running, |_| false).await?.orders.hold else {
            return Ok(None);
        };
        let found = found.get_or_insert_with(|| hold.clone());
        let processes: Vec<ProcessStatus> =
            ask_all(&running.bus, &ControlRequest::Status, None).await?;
        if *found != hold || processes.iter().any(|process| process.held) {
            return Err(is_taken(&hold));
        }
        // One that was given this moment is heard of soon, or renewed.
        if since.elapsed() > 2 * RENEW_EVERY {
            return Ok(Some(hold));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn is_taken(other: &Hold) -> anyhow::Error {
    anyhow::anyhow!("{other}: another checkpoint is being taken; try again when it has ended")
}

fn is_of(orders: &Orders, author: &Author) -> bool {
    orders
        .hold
        .as_ref()
        .is_some_and(|hold| hold.author == *author)
}

async fn renew(bucket: Option<OrdersBucket>, author: Author) {
    let Some(bucket) = bucket else { return };
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        let renewed = bucket.change(|orders| {
            let hold = orders.hold.as_mut().filter(|hold| hold.author == author);
            hold.map(|hold| hold.renewed_s = now_s().max(hold.renewed_s + 1))
                .is_some()
        });
        // What is not renewed for long is noticed when the partitions are captured.
        if let Err(error) = renewed.await {
            tracing::debug!("the hold is not renewed now: {error:#}");
        }
    }
}

fn now_s() -> u64 {
    SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default()
        .as_secs()
}
