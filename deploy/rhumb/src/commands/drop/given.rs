//! The drops that are given: listed, and taken back.

use super::carrying::forget_done;
use crate::commands::arguments::BadArguments;
use crate::commands::orders::{Heard, change};
use crate::handle::Running;
use crate::output::line;
use rhumb_bus::find_orders;
use rhumb_config::orders::{DropOrder, Orders, Selection};
use std::fmt;

/// Names an order.
pub(super) enum Named {
    Id(u64),
    What(Selection),
}

impl Named {
    /// Takes the order back. Gives it, if it was given.
    fn take_from(&self, orders: &mut Orders) -> Option<DropOrder> {
        let what = match self {
            Named::Id(id) => orders
                .drops
                .iter()
                .find(|order| order.id == *id)?
                .what
                .clone(),
            Named::What(what) => what.clone(),
        };
        orders.take_back(&what)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Id(id) => write!(f, "what order {id} names"),
            Named::What(what) => what.fmt(f),
        }
    }
}

/// Lists the orders that hold, each with its number.
///
/// # Errors
/// The broker does not answer.
pub(super) async fn list(running: &Running, as_json: bool) -> anyhow::Result<()> {
    // Who may only look may forget nothing, and sees the orders all the same.
    let _ = forget_done(running).await;
    let orders = match find_orders(&running.bus).await? {
        Some(bucket) => bucket.read().await?.orders.drops,
        None => Vec::new(),
    };
    if orders.is_empty() && !as_json {
        line("nothing is dropped");
    }
    for order in orders {
        if as_json {
            line(serde_json::to_string(&order)?);
        } else {
            line(format_args!("{}  {order}", order.id));
        }
    }
    Ok(())
}

/// Takes an order back, and waits until that is heeded.
///
/// # Errors
/// It is not given, or a process does not heed that.
pub(super) async fn take_back(
    running: &Running,
    named: &Named,
    as_json: bool,
) -> anyhow::Result<()> {
    let mut taken_back = None;
    let given = change(running, |orders| {
        taken_back = named.take_from(orders);
        taken_back.is_some()
    });
    let given = given.await?;
    let Some(order) = taken_back else {
        let orders: Vec<String> = given
            .orders
            .drops
            .iter()
            .map(|order| order.what.to_string())
            .collect();
        let orders = if orders.is_empty() {
            "nothing".to_owned()
        } else {
            orders.join(", ")
        };
        return Err(BadArguments(format!("{named} is not dropped; dropped: {orders}")).into());
    };
    let heard = Heard::of(running, given.revision).await?;
    if as_json {
        line(serde_json::to_string(&order)?);
    } else {
        line(format_args!(
            "no longer dropped: {}; {}",
            order.what,
            heard.in_words()
        ));
    }
    heard
        .check(running, "what is found there is still dropped")
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::orders::Author;

    #[test]
    fn an_order_is_taken_back_by_its_number_or_by_what_it_names() {
        let order = |id, host: &str| {
            let what = Selection::Host(host.to_owned());
            DropOrder {
                id,
                what,
                and_later: true,
                author: Author::default(),
            }
        };
        let mut orders = Orders {
            drops: vec![order(7, "a.test"), order(8, "b.test")],
            ..Orders::default()
        };
        assert_eq!(Named::Id(9).take_from(&mut orders), None);
        assert_eq!(
            Named::Id(7).take_from(&mut orders).map(|order| order.id),
            Some(7)
        );
        assert_eq!(
            Named::What(Selection::Host("b.test".into()))
                .take_from(&mut orders)
                .map(|order| order.id),
            Some(8)
        );
        assert!(orders.drops.is_empty());
    }
}
