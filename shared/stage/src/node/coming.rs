//! A partition that comes: its parts are taken in one after the other, while the core works with
//! others.
//!
//! In: the parts of a copy, in order. Out: commits; the word that the instance has the copy;
//! whether all has come. Invariant: the core does not use the partition whose rows are written.

use super::change::Change;
use crate::beside::Importing;
use crate::moves::{Bill, Follows, Removal, Rows, Unfit};
use crate::settlement::LeaseOver;
use crate::store::{Changes, StoreError, Table};
use std::time::Duration;

/// Rows that one commit removes.
pub(super) const ROWS_REMOVED_AT_ONCE: usize = 2000;

/// Why something is not written.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// There is no room, or the like.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else may write now.
    #[error(transparent)]
    LeaseOver(#[from] LeaseOver),
}

/// Commits, unless the lease is over.
pub type Commit<'a> = dyn FnMut(&Changes) -> Result<(), NotWritten> + 'a;

/// A partition that comes: how far it has come.
pub struct Coming {
    /// Where its rows go: which are its is told by the table that sent it.
    pub(super) rows: Rows,
    /// The partition.
    pub partition: u16,
    /// Of its ownership.
    pub version: u64,
    pub(super) bill: Bill,
    /// The copy that is under way; none before its first part.
    pub(super) copy: Option<u64>,
    /// The next part, and where in the stream it is at the earliest.
    pub(super) number: u32,
    pub(super) sequence: u64,
    /// What the stage keeps beside its tables, with its name.
    pub(super) importing: Option<(Table, Box<dyn Importing>)>,
    /// The owner is to be told that the copy is there.
    pub(super) is_to_tell: bool,
    /// Of the processor, in all.
    pub(super) worked: Duration,
}

/// A partition that has come.
pub struct Loaded {
    pub(super) version: u64,
    pub(super) copy: u64,
    pub(super) importing: Option<Box<dyn Importing>>,
    /// How long the processor worked to take it in.
    pub(super) worked: Duration,
}

/// What became of a partition with a part.
#[derive(Debug)]
pub enum Taken {
    /// It is a part further.
    More,
    /// All of it is there ([`Coming::loaded`]). A part that follows is one of another copy.
    Whole,
    /// Its sender begins anew, or the lease is over: it begins anew, too.
    Ended,
    /// It cannot be taken: the owner is to keep it.
    Refused(NotTaken),
}

/// Why a part is not taken.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// It is another than was waited for.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// Its rows are not written.
    #[error(transparent)]
    NotWritten(#[from] NotWritten),
}

impl Coming {
    /// What is to be said in the table of owners before the next part.
    pub fn to_tell(&self) -> Option<Change> {
        self.is_to_tell.then(|| Change::Copied {
            partition: self.partition,
            version: self.version,
            copy: self.copy.unwrap_or_default(),
        })
    }

    /// That was said.
    pub fn told(&mut self) {
        self.is_to_tell = false;
    }

    /// Where in the stream the next part is at the earliest.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Takes in a part that is at this place of the stream.
    pub fn take(&mut self, sequence: u64, part: &[u8], commit: &mut Commit<'_>) -> Taken {
        self.sequence = sequence + 1;
        match self.commit_part(part, commit) {
            Ok(Follows::More) => Taken::More,
            Ok(Follows::Changes) => {
                self.is_to_tell = true;
                Taken::More
            }
            Ok(Follows::Nothing) => Taken::Whole,
            Err(
                NotTaken::Unfit(Unfit::Copy { .. })
                | NotTaken::NotWritten(NotWritten::LeaseOver(_)),
            ) => Taken::Ended,
            Err(why) => Taken::Refused(why),
        }
    }

    /// Commits a part. Before the first one what earlier tries left goes.
    fn commit_part(&mut self, part: &[u8], commit: &mut Commit<'_>) -> Result<Follows, NotTaken> {
        if self.number == 0 {
            remove_rows(&self.rows, self.partition, commit)?;
        }
        let importing = self
            .importing
            .as_mut()
            .map(|(name, importing)| (*name, importing.as_mut()));
        let (changes, copy, follows) = self.rows.of_part(
            importing,
            self.partition,
            (&self.bill, self.copy, self.number),
            part,
        )?;
        commit(&changes)?;
        self.copy = Some(copy);
        self.number += 1;
        Ok(follows)
    }

    /// The processor worked so long to take in a part.
    pub fn worked(&mut self, worked: Duration) {
        self.worked += worked;
    }

    /// The partition, of which all has come.
    pub fn loaded(&mut self) -> Loaded {
        Loaded {
            version: self.version,
            copy: self.copy.unwrap_or_default(),
            importing: self.importing.take().map(|(_, importing)| importing),
            worked: self.worked,
        }
    }
}

/// Removes all rows of a partition.
fn remove_rows(rows: &Rows, partition: u16, commit: &mut Commit<'_>) -> Result<(), NotWritten> {
    let mut removal = Removal::default();
    loop {
        let mut changes = Changes::default();
        if rows.remove(&mut changes, partition, &mut removal, ROWS_REMOVED_AT_ONCE)? == 0 {
            return Ok(());
        }
        commit(&changes)?;
    }
}
