//! Sends copies of partitions that leave, one after the other, while the core works with them.
//!
//! In: partitions with what the stage keeps beside its tables. Out: their parts in the stream of
//! moves; which were sent. Invariant: nothing is written to the store.

use super::desk::Desk;
use super::parts_stream::PartsStream;
use super::work::Work;
use anyhow::Context as _;
use bytes::Bytes;
use rhumb_stage::Copied;
use rhumb_stage::Loading;
use rhumb_stage::Rows;
use rhumb_stage::store::{StoreError, Table};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Parts that are on their way into their stream at once.
const PARTS_AT_ONCE: usize = 8;

/// A partition that is to be sent.
pub(super) struct ToSend {
    pub(super) rows: Rows,
    pub(super) partition: u16,
    pub(super) version: u64,
    pub(super) copy: u64,
    /// What the stage keeps beside its tables, with its name.
    pub(super) copied: Option<(Table, Box<dyn Copied>)>,
}

/// A partition that was sent, but for what changes until it is given.
pub(super) struct Sent {
    pub(super) version: u64,
    pub(super) copy: u64,
    /// The parts that follow.
    pub(super) loading: Loading,
    pub(super) bytes: u64,
    pub(super) took: Duration,
    /// Of the processor; the rest of the time it rested.
    pub(super) worked: Duration,
}

/// The task that sends. It ends with this.
pub(super) struct Sending {
    to_send: mpsc::UnboundedSender<ToSend>,
    done: mpsc::UnboundedReceiver<(u16, Sent)>,
    task: tokio::task::JoinHandle<()>,
}

impl Sending {
    pub(super) fn begin(desk: Desk) -> Self {
        let (to_send, mut queue) = mpsc::unbounded_channel::<ToSend>();
        let (tell, done) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(to_send) = queue.recv().await {
                let partition = to_send.partition;
                let version = to_send.version;
                match send(&desk.stream, to_send).await {
                    Ok(sent) => _ = tell.send((partition, sent)),
                    Err(error) => desk.keeps(partition, version, &error).await,
                }
            }
        });
        Sending {
            to_send,
            done,
            task,
        }
    }

    pub(super) fn send(&self, to_send: ToSend) {
        // The task lives as long as this.
        let _ = self.to_send.send(to_send);
    }

    /// A partition that was sent since this was asked last.
    pub(super) fn next_done(&mut self) -> Option<(u16, Sent)> {
        self.done.try_recv().ok()
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn send(stream: &PartsStream, to_send: ToSend) -> anyhow::Result<Sent> {
    let ToSend {
        rows,
        partition,
        version,
        copy,
        copied,
    } = to_send;
    stream.purge_all(partition).await?;
    let began = Instant::now();
    let (full, mut parts) = mpsc::channel(PARTS_AT_ONCE);
    let reading_stream = stream.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let loading = Loading::new(reading_stream.bill(partition, version), copy);
        read(&reading_stream, &rows, copied, partition, loading, &full)
    });
    let mut some = Vec::with_capacity(PARTS_AT_ONCE);
    let mut bytes = 0;
    while parts.recv_many(&mut some, PARTS_AT_ONCE).await > 0 {
        bytes += some
            .iter()
            .map(|part: &Bytes| part.len() as u64)
            .sum::<u64>();
        stream
            .publish(partition, version, std::mem::take(&mut some))
            .await?;
    }
    let (loading, worked) = reading
        .await
        .context("a partition's rows cannot be read")??;
    Ok(Sent {
        version,
        copy,
        loading,
        bytes,
        took: began.elapsed(),
        worked,
    })
}

/// Reads a partition into parts, as fast as they are taken, with rests in between. Gives how long
/// it worked.
fn read(
    stream: &PartsStream,
    rows: &Rows,
    mut copied: Option<(Table, Box<dyn Copied>)>,
    partition: u16,
    mut loading: Loading,
    full: &mpsc::Sender<Bytes>,
) -> Result<(Loading, Duration), StoreError> {
    let mut working_since = Work::begin();
    let mut worked = Duration::ZERO;
    let copied = copied
        .as_mut()
        .map(|(name, copied)| (*name, copied.as_mut()));
    rows.copy(copied, partition, &mut loading, &mut |part| {
        let work = working_since.done();
        worked += work;
        std::thread::sleep(stream.rest(work));
        // Nobody takes parts any more when the life ends, or a send has failed: that is then the
        // error.
        let sent = full.blocking_send(part);
        working_since = Work::begin();
        sent.map_err(|_| {
            StoreError::Unusable("nobody takes the parts of a partition any more".into())
        })
    })?;
    Ok((loading, worked))
}
