//! `rhumb drop`: waiting URLs that an operator wants to be rid of end as `dropped`.
//!
//! What waits is counted first, by the schedulers, piece by piece. Then the order is written to the broker: each partition carries
//! it out once, also when its scheduler is away now. An order about what waits is forgotten when all have.

use super::arguments::{BadArguments, Which};
use super::orders::{AuthorArgs, Heard, canonical_domain, canonical_host, change};
use super::progress::Progress;
use super::schedulers;
use crate::control::ask_all;
use crate::handle::{self, Running};
use crate::output::line;
use clap::{ArgAction, Args};
use serde::Serialize;
use shared::bus::find_orders;
use shared::orders::{Author, DropOrder, Selection};
use shared::stage::{ControlRequest, CountQuestion, Counted, ProcessCount, ProcessDrop, new_life};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a scheduler may be silent that has heard an order.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// Between two questions how far schedulers have come.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// How often a scheduler is asked again that does not answer while it counts.
const TRIES: usize = 3;
/// URLs that are shown as examples, at most.
const EXAMPLES_MAX: usize = 5;

/// Ends URLs that wait, as dropped
///
/// Counts first, and asks. What is in a job at that moment is dropped unless its request is under way. Each URL keeps one outcome:
/// dropped, in crawl.jsonl as well. What was dropped does not come back.
#[derive(Args)]
#[command(
    after_help = "Where it cannot ask, it needs --yes; to drop all that waits (or 99 of 100), --yes twice. Ends with exit code 1 when the answer is \
no, or when a scheduler does not answer: it drops what it has when it is back.

Examples:
  rhumb drop --host www.example.org
  rhumb drop --prefix 'http://(org,example,www,)/calendar/' --and-later --note 'a calendar without end'
  rhumb drop --match '[?&]sessionid=' --yes
  rhumb drop --list
  rhumb drop --take-back --prefix 'http://(org,example,www,)/calendar/'"
)]
pub(super) struct Drop {
    #[command(flatten)]
    what: What,
    /// What is found later, too, until it is taken back
    #[arg(long)]
    and_later: bool,
    /// Does not ask; given twice, not even before all that waits is dropped
    #[arg(long, action = ArgAction::Count)]
    yes: u8,
    #[command(flatten)]
    author: AuthorArgs,
    /// Lists the orders that hold
    #[arg(long, conflicts_with_all = ["and_later", "yes", "take_back"])]
    list: bool,
    /// Takes an order back: what is found from now on is not dropped
    #[arg(long, requires = "what", conflicts_with_all = ["and_later", "yes"])]
    take_back: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Which URLs are meant.
#[derive(Args)]
#[group(id = "what", multiple = false)]
struct What {
    /// Those of a host
    #[arg(long)]
    host: Option<String>,
    /// Those of a registered domain, such as example.org, and of the names below it
    #[arg(long)]
    domain: Option<String>,
    /// Those whose SURT begins so, as in scope.prefixes
    #[arg(long, value_name = "SURT")]
    prefix: Option<String>,
    /// Those in which a regular expression matches somewhere
    #[arg(long, value_name = "REGEX")]
    r#match: Option<String>,
}

impl What {
    fn selection(&self) -> Result<Option<Selection>, BadArguments> {
        Ok(match self {
            What { host: Some(host), .. } => Some(Selection::Host(canonical_host("--host", host)?)),
            What { domain: Some(domain), .. } => Some(Selection::Domain(canonical_domain(domain)?)),
            What { prefix: Some(prefix), .. } => {
                let prefix = prefix.to_ascii_lowercase();
                let is_surt = ["http://(", "https://("].iter().any(|start| prefix.starts_with(start));
                if !is_surt {
                    return Err(BadArguments(format!(
                        "--prefix {prefix}: this is no SURT of a URL, which begins as http://(org,example,www,)/path"
                    )));
                }
                Some(Selection::Prefix(prefix))
            }
            What { r#match: Some(expression), .. } => {
                let what = Selection::Match(expression.clone());
                let bad = |error| BadArguments(format!("--match {expression}: this is no regular expression: {error}"));
                what.selector().map_err(bad)?;
                Some(what)
            }
            _ => None,
        })
    }
}

/// What the command tells as JSON when it has dropped.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    order: &'a DropOrder,
    /// URLs that were counted before, and of how many.
    counted: u64,
    of: u64,
    /// URLs that ended.
    dropped: u64,
    /// Schedulers that have not carried it out: they do not answer.
    silent: &'a BTreeSet<u16>,
}

impl Drop {
    /// Counts, asks, and drops; or lists or takes back orders.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let what = self.what.selection()?;
        let running = handle::find(&self.which.layers()).await?;
        match what {
            _ if self.list => list(&running, self.json).await?,
            Some(what) if self.take_back => take_back(&running, &what, self.json).await?,
            Some(what) => {
                let Drop { and_later, yes, author, json: as_json, .. } = self;
                let wanted = Wanted { what, and_later, yes, author: author.author(), as_json };
                return Ok(if wanted.run(&running).await? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
            None => {
                let missing =
                    "which URLs? Name them by --host, --domain, --prefix or --match; or --list what is dropped";
                return Err(BadArguments(missing.to_owned()).into());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A drop that is asked for.
pub(super) struct Wanted {
    pub(super) what: Selection,
    /// What is found later, too.
    pub(super) and_later: bool,
    /// How often it was confirmed before.
    pub(super) yes: u8,
    pub(super) author: Author,
    pub(super) as_json: bool,
}

impl Wanted {
    /// Counts, asks, and drops. Says whether the answer was yes.
    ///
    /// # Errors
    /// A scheduler does not answer, or nobody can be asked.
    pub(super) async fn run(self, running: &Running) -> anyhow::Result<bool> {
        let count = Count::of(running, &self.what).await?;
        if count.found == 0 && count.silent.is_empty() && !self.and_later {
            line(format_args!("nothing to drop: none of the {} URLs that wait is of {}", count.waiting(), self.what));
            return Ok(true);
        }
        if !self.is_confirmed(running, &count).await? {
            return Ok(false);
        }
        let Wanted { what, and_later, author, as_json, .. } = self;
        let mut order = DropOrder { id: new_life("drop"), what, and_later, author };
        let given = change(running, |orders| {
            orders.drop(order.clone());
            true
        });
        let given = given.await?;
        // An earlier order about the same may hold for what is found later.
        order.and_later = given.orders.drops.iter().any(|known| known.id == order.id && known.and_later);
        let heard = Heard::of(running, given.revision).await?;
        let (dropped, silent) = carry_out(running, order.id, &heard).await?;
        forget_done(running).await?;
        if as_json {
            let (counted, of) = (count.found, count.waiting());
            line(serde_json::to_string(&Told { order: &order, counted, of, dropped, silent: &silent })?);
        } else {
            line(format_args!("dropped {dropped} URLs of {}", order.what));
            if order.and_later {
                line("what is found later is dropped, too, until the order is taken back (--take-back)");
            }
        }
        let silent = schedulers::in_words(running, &silent).await?;
        anyhow::ensure!(
            silent.is_empty(),
            "not carried out yet by {silent}: no answer. The order is kept, and carried out when they are back"
        );
        Ok(true)
    }

    /// Says what would end, and asks whether it is to. What would end everything is asked for twice.
    async fn is_confirmed(&self, running: &Running, count: &Count) -> anyhow::Result<bool> {
        let (Count { found, examples, silent, .. }, waiting) = (count, count.waiting());
        let mut says = format!("{found} of {waiting} URLs that wait are of {}", self.what);
        if !silent.is_empty() {
            says = format!("{says}; not counted: {} (no answer)", schedulers::in_words(running, silent).await?);
        }
        // What is found meanwhile is in one number and not in the other.
        let is_everything = *found > 0 && found * 100 >= waiting * 99;
        let needed = if is_everything { 2 } else { 1 };
        if self.yes >= needed {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() {
            let all = if is_everything { ", which is all that waits: --yes --yes" } else { ": --yes" };
            return Err(BadArguments(format!("{says}; to have them dropped, say so{all}")).into());
        }
        eprintln!("{says}, such as");
        examples.iter().for_each(|url| eprintln!("  {url}"));
        let later = if self.and_later { ", and all that are found later" } else { "" };
        let question = format!("Drop them{later}? They do not come back. [y/N] ");
        Ok(confirmed(&question)? && (!is_everything || confirmed("That is all that waits. Drop everything? [y/N] ")?))
    }
}

fn confirmed(question: &str) -> anyhow::Result<bool> {
    eprint!("{question}");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "yes"))
}

/// How much waits, and how much of it is meant.
#[derive(Default)]
struct Count {
    rows: u64,
    found: u64,
    /// All that waits, by scheduler.
    waiting_at: BTreeMap<u16, u64>,
    examples: Vec<String>,
    /// Schedulers that do not answer.
    silent: BTreeSet<u16>,
}

impl Count {
    /// Has the schedulers count, each from where its answer before ended.
    async fn of(running: &Running, what: &Selection) -> anyhow::Result<Count> {
        let (mut count, mut progress) = (Count::default(), Progress::new());
        count.silent = schedulers::needed(running).await?;
        let (mut after, mut tries) = (BTreeMap::new(), TRIES);
        loop {
            let asked = if after.is_empty() { count.silent.len() } else { after.len() };
            let question = ControlRequest::Count(CountQuestion { what: what.clone(), after: after.clone() });
            let answers: Vec<ProcessCount> = ask_all(&running.bus, &question, Some(asked)).await?;
            tries = if answers.is_empty() { tries - 1 } else { TRIES };
            for ProcessCount { instance, counted, .. } in answers {
                let counted = counted.map_err(|error| anyhow::anyhow!("scheduler.{instance} cannot count: {error}"))?;
                count.add(instance, &counted);
                count.silent.remove(&instance);
                match counted.next {
                    Some(next) => after.insert(instance, next),
                    None => after.remove(&instance),
                };
            }
            progress.show(format!("{} found among {} URLs that wait", count.found, count.rows));
            if after.is_empty() || tries == 0 {
                progress.end();
                count.silent.extend(after.into_keys());
                return Ok(count);
            }
        }
    }

    fn waiting(&self) -> u64 {
        self.waiting_at.values().sum()
    }

    fn add(&mut self, instance: u16, counted: &Counted) {
        self.waiting_at.insert(instance, counted.waiting);
        self.rows += counted.rows;
        self.found += counted.found;
        let wanted = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples.extend(counted.examples.iter().take(wanted).cloned());
    }
}

/// Waits until all schedulers have carried the order out. Gives how many URLs ended, and the schedulers that are silent.
async fn carry_out(running: &Running, id: u64, heard: &Heard) -> anyhow::Result<(u64, BTreeSet<u16>)> {
    let (mut progress, mut last_answer) = (Progress::new(), Instant::now());
    let mut dropped_by = BTreeMap::new();
    loop {
        let answers: Vec<ProcessDrop> = ask_all(&running.bus, &ControlRequest::Dropped(id), None).await?;
        let needed = schedulers::needed(running).await?;
        let done: BTreeSet<u16> =
            answers.iter().filter(|answer| answer.progress.is_done).map(|answer| answer.instance).collect();
        if answers.iter().any(|answer| !done.contains(&answer.instance) && needed.contains(&answer.instance)) {
            last_answer = Instant::now();
        }
        dropped_by.extend(answers.iter().map(|answer| (answer.instance, answer.progress.dropped)));
        let dropped = dropped_by.values().sum();
        let silent = &needed - &done;
        // Who did not hear it in time is not waited for.
        let patience = if silent.is_subset(&heard.silent) { Duration::ZERO } else { SILENT_MAX };
        if silent.is_empty() || last_answer.elapsed() >= patience {
            progress.end();
            return Ok((dropped, silent));
        }
        progress.show(format!("dropped {dropped} URLs"));
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Takes back orders about what waited that all schedulers have carried out; also those of commands that did not live to see it.
async fn forget_done(running: &Running) -> anyhow::Result<()> {
    let Some(bucket) = find_orders(&running.bus).await? else { return Ok(()) };
    let needed = schedulers::needed(running).await?;
    let mut done = BTreeSet::new();
    for DropOrder { id, .. } in bucket.read().await?.orders.drops.into_iter().filter(|order| !order.and_later) {
        let answers: Vec<ProcessDrop> = ask_all(&running.bus, &ControlRequest::Dropped(id), Some(needed.len())).await?;
        let by: BTreeSet<u16> =
            answers.iter().filter(|answer| answer.progress.is_done).map(|answer| answer.instance).collect();
        if needed.is_subset(&by) {
            done.insert(id);
        }
    }
    bucket
        .change(|orders| {
            let before = orders.drops.len();
            orders.drops.retain(|order| order.and_later || !done.contains(&order.id));
            orders.drops.len() < before
        })
        .await?;
    Ok(())
}

async fn list(running: &Running, as_json: bool) -> anyhow::Result<()> {
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
            line(&order);
        }
    }
    Ok(())
}

async fn take_back(running: &Running, what: &Selection, as_json: bool) -> anyhow::Result<()> {
    let mut taken_back = None;
    let given = change(running, |orders| {
        taken_back = orders.take_back(what);
        taken_back.is_some()
    });
    let given = given.await?;
    let Some(order) = taken_back else {
        let orders: Vec<String> = given.orders.drops.iter().map(|order| order.what.to_string()).collect();
        let orders = if orders.is_empty() { "nothing".to_owned() } else { orders.join(", ") };
        return Err(BadArguments(format!("{what} is not dropped; dropped: {orders}")).into());
    };
    let heard = Heard::of(running, given.revision).await?;
    if as_json {
        line(serde_json::to_string(&order)?);
    } else {
        line(format_args!("no longer dropped: {what}; {}", heard.in_words()));
    }
    heard.check(running, "what is found there is still dropped").await
}
