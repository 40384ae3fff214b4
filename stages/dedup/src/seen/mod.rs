//! The URL-seen store: which URLs were never met before? Exact, and whole after a crash.
//!
//! In: questions, each a partition, the fingerprint of a host and that of a URL. Out: whether the
//! URL is new; it is known from then on.
//!
//! ```text
//! open(committed) ─▶ ask … flush ─▶ stage … ─▶ the caller commits the last bytes ─▶ committed ─▶ ask …
//! ```
//! Several stages may come before a commit: the bytes of the last one stand for all of them.
//!
//! There are two: the sieve (`stages.dedup.store: disk`), whose memory is bounded, and one that
//! holds all fingerprints in memory (`memory`).
//!
//! Invariants: a URL is new exactly once, up to collisions of full 64-bit fingerprints (P4); the
//! answers of a partition come in the order asked.
//!
//! What became known is durable when the bytes that [`SeenStore::stage`] gave are committed,
//! neither earlier nor later: they name a log, by its length, and what else the store has on the
//! disk. Files are complete before they are named, are not changed after that (the log is appended
//! to), and are removed when what is committed does not name them any more. So a process may die
//! between any two writes: the store is opened as it was committed, and what lies on the disk
//! beyond that is removed. Not durable: questions that wait. Their asker asks them again.
//!
//! A partition moves from store to store while both work. Only the last keys come when nobody asks
//! about it any more:
//!
//! ```text
//! the one that gives away   copy ─▶ visited … take_later     once that is committed: forget ─▶ stage ─▶ commit
//! the one that takes over   importer ─▶ push … push_later ─▶ import ─▶ stage ─▶ commit ─▶ committed
//! ```
//! A move that was cut short is made again from its beginning: until `forget` is committed the one
//! has all keys, and an import replaces what the other has of the partition.
//!
//! A partition that was split is halved in the same way, between two commits: its keys become those
//! of its halves.
//!
//! A crawl that began with the memory store may go on with the sieve: both keep the same log. Not
//! the other way round: when the sieve has made runs, the log does not hold all.
//!
//! Sources: Heydon and Najork 1999, section 3.2 (the URL-seen test); Broder, Najork and Wiener
//! 2003, section 1 (why it limits a crawl).

mod ascent;
mod error;
mod folder;
mod import;
mod log;
mod memory;
mod sieve;
mod state;

#[cfg(test)]
mod tests;

pub use self::error::SeenError;
pub use self::import::Import;
pub use self::memory::memory_store_bytes;

use self::folder::Folder;
use self::memory::Memory;
use self::sieve::Sieve;
use self::state::State;
use rhumb_config::{DedupStore, Durability, Pipeline};
use rhumb_partition::Split;
use rhumb_url::time::Timestamp;
use std::path::PathBuf;
use std::time::Duration;

/// Fingerprints of a host and of a URL.
pub type Key = (u64, u64);
/// Takes the keys of a copy, one by one; its error ends the visit.
pub type VisitKey<'a> = dyn FnMut(Key) -> Result<(), SeenError> + 'a;
/// The token of a question, and whether its URL is new.
pub type Answer = (u64, bool);

/// What a store is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which store.
    pub store: DedupStore,
    /// The sieve's memory for questions and for what became known since the last merge, over all
    /// partitions, in bytes. When it is used up, [`SeenStore::flush_at`] says "at once"; what is
    /// asked before the flush comes on top.
    pub buffer_bytes: usize,
    /// How long a question waits in the sieve at most, if the caller flushes when
    /// [`SeenStore::flush_at`] says so.
    pub flush_after: Duration,
    /// How many URLs the sieve's first Bloom filters are made for, over all partitions.
    pub filter_urls: u64,
    /// Memory of all Bloom filters of the sieve, in bytes. When it is used up, more questions wait
    /// for the runs. An eighth more may be used when partitions are added later.
    pub filter_bytes_max: usize,
    /// Returns whether what is staged is on the disk itself, so that it survives a power cut
    /// (`durability: power`). Without it, it survives the death of any process.
    pub sync: bool,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        let dedup = &pipeline.stages.dedup;
        Settings {
            store: dedup.store,
            buffer_bytes: dedup.buffer_bytes.as_usize(),
            flush_after: dedup.flush_after,
            filter_urls: dedup.filter_urls,
            filter_bytes_max: dedup.filter_bytes_max.as_usize(),
            sync: pipeline.durability == Durability::Power,
        }
    }
}

/// What is known of a URL when it is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// Never met before; known from now on.
    New,
    /// Met before.
    Repeated,
    /// A later [`SeenStore::flush`] answers, with the question's token.
    Later,
}

/// What was known in a partition when a copy of it began.
pub trait CopiedKeys: Send {
    /// Visits the keys, in strictly ascending order.
    fn visit(&self, visit: &mut VisitKey<'_>) -> Result<(), SeenError>;
}

/// Keys in order.
impl CopiedKeys for Vec<Key> {
    fn visit(&self, visit: &mut VisitKey<'_>) -> Result<(), SeenError> {
        self.iter().copied().try_for_each(visit)
    }
}

/// A URL-seen store. After an error nothing is certain except what was committed, and it is to be
/// opened again from that; but it goes on after [`SeenError::Partition`] and
/// [`SeenError::Unordered`].
pub trait SeenStore: Send {
    /// Asks about a URL of a partition. A new one is known from now on; with [`Novelty::Later`] the
    /// answer comes from a later [`SeenStore::flush`], with `token`. `now` never goes back.
    fn ask(
        &mut self,
        now: Timestamp,
        partition: u16,
        host: u64,
        url: u64,
        token: u64,
    ) -> Result<Novelty, SeenError>;

    /// When to call [`SeenStore::flush`]: when the oldest question has waited for so long; at once
    /// ([`Timestamp::ZERO`]) when there is work that does not wait for a question, as long as there
    /// is; never when there is neither.
    fn flush_at(&self) -> Option<Timestamp>;

    /// Answers the questions of the partitions in which one has waited for long enough; with `all`
    /// (the caller is idle, or ends) those of all partitions. Then a piece of the work that does
    /// not wait for a question, which may answer others.
    ///
    /// A call ends before all that is done; then [`SeenStore::flush_at`] says "at once" again, and
    /// the caller had best stage and commit before the next call. Answers are appended, a
    /// partition's in the order asked.
    fn flush(
        &mut self,
        now: Timestamp,
        all: bool,
        answers: &mut Vec<Answer>,
    ) -> Result<(), SeenError>;

    /// Appends what became known since the last call to the log. Gives the bytes to be committed,
    /// atomically with what was made of the answers; none when nothing became known and no file
    /// changed.
    fn stage(&mut self) -> Result<Option<Vec<u8>>, SeenError>;

    /// The bytes that [`SeenStore::stage`] gave last are committed. Removes the files that they do
    /// not name any more.
    fn committed(&mut self) -> Result<(), SeenError>;

    /// Returns whether no question waits.
    fn is_idle(&self) -> bool;

    /// All that is known in a partition now, to be read while the store works on; nothing of one
    /// that it does not know. What becomes known from now on is remembered until it is taken.
    fn copy(&mut self, partition: u16) -> Result<Box<dyn CopiedKeys>, SeenError>;

    /// Visits all that is known in a partition, in strictly ascending order; nothing of one that it
    /// does not know.
    fn visit(&self, partition: u16, visit: &mut VisitKey<'_>) -> Result<(), SeenError>;

    /// What became known in a partition since its last copy began; it is not remembered any more.
    fn take_later(&mut self, partition: u16) -> Vec<Key>;

    /// Begins to take a partition over. Nothing of it is known until it is
    /// [imported](SeenStore::import).
    fn importer(&mut self, partition: u16) -> Result<Import, SeenError>;

    /// All keys of a partition have come: they, and no others, are known in it from now on. No
    /// question waits.
    fn import(&mut self, import: Import) -> Result<(), SeenError>;

    /// From now on there are questions about these partitions; others are kept.
    fn serve(&mut self, partitions: &[u16]);

    /// The askers of the questions that wait are gone.
    fn give_up_questions(&mut self);

    /// Nothing is known in a partition from now on, and what is on the disk of it goes with the
    /// next commit. Questions about it are refused until it is imported or the store is opened for
    /// it anew. No question waits.
    fn forget(&mut self, partition: u16) -> Result<(), SeenError>;

    /// A partition was split: what is known in it is known in its halves from now on, and nothing
    /// in it. No question waits.
    fn halve(&mut self, split: &Split) -> Result<(), SeenError>;

    /// Returns whether a URL of a partition is known. Changes nothing; a question that waits for
    /// its answer makes none known.
    fn knows(&self, partition: u16, host: u64, url: u64) -> Result<bool, SeenError>;

    /// URLs known in a partition.
    fn known(&self, partition: u16) -> u64;

    /// Length of what the files have of a partition's known URLs, in bytes.
    fn bytes(&self, partition: u16) -> u64;

    /// Memory held between two calls, in bytes.
    fn memory_bytes(&self) -> usize;

    /// Length of all files that are in use, in bytes.
    fn disk_bytes(&self) -> u64;
}

/// Opens the store that is configured, in a folder that is made if it is not there and that no
/// other store may use.
///
/// `partitions`: those there are questions about; others that the folder holds are kept.
/// `committed`: the bytes of [`SeenStore::stage`] that were committed last; none for a new store.
/// What is on the disk beyond them is removed.
///
/// # Errors
/// A file cannot be read or written, or is not as it was written; the committed state is none that
/// the configured store can go on from.
pub fn open(
    settings: &Settings,
    folder: PathBuf,
    partitions: &[u16],
    committed: Option<&[u8]>,
) -> Result<Box<dyn SeenStore>, SeenError> {
    let folder = Folder::open(folder, settings.sync)?;
    let state = committed
        .map(|bytes| State::from_bytes(bytes, &folder))
        .transpose()?;
    Ok(match settings.store {
        DedupStore::Disk => Box::new(Sieve::open(settings.clone(), folder, partitions, state)?),
        DedupStore::Memory => Box::new(Memory::open(folder, partitions, state)?),
    })
}
