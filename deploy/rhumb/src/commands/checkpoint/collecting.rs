//! Collecting: what the instances have captured comes into the folder, from all of them at once.
//!
//! In: pieces, one for each request, on an inbox for each instance. Out: the files of the
//! partitions; what the schedulers have spent. Invariants: each partition of a stage comes once and
//! whole, or there is no checkpoint. Who is slow is waited for; who has gone is not.

use crate::checkpoint::{Folder, PartsFile, SavedFile, SavedPartition};
use crate::control::ask_all;
use crate::handle::Running;
use anyhow::Context as _;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::try_join_all;
use rhumb_node::Saved;
use rhumb_node::{OF_INSTANCE, Piece};
use rhumb_partition::Owners;
use rhumb_stage::{ControlRequest, ProcessCapture};
use scheduler::spent::{OwnRow, Spent};
use std::collections::BTreeMap;
use std::time::Duration;

/// Requests for pieces that are under way at each instance. A broker with users lets a process
/// answer each request once.
const REQUESTS_AT_ONCE: u32 = 8;
/// How long an instance may take for the next piece.
const PIECE_MAX: Duration = Duration::from_secs(20);

/// An instance that has captured its partitions.
pub(super) struct Captured {
    stage: String,
    instance: u16,
    /// With the versions of their ownership.
    partitions: BTreeMap<u16, u64>,
}

/// All that was collected.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) files: Vec<SavedFile>,
    /// Bytes of the parts when they are unpacked.
    pub(super) unpacked_bytes: u64,
    pub(super) spent: Spent,
}

/// Has all owners capture their partitions for the checkpoint of this number.
///
/// # Errors
/// One does not, or a partition is nobody's: which.
pub(super) async fn capture(
    running: &Running,
    owners: &BTreeMap<String, Owners>,
    number: u64,
) -> anyhow::Result<Vec<Captured>> {
    let instances = owners.values().map(|owners| owners.needed().len()).sum();
    let answers: Vec<ProcessCapture> = ask_all(
        &running.bus,
        &ControlRequest::Capture(number),
        Some(instances),
    )
    .await?;
    let mut captured = Vec::new();
    for ProcessCapture {
        stage,
        instance,
        captured: partitions,
    } in answers
    {
        let partitions = partitions
            .map_err(|why| anyhow::anyhow!("{stage}.{instance} captures nothing: {why}"))?;
        captured.push(Captured {
            stage,
            instance,
            partitions: partitions.into_iter().collect(),
        });
    }
    for (stage, owners) in owners {
        for (partition, of) in owners.all() {
            let has =
                |one: &&Captured| one.stage == *stage && one.partitions.contains_key(&partition);
            let n = captured.iter().filter(has).count();
            anyhow::ensure!(
                n == 1,
                "partition {partition} of {stage}, which {stage}.{} has, was captured by {n} \
                 instances: does it answer? (rhumb status)",
                of.owner
            );
        }
    }
    Ok(captured)
}

/// Fetches what was captured, from all instances at once.
///
/// # Errors
/// One does not give it, or it cannot be written.
pub(super) async fn collect(
    running: &Running,
    folder: &Folder,
    captured: &[Captured],
    (crawl, number): (&str, u64),
) -> anyhow::Result<Collected> {
    let from = |of| {
        Collector {
            running,
            folder,
            of,
            crawl,
            number,
        }
        .collect()
    };
    let mut all = Collected::default();
    for (one, of) in try_join_all(captured.iter().map(from))
        .await?
        .into_iter()
        .zip(captured)
    {
        all.files.extend(one.files);
        all.unpacked_bytes += one.unpacked_bytes;
        all.spent
            .add_rows(of.instance, &one.rows)
            .map_err(anyhow::Error::msg)?;
    }
    all.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Has all instances forget what they have captured: nobody fetches the rest.
///
/// # Errors
/// The broker does not take the request.
pub(super) async fn forget(running: &Running, number: u64) -> anyhow::Result<()> {
    let request = serde_json::to_vec(&ControlRequest::Forget(number))?;
    running
        .bus
        .client
        .publish(running.bus.subjects.control("all"), request.into())
        .await?;
    Ok(())
}

/// What an instance gave.
#[derive(Default)]
struct FromOne {
    files: Vec<SavedFile>,
    unpacked_bytes: u64,
    /// Those that are no partition's.
    rows: Vec<OwnRow>,
}

struct Collector<'a> {
    running: &'a Running,
    folder: &'a Folder,
    of: &'a Captured,
    crawl: &'a str,
    number: u64,
}

impl Collector<'_> {
    async fn collect(self) -> anyhow::Result<FromOne> {
        let Captured {
            stage,
            instance,
            partitions,
        } = self.of;
        let client = &self.running.bus.client;
        let inbox = client.new_inbox();
        let mut pieces = client
            .subscribe(format!("{inbox}.*"))
            .await
            .context("cannot subscribe")?;
        let subject = self
            .running
            .bus
            .subjects
            .control(&format!("{stage}.{instance}"));
        let request = Bytes::from(serde_json::to_vec(&ControlRequest::Piece(self.number))?);
        let mut from = FromOne::default();
        let mut file = None;
        let mut own_parts = 0;
        let mut asked = 0;
        let mut given = 0;
        loop {
            while asked < given + REQUESTS_AT_ONCE {
                let reply = format!("{inbox}.{asked}");
                client
                    .publish_with_reply(subject.clone(), reply, request.clone())
                    .await?;
                asked += 1;
            }
            let silent = || {
                format!(
                    "{stage}.{instance} has given nothing for {} s",
                    PIECE_MAX.as_secs()
                )
            };
            let message = tokio::time::timeout(PIECE_MAX, pieces.next())
                .await
                .with_context(silent)?;
            let message = message.with_context(silent)?;
            let nobody = || {
                format!("{stage}.{instance} does not listen any more: it has ended, or begins anew")
            };
            let piece = Piece::read(&message.payload)
                .filter(|_| message.status.is_none())
                .with_context(nobody)?;
            given += 1;
            match piece {
                Piece::Part(OF_INSTANCE, part) => {
                    self.own_rows(own_parts, &part, &mut from.rows)?;
                    own_parts += 1;
                }
                Piece::Part(partition, part) => {
                    self.part(partition, &part, &mut file, &mut from)?
                }
                Piece::End => break,
                Piece::Failed(why) => {
                    anyhow::bail!("{stage}.{instance} cannot give what it has captured: {why}")
                }
            }
        }
        let is_whole = file.is_none() && own_parts > 0 && from.files.len() == partitions.len();
        anyhow::ensure!(
            is_whole,
            "{stage}.{instance} has not given all that it has captured"
        );
        Ok(from)
    }

    fn saved(&self, partition: u16, version: u64) -> Saved {
        Saved::new(
            self.crawl,
            &self.of.stage,
            (partition, version),
            self.number,
        )
    }

    /// Takes in the next part of a partition.
    fn part(
        &self,
        partition: u16,
        part: &[u8],
        file: &mut Option<(u16, PartsFile)>,
        from: &mut FromOne,
    ) -> anyhow::Result<()> {
        let Captured {
            stage,
            instance,
            partitions,
        } = self.of;
        let version = partitions.get(&partition).copied();
        let version = version.with_context(|| {
            format!("{stage}.{instance} has not captured partition {partition}")
        })?;
        let (of, mut parts) = match file.take() {
            Some(begun) => begun,
            None => (partition, self.folder.parts(stage, partition)?),
        };
        anyhow::ensure!(
            of == partition,
            "{stage}.{instance} has not given all of partition {of}"
        );
        let checked = self.saved(partition, version).check(parts.parts, part);
        let (bytes, is_last) =
            checked.with_context(|| format!("a part of partition {partition} of {stage}"))?;
        parts.push(part)?;
        from.unpacked_bytes += bytes as u64;
        if is_last {
            from.files.push(parts.finish(SavedPartition {
                stage: stage.clone(),
                partition,
                version,
            })?);
        } else {
            *file = Some((of, parts));
        }
        Ok(())
    }

    /// Takes in rows that are the instance's.
    fn own_rows(&self, number: u32, part: &[u8], rows: &mut Vec<OwnRow>) -> anyhow::Result<()> {
        let visited = self
            .saved(OF_INSTANCE, 0)
            .visit(number, part, &mut |table, key, value| {
                rows.push((table.to_owned(), key.to_vec(), value.to_vec()));
                Ok(())
            });
        visited.with_context(|| format!("a part of {}.{}", self.of.stage, self.of.instance))
    }
}
