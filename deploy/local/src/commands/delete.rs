//! `rhumb delete`: the end of a crawl's streams, buckets and state. Nothing else in the data directory is touched.

use super::arguments::Which;
use crate::crawl::{KEPT, TIDE};
use crate::handle;
use crate::lock::{LOCK, lock};
use crate::seeds::SEEDS;
use anyhow::Context as _;
use clap::Args;
use shared::bus::{BUCKETS, Bus, shown};
use shared::config::Pipeline;
use std::io::{ErrorKind, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What a crawl leaves in its data directory beside the folders of its stages.
const LEFT: [&str; 15] = [
    "logs",
    "jetstream",
    "broker.conf",
    "broker.log",
    "broker.lock",
    "control.json",
    "control.json.new",
    "configuration.json",
    "configuration.json.new",
    KEPT,
    "identity.json.new",
    TIDE,
    SEEDS,
    "seeds.unstored.new",
    LOCK,
];
/// How long the operator's broker may take to answer.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Deletes a stopped crawl: its streams, buckets and state
#[derive(Args)]
#[command(after_help = "Asks first on a terminal. Example:\n  rhumb delete --data rhumb-data --yes")]
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
        let pipeline = handle::kept(&own.data)?.unwrap_or(own);
        if !self.yes && std::io::stdin().is_terminal() && !confirmed(&pipeline)? {
            return Ok(ExitCode::FAILURE);
        }
        delete(&pipeline).await?;
        Ok(ExitCode::SUCCESS)
    }
}

fn confirmed(pipeline: &Pipeline) -> anyhow::Result<bool> {
    eprint!("Delete the crawl '{}' in {}, with all that it knows? [y/N] ", pipeline.crawl, pipeline.data.display());
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
    let _lock = if data.exists() { Some(lock(&data.join(LOCK)).await?) } else { None };
    let holds_state = pipeline.stages.common().iter().any(|(stage, _)| data.join(stage).exists());
    anyhow::ensure!(holds_state || !pipeline.broker.url.is_empty(), "there is no crawl in {}", data.display());
    if !pipeline.broker.url.is_empty() {
        tokio::time::timeout(BROKER_TIMEOUT, delete_streams(pipeline))
            .await
            .with_context(|| format!("the broker at {} does not answer", shown(&pipeline.broker.url)))??;
    }
    let stages = pipeline.stages.common();
    for name in stages.iter().map(|(stage, _)| *stage).chain(LEFT) {
        remove(&data.join(name))?;
    }
    for entry in std::fs::read_dir(data).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // What the broker's log was before it began anew has the time behind its name.
        let time = name.strip_prefix("broker.log.").unwrap_or_default();
        if !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            remove(&entry.path())?;
        }
    }
    // Only when nothing of others is in it.
    let _ = std::fs::remove_dir(data);
    Ok(())
}

async fn delete_streams(pipeline: &Pipeline) -> anyhow::Result<()> {
    let bus = Bus::connect(&pipeline.broker.url, pipeline, "rhumb").await?;
    for (key, _) in pipeline.edges.streams() {
        let stream = bus.subjects.stream(key);
        if bus.jetstream.get_stream(&stream).await.is_ok() {
            bus.jetstream.delete_stream(&stream).await.with_context(|| format!("cannot delete stream {stream}"))?;
        }
    }
    for name in BUCKETS {
        let bucket = bus.subjects.bucket(name);
        if bus.jetstream.get_key_value(&bucket).await.is_ok() {
            bus.jetstream.delete_key_value(&bucket).await.with_context(|| format!("cannot delete bucket {bucket}"))?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
