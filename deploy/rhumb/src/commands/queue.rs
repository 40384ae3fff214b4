//! `rhumb queue`: what waits at a host, in the order in which it would be fetched, or where most
//! waits.

use super::arguments::{BadArguments, Which};
use super::orders::canonical_host;
use crate::handle;
use crate::inspect::queues::{self, Told};
use crate::inspect::schedulers;
use crate::output::line;
use anyhow::ensure;
use clap::{Args, ValueEnum};
use rhumb_stage::{Estimates, Measure, QueueQuestion, RobotsTold, ServerQueue};
use serde_json::json;

/// Looks into the frontier: what waits at a host, or at which servers most waits
#[derive(Args)]
#[command(
    group(clap::ArgGroup::new("of").required(true).args(["host", "top"])),
    after_help = "A question changes nothing. URLs that failed and wait for another try are listed last, each with its time.

Examples:
  rhumb queue --host www.example.org          its servers, and 20 URLs of each, in order
  rhumb queue --host www.example.org --limit 500 --json
  rhumb queue --top 10                        the servers at which most URLs wait
  rhumb queue --top 10 --by errors            those that failed most often in a row
  rhumb queue --top 10 --by age               those that could be contacted for longest
  rhumb queue --top 10 --by slow              those whose answers take longest"
)]
pub(super) struct Queue {
    /// The servers of this host
    #[arg(long)]
    host: Option<String>,
    /// URLs of each server, at most 1000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    limit: u16,
    /// The N servers, at most 200, of which there is most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    top: Option<u16>,
    /// With --top: of what
    #[arg(long, value_enum, default_value_t = By::Waiting)]
    by: By,
    /// As JSON, a server a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// By what servers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// URLs that wait
    Waiting,
    /// Failures in a row
    Errors,
    /// Time since a server might have been contacted again
    Age,
    /// Time that its answers take
    Slow,
    /// How soon it may be contacted
    Next,
}

impl Queue {
    /// Asks the schedulers, and prints what they tell.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let question = self.question()?;
        let running = handle::find(&self.which.layers()).await?;
        let Told {
            servers,
            silent,
            errors,
        } = queues::ask(&running, question).await?;
        for server in &servers {
            match (self.json, self.top) {
                (true, _) => line(serde_json::to_string(server)?),
                (false, None) => print(server),
                (false, Some(_)) => print_short(server),
            }
        }
        ensure!(errors.is_empty(), "cannot be told: {}", errors.join("; "));
        if !silent.is_empty() {
            let silent = schedulers::in_words(&running, &silent).await?;
            anyhow::bail!("not answered by {silent}: what waits there is not known");
        }
        if let (true, Some(host)) = (servers.is_empty(), &self.host) {
            anyhow::bail!("no server of {host} is known: none of its URLs has come to a scheduler");
        }
        Ok(())
    }

    fn question(&self) -> Result<QueueQuestion, BadArguments> {
        Ok(match (&self.host, self.top) {
            (Some(host), _) => QueueQuestion::OfHost {
                host: canonical_host("--host", host)?,
                limit: self.limit.into(),
            },
            (None, top) => QueueQuestion::Top {
                n: top.unwrap_or_default().into(),
                by: self.measure(),
            },
        })
    }

    fn measure(&self) -> Measure {
        match self.by {
            By::Waiting => Measure::Waiting,
            By::Errors => Measure::Errors,
            By::Age => Measure::Age,
            By::Slow => Measure::Slow,
            By::Next => Measure::Next,
        }
    }
}

/// A server in a line.
fn print_short(of: &ServerQueue) {
    let age = of
        .age_s
        .map_or_else(|| "-".to_owned(), |age| format!("{age:.0} s"));
    let ServerQueue {
        server,
        why,
        waiting,
        in_flight,
        failures,
        ..
    } = of;
    line(format_args!(
        "{server}  waiting {waiting}  in flight {in_flight}  failures {failures}  age {age}  {why}"
    ));
}

/// A server with its URLs.
fn print(of: &ServerQueue) {
    print_short(of);
    let addresses: Vec<String> = of.addresses.iter().map(ToString::to_string).collect();
    match addresses.as_slice() {
        [] => line("  addresses  none known"),
        _ => line(format_args!(
            "  addresses  {}  for {:.0} s",
            addresses.join(", "),
            of.addresses_for_s
        )),
    }
    let RobotsTold {
        is,
        for_s,
        crawl_delay_s,
        rules,
        more_rules,
    } = &of.robots;
    line(format_args!(
        "  robots.txt {is}  for {for_s:.0} s  Crawl-delay {crawl_delay_s} s"
    ));
    for rule in rules {
        let (verdict, pattern) = rule.split_at(1);
        line(format_args!(
            "    {} {pattern}",
            if verdict == "+" {
                "allow   "
            } else {
                "disallow"
            }
        ));
    }
    if *more_rules > 0 {
        line(format_args!("    and {more_rules} more"));
    }
    line(format_args!("  estimates  {}", estimates(of.estimates)));
    if of.urls.is_empty() {
        return;
    }
    line(format_args!(
        "  {:>8} {:>8} {:>5} {:>8}  url",
        "in", "attempts", "depth", "quality"
    ));
    for url in &of.urls {
        let at = match url.in_s {
            None => "paused".to_owned(),
            Some(wait) if wait > 0.0 => format!("{wait:.1} s"),
            Some(_) => "now".to_owned(),
        };
        let why = url
            .why
            .as_ref()
            .map(|why| format!("  ({why})"))
            .unwrap_or_default();
        line(format_args!(
            "  {at:>8} {:>8} {:>5} {:>8.4}  {}{why}",
            url.attempts, url.depth, url.quality, url.url
        ));
    }
}

fn estimates(of: Estimates) -> String {
    let told = |value: Option<f64>, unit: &str| {
        value.map_or_else(|| "?".to_owned(), |value| format!("{value:.1}{unit}"))
    };
    format!(
        "connect {}  response {}  requests a connection {}  overlap {}  rank {}",
        told(of.connect_ms, " ms"),
        told(of.response_ms, " ms"),
        of.requests
            .map_or_else(|| "?".to_owned(), |requests| requests.to_string()),
        told(of.overlap, ""),
        json!(of.rank),
    )
}
