//! Sends copies of partitions that leave, one after the other, while the core works with them.
//!
//! In: partitions with what the stage keeps beside its tables. Out: their parts in the stream of
//! moves; which were sent. Invariant: nothing is written to the store.

use super::desk::Desk;
use super::parts_stream::PartsStream;
use super::work::Work;
use anyhow::Context as _;
use bytes::Bytes;
use rhumb_stage::moves::PART_BYTES;
use rhumb_stage::node::{Copying, Sent};
use rhumb_stage::store::StoreError;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Parts that are on their way into their stream at once.
const PARTS_AT_ONCE: usize = 8;

/// The task that sends. It ends with this.
pub(super) struct Sending {
    to_send: mpsc::UnboundedSender<Copying>,
    done: mpsc::UnboundedReceiver<(u16, Sent)>,
    task: tokio::task::JoinHandle<()>,
}

impl Sending {
    pub(super) fn begin(desk: Desk) -> Self {
        let (to_send, mut queue) = mpsc::unbounded_channel::<Copying>();
        let (tell, done) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(copying) = queue.recv().await {
                let partition = copying.partition;
                let version = copying.version;
                match send(&desk.stream, copying).await {
                    Ok(sent) => _ = tell.send((partition, sent)),
                    Err(error) => {
                        let keep = desk.of.keeps(partition, version, &error);
                        // Else it is sent again by the next life.
                        desk.try_to_change(&keep).await;
                    }
                }
            }
        });
        Sending {
            to_send,
            done,
            task,
        }
    }

    pub(super) fn send(&self, copying: Copying) {
        // The task lives as long as this.
        let _ = self.to_send.send(copying);
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

async fn send(stream: &PartsStream, copying: Copying) -> anyhow::Result<Sent> {
    let partition = copying.partition;
    let version = copying.version;
    stream.purge_all(partition).await?;
    let began = Instant::now();
    let (full, mut parts) = mpsc::channel(PARTS_AT_ONCE);
    let reading_stream = stream.clone();
    let reading = tokio::task::spawn_blocking(move || read(&reading_stream, copying, &full));
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
    let (mut sent, worked) = reading
        .await
        .context("a partition's rows cannot be read")??;
    sent.cost.bytes = bytes;
    sent.cost.took = began.elapsed();
    sent.cost.worked = worked;
    Ok(sent)
}

/// Reads a partition into parts, as fast as they are taken, with rests in between. Gives how long
/// it worked.
fn read(
    stream: &PartsStream,
    copying: Copying,
    full: &mpsc::Sender<Bytes>,
) -> Result<(Sent, Duration), StoreError> {
    let mut working_since = Work::begin();
    let mut worked = Duration::ZERO;
    let sent = copying.read(PART_BYTES, &mut |part| {
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
    Ok((sent, worked))
}
