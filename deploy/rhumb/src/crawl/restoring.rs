//! Restoring: a crawl begins with a checkpoint.
//!
//! ```text
//!  checked ─▶ announced ─▶ scope, budgets, orders, tables of owners ─▶ parts ─▶ they may be taken ─▶ restored
//! ```
//! In: a checkpoint that was found whole. Out: a crawl at the broker whose instances take their
//! partitions out of the stream of moves, before they begin. Invariants: nothing is made before all
//! of the checkpoint was checked. What is cut short is known by the announcement, and goes on when
//! the same checkpoint is restored again; until then no partition can be taken.

use crate::checkpoint::{CONFIGURATION, Manifest, PartsReader, SavedFile, SavedPartition};
use crate::stages::WITH_STATE;
use anyhow::Context as _;
use bytes::Bytes;
use rhumb_bus::{Buckets, Bus};
use rhumb_config::identity::{Identity, Misfit};
use rhumb_config::{Layers, Pipeline};
use rhumb_node::Restoring;
use rhumb_partition::Owners;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// Parts that are on their way to the broker at once.
const PARTS_AT_ONCE: usize = 8;

/// A checkpoint that a crawl begins with.
#[derive(Clone, Debug)]
pub(crate) struct Restore {
    folder: PathBuf,
    manifest: Manifest,
}

impl Restore {
    /// Checks all of the checkpoint in a folder.
    ///
    /// # Errors
    /// It is incomplete, damaged or of another format.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Restore> {
        Ok(Restore {
            folder: folder.to_owned(),
            manifest: Manifest::open(folder)?,
        })
    }

    /// Puts layers on top of the configuration of the checkpoint, unless they name a file of their
    /// own.
    pub(crate) fn layers(&self, layers: Layers) -> Layers {
        let file = layers
            .file
            .unwrap_or_else(|| self.folder.join(CONFIGURATION));
        let mut set = vec![format!("partitions={}", self.manifest.partitions)];
        set.extend(layers.set);
        Layers {
            file: Some(file),
            set,
        }
    }

    /// Checks that a crawl of this configuration can begin with it.
    ///
    /// # Errors
    /// What is fixed for the life of a crawl differs, or the parts do not fit into their stream.
    pub(crate) fn check(&self, pipeline: &Pipeline) -> Result<(), Misfit> {
        let of = format!("the crawl of the checkpoint in {}", self.folder.display());
        pipeline
            .check_replays(self.manifest.replays, &of)
            .map_err(Misfit)?;
        pipeline
            .with_earlier(&self.manifest.orders.set)
            .map_err(|error| Misfit(error.to_string()))?;
        let unpacked_bytes = self.manifest.unpacked_bytes;
        for (key, is, was) in self.fixed(pipeline) {
            if is != was {
                return Err(Misfit(format!(
                    "configuration key {key} = {is}: the checkpoint in {} has {was}, which is \
                     fixed for the life of a crawl; set it back",
                    self.folder.display()
                )));
            }
        }
        let streams = pipeline.edges.streams();
        let moves = streams
            .iter()
            .find(|(key, _)| *key == rhumb_wire::topology::MOVES);
        let room = moves.map_or(0, |(_, edge)| edge.bytes_max.0);
        // Each part has a subject, and the broker's own fields.
        let needed = unpacked_bytes + unpacked_bytes / 8;
        if room > 0 && needed > room {
            return Err(Misfit(format!(
                "configuration key edges.moves.bytes_max = {room}: the partitions of the \
                 checkpoint in {} come through that stream and need {needed} bytes; set it to that \
                 or more",
                self.folder.display()
            )));
        }
        Ok(())
    }

    /// What is fixed for the life of a crawl: keys, with their values in a configuration and in the
    /// checkpoint.
    fn fixed(&self, pipeline: &Pipeline) -> Vec<(&'static str, String, String)> {
        let Manifest {
            partitions, url, ..
        } = &self.manifest;
        let mut fixed = vec![(
            "partitions",
            pipeline.partitions.to_string(),
            partitions.to_string(),
        )];
        let rules = pipeline.url.by_key().into_iter().zip(url.by_key());
        fixed.extend(rules.map(|((key, is), (_, was))| (key, is.to_string(), was.to_string())));
        fixed
    }

    /// The identity of the crawl that begins with it, under this id.
    pub(crate) fn identity(&self, id: String, pipeline: &Pipeline) -> Identity {
        let mut identity = Identity::new(id, pipeline);
        // The numbers of URLs tell their generation.
        identity.mark.generation = self.manifest.mark.generation;
        identity.lost = self.manifest.lost.clone();
        identity
    }

    /// Returns whether it goes on after it was cut short: this checkpoint was announced, and no
    /// partition of it was taken yet.
    ///
    /// # Errors
    /// The broker holds a crawl of this name, or one that another checkpoint is restored to.
    pub(crate) async fn goes_on(
        &self,
        buckets: &Buckets,
        pipeline: &Pipeline,
    ) -> anyhow::Result<bool> {
        let held = buckets.register.read().await?;
        let restoring = buckets.register.restoring().await?;
        let crawl = &pipeline.crawl;
        let ways = "give this one another name (--set crawl=NAME) or another data directory, or \
                    delete that one (rhumb delete)";
        match (held, restoring) {
            (_, Some(other)) if other != self.manifest.name() => Err(Misfit(format!(
                "the crawl '{crawl}' is being restored from checkpoint {other}: restore that \
                 again, so that it is finished, or {ways}"
            ))
            .into()),
            (Some(_), None) if self.is_untouched(buckets).await? => Ok(true),
            (Some(_), None) => {
                Err(Misfit(format!("there is a crawl '{crawl}' already: {ways}")).into())
            }
            (None, None) => Ok(false),
            (_, Some(_)) => Ok(true),
        }
    }

    /// Returns whether all of this checkpoint has come, and nobody has taken anything of it yet.
    async fn is_untouched(&self, buckets: &Buckets) -> anyhow::Result<bool> {
        if buckets.register.restored().await? != Some(self.manifest.name()) {
            return Ok(false);
        }
        for stage in WITH_STATE {
            let table = buckets.owners.read(stage).await?;
            if table
                .is_none_or(|table| table.owners.to_restore().len() < table.owners.partitions.len())
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Begins: who finds the crawl from now on knows that it is not whole yet.
    ///
    /// # Errors
    /// The broker does not answer.
    pub(crate) async fn announce(&self, buckets: &Buckets) -> anyhow::Result<()> {
        buckets.register.restores(&self.manifest.name()).await
    }

    /// Writes what the buckets have to say before any stream is there: who finds the streams needs
    /// it. When all partitions were sent, instances may be at work: what the buckets say is theirs.
    ///
    /// # Errors
    /// The broker does not take it.
    pub(crate) async fn prepare(
        &self,
        buckets: &Buckets,
        pipeline: &Pipeline,
    ) -> anyhow::Result<()> {
        let Manifest {
            scope,
            spent,
            orders,
            owners,
            ..
        } = &self.manifest;
        let mut are_sent = true;
        for stage in WITH_STATE {
            are_sent &= buckets
                .owners
                .read(stage)
                .await?
                .is_some_and(|table| !is_to_be_sent(&table.owners));
        }
        if are_sent {
            return Ok(());
        }
        for (bucket, entries) in [(&buckets.scope, scope), (&buckets.tokens, spent)] {
            for (key, value) in entries {
                bucket
                    .put(key, value.clone().into())
                    .await
                    .context("the broker does not take what is restored")?;
            }
        }
        buckets
            .orders
            .change(|held| std::mem::replace(held, orders.clone()) != *orders)
            .await?;
        for (stage, common) in pipeline.stages.common() {
            let Some(before) = owners.get(stage) else {
                continue;
            };
            let restored = before.restored(common.replicas);
            buckets
                .owners
                .read_or_begin(stage, restored.clone())
                .await?;
            // An earlier try may have had other numbers of instances.
            let begin_anew = |owners: &mut Owners| {
                is_to_be_sent(owners) && owners.needed() != restored.needed() && {
                    *owners = restored.clone();
                    true
                }
            };
            buckets.owners.change(stage, begin_anew).await?;
        }
        Ok(())
    }

    /// Sends all partitions, and lets their owners take them.
    ///
    /// # Errors
    /// The broker does not take them. It is gone on with when the same checkpoint is restored
    /// again.
    pub(crate) async fn send(
        &self,
        bus: &Bus,
        buckets: &Buckets,
        identity: &Identity,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        let copy = number();
        let mut to_let_go = Vec::new();
        for stage in WITH_STATE {
            let table = buckets.owners.read(stage).await?;
            let owners = table
                .with_context(|| format!("the broker knows no owners of {stage}"))?
                .owners;
            if !is_to_be_sent(&owners) {
                continue;
            }
            let restoring = Restoring::new(bus, identity.mark.to_string(), stage);
            for (partition, version) in owners.to_restore() {
                let (file, of) = self.file(stage, partition)?;
                self.send_partition(&restoring, (file, of), version, copy)
                    .await?;
            }
            to_let_go.push(stage);
        }
        // Dedup's first: a scheduler that begins finds all that it asks.
        for stage in to_let_go {
            buckets
                .owners
                .change(stage, |owners| owners.are_sent(copy))
                .await?;
        }
        buckets.register.is_restored(&self.manifest.name()).await?;
        let Manifest {
            crawl,
            known,
            waiting,
            ..
        } = &self.manifest;
        let took_ms = began.elapsed().as_millis() as u64;
        tracing::info!(
            from = crawl,
            known,
            waiting,
            took_ms,
            "the checkpoint is at the broker; the instances take it in"
        );
        Ok(())
    }

    fn file(&self, stage: &str, partition: u16) -> anyhow::Result<(&SavedFile, &SavedPartition)> {
        let of = |file: &'_ SavedFile| {
            file.of
                .as_ref()
                .is_some_and(|of| of.stage == stage && of.partition == partition)
        };
        let file = self.manifest.files.iter().find(|file| of(file));
        let file = file.and_then(|file| Some((file, file.of.as_ref()?)));
        file.with_context(|| format!("the checkpoint has no partition {partition} of {stage}"))
    }

    async fn send_partition(
        &self,
        restoring: &Restoring,
        (file, of): (&SavedFile, &SavedPartition),
        version: u64,
        copy: u64,
    ) -> anyhow::Result<()> {
        restoring.begin(of.partition).await?;
        let mut reader = PartsReader::open(&self.folder.join(&file.path))?;
        let saved = self.manifest.saved(of);
        let mut first = 0;
        let mut parts = Vec::<Bytes>::new();
        loop {
            let part = reader.next()?;
            let is_over = part.is_none();
            parts.extend(part);
            if parts.len() == PARTS_AT_ONCE || is_over && !parts.is_empty() {
                let sent = restoring
                    .send(&saved, (of.partition, version), copy, first, &parts)
                    .await;
                sent.with_context(|| format!("{} cannot be restored", file.path))?;
                first += parts.len() as u32;
                parts.clear();
            }
            if is_over {
                return Ok(());
            }
        }
    }
}

/// Returns whether the parts of a stage's partitions are not all there yet: then none was taken.
fn is_to_be_sent(owners: &Owners) -> bool {
    owners
        .to_restore()
        .iter()
        .any(|(partition, _)| owners.copy(*partition).is_none())
}

/// Checks that a crawl that goes on is not one whose restore was cut short.
///
/// # Errors
/// It is, or the broker does not answer.
pub(crate) async fn check_restored(buckets: &Buckets) -> anyhow::Result<()> {
    match buckets.register.restoring().await? {
        None => Ok(()),
        Some(from) => Err(Misfit(format!(
            "the crawl was being restored from checkpoint {from}, and not all of it has come: wait \
             for the end of that; if it was cut short, restore it again (--restore DIR), or begin \
             anew (rhumb delete)"
        ))
        .into()),
    }
}

/// Tells this try from all others.
fn number() -> u64 {
    u64::try_from(
        SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_nanos(),
    )
    .unwrap_or(u64::MAX)
}
