//! `rhumb pause` and `rhumb unpause`: servers are left alone for as long as an operator wants.
//!
//! The order is written to the broker first, so that it holds for whoever comes later. Then
//! schedulers and fetchers are asked until each says that it heeds it: from then on no request is
//! made that the order forbids.

use super::arguments::{BadArguments, Which};
use super::orders::{AuthorArgs, Heard, canonical_domain, canonical_host, change};
use crate::handle;
use crate::output::line;
use clap::Args;
use rhumb_bus::OrdersGiven;
use rhumb_config::orders::{Pause as Order, Target};
use rhumb_wire::topology::StageName;
use serde::Serialize;
use std::collections::BTreeSet;

/// Leaves the crawl, a host or a domain alone until it is unpaused
///
/// When the command ends, requests that are under way end, and no other is made. What waits goes on
/// waiting, also over restarts and moves. `rhumb status` lists what is paused, `rhumb why` names
/// the order.
#[derive(Args)]
#[command(
    after_help = "Ends with exit code 1 when a process does not answer; it heeds the order when it is back.

Examples:
  rhumb pause --host www.example.org --note 'asked by mail, ticket 4711'
  rhumb pause --domain example.org
  rhumb pause                                  the whole crawl
  rhumb unpause --host www.example.org"
)]
pub(super) struct Pause {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    author: AuthorArgs,
    /// As JSON: the order, and which schedulers heed it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Takes back what was paused
#[derive(Args)]
#[command(after_help = "Examples:
  rhumb unpause --host www.example.org
  rhumb unpause                                the whole crawl; hosts and domains stay paused
  rhumb unpause --all                          everything")]
pub(super) struct Unpause {
    #[command(flatten)]
    what: What,
    /// Everything that is paused
    #[arg(long, conflicts_with_all = ["host", "domain"])]
    all: bool,
    /// As JSON: the orders that were taken back, and which schedulers heed it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// What an order is about; without any the whole crawl.
#[derive(Args)]
struct What {
    /// All servers of a host
    #[arg(long, conflicts_with = "domain")]
    host: Option<String>,
    /// All servers of a registered domain, such as example.org, and of the names below it
    #[arg(long)]
    domain: Option<String>,
}

impl What {
    fn target(&self) -> Result<Target, BadArguments> {
        match (&self.host, &self.domain) {
            (Some(host), _) => Ok(Target::Host(canonical_host("--host", host)?)),
            (None, Some(domain)) => Ok(Target::Domain(canonical_domain(domain)?)),
            (None, None) => Ok(Target::Crawl),
        }
    }
}

/// What the commands tell as JSON.
#[derive(Serialize)]
struct Told<'a> {
    orders: &'a [Order],
    /// Schedulers that heed it.
    heeded_by: BTreeSet<u16>,
    /// Schedulers that do not answer, or have not heard.
    silent: &'a BTreeSet<u16>,
    /// Fetchers that have not heard.
    late_fetchers: BTreeSet<u16>,
}

impl Pause {
    /// Writes the order, and waits until it is heeded.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let what = self.what.target()?;
        let running = handle::find(&self.which.layers()).await?;
        let order = Order {
            what,
            author: self.author.author(),
        };
        let mut before = None;
        let given = change(&running, |orders| {
            before = orders.unpause(&order.what);
            orders.pause(order.clone());
            true
        });
        let heard = Heard::of(&running, given.await?.revision).await?;
        if self.json {
            print_json(&heard, &[order])?;
        } else {
            before
                .iter()
                .for_each(|before| line(format_args!("in place of: {before}")));
            line(format_args!("{order}; {}", heard.in_words()));
        }
        heard
            .check(&running, "what is paused may still be fetched there")
            .await
    }
}

impl Unpause {
    /// Takes the order back, and waits until that is heeded.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let what = if self.all {
            None
        } else {
            Some(self.what.target()?)
        };
        let running = handle::find(&self.which.layers()).await?;
        let mut taken_back = Vec::new();
        let given = change(&running, |orders| {
            taken_back = match &what {
                Some(what) => orders.unpause(what).into_iter().collect(),
                None => std::mem::take(&mut orders.paused),
            };
            !taken_back.is_empty()
        });
        let OrdersGiven { orders, revision } = given.await?;
        if taken_back.is_empty() {
            let what = what.map_or_else(|| "nothing".to_owned(), |what| format!("{what} is not"));
            let paused: Vec<String> = orders
                .paused
                .iter()
                .map(|order| order.what.to_string())
                .collect();
            let paused = if paused.is_empty() {
                "nothing".to_owned()
            } else {
                paused.join(", ")
            };
            return Err(BadArguments(format!("{what} paused; paused: {paused}")).into());
        }
        let heard = Heard::of(&running, revision).await?;
        if self.json {
            print_json(&heard, &taken_back)?;
        } else {
            let names: Vec<String> = taken_back
                .iter()
                .map(|order| order.what.to_string())
                .collect();
            line(format_args!(
                "no longer paused: {}; {}",
                names.join(", "),
                heard.in_words()
            ));
            orders
                .paused
                .iter()
                .for_each(|left| line(format_args!("still holds: {left}")));
        }
        heard.check(&running, "it stays paused there").await
    }
}

fn print_json(heard: &Heard, orders: &[Order]) -> anyhow::Result<()> {
    let heeded_by = heard.of_stage(StageName::Scheduler);
    let late_fetchers = heard.late_of_stage(StageName::Fetcher);
    line(serde_json::to_string(&Told {
        orders,
        heeded_by,
        silent: &heard.silent,
        late_fetchers,
    })?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: Option<&str>, domain: Option<&str>) -> Result<Target, String> {
        let what = What {
            host: host.map(str::to_owned),
            domain: domain.map(str::to_owned),
        };
        what.target().map_err(|error| error.to_string())
    }

    #[test]
    fn a_target_is_a_canonical_name() {
        assert_eq!(target(None, None), Ok(Target::Crawl));
        for (host, canonical) in [
            ("WWW.Example.org", "www.example.org"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(
                target(Some(host), None),
                Ok(Target::Host(canonical.to_owned())),
                "{host}"
            );
        }
        for host in [
            "",
            "http://a.test",
            "a.test:80",
            "a.test/path",
            "a b",
            "user@a.test",
            "a.test?x",
            "a.test#x",
        ] {
            assert!(
                target(Some(host), None)
                    .unwrap_err()
                    .contains("no name or address of a host"),
                "{host}"
            );
        }
        assert_eq!(
            target(None, Some("example.co.uk")),
            Ok(Target::Domain("example.co.uk".to_owned()))
        );
        let refused = target(None, Some("www.example.co.uk")).unwrap_err();
        assert!(
            refused.contains("the registered domain is example.co.uk"),
            "{refused}"
        );
        for suffix in ["co.uk", "com", "github.io"] {
            assert!(
                target(None, Some(suffix))
                    .unwrap_err()
                    .contains("this is a public suffix"),
                "{suffix}"
            );
        }
    }
}
