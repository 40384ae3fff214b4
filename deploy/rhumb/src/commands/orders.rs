//! What commands that give orders have in common: who asks, the change at the broker, and who heeds
//! it.
//!
//! An order is written to the broker first, so that it holds for whoever comes later. Then the
//! processes are asked until each says that it heeds it.

use super::arguments::BadArguments;
use crate::control::{Awaited, SUPERVISOR, ask_all};
use crate::handle::Running;
use crate::inspect::schedulers;
use anyhow::Context as _;
use async_nats::jetstream::kv;
use clap::Args;
use rhumb_bus::{LEASES, OrdersGiven, find_orders};
use rhumb_config::orders::{Author, Orders};
use rhumb_node::holders;
use rhumb_stage::{ControlRequest, ProcessHeeds};
use rhumb_telemetry::process::host_name;
use rhumb_url::{canonical, host_of, registered_domain};
use rhumb_wire::topology::StageName;
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

/// How long schedulers and fetchers may take to heed an order.
pub(super) const HEED_MAX: Duration = Duration::from_secs(10);
/// Characters of a note, at most.
const NOTE_MAX: usize = 500;

/// Who asks for something, and why.
#[derive(Args, Clone)]
pub(super) struct AuthorArgs {
    /// Why: shown by status and why; a line of 500 characters at most
    #[arg(long, default_value = "", hide_default_value = true, value_parser = note)]
    note: String,
    /// Who asks for it [default: USER@HOST]
    #[arg(long, value_name = "NAME", value_parser = note)]
    by: Option<String>,
}

impl AuthorArgs {
    /// Who asks for it, now.
    pub(super) fn author(self) -> Author {
        let since_s = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_secs();
        Author {
            by: self.by.unwrap_or_else(who),
            since_s,
            note: self.note,
        }
    }
}

/// Words that are shown in a line.
fn note(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_control) || text.chars().count() > NOTE_MAX {
        true => Err(format!("not a line of {NOTE_MAX} characters at most")),
        false => Ok(text.to_owned()),
    }
}

/// The canonical name of a host that was given with this option.
///
/// # Errors
/// It is none.
pub(super) fn canonical_host(option: &str, name: &str) -> Result<String, BadArguments> {
    // The colons of an IPv6 address are in brackets.
    let is_bare =
        !name.contains(['/', '?', '#', '@', '\\']) && (!name.contains(':') || name.ends_with(']'));
    let canonical = canonical(&format!("http://{name}/"), None, None)
        .ok()
        .filter(|_| is_bare);
    let host = canonical
        .as_deref()
        .map(host_of)
        .filter(|host| !host.is_empty());
    host.map(str::to_owned).ok_or_else(|| {
        BadArguments(format!(
            "{option} {name}: this is no name or address of a host"
        ))
    })
}

/// The name of a registered domain that was given with `--domain`.
///
/// # Errors
/// It is no name, a name below a registered domain, or a public suffix.
pub(super) fn canonical_domain(domain: &str) -> Result<String, BadArguments> {
    let name = canonical_host("--domain", domain)?;
    // A public suffix is its own registered domain, too, and what is below it is not of it.
    match (
        registered_domain(&name),
        registered_domain(&format!("www.{name}")),
    ) {
        (registered, _) if registered != name => Err(BadArguments(format!(
            "--domain {domain}: the registered domain is {registered}; a name below it is a --host"
        ))),
        (_, below) if below != name => Err(BadArguments(format!(
            "--domain {domain}: this is a public suffix; each name below it is a domain of its own"
        ))),
        _ => Ok(name),
    }
}

/// Changes the orders of the crawl. `change` says whether it changed anything.
///
/// # Errors
/// The broker does not answer, or the crawl has no orders yet.
pub(super) async fn change(
    running: &Running,
    change: impl FnMut(&mut Orders) -> bool,
) -> anyhow::Result<OrdersGiven> {
    let bucket = find_orders(&running.bus).await?;
    let none = "an earlier version has begun this crawl: run `rhumb init` of this one, or `rhumb \
                crawl --resume`, first";
    bucket.context(none)?.change(change).await
}

/// Who runs the command, and where.
fn who() -> String {
    let user = ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|key| std::env::var(key).ok().filter(|name| !name.is_empty()));
    let user = user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    host_name().map_or_else(|| user.clone(), |host| format!("{user}@{host}"))
}

/// Which processes heed an order: schedulers grant no job any more that it forbids, fetchers stop
/// those that they have. A process has the name of its lease, such as `fetcher.0`.
pub(super) struct Heard {
    /// Processes that heed it.
    processes: BTreeSet<String>,
    /// Schedulers that do not answer, or have not heard.
    pub(super) silent: BTreeSet<u16>,
    /// Other processes of which the same is true.
    late: BTreeSet<String>,
}

impl Heard {
    /// Asks all processes until all heed the orders of this revision, or for [`HEED_MAX`].
    pub(super) async fn of(running: &Running, revision: u64) -> anyhow::Result<Heard> {
        let end = Instant::now() + HEED_MAX;
        let bucket = running.bus.subjects.bucket(LEASES);
        let leases = running.bus.jetstream.get_key_value(&bucket).await;
        let leases = leases.with_context(|| {
            format!("the broker does not tell of the key-value bucket {bucket}")
        })?;
        // One that stands still says nothing, and its lease may lapse meanwhile: it is waited for
        // all the same.
        let held = holders(&leases).await?.into_keys();
        let mut alive: BTreeSet<String> = held.filter(|name| is_of_a_stage(name)).collect();
        let mut processes = BTreeSet::new();
        loop {
            let awaited = Awaited::at_least(alive.len());
            let answers: Vec<ProcessHeeds> =
                ask_all(&running.bus, &ControlRequest::Heed, awaited).await?;
            for ProcessHeeds {
                stage,
                instance,
                revision: heeded,
            } in answers
            {
                let name = format!("{stage}.{instance}");
                if heeded >= revision {
                    processes.insert(name.clone());
                }
                alive.insert(name);
            }
            let silent =
                &schedulers::needed(running).await? - &instances(&processes, StageName::Scheduler);
            let late = without_ended(&leases, late(&alive, &processes)).await;
            if silent.is_empty() && late.is_empty() || Instant::now() >= end {
                return Ok(Heard {
                    processes,
                    silent,
                    late,
                });
            }
        }
    }

    /// The instances of a stage that heed it.
    pub(super) fn of_stage(&self, stage: StageName) -> BTreeSet<u16> {
        instances(&self.processes, stage)
    }

    /// The instances of a stage, other than the scheduler, that do not answer, or have not heard.
    pub(super) fn late_of_stage(&self, stage: StageName) -> BTreeSet<u16> {
        instances(&self.late, stage)
    }

    /// How many processes heed it.
    pub(super) fn processes(&self) -> usize {
        self.processes.len()
    }

    /// How many schedulers heed it.
    pub(super) fn in_words(&self) -> String {
        match self.of_stage(StageName::Scheduler).len() {
            1 => "1 scheduler heeds it".to_owned(),
            n => format!("{n} schedulers heed it"),
        }
    }

    /// `meanwhile`: what those may do that have not heard.
    ///
    /// # Errors
    /// One has not: which, and what it has.
    pub(super) async fn check(&self, running: &Running, meanwhile: &str) -> anyhow::Result<()> {
        if self.silent.is_empty() && self.late.is_empty() {
            return Ok(());
        }
        let silent = Some(schedulers::in_words(running, &self.silent).await?)
            .filter(|text| !text.is_empty());
        let names: Vec<String> = silent
            .into_iter()
            .chain(self.late.iter().cloned())
            .collect();
        anyhow::bail!(
            "not heard yet by {}: no answer within {} s. The order is kept, and heeded a few \
             seconds after they are back; until then {meanwhile}",
            names.join(", "),
            HEED_MAX.as_secs()
        )
    }
}

/// Returns whether a lease is a process's that heeds orders: the conductor's is none.
fn is_of_a_stage(lease: &str) -> bool {
    !lease.starts_with(SUPERVISOR)
}

/// Processes that live and have not heard. Schedulers are known by their partitions.
fn late(alive: &BTreeSet<String>, heard: &BTreeSet<String>) -> BTreeSet<String> {
    let is_scheduler = |name: &&String| instance(name, StageName::Scheduler).is_some();
    alive
        .difference(heard)
        .filter(|name| !is_scheduler(name))
        .cloned()
        .collect()
}

/// Leaves out processes that have ended: they gave their leases back.
async fn without_ended(leases: &kv::Store, names: BTreeSet<String>) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    for name in names {
        let entry = leases.entry(&name).await.ok().flatten();
        if entry.is_none_or(|entry| entry.operation == kv::Operation::Put) {
            left.insert(name);
        }
    }
    left
}

/// The instance in the name of a process, if it is one of this stage.
fn instance(name: &str, stage: StageName) -> Option<u16> {
    name.strip_prefix(stage.name())?
        .strip_prefix('.')?
        .parse()
        .ok()
}

fn instances(names: &BTreeSet<String>, stage: StageName) -> BTreeSet<u16> {
    names
        .iter()
        .filter_map(|name| instance(name, stage))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_lives_and_does_not_answer_is_late_unless_it_is_a_scheduler() {
        let set = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let alive = set(&[
            "dedup.0",
            "fetcher.0",
            "fetcher.12",
            "find-titles.0",
            "scheduler.0",
        ]);
        let heard = set(&["dedup.0", "fetcher.0", "fetcher.1"]);
        let late = late(&alive, &heard);
        assert_eq!(late, set(&["fetcher.12", "find-titles.0"]));
        assert_eq!(instances(&late, StageName::Fetcher), BTreeSet::from([12]));
        assert!(is_of_a_stage("find-titles.0") && !is_of_a_stage("supervisor.0"));
    }
}
