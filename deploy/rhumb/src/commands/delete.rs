//! `rhumb delete`: the end of a crawl's streams, buckets and state. Nothing else in the data
//! directory is touched.

use super::arguments::Which;
use crate::broker::TOKEN;
use crate::control::SUPERVISOR;
use crate::crawl::{KEPT, OWNERS, PROBE, TIDE};
use crate::handle;
use crate::lock::{LOCK, lock};
use crate::report::{MODEL, PAGE};
use crate::seeds::SEEDS;
use anyhow::Context as _;
use clap::Args;
use rhumb_bus::{BUCKETS, Bus, LEASES, held_now, marked_streams};
use rhumb_config::Pipeline;
use rhumb_config::shown;
use rhumb_node::log;
use rhumb_node::{Ownership, holders, new_life};
use std::collections::BTreeSet;
use std::io::{ErrorKind, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a crawl leaves in its data directory beside the folders of its stages.
const LEFT: [&str; 27] = [
    "logs",
    "spool",
    "jetstream",
    "broker.conf",
    "broker.conf.new",
    TOKEN,
    "broker.token.new",
    "broker.log",
    "broker.lock",
    "control.json",
    "control.json.new",
    "configuration.json",
    "configuration.json.new",
    KEPT,
    "identity.json.new",
    TIDE,
    "streams.json.new",
    OWNERS,
    "owners.json.new",
    SEEDS,
    "seeds.unstored.new",
    LOCK,
    PROBE,
    PAGE,
    "report.html.new",
    MODEL,
    "report.json.new",
];
/// How long the operator's broker may take to answer.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Deletes a stopped crawl: its streams, buckets and state
#[derive(Args)]
#[command(
    after_help = "Asks first on a terminal. Refuses (exit code 1) while the crawl runs, here or \
                  elsewhere on its broker, and says who runs it.\n\nExample:\n  rhumb delete \
                  --data rhumb-data --yes"
)]
pub(super) struct Delete {
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    which: Which,
}

impl Delete {
    /// Asks, and deletes.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let own = handle::local(&self.which.layers())?;
        log::begin(&own.log, handle::PROGRAM);
        let pipeline = handle::kept(&own.data)?.unwrap_or(own);
        if !self.yes && std::io::stdin().is_terminal() && !confirmed(&pipeline)? {
            return Ok(ExitCode::FAILURE);
        }
        delete(&pipeline).await?;
        Ok(ExitCode::SUCCESS)
    }
}

fn confirmed(pipeline: &Pipeline) -> anyhow::Result<bool> {
    eprint!(
        "Delete the crawl '{}' in {}, with all that it knows? [y/N] ",
        pipeline.crawl,
        pipeline.data.display()
    );
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "yes"))
}

/// Deletes the crawl that has this configuration.
///
/// # Errors
/// The crawl runs, or there is none; its broker does not answer; a file cannot be removed.
async fn delete(pipeline: &Pipeline) -> anyhow::Result<()> {
    let data = &pipeline.data;
    let _lock = if data.exists() {
        Some(lock(&data.join(LOCK)).await?)
    } else {
        None
    };
    let stages = pipeline.stages.common();
    let holds_state =
        data.join(KEPT).exists() || stages.iter().any(|(stage, _)| data.join(stage).exists());
    anyhow::ensure!(
        holds_state || !pipeline.broker.url.is_empty(),
        "there is no crawl in {}",
        data.display()
    );
    if !pipeline.broker.url.is_empty() {
        delete_from_broker(pipeline).await?;
    }
    for name in stages.iter().map(|(stage, _)| *stage).chain(LEFT) {
        remove(&data.join(name))?;
    }
    for entry in std::fs::read_dir(data).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // What the broker's log was before it began anew has the time behind its name.
        let time = name.strip_prefix("broker.log.").unwrap_or_default();
        if !time.is_empty()
            && time
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            remove(&entry.path())?;
        }
    }
    // Only when nothing of others is in it.
    let _ = std::fs::remove_dir(data);
    Ok(())
}

/// Deletes what the operator's broker has of the crawl, while nobody can run it there.
async fn delete_from_broker(pipeline: &Pipeline) -> anyhow::Result<()> {
    let silent = || {
        format!(
            "the broker at {} does not answer",
            shown(&pipeline.broker.url)
        )
    };
    let bus = Bus::connect_within(BROKER_TIMEOUT, &pipeline.broker.url, pipeline, "rhumb").await?;
    let _lease = take_over(&bus, pipeline).await?;
    tokio::time::timeout(BROKER_TIMEOUT, delete_streams(&bus, pipeline))
        .await
        .with_context(silent)?
}

/// Takes the lease of the crawl's supervisor, and makes sure that no process holds one of its
/// partitions. None when there are no leases: then nothing runs. Those of processes that have died
/// are waited for.
///
/// # Errors
/// The crawl runs.
async fn take_over(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<Option<Ownership>> {
    let Ok(leases) = bus
        .jetstream
        .get_key_value(bus.subjects.bucket(LEASES))
        .await
    else {
        return Ok(None);
    };
    let lasts = leases.stream.cached_info().config.max_age;
    let life = new_life(SUPERVISOR);
    let before = holders(&leases).await?;
    let begun = Instant::now();
    let mut own = None;
    loop {
        let mut reason = String::new();
        if own.is_none() {
            match Ownership::try_take(leases.clone(), SUPERVISOR, 0, life, lasts).await {
                Ok(taken) => own = Some(taken),
                Err(why) => reason = why,
            }
        }
        let mut others = holders(&leases).await?;
        others.retain(|_, holder| holder.life != life);
        if own.is_some() && others.is_empty() {
            return Ok(own);
        }
        // Who has just renewed a lease lives.
        let is_late = begun.elapsed() >= lasts * 3 / 2;
        if let Some((key, holder)) = others
            .iter()
            .find(|(key, holder)| is_late || before.get(*key) != Some(*holder))
        {
            if let Some(own) = own {
                own.release().await;
            }
            anyhow::bail!(
                "the crawl '{}' runs on {}: {} has the lease {key}; stop it there first",
                pipeline.crawl,
                shown(&pipeline.broker.url),
                holder.whereabouts
            );
        }
        anyhow::ensure!(
            begun.elapsed() < BROKER_TIMEOUT.max(lasts * 3 / 2),
            "the lease of the crawl's supervisor on {} cannot be taken: {reason}",
            shown(&pipeline.broker.url)
        );
        tokio::time::sleep(lasts / 20).await;
    }
}

async fn delete_streams(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<()> {
    // Those of further edges have its mark alone.
    let marked = match held_now(bus).await? {
        Some(identity) => marked_streams(bus, &identity.mark.id).await?,
        None => Vec::new(),
    };
    let of_pipeline = pipeline
        .edges
        .streams()
        .into_iter()
        .map(|(key, _)| bus.subjects.stream(key));
    let streams: BTreeSet<String> = of_pipeline
        .chain(marked.into_iter().map(|config| config.name))
        .collect();
    for stream in streams {
        if bus.jetstream.get_stream(&stream).await.is_ok() {
            bus.jetstream
                .delete_stream(&stream)
                .await
                .with_context(|| format!("cannot delete stream {stream}"))?;
        }
    }
    // The leases last: until then nobody else can take one.
    let (leases, others): (Vec<_>, Vec<_>) = BUCKETS.into_iter().partition(|name| *name == LEASES);
    for name in others.into_iter().chain(leases) {
        let bucket = bus.subjects.bucket(name);
        if bus.jetstream.get_key_value(&bucket).await.is_ok() {
            bus.jetstream
                .delete_key_value(&bucket)
                .await
                .with_context(|| format!("cannot delete bucket {bucket}"))?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
