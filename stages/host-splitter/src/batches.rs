//! Batches of URLs, each of one partition, that wait for company; and the counts of dropped URLs
//! that ride in them.
//!
//! In: URLs that pass, and those that go no further. Out: batches for their streams, and the end of
//! each input when all of it has left.
//!
//! Invariant: every URL of an input is in a batch or in a count, and both leave in messages that
//! the input causes. The input is finished only then (P3).

use crate::effect::Effect;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_partition::Directory;
use rhumb_stage::{Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_url::{host_hash, host_of};
use rhumb_wire::message::{FilterReason, FoundUrls, SplitUrls};
use rhumb_wire::topology::Token;
use std::collections::VecDeque;
use std::time::Duration;

/// A batch with this many bytes is flushed even when it holds fewer URLs than it may: a message
/// stays far below `broker.max_payload`, however long the URLs are.
pub(crate) const BATCH_BYTES_MAX: usize = 512 << 10;

/// The batch of a partition that waits for company.
#[derive(Default)]
struct Pending {
    batch: SplitUrls,
    bytes: usize,
    /// Inputs of its URLs, each once, in order.
    causes: Vec<Ticket>,
    /// Fingerprints of its URLs.
    fingerprints: Vec<u64>,
    due: Timestamp,
}

/// Counts of URLs that go no further. They wait for a batch to ride in.
#[derive(Default)]
pub(crate) struct Dropped {
    pub(crate) filtered: [u32; FilterReason::ALL.len()],
    pub(crate) repeated: u32,
    /// Inputs of the dropped URLs, each once, in order.
    causes: Vec<Ticket>,
    due: Timestamp,
    /// Where they go when there is no batch.
    partition: u16,
}

/// All batches.
pub(crate) struct Batches {
    urls_max: usize,
    linger: Duration,
    /// Number of the next batch.
    number: u64,
    /// Which partition each host belongs to.
    directory: Directory,
    /// The pending batch of each partition.
    pending: Vec<Pending>,
    /// When pending batches are due, in order; an entry whose batch has left meanwhile means
    /// nothing.
    due: VecDeque<(Timestamp, u16)>,
    dropped: Dropped,
    /// Batches on their way to their stream, by number, with the fingerprints of their URLs.
    leaving: HashMap<u64, Vec<u64>>,
    /// In how many pending batches or counts a part of each input waits.
    held: HashMap<Ticket, u32>,
    sent: u64,
    urls: u64,
}

impl Batches {
    /// Creates batches for the partitions of `directory`, numbered from `number` on. Each holds at
    /// most `urls_max` URLs and waits at most `linger` for more.
    pub(crate) fn new(
        directory: Directory,
        urls_max: usize,
        linger: Duration,
        number: u64,
    ) -> Self {
        Batches {
            urls_max,
            linger,
            number,
            pending: (0..directory.ids()).map(|_| Pending::default()).collect(),
            directory,
            due: VecDeque::new(),
            dropped: Dropped::default(),
            leaving: HashMap::new(),
            held: HashMap::new(),
            sent: 0,
            urls: 0,
        }
    }

    /// Partitions were split. A batch that waits for one of them leaves for it: its owner passes on
    /// what is not its own.
    pub(crate) fn divided_by(&mut self, directory: Directory) {
        self.pending.resize_with(
            usize::from(directory.ids()).max(self.pending.len()),
            Pending::default,
        );
        self.directory = directory;
    }

    /// The partition of a host.
    pub(crate) fn partition_of(&self, host: &str) -> u16 {
        self.partition_of_hash(host_hash(host))
    }

    /// The partition of a host with this hash.
    pub(crate) fn partition_of_hash(&self, hash: u64) -> u16 {
        self.directory.partition_of(hash)
    }

    /// Holds an input until [`Batches::release`], whatever leaves of it meanwhile.
    pub(crate) fn hold(&mut self, ticket: Ticket) {
        self.held.insert(ticket, 1);
    }

    /// A part of the input has left; with the last part the input is finished.
    pub(crate) fn release(&mut self, ticket: Ticket, out: &mut Output<Effect>) {
        let Some(held) = self.held.get_mut(&ticket) else {
            debug_assert!(false, "P3: an input is held as long as a part of it waits");
            return;
        };
        *held -= 1;
        if *held == 0 {
            self.held.remove(&ticket);
            out.finish(ticket);
        }
    }

    /// Puts a URL of the input into the batch of its partition.
    #[expect(
        clippy::too_many_arguments,
        reason = "a URL with all that belongs to it"
    )]
    pub(crate) fn append(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        found: &FoundUrls,
        url: &str,
        fingerprint: u64,
        partition: u16,
        out: &mut Output<Effect>,
    ) {
        let pending = &mut self.pending[usize::from(partition)];
        if pending.batch.urls.is_empty() {
            pending.due = now + self.linger;
            self.due.push_back((pending.due, partition));
        }
        if pending.causes.last() != Some(&ticket) {
            pending.causes.push(ticket);
            *self.held.entry(ticket).or_default() += 1;
            pending.batch.origins.push(found.origin.clone());
            pending.bytes += found.origin.page.len() + found.origin.topic.len();
        }
        pending.fingerprints.push(fingerprint);
        pending.batch.urls.push(url);
        pending
            .batch
            .origin_of
            .push(pending.batch.origins.len() as u32 - 1);
        pending.bytes += url.len();
        self.urls += 1;
        if pending.batch.urls.len() >= self.urls_max || pending.bytes >= BATCH_BYTES_MAX {
            self.flush(partition, out);
        }
    }

    /// A URL of the input goes no further. Returns the counts, for the caller to count it.
    pub(crate) fn dropped(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        found: &FoundUrls,
    ) -> &mut Dropped {
        if self.dropped.causes.is_empty() {
            self.dropped.due = now + self.linger;
            self.dropped.partition = self.partition_of(host_of(&found.origin.page));
        }
        let dropped = &mut self.dropped;
        if dropped.causes.last() != Some(&ticket) {
            dropped.causes.push(ticket);
            *self.held.entry(ticket).or_default() += 1;
        }
        dropped
    }

    /// Publishes the batch of a partition with the counts of what was dropped since the last one.
    fn flush(&mut self, partition: u16, out: &mut Output<Effect>) {
        let pending = std::mem::take(&mut self.pending[usize::from(partition)]);
        let Pending {
            mut batch,
            causes: mut leaving,
            fingerprints,
            ..
        } = pending;
        self.urls -= batch.urls.len() as u64;
        let dropped = std::mem::take(&mut self.dropped);
        batch.filtered = dropped.filtered;
        batch.repeated = dropped.repeated;
        batch.number = self.number;
        self.number = self.number.wrapping_add(1);
        self.sent += 1;
        leaving.extend(dropped.causes);
        let mut causes = leaving.clone();
        causes.sort_unstable();
        causes.dedup();
        out.publish_tagged(Token::Partition(partition), &batch, causes, batch.number);
        self.leaving.insert(batch.number, fingerprints);
        for ticket in leaving {
            self.release(ticket, out);
        }
    }

    /// Publishes what has waited long enough; everything when the process ends.
    pub(crate) fn flush_due(&mut self, now: Timestamp, draining: bool, out: &mut Output<Effect>) {
        while let Some(&(due, partition)) = self.due.front() {
            let pending = &self.pending[usize::from(partition)];
            let waits = !pending.batch.urls.is_empty() && pending.due == due;
            if waits && due > now && !draining {
                return;
            }
            self.due.pop_front();
            if waits {
                self.flush(partition, out);
            }
        }
        // No batch is pending: the counts travel alone.
        if !self.dropped.causes.is_empty() && (self.dropped.due <= now || draining) {
            self.flush(self.dropped.partition, out);
        }
    }

    /// The batch of that number is in its stream. Returns the fingerprints of its URLs.
    pub(crate) fn stored(&mut self, number: u64) -> Vec<u64> {
        self.leaving.remove(&number).unwrap_or_default()
    }

    /// When to flush next.
    pub(crate) fn flush_at(&self) -> Option<Timestamp> {
        let dropped = (!self.dropped.causes.is_empty()).then_some(self.dropped.due);
        self.due.front().map(|&(due, _)| due).or(dropped)
    }

    /// Returns whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.urls == 0 && self.dropped.causes.is_empty()
    }

    /// URLs that wait.
    pub(crate) fn urls(&self) -> u64 {
        self.urls
    }

    /// Batches published in this life.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }
}
