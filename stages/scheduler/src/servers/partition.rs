//! A partition: the URLs that it took on, what was counted, its hosts, and its clock.
//!
//! Invariant: a URL's row goes and its outcome is published in one commit (P3).

use crate::budget::hosts::Hosts;
use crate::frontier::rows::{FrontierUrl, remove_url};
use crate::frontier::url_end::UrlEnd;
use crate::keys::server_key::ServerKey;
use crate::servers::counts::Counts;
use crate::step::staged::Staged;
use crate::store::clock::Clock;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::corrupt;
use shared::message::{Outcome, Trace};
use shared::stage::Applied;
use shared::stage::store::{Changes, Store, StoreError, Table};
use shared::time::Timestamp;

/// Table of partitions: number of the partition and kind of row → row.
pub(crate) const META: Table = "meta";

/// A partition that this instance owns.
#[derive(Debug)]
pub(crate) struct Partition {
    /// Serial numbers of the URLs taken on.
    pub(crate) serials: Applied,
    pub(crate) counts: Counts,
    pub(crate) hosts: Hosts,
    pub(crate) clock: Clock,
}

/// The key of a row of a partition.
fn key(partition: u16, kind: u8) -> Vec<u8> {
    let mut key = partition.to_be_bytes().to_vec();
    key.push(kind);
    key
}

impl Partition {
    /// Reads what was stored; an empty partition when nothing was. `hosts` are in play.
    pub(crate) fn open(
        store: &dyn Store,
        partition: u16,
        hosts: Hosts,
        now: Timestamp,
        epoch: u64,
    ) -> Result<Self, StoreError> {
        let unreadable = || corrupt(META, "a partition's row is unreadable");
        let serials = match store.get(META, &key(partition, b's'))? {
            Some(row) => Applied::from_bytes(&row).ok_or_else(unreadable)?,
            None => Applied::default(),
        };
        let (clock, counts) = match store.get(META, &key(partition, b'c'))? {
            Some(row) => read(&row).ok_or_else(unreadable)?,
            None => (0, Counts::default()),
        };
        Ok(Partition { serials, counts, hosts, clock: Clock::resume(clock, now, epoch) })
    }

    /// Writes counts and clock.
    pub(crate) fn save(&self, staged: &mut Staged<'_>, partition: u16) {
        let mut row = Writer::with_capacity(64);
        row.number(self.clock.store(staged.now));
        row.number(self.clock.epoch());
        self.counts.write(&mut row);
        staged.rows.put(META, key(partition, b'c'), row.finish());
    }

    /// Writes which URLs were taken on.
    pub(crate) fn save_serials(&self, staged: &mut Staged<'_>, partition: u16) {
        staged.rows.put(META, key(partition, b's'), self.serials.to_bytes());
    }

    /// A URL ends: its row goes, its outcome is published, both in one commit (P3).
    pub(crate) fn end(&mut self, staged: &mut Staged<'_>, server: ServerKey, slot: u64, url: FrontierUrl, end: UrlEnd) {
        self.counts.outcomes[end.outcome as usize] += 1;
        if end.outcome == Outcome::Fetched {
            self.counts.bytes += end.bytes;
            self.hosts.fetched(staged, server.host);
        }
        let (outcome, reason) = (end.outcome.name(), end.reason);
        tracing::debug!(trace = %Trace::of(&url.url), url = url.url, outcome, status = end.status, reason, "a URL ends");
        remove_url(&mut staged.rows, server, slot);
        staged.messages.outcome(server.partition, url.into_outcome(end));
        staged.partitions.insert(server.partition);
    }
}

/// What a partition that this instance does not work with has stored: its clock and its counts.
pub(crate) struct Stored {
    pub(crate) clock: u64,
    pub(crate) counts: Counts,
}

impl Stored {
    /// Reads what was stored of a partition; none when nothing was.
    pub(crate) fn read(store: &dyn Store, partition: u16) -> Result<Option<Self>, StoreError> {
        let Some(row) = store.get(META, &key(partition, b'c'))? else { return Ok(None) };
        let (clock, counts) = read(&row).ok_or_else(|| corrupt(META, "a partition's row is unreadable"))?;
        Ok(Some(Stored { clock, counts }))
    }

    /// Adds the row of a partition to a commit.
    pub(crate) fn write(&self, partition: u16, changes: &mut Changes) {
        let mut row = Writer::with_capacity(64);
        row.number(self.clock);
        row.number(0);
        self.counts.write(&mut row);
        changes.put(META, key(partition, b'c'), row.finish());
    }
}

/// Reads the clock and the counts. The epoch between them is for people who look into the state.
fn read(row: &[u8]) -> Option<(u64, Counts)> {
    let mut row = Reader::new(row)?;
    let clock = row.number()?;
    let _epoch = row.number()?;
    Some((clock, Counts::read(&mut row)?))
}
