//! The orders of a crawl at the broker: one value in the key-value bucket `orders`.
//!
//! In: changes of the orders, as functions. Out: the orders as they are. Invariant: they are
//! written only over the revision that was read, so no order of another operator is lost.

use anyhow::Context as _;
use async_nats::jetstream::kv;
use rhumb_config::orders::Orders;

/// The bucket's name.
pub(super) const ORDERS: &str = "orders";
/// Its one key.
const KEY: &str = "crawl";

/// The orders as they lie at the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrdersGiven {
    /// What was asked for.
    pub orders: Orders,
    /// Grows with each change; 0 before the first.
    pub revision: u64,
}

/// The bucket.
#[derive(Clone, Debug)]
pub struct OrdersBucket {
    bucket: kv::Store,
}

impl OrdersBucket {
    pub(super) fn new(bucket: kv::Store) -> Self {
        OrdersBucket { bucket }
    }

    /// The orders.
    ///
    /// # Errors
    /// The broker does not answer, or they are not understood.
    pub async fn read(&self) -> anyhow::Result<OrdersGiven> {
        let entry = self
            .bucket
            .entry(KEY)
            .await
            .context("the orders of the crawl cannot be read")?;
        let Some(kv::Entry {
            value,
            revision,
            operation,
            ..
        }) = entry
        else {
            return Ok(OrdersGiven::default());
        };
        let orders = match operation {
            kv::Operation::Put => serde_json::from_slice(&value)
                .context("the crawl's orders at the broker are not understood")?,
            kv::Operation::Delete | kv::Operation::Purge => Orders::default(),
        };
        Ok(OrdersGiven { orders, revision })
    }

    /// Changes the orders. `change` says whether it changed anything; it is repeated when somebody
    /// else was faster. Returns them as they were written or found.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn change(
        &self,
        mut change: impl FnMut(&mut Orders) -> bool,
    ) -> anyhow::Result<OrdersGiven> {
        loop {
            let mut given = self.read().await?;
            if !change(&mut given.orders) {
                return Ok(given);
            }
            match self
                .bucket
                .update(
                    KEY,
                    serde_json::to_vec(&given.orders)?.into(),
                    given.revision,
                )
                .await
            {
                Ok(revision) => return Ok(OrdersGiven { revision, ..given }),
                Err(error) if error.kind() == kv::UpdateErrorKind::WrongLastRevision => {}
                Err(error) => {
                    return Err(error).context("the orders of the crawl cannot be written");
                }
            }
        }
    }
}
