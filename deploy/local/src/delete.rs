//! `rhumb delete`: the end of a crawl's streams, buckets and state. Nothing else in the data directory is touched.

use crate::inject::SEEDS;
use crate::lock::{LOCK, lock};
use anyhow::Context as _;
use shared::bus::{BUCKETS, Bus, shown};
use shared::config::Pipeline;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// What a crawl leaves in its data directory beside the folders of its stages.
const LEFT: [&str; 12] = [
    "logs",
    "jetstream",
    "broker.conf",
    "broker.log",
    "broker.lock",
    "control.json",
    "control.json.new",
    "configuration.json",
    "configuration.json.new",
    SEEDS,
    "seeds.unstored.new",
    LOCK,
];
/// How long a broker of the operator's may take to answer.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Deletes the crawl that has this configuration.
///
/// # Errors
/// The crawl runs, or there is none; its broker does not answer; a file cannot be removed.
pub async fn run(pipeline: &Pipeline) -> anyhow::Result<()> {
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
