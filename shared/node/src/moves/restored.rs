//! Partitions of a checkpoint on their way to the instances that are to have them.
//!
//! In: the parts as they were saved. Out: their rows; the same parts under the bill of the crawl
//! that begins with them, in the stream of moves, where their owners find them as if another
//! instance had sent them. Invariant: a part that is damaged, or another one than was saved in this
//! place, goes no further.

use super::parts_stream::PartsStream;
use super::piece::unpack;
use bytes::Bytes;
use rhumb_bus::Bus;
use rhumb_stage::{Bill, Follows, Unfit};

/// What the parts of a saved partition say of themselves.
#[derive(Clone, Debug)]
pub struct Saved {
    bill: Bill,
    copy: u64,
}

/// Called with the table, the key and the value of a row; gives why it does not understand it.
type VisitRow<'a> = dyn FnMut(&str, &[u8], &[u8]) -> Result<(), String> + 'a;

impl Saved {
    /// A partition of a stage that was saved from a crawl, under a version of its ownership, for
    /// the checkpoint of this number.
    pub fn new(crawl: &str, stage: &str, (partition, version): (u16, u64), copy: u64) -> Self {
        Saved {
            bill: Bill::new(crawl, stage, partition, version),
            copy,
        }
    }

    /// The part with this number. Gives what becomes of it, the number of bytes of its rows, and
    /// whether it was the last.
    fn part<R>(
        &self,
        number: u32,
        packed: &[u8],
        with: impl FnOnce(rhumb_stage::Part<'_>, usize) -> Result<R, Unfit>,
    ) -> Result<(R, bool), Unfit> {
        let part = unpack(packed).map_err(|_| Unfit::Damaged { number })?;
        let checked = self.bill.check(Some(self.copy), number, &part)?;
        let is_last = checked.follows != Follows::More;
        Ok((with(checked, part.len())?, is_last))
    }

    /// Checks a part. Gives how many bytes it has when it is unpacked, and whether it is the last.
    ///
    /// # Errors
    /// It is another, or damaged.
    pub fn check(&self, number: u32, packed: &[u8]) -> Result<(usize, bool), Unfit> {
        self.part(number, packed, |_, bytes| Ok(bytes))
    }

    /// Visits the rows of a part.
    ///
    /// # Errors
    /// It is another, or damaged, or `visit` has failed.
    pub fn visit(&self, number: u32, packed: &[u8], visit: &mut VisitRow<'_>) -> Result<(), Unfit> {
        let rows = self.part(number, packed, |part, _| {
            part.visit(|table, key, value| visit(table, key, value.unwrap_or_default()))
        });
        rows.map(|_| ())
    }
}

/// Brings partitions of a checkpoint to the instances of a stage.
pub struct Restoring(PartsStream);

impl Restoring {
    /// To a stage of the crawl with this mark.
    pub fn new(bus: &Bus, crawl: String, stage: &'static str) -> Self {
        Restoring(PartsStream {
            bus: bus.clone(),
            crawl,
            stage,
            cpu_share: 1.0,
        })
    }

    /// Begins anew with a partition: what an earlier try has left goes.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn begin(&self, partition: u16) -> anyhow::Result<()> {
        self.0.purge_all(partition).await
    }

    /// Sends some parts of a partition, from this number on, to who takes it under a version.
    /// `copy`: which try it is.
    ///
    /// # Errors
    /// One is damaged, or the broker does not take them.
    pub async fn send(
        &self,
        saved: &Saved,
        (partition, version): (u16, u64),
        copy: u64,
        first: u32,
        packed: &[Bytes],
    ) -> anyhow::Result<()> {
        let bill = self.0.bill(partition, version);
        let mut parts = Vec::with_capacity(packed.len());
        for (number, packed) in (first..).zip(packed) {
            let (part, _) = saved.part(number, packed, |part, _| {
                let follows = if part.follows == Follows::More {
                    Follows::More
                } else {
                    Follows::Nothing
                };
                Ok(part.billed(bill, copy, follows))
            })?;
            parts.push(part);
        }
        self.0.publish(partition, version, parts).await
    }
}
