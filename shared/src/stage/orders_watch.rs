//! The watch on the orders: what operators have asked of the crawl.
//!
//! In: the orders at the broker, read when a process begins, when it is told that there are others, and now and then: who was
//! away when it was told finds them. Out: the orders as they are.

use crate::bus::{OrdersBucket, OrdersGiven};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How often the orders are read although nobody tells of others.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Reads the orders for as long as it lives.
pub(super) struct OrdersWatch {
    bucket: OrdersBucket,
    given: watch::Receiver<OrdersGiven>,
    are_others: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
    /// The revision that the core heeds.
    heeded: u64,
}

impl OrdersWatch {
    /// Begins with what the broker holds.
    ///
    /// # Errors
    /// The broker does not answer, or the orders are not understood.
    pub(super) async fn begin(bucket: OrdersBucket) -> anyhow::Result<Self> {
        let (sender, given) = watch::channel(bucket.read().await?);
        let are_others = Arc::new(Notify::new());
        let task = tokio::spawn(look_on(bucket.clone(), sender, Arc::clone(&are_others)));
        Ok(OrdersWatch { bucket, given, are_others, task, heeded: 0 })
    }

    /// Reads them at once: there may be others.
    pub(super) fn look(&self) {
        self.are_others.notify_one();
    }

    /// The orders as the broker holds them now.
    ///
    /// # Errors
    /// The broker does not answer, or they are not understood.
    pub(super) async fn read(&self) -> anyhow::Result<OrdersGiven> {
        self.bucket.read().await
    }

    /// The orders as they were read last.
    pub(super) fn given(&self) -> OrdersGiven {
        self.given.borrow().clone()
    }

    /// Says whether there are others than the core heeds.
    pub(super) fn has_others(&self) -> bool {
        self.given.borrow().revision != self.heeded
    }

    /// The core heeds the orders of this revision.
    pub(super) fn heeds(&mut self, revision: u64) {
        self.heeded = revision;
    }

    /// The revision that the core heeds.
    pub(super) fn heeded(&self) -> u64 {
        self.heeded
    }
}

impl Drop for OrdersWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look_on(bucket: OrdersBucket, sender: watch::Sender<OrdersGiven>, are_others: Arc<Notify>) {
    loop {
        let _ = tokio::time::timeout(LOOK_EVERY, are_others.notified()).await;
        match bucket.read().await {
            Ok(given) => {
                sender.send_if_modified(|known| {
                    let is_news = known.revision != given.revision;
                    if is_news {
                        *known = given;
                    }
                    is_news
                });
            }
            // A broker that is away is no news.
            Err(error) => tracing::debug!("the orders are not read now: {error:#}"),
        }
    }
}
