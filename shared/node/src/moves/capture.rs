//! A capture: the partitions of an instance as they were at one moment, read for a checkpoint while
//! the core works on.
//!
//! In: the store, what the stage keeps beside it, the partitions. Out: pieces, as fast as they are
//! asked for, with rests in between. Invariant: what is committed after the moment is not in it.
//! One that nobody asks for any more is forgotten, and its reading ends.

use super::desk::Desk;
use super::parts_stream::PartsStream;
use super::piece::{OF_INSTANCE, Piece};
use super::work::Work;
use async_nats::{Client, Subject};
use bytes::Bytes;
use rhumb_stage::Rows;
use rhumb_stage::store::{StoreError, Table};
use rhumb_stage::{Beside, Copied};
use rhumb_stage::{Follows, Loading};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};

/// Pieces that are read ahead.
const PIECES_AHEAD: usize = 8;
/// A capture is forgotten when nobody asks for its pieces for this time.
const KEPT: Duration = Duration::from_secs(30);
/// One that is being collected stands in the way of another while it was asked for in this time.
const ASKED_FOR: Duration = Duration::from_secs(10);

/// A captured partition: its version, and what the stage keeps of it beside its tables, with the
/// name of that.
struct Captured {
    partition: u16,
    version: u64,
    copied: Option<(Table, Box<dyn Copied>)>,
}

/// The partitions of an instance as they were.
pub(crate) struct Capture {
    /// The number of the checkpoint.
    pub(crate) number: u64,
    pieces: Arc<Mutex<mpsc::Receiver<Piece>>>,
    begun_at: Instant,
    /// When a piece was asked for last.
    asked_at: Option<Instant>,
}

impl Capture {
    /// Captures partitions, none of which is on its way: each with the version of its ownership.
    ///
    /// # Errors
    /// What the stage keeps beside its tables cannot be read.
    pub(crate) fn begin(
        desk: &Desk,
        partitions: &[(u16, u64)],
        mut beside: Option<&mut dyn Beside>,
        number: u64,
    ) -> Result<Self, StoreError> {
        let rows = Rows {
            store: desk.rows.store.snapshot(),
            ..desk.rows.clone()
        };
        let mut captured = Vec::with_capacity(partitions.len());
        for &(partition, version) in partitions {
            let copied = match &mut beside {
                Some(beside) => {
                    let copied = beside.copy(partition)?;
                    // Nobody asks what came later.
                    beside.take_later(partition, &mut |_| Ok(()))?;
                    Some((beside.name(), copied))
                }
                None => None,
            };
            captured.push(Captured {
                partition,
                version,
                copied,
            });
        }
        let (full, pieces) = mpsc::channel(PIECES_AHEAD);
        let stream = desk.stream.clone();
        tokio::task::spawn_blocking(move || {
            let last = match read(&stream, &rows, captured, number, &full) {
                Ok(()) => Piece::End,
                Err(error) => Piece::Failed(error.to_string()),
            };
            // Nobody hears it when the capture is forgotten.
            let _ = full.blocking_send(last);
        });
        Ok(Capture {
            number,
            pieces: Arc::new(Mutex::new(pieces)),
            begun_at: Instant::now(),
            asked_at: None,
        })
    }

    /// Returns whether nobody has asked for its pieces for a while.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.asked_at.unwrap_or(self.begun_at).elapsed() > KEPT
    }

    /// Returns whether a command asks for its pieces, and has not got all. One that captures and
    /// fails asks for none.
    pub(crate) fn is_being_collected(&self) -> bool {
        // Who has the lock waits for the next piece.
        let is_given = self
            .pieces
            .try_lock()
            .is_ok_and(|pieces| pieces.is_closed() && pieces.is_empty());
        !is_given
            && self
                .asked_at
                .is_some_and(|asked_at| asked_at.elapsed() <= ASKED_FOR)
    }

    /// Sends the next piece to who asks, as soon as it is read. Who asks several times before gets
    /// them in that order.
    pub(crate) fn give(&mut self, client: Client, reply: Subject) {
        self.asked_at = Some(Instant::now());
        let pieces = self.pieces.clone();
        tokio::spawn(async move {
            let mut pieces = pieces.lock().await;
            // After the last one there is nothing to say.
            if let Some(piece) = pieces.recv().await {
                let _ = client.publish(reply, piece.to_bytes()).await;
            }
        });
    }
}

/// Reads all that was captured into pieces.
fn read(
    stream: &PartsStream,
    rows: &Rows,
    captured: Vec<Captured>,
    number: u64,
    full: &mpsc::Sender<Piece>,
) -> Result<(), StoreError> {
    let mut working_since = Work::begin();
    let mut give = |partition: u16, part: Bytes| {
        let piece = Piece::of(partition, &part);
        let piece = piece.map_err(|error| {
            StoreError::Unusable(format!("a part cannot be compressed: {error}"))
        })?;
        std::thread::sleep(stream.rest(working_since.done()));
        let given = full.blocking_send(piece);
        working_since = Work::begin();
        given.map_err(|_| {
            StoreError::Unusable("nobody asks for a captured partition any more".into())
        })
    };
    for Captured {
        partition,
        version,
        mut copied,
    } in captured
    {
        let mut loading = Loading::new(stream.bill(partition, version), number);
        let copied = copied
            .as_mut()
            .map(|(name, copied)| (*name, copied.as_mut()));
        rows.copy(copied, partition, &mut loading, &mut |part| {
            give(partition, part)
        })?;
    }
    let mut loading = Loading::new(stream.bill(OF_INSTANCE, 0), number);
    rows.visit_own(&mut |table, key, value| {
        loading
            .push(table, key, Some(value))
            .map_or(Ok(()), |part| give(OF_INSTANCE, part))
    })?;
    give(OF_INSTANCE, loading.close(Follows::Changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_capture_is_being_collected_from_the_first_request_until_all_was_given_or_nobody_asks()
     {
        let (full, pieces) = mpsc::channel(PIECES_AHEAD);
        let pieces = Arc::new(Mutex::new(pieces));
        let mut capture = Capture {
            number: 1,
            pieces,
            begun_at: Instant::now(),
            asked_at: None,
        };
        assert!(!capture.is_being_collected(), "who captured has failed");
        capture.asked_at = Some(Instant::now());
        assert!(capture.is_being_collected());
        full.send(Piece::End).await.unwrap();
        drop(full);
        assert!(capture.is_being_collected(), "the last piece was not given");
        assert!(matches!(
            capture.pieces.lock().await.recv().await,
            Some(Piece::End)
        ));
        assert!(!capture.is_being_collected());

        let (_full, pieces) = mpsc::channel(PIECES_AHEAD);
        capture.pieces = Arc::new(Mutex::new(pieces));
        assert!(capture.is_being_collected());
        capture.asked_at = Instant::now().checked_sub(ASKED_FOR + Duration::from_secs(1));
        assert!(!capture.is_being_collected(), "nobody asks any more");
    }
}
