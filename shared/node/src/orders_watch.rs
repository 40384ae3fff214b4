//! The watch on the orders: what operators have asked of the crawl.
//!
//! In: the orders at the broker, read when a process begins, when it is told that there are others,
//! and now and then: who was away when it was told finds them. Out: the orders as they are, without
//! a hold that nobody renews any more. Only operators write orders, so one whose command was killed
//! lies at the broker until the next checkpoint: who begins and finds a hold does not know whether
//! anybody renews it, and heeds it when it has seen that.

use rhumb_bus::{OrdersBucket, OrdersGiven};
use rhumb_config::orders::{HOLD_LASTS, Orders};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// How often the orders are read although nobody tells of others.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same while the crawl is held.
const LOOK_EVERY_HELD: Duration = Duration::from_secs(1);

/// Reads the orders for as long as it lives.
pub(super) struct OrdersWatch {
    bucket: OrdersBucket,
    given: watch::Receiver<OrdersGiven>,
    are_others: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
    /// The revision that the core heeds, and whether with its hold.
    heeded: (u64, bool),
}

impl OrdersWatch {
    /// Begins with what the broker holds.
    ///
    /// # Errors
    /// The broker does not answer, or the orders are not understood.
    pub(super) async fn begin(bucket: OrdersBucket) -> anyhow::Result<Self> {
        let mut found = bucket.read().await?;
        let renewal = Renewal::begin(&mut found.orders);
        let (sender, given) = watch::channel(found);
        let are_others = Arc::new(Notify::new());
        let task = tokio::spawn(look_on(
            bucket.clone(),
            sender,
            Arc::clone(&are_others),
            renewal,
        ));
        Ok(OrdersWatch {
            bucket,
            given,
            are_others,
            task,
            heeded: (0, false),
        })
    }

    /// Reads them at once: there may be others.
    pub(super) fn look(&self) {
        self.are_others.notify_one();
    }

    /// The orders as the broker holds them now, with a hold if it was seen to be renewed.
    ///
    /// # Errors
    /// The broker does not answer, or they are not understood.
    pub(super) async fn read(&self) -> anyhow::Result<OrdersGiven> {
        let mut given = self.bucket.read().await?;
        if self.given.borrow().orders.hold.is_none() {
            given.orders.hold = None;
        }
        Ok(given)
    }

    /// The orders as they were read last.
    pub(super) fn given(&self) -> OrdersGiven {
        self.given.borrow().clone()
    }

    /// Returns whether there are others than the core heeds.
    pub(super) fn has_others(&self) -> bool {
        let given = self.given.borrow();
        (given.revision, given.orders.hold.is_some()) != self.heeded
    }

    /// The core heeds the orders of this revision, with its hold or without.
    pub(super) fn heeds(&mut self, revision: u64, is_held: bool) {
        self.heeded = (revision, is_held);
    }

    /// Returns whether the core heeds a hold.
    pub(super) fn is_held(&self) -> bool {
        self.heeded.1
    }

    /// The revision that the core heeds.
    pub(super) fn heeded(&self) -> u64 {
        self.heeded.0
    }
}

impl Drop for OrdersWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look_on(
    bucket: OrdersBucket,
    sender: watch::Sender<OrdersGiven>,
    are_others: Arc<Notify>,
    mut renewal: Renewal,
) {
    loop {
        let every = if renewal.may_be_held() {
            LOOK_EVERY_HELD
        } else {
            LOOK_EVERY
        };
        let _ = tokio::time::timeout(every, are_others.notified()).await;
        match bucket.read().await {
            Ok(mut given) => {
                renewal.look(&mut given.orders, Instant::now());
                sender.send_if_modified(|known| {
                    let is_news = *known != given;
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

/// The hold of a crawl that was seen last: when it was renewed by the clock of who did, and when
/// that was seen. Nothing was seen of one that was there in the beginning, or is over.
struct Renewal(Option<(u64, Option<Instant>)>);

impl Renewal {
    /// Takes a hold out of the orders that a process finds when it begins.
    fn begin(orders: &mut Orders) -> Self {
        Renewal(orders.hold.take().map(|hold| (hold.renewed_s, None)))
    }

    /// Returns whether there is a hold, or may be one.
    fn may_be_held(&self) -> bool {
        self.0.is_some()
    }

    /// Takes a hold out of the orders that nobody renews any more.
    fn look(&mut self, orders: &mut Orders, now: Instant) {
        let is_kept = |since: &Instant| now.saturating_duration_since(*since) <= HOLD_LASTS;
        self.0 = match (&orders.hold, self.0) {
            (None, _) => None,
            (Some(hold), Some((renewed_s, since))) if renewed_s == hold.renewed_s => {
                Some((renewed_s, since.filter(is_kept)))
            }
            (Some(hold), _) => Some((hold.renewed_s, Some(now))),
        };
        if self.0.is_none_or(|(_, since)| since.is_none()) {
            orders.hold = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::orders::{Author, Hold};

    #[test]
    fn a_hold_is_over_when_it_is_renewed_no_more_whatever_the_clock_of_its_giver_says() {
        let mut renewal = Renewal::begin(&mut Orders::default());
        let begun = Instant::now();
        let mut is_held = |renewed_s, seconds| {
            let hold = Some(Hold {
                author: Author::default(),
                renewed_s,
            });
            let mut orders = Orders {
                hold,
                ..Orders::default()
            };
            renewal.look(&mut orders, begun + Duration::from_secs(seconds));
            orders.hold.is_some()
        };
        let lasts = HOLD_LASTS.as_secs();
        assert!(is_held(900, 0) && is_held(900, lasts) && !is_held(900, lasts + 1));
        assert!(!is_held(900, lasts + 2), "it does not come back");
        assert!(
            is_held(5, lasts + 3)
                && is_held(4, 2 * lasts)
                && is_held(4, 3 * lasts)
                && !is_held(4, 3 * lasts + 1)
        );
    }

    #[test]
    fn a_hold_that_is_found_in_the_beginning_is_heeded_when_it_is_renewed() {
        let begun = Instant::now();
        let orders = |renewed_s| Orders {
            hold: Some(Hold {
                author: Author::default(),
                renewed_s,
            }),
            ..Orders::default()
        };
        let is_left_over = |found: &mut Orders| {
            let renewal = Renewal::begin(found);
            (found.hold.is_none() && renewal.may_be_held()).then_some(renewal)
        };
        let mut renewal = is_left_over(&mut orders(7)).unwrap();
        let mut is_held = |renewed_s, seconds| {
            let mut orders = orders(renewed_s);
            renewal.look(&mut orders, begun + Duration::from_secs(seconds));
            orders.hold.is_some()
        };
        assert!(!is_held(7, 1) && !is_held(7, 60) && is_held(8, 61) && is_held(8, 62));
    }
}
