//! Holding: the crawl stands still for as long as this lasts.
//!
//! In: who asks. Out: an order that all processes heed, renewed until it is lifted. Invariant: only one command holds a crawl
//! at a time; when it dies, the hold is over a few seconds later.

use crate::commands::orders::{Heard, change};
use crate::control::ask_all;
use crate::handle::Running;
use shared::bus::{OrdersBucket, find_orders};
use shared::orders::{Author, Hold, Orders};
use shared::stage::{ControlRequest, ProcessHeeds};
use std::time::{Duration, Instant, SystemTime};

/// How often the hold is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(2);

/// A hold that was given.
pub(super) struct Holding<'a> {
    running: &'a Running,
    author: Author,
    renewing: tokio::task::JoinHandle<()>,
    /// Since when no job is handed out, at the latest.
    pub(super) since: Instant,
}

impl<'a> Holding<'a> {
    /// Gives the order, and waits until all processes heed it.
    ///
    /// # Errors
    /// Another command holds the crawl, or a process does not hear. Then the order is taken back.
    pub(super) async fn begin(running: &'a Running, author: Author) -> anyhow::Result<Self> {
        let (mut other, since) = (None, Instant::now());
        let given = change(running, |orders| {
            other = orders.hold.take().filter(|hold| !hold.is_over(now_s()));
            orders.hold = Some(Hold { author: author.clone(), renewed_s: now_s() });
            other.is_none()
        });
        let revision = given.await?.revision;
        if let Some(other) = other {
            anyhow::bail!("{other}: another checkpoint is being taken; try again when it has ended");
        }
        let bucket = find_orders(&running.bus).await?;
        let renewing = tokio::spawn(renew(bucket, author.clone()));
        let holding = Holding { running, author, renewing, since };
        let heard = async {
            let heard = Heard::of(running, revision).await?;
            heard.check(running, "the crawl cannot be held").await
        };
        match heard.await {
            Ok(()) => Ok(holding),
            Err(error) => {
                holding.lift().await?;
                Err(error.context("no checkpoint is taken, the crawl goes on"))
            }
        }
    }

    /// Takes the order back, and waits until the processes that answer heed that. Gives for how long the crawl was held.
    ///
    /// # Errors
    /// The broker does not answer. The hold is over when it is renewed no more.
    pub(super) async fn lift(self) -> anyhow::Result<Duration> {
        self.renewing.abort();
        let given = change(self.running, |orders| {
            let is_ours = is_of(orders, &self.author);
            if is_ours {
                orders.hold = None;
            }
            is_ours
        });
        given.await?;
        let _: Vec<ProcessHeeds> = ask_all(&self.running.bus, &ControlRequest::Heed, None).await?;
        Ok(self.since.elapsed())
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

fn is_of(orders: &Orders, author: &Author) -> bool {
    orders.hold.as_ref().is_some_and(|hold| hold.author == *author)
}

async fn renew(bucket: Option<OrdersBucket>, author: Author) {
    let Some(bucket) = bucket else { return };
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        let renewed = bucket.change(|orders| {
            let hold = orders.hold.as_mut().filter(|hold| hold.author == author);
            hold.map(|hold| hold.renewed_s = now_s().max(hold.renewed_s + 1)).is_some()
        });
        // What is not renewed for long is noticed when the partitions are captured.
        if let Err(error) = renewed.await {
            tracing::debug!("the hold is not renewed now: {error:#}");
        }
    }
}

fn now_s() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
}
