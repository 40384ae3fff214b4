//! `rhumb pause` and `rhumb unpause`: servers are left alone for as long as an operator wants.
//!
//! The order is written to the broker first, so that it holds for whoever comes later. Then schedulers and fetchers are asked
//! until each says that it heeds it: from then on no request is made that the order forbids.

use super::arguments::{BadArguments, Which};
use super::schedulers;
use crate::control::ask_all;
use crate::handle::{self, Running};
use crate::output::line;
use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use shared::bus::{OrdersGiven, find_orders};
use shared::orders::{Orders, Pause as Order, Target};
use shared::process::host_name;
use shared::stage::{ControlRequest, ProcessHeeds};
use shared::topology::StageName;
use shared::url::{canonical, host_of, registered_domain};
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

/// How long schedulers and fetchers may take to heed an order.
const HEED_MAX: Duration = Duration::from_secs(10);

/// Characters of a note, at most.
const NOTE_MAX: usize = 500;

/// Leaves the crawl, a host or a domain alone until it is unpaused
///
/// When the command ends, requests that are under way end, and no other is made. What waits goes on waiting, also over restarts
/// and moves. `rhumb status` lists what is paused, `rhumb why` names the order.
#[derive(Args)]
#[command(
    after_help = "Ends with exit code 1 when a scheduler or a fetcher does not answer; it heeds the order when it is back.

Examples:
  rhumb pause --host www.example.org --note 'asked by mail, ticket 4711'
  rhumb pause --domain example.org
  rhumb pause                                  the whole crawl
  rhumb unpause --host www.example.org"
)]
pub(super) struct Pause {
    #[command(flatten)]
    what: What,
    /// Why: shown by status and why; a line of 500 characters at most
    #[arg(long, default_value = "", hide_default_value = true, value_parser = note)]
    note: String,
    /// Who asks for it [default: USER@HOST]
    #[arg(long, value_name = "NAME", value_parser = note)]
    by: Option<String>,
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
            (None, Some(domain)) => {
                let name = canonical_host("--domain", domain)?;
                // A public suffix is its own registered domain, too, and what is below it is not of it.
                match (registered_domain(&name), registered_domain(&format!("www.{name}"))) {
                    (registered, _) if registered != name => Err(BadArguments(format!(
                        "--domain {domain}: the registered domain is {registered}; a name below it is a --host"
                    ))),
                    (_, below) if below != name => Err(BadArguments(format!(
                        "--domain {domain}: this is a public suffix; each name below it is a domain of its own"
                    ))),
                    _ => Ok(Target::Domain(name)),
                }
            }
            (None, None) => Ok(Target::Crawl),
        }
    }
}

/// The canonical name of a host that was given with this option.
pub(super) fn canonical_host(option: &str, name: &str) -> Result<String, BadArguments> {
    // The colons of an IPv6 address are in brackets.
    let is_bare = !name.contains(['/', '?', '#', '@', '\\']) && (!name.contains(':') || name.ends_with(']'));
    let canonical = canonical(&format!("http://{name}/"), None, None).ok().filter(|_| is_bare);
    let host = canonical.as_deref().map(host_of).filter(|host| !host.is_empty());
    host.map(str::to_owned)
        .ok_or_else(|| BadArguments(format!("{option} {name}: this is no name or address of a host")))
}

/// Words that are shown in a line.
fn note(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_control) || text.chars().count() > NOTE_MAX {
        true => Err(format!("not a line of {NOTE_MAX} characters at most")),
        false => Ok(text.to_owned()),
    }
}

/// What the commands tell as JSON.
#[derive(Serialize)]
struct Told<'a> {
    orders: &'a [Order],
    /// Schedulers that heed it.
    heeded_by: &'a BTreeSet<u16>,
    /// Schedulers that do not answer, or have not heard.
    silent: &'a BTreeSet<u16>,
    /// Fetchers that have not heard.
    late_fetchers: &'a BTreeSet<u16>,
}

impl Pause {
    /// Writes the order, and waits until it is heeded.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let what = self.what.target()?;
        let running = handle::find(&self.which.layers()).await?;
        let since_s = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let by = self.by.unwrap_or_else(who);
        let order = Order { what, by, since_s, note: self.note };
        let mut before = None;
        let given = change(&running, |orders| {
            before = orders.unpause(&order.what);
            orders.pause(order.clone());
            true
        });
        let heard = Heard::of(&running, given.await?.revision).await?;
        if self.json {
            heard.print_json(&[order])?;
        } else {
            before.iter().for_each(|before| line(format_args!("in place of: {before}")));
            line(format_args!("{order}; {}", heard.in_words()));
        }
        heard.check(&running, "what is paused may still be fetched there").await
    }
}

impl Unpause {
    /// Takes the order back, and waits until that is heeded.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let what = if self.all { None } else { Some(self.what.target()?) };
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
            let paused: Vec<String> = orders.paused.iter().map(|order| order.what.to_string()).collect();
            let paused = if paused.is_empty() { "nothing".to_owned() } else { paused.join(", ") };
            return Err(BadArguments(format!("{what} paused; paused: {paused}")).into());
        }
        let heard = Heard::of(&running, revision).await?;
        if self.json {
            heard.print_json(&taken_back)?;
        } else {
            let names: Vec<String> = taken_back.iter().map(|order| order.what.to_string()).collect();
            line(format_args!("no longer paused: {}; {}", names.join(", "), heard.in_words()));
            orders.paused.iter().for_each(|left| line(format_args!("still holds: {left}")));
        }
        heard.check(&running, "it stays paused there").await
    }
}

async fn change(running: &Running, change: impl FnMut(&mut Orders) -> bool) -> anyhow::Result<OrdersGiven> {
    let bucket = find_orders(&running.bus).await?;
    let none =
        "an earlier version has begun this crawl: run `rhumb init` of this one, or `rhumb crawl --resume`, first";
    bucket.context(none)?.change(change).await
}

/// Who runs the command, and where.
fn who() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|key| std::env::var(key).ok().filter(|name| !name.is_empty()));
    let user = user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    host_name().map_or_else(|| user.clone(), |host| format!("{user}@{host}"))
}

/// Which processes heed an order: schedulers grant no job any more, fetchers stop those that they have.
struct Heard {
    schedulers: BTreeSet<u16>,
    /// Schedulers that do not answer, or have not heard.
    silent: BTreeSet<u16>,
    /// Fetchers that answer, and have not heard.
    late_fetchers: BTreeSet<u16>,
}

impl Heard {
    /// Asks all processes until all heed the orders of this revision, or for [`HEED_MAX`].
    async fn of(running: &Running, revision: u64) -> anyhow::Result<Heard> {
        let end = Instant::now() + HEED_MAX;
        let mut schedulers = BTreeSet::new();
        loop {
            let answers: Vec<ProcessHeeds> = ask_all(&running.bus, &ControlRequest::Heed, None).await?;
            let of = |stage: StageName, heed: bool| {
                let meant = answers.iter().filter(move |answer| answer.stage == stage.name());
                meant.filter(move |answer| (answer.revision >= revision) == heed).map(|answer| answer.instance)
            };
            schedulers.extend(of(StageName::Scheduler, true));
            let late_fetchers: BTreeSet<u16> = of(StageName::Fetcher, false).collect();
            let silent: BTreeSet<u16> = &schedulers::needed(running).await? - &schedulers;
            if silent.is_empty() && late_fetchers.is_empty() || Instant::now() >= end {
                return Ok(Heard { schedulers, silent, late_fetchers });
            }
        }
    }

    fn in_words(&self) -> String {
        match self.schedulers.len() {
            1 => "1 scheduler heeds it".to_owned(),
            n => format!("{n} schedulers heed it"),
        }
    }

    fn print_json(&self, orders: &[Order]) -> anyhow::Result<()> {
        let Heard { schedulers: heeded_by, silent, late_fetchers } = self;
        line(serde_json::to_string(&Told { orders, heeded_by, silent, late_fetchers })?);
        Ok(())
    }

    /// `meanwhile`: what those may do that have not heard.
    ///
    /// # Errors
    /// One has not: which, and what it has.
    async fn check(&self, running: &Running, meanwhile: &str) -> anyhow::Result<()> {
        if self.silent.is_empty() && self.late_fetchers.is_empty() {
            return Ok(());
        }
        let fetchers = self.late_fetchers.iter().map(|instance| format!("fetcher.{instance}"));
        let silent = Some(schedulers::in_words(running, &self.silent).await?).filter(|text| !text.is_empty());
        let names: Vec<String> = silent.into_iter().chain(fetchers).collect();
        anyhow::bail!(
            "not heard yet by {}: no answer within {} s. The order is kept, and heeded a few seconds after they are back; until \
             then {meanwhile}",
            names.join(", "),
            HEED_MAX.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: Option<&str>, domain: Option<&str>) -> Result<Target, String> {
        let what = What { host: host.map(str::to_owned), domain: domain.map(str::to_owned) };
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
            assert_eq!(target(Some(host), None), Ok(Target::Host(canonical.to_owned())), "{host}");
        }
        for host in ["", "http://a.test", "a.test:80", "a.test/path", "a b", "user@a.test", "a.test?x", "a.test#x"] {
            assert!(target(Some(host), None).unwrap_err().contains("no name or address of a host"), "{host}");
        }
        assert_eq!(target(None, Some("example.co.uk")), Ok(Target::Domain("example.co.uk".to_owned())));
        let refused = target(None, Some("www.example.co.uk")).unwrap_err();
        assert!(refused.contains("the registered domain is example.co.uk"), "{refused}");
        for suffix in ["co.uk", "com", "github.io"] {
            assert!(target(None, Some(suffix)).unwrap_err().contains("this is a public suffix"), "{suffix}");
        }
    }
}
