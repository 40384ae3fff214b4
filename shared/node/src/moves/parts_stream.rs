//! The stream of moves: where the parts of partitions wait for their receivers.
//!
//! In: parts of a partition that leaves. Out: the same, one by one, for the instance that the
//! partition comes to. Both sides work on it in the background and rest in between, so that their
//! cores have the processor for themselves most of the time.

use anyhow::Context as _;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use futures::future::try_join_all;
use rhumb_bus::Bus;
use rhumb_stage::Bill;
use rhumb_wire::topology::MOVES;
use std::time::Duration;

/// How long the stream may take for a few parts.
const PARTS_TIMEOUT: Duration = Duration::from_secs(20);

/// The stream of moves, as a stage sees it.
#[derive(Clone)]
pub(crate) struct PartsStream {
    pub(crate) bus: Bus,
    /// Which crawl it is: id and generation.
    pub(crate) crawl: String,
    pub(crate) stage: &'static str,
    /// Share of one core that copying may take.
    pub(crate) cpu_share: f64,
}

impl PartsStream {
    /// Who gives what: parts say so.
    pub(super) fn bill(&self, partition: u16, version: u64) -> Bill {
        Bill::new(&self.crawl, self.stage, partition, version)
    }

    /// Puts parts into the stream, and waits until it has them.
    pub(super) async fn publish(
        &self,
        partition: u16,
        version: u64,
        parts: Vec<Bytes>,
    ) -> anyhow::Result<()> {
        let subject = self.bus.subjects.moves(self.stage, partition, version);
        let stored = async {
            let mut acks = Vec::with_capacity(parts.len());
            for part in parts {
                acks.push(
                    self.bus
                        .jetstream
                        .publish(subject.clone(), part)
                        .await?
                        .into_future(),
                );
            }
            anyhow::Ok(try_join_all(acks).await?)
        };
        tokio::time::timeout(PARTS_TIMEOUT, stored)
            .await
            .context("the stream of moves does not answer")??;
        Ok(())
    }

    /// The first part of a partition from this place in the stream on, with its place; none when
    /// there is none yet.
    pub(super) async fn next(
        &self,
        partition: u16,
        version: u64,
        sequence: u64,
    ) -> anyhow::Result<Option<(u64, Bytes)>> {
        let subject = self.bus.subjects.moves(self.stage, partition, version);
        match self
            .stream()
            .await?
            .get_first_raw_message_by_subject(&subject, sequence)
            .await
        {
            Ok(message) => Ok(Some((message.sequence, message.payload))),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(error).context("the broker does not give the parts of a partition"),
        }
    }

    /// Removes what earlier tries left of a partition.
    pub(super) async fn purge_all(&self, partition: u16) -> anyhow::Result<()> {
        let earlier = self.bus.subjects.all_moves(self.stage, partition);
        self.stream()
            .await?
            .purge()
            .filter(earlier)
            .await
            .context("the stream of moves cannot be purged")?;
        Ok(())
    }

    /// Removes the parts of a partition that was taken. Those that stay go with the next move of
    /// the partition.
    pub(super) async fn purge(&self, partition: u16, version: u64) {
        let subject = self.bus.subjects.moves(self.stage, partition, version);
        let purged = async { anyhow::Ok(self.stream().await?.purge().filter(&subject).await?) };
        if let Err(error) = purged.await {
            tracing::debug!(
                partition,
                "the parts of a partition that was taken stay: {error:#}"
            );
        }
    }

    /// How long to rest after work.
    pub(super) fn rest(&self, worked: Duration) -> Duration {
        worked.mul_f64(1.0 / self.cpu_share - 1.0)
    }

    async fn stream(&self) -> anyhow::Result<Stream<()>> {
        let name = self.bus.subjects.stream(MOVES);
        self.bus
            .jetstream
            .get_stream_no_info(&name)
            .await
            .with_context(|| format!("no stream {name}"))
    }
}
