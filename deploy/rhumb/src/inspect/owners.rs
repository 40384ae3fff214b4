//! Who has the partitions of a stage, as the broker knows it.

use crate::handle::Running;
use anyhow::Context as _;
use rhumb_bus::OwnersBucket;
use rhumb_partition::{Directory, Owners};
use rhumb_wire::topology::StageName;

/// The table of owners of a stage.
///
/// # Errors
/// The broker does not answer, or knows none.
pub(crate) async fn owners(running: &Running, stage: &str) -> anyhow::Result<Owners> {
    let found = OwnersBucket::find(&running.bus).await?.read(stage).await?;
    Ok(found
        .with_context(|| format!("the broker knows no owners of {stage}"))?
        .owners)
}

/// The partitions of a crawl, as dedup has them; those with which it began when the broker does not
/// tell.
pub(crate) async fn directory(running: &Running) -> Directory {
    match owners(running, StageName::Dedup.name()).await {
        Ok(owners) => owners.directory(),
        Err(_) => Directory::new(running.pipeline.partitions),
    }
}
