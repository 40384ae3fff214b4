//! A partition: the URLs that it took on, what was counted, its hosts, the numbers of its topics,
//! and its clock.
//!
//! Invariant: a URL's row goes and its outcome is published in one commit (P3).

use crate::budget::hosts::Hosts;
use crate::frontier::rows::{FrontierUrl, remove_url};
use crate::frontier::url_end::UrlEnd;
use crate::frontier::visited::Visited;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{RETRIES, topic_of};
use crate::keys::topic::TopicNumber;
use crate::ranking::topics::Topics;
use crate::servers::counts::Counts;
use crate::servers::tally::{Tally, kind};
use crate::servers::topic_counts::TopicCounts;
use crate::servers::topic_numbers::TopicNumbers;
use crate::settings::Settings;
use crate::step::staged::Staged;
use crate::store::clock::Clock;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::corrupt;
use rhumb_config::RecrawlPolicy;
use rhumb_stage::Applied;
use rhumb_stage::store::{Changes, Store, StoreError, Table};
use rhumb_url::fingerprint;
use rhumb_url::time::{Timestamp, micros};
use rhumb_wire::message::{Outcome, Trace};
use std::collections::BTreeMap;

/// Table of partitions: number of the partition and kind of row → row.
pub(crate) const META: Table = "meta";

/// A partition that this instance owns.
#[derive(Debug)]
pub(crate) struct Partition {
    /// Serial numbers of the URLs taken on.
    pub(crate) serials: Applied,
    pub(crate) counts: Counts,
    pub(crate) hosts: Hosts,
    pub(crate) topics: TopicNumbers,
    /// Of the topics that have numbers of their own.
    pub(crate) topic_counts: BTreeMap<TopicNumber, TopicCounts>,
    /// Of the URLs that ended, for reports.
    pub(crate) tally: Tally,
    pub(crate) clock: Clock,
    /// How far it has come with each drop that was asked for.
    pub(crate) drops: Vec<DropState>,
}

/// How far a partition has come with a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DropState {
    /// Of the order.
    pub(crate) id: u64,
    /// URLs that ended so far.
    pub(crate) dropped: u64,
    /// All that waited was looked at.
    pub(crate) is_done: bool,
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
        topics: &Topics,
        now: Timestamp,
        life: u64,
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
        let drops = match store.get(META, &key(partition, b'd'))? {
            Some(row) => read_drops(&row).ok_or_else(unreadable)?,
            None => Vec::new(),
        };
        let topics = TopicNumbers::new(topic_names(store, partition)?, topics);
        let topic_counts = topic_counts(store, partition)?;
        let tally = tally(store, partition)?;
        let clock = Clock::resume(clock, now, life);
        Ok(Partition {
            serials,
            counts,
            hosts,
            topics,
            topic_counts,
            tally,
            clock,
            drops,
        })
    }

    /// The number of a topic, which is stored when it is new.
    pub(crate) fn number_of(
        &mut self,
        staged: &mut Staged<'_>,
        partition: u16,
        topic: &str,
    ) -> TopicNumber {
        let (number, is_new) = self.topics.number_of(topic, &staged.settings.topics);
        if is_new {
            staged
                .rows
                .put(META, key(partition, b't'), self.topics.to_row());
        }
        number
    }

    /// A new URL of a topic is taken on.
    pub(crate) fn count_new(
        &mut self,
        staged: &mut Staged<'_>,
        partition: u16,
        topic: TopicNumber,
    ) {
        self.count(staged, partition, topic, |counts| counts.new += 1);
    }

    fn count(
        &mut self,
        staged: &mut Staged<'_>,
        partition: u16,
        topic: TopicNumber,
        change: impl FnOnce(&mut TopicCounts),
    ) {
        if topic != TopicNumber::OTHERS {
            let counts = self.topic_counts.entry(topic).or_default();
            let before = counts.in_hand();
            change(counts);
            let more = counts.in_hand().cast_signed() - before.cast_signed();
            *staged
                .topic_urls
                .entry(self.topics.index_of(topic))
                .or_default() += more;
            staged.topics.insert((partition, topic));
        }
    }

    /// Writes what was counted of a topic.
    pub(crate) fn save_topic(&self, staged: &mut Staged<'_>, partition: u16, topic: TopicNumber) {
        if let Some(counts) = self.topic_counts.get(&topic) {
            staged
                .rows
                .put(META, topic_key(partition, topic), counts.to_row());
        }
    }

    /// How far it has come with the drop of this id.
    pub(crate) fn drop_state(&self, id: u64) -> DropState {
        let known = self.drops.iter().find(|state| state.id == id);
        known.copied().unwrap_or(DropState {
            id,
            dropped: 0,
            is_done: false,
        })
    }

    /// Notes how far it has come with a drop, in the commit that holds what it did; and forgets
    /// those that are not asked for any more.
    pub(crate) fn save_drop(
        &mut self,
        staged: &mut Staged<'_>,
        partition: u16,
        state: DropState,
        is_asked_for: impl Fn(u64) -> bool,
    ) {
        self.drops
            .retain(|other| other.id != state.id && is_asked_for(other.id));
        self.drops.push(state);
        staged
            .rows
            .put(META, key(partition, b'd'), drops_row(&self.drops));
    }

    /// Writes counts and clock.
    pub(crate) fn save(&mut self, staged: &mut Staged<'_>, partition: u16) {
        let mut row = Writer::with_capacity(64);
        row.number(self.clock.store(staged.now));
        row.number(self.clock.life());
        self.counts.write(&mut row);
        staged.rows.put(META, key(partition, b'c'), row.finish());
        for (kind, row) in self.tally.changed_rows() {
            staged.rows.put(META, key(partition, kind), row);
        }
    }

    /// Writes which URLs were taken on.
    pub(crate) fn save_serials(&self, staged: &mut Staged<'_>, partition: u16) {
        staged
            .rows
            .put(META, key(partition, b's'), self.serials.to_bytes());
    }

    /// A URL ends: its row goes, its outcome is published, both in one commit (P3).
    pub(crate) fn end(
        &mut self,
        staged: &mut Staged<'_>,
        server: ServerKey,
        slot: u64,
        url: FrontierUrl,
        end: UrlEnd,
    ) {
        remove_url(&mut staged.rows, server, slot);
        if url.is_planned() {
            self.end_visit(staged, server, url, end);
            return;
        }
        forget_fresh(staged, server, slot, &url);
        self.count_end(staged, server, topic_of(slot), url, end);
    }

    /// A planned visit ends, or is withdrawn: then there was no request, and there is no outcome.
    fn end_visit(
        &mut self,
        staged: &mut Staged<'_>,
        server: ServerKey,
        url: FrontierUrl,
        end: UrlEnd,
    ) {
        staged.partitions.insert(server.partition);
        staged.visited.push(Visited::of(server, &url, &end));
        if !end.is_asked {
            self.counts.withdrawn += 1;
            return;
        }
        self.counts.visits[end.finding.change as usize] += 1;
        let is_final = is_last_visit(staged.settings, &url, &end);
        staged
            .messages
            .outcome(server.partition, url.into_outcome(end, is_final));
    }

    /// A new URL ends that never had a row.
    pub(crate) fn end_on_arrival(
        &mut self,
        staged: &mut Staged<'_>,
        server: ServerKey,
        url: FrontierUrl,
        end: UrlEnd,
    ) {
        let topic = self.number_of(staged, server.partition, &url.origin.topic);
        self.count_new(staged, server.partition, topic);
        self.count_end(staged, server, topic, url, end);
    }

    fn count_end(
        &mut self,
        staged: &mut Staged<'_>,
        server: ServerKey,
        topic: TopicNumber,
        url: FrontierUrl,
        end: UrlEnd,
    ) {
        self.count(staged, server.partition, topic, |counts| {
            counts.end(end.outcome, end.bytes)
        });
        self.counts.outcomes[end.outcome as usize] += 1;
        self.counts.walls += u64::from(!end.wall.is_empty());
        if end.outcome == Outcome::Fetched {
            self.counts.bytes += end.bytes;
            self.hosts.fetched(staged, server.host, end.bytes);
        } else if matches!(end.outcome, Outcome::Failed | Outcome::Refused) {
            self.hosts.failed(staged, server.host);
        }
        let recrawl = staged.settings.recrawl_of(&url.origin.topic);
        if recrawl.policy != RecrawlPolicy::None && end.outcome.makes_known() {
            staged.visited.push(Visited::of(server, &url, &end));
        }
        let ended_us = self
            .clock
            .store(staged.now)
            .saturating_sub(micros(end.before));
        self.tally.count(ended_us, url.origin.depth, &end);
        let outcome = end.outcome.name();
        let reason = end.reason;
        tracing::debug!(trace = %Trace::of(&url.url), url = url.url, outcome, status = end.status, reason, "a URL ends");
        let is_final = is_last_visit(staged.settings, &url, &end);
        staged
            .messages
            .outcome(server.partition, url.into_outcome(end, is_final));
        staged.partitions.insert(server.partition);
    }
}

/// Returns whether the page of a URL that ends so has no visit to come.
fn is_last_visit(settings: &Settings, url: &FrontierUrl, end: &UrlEnd) -> bool {
    let recrawl = settings.recrawl_of(&url.origin.topic);
    let has_all = recrawl.visits_max > 0 && url.visit >= recrawl.visits_max;
    let is_unknown = !url.is_planned() && !end.outcome.makes_known();
    recrawl.policy == RecrawlPolicy::None || is_unknown || has_all || end.finding.is_forgotten
}

/// A URL waits no longer among the fresh ones, if it was one of them.
pub(crate) fn forget_fresh(
    staged: &mut Staged<'_>,
    server: ServerKey,
    slot: u64,
    url: &FrontierUrl,
) {
    if slot < RETRIES && staged.settings.later_links_count(&url.origin.topic) {
        staged
            .index
            .forget(&mut staged.rows, server, fingerprint(&url.url));
    }
}

/// The key of the row of counts of a topic.
fn topic_key(partition: u16, topic: TopicNumber) -> Vec<u8> {
    let mut key = key(partition, b'n');
    key.push(topic.0);
    key
}

/// What was counted of the topics that have numbers of their own.
fn topic_counts(
    store: &dyn Store,
    partition: u16,
) -> Result<BTreeMap<TopicNumber, TopicCounts>, StoreError> {
    let mut counts = BTreeMap::new();
    let mut is_readable = true;
    store.scan(
        META,
        &key(partition, b'n'),
        &key(partition, b'n' + 1),
        &mut |key, row| {
            match (key.last(), TopicCounts::from_row(row)) {
                (Some(&topic), Some(of)) => _ = counts.insert(TopicNumber(topic), of),
                _ => is_readable = false,
            }
            is_readable
        },
    )?;
    if is_readable {
        Ok(counts)
    } else {
        Err(corrupt(META, "a partition's row is unreadable"))
    }
}

/// What was counted of the URLs that ended.
fn tally(store: &dyn Store, partition: u16) -> Result<Tally, StoreError> {
    let row = |kind| store.get(META, &key(partition, kind));
    let numbers = row(kind::NUMBERS)?;
    let names = row(kind::NAMES)?;
    let slots = row(kind::SLOTS)?;
    let tally = Tally::read(numbers.as_deref(), names.as_deref(), slots.as_deref());
    Ok(tally.unwrap_or_else(|| {
        // A later version may have written it. The crawl does not depend on it, and a report says
        // what is missing.
        tracing::warn!(
            partition,
            "what was counted for reports is not understood: counting begins anew"
        );
        Tally::default()
    }))
}

/// The names of the topics that have numbers, in the order of these.
fn topic_names(store: &dyn Store, partition: u16) -> Result<Vec<String>, StoreError> {
    let row = store.get(META, &key(partition, b't'))?;
    let names = row.map_or(Some(Vec::new()), |row| TopicNumbers::names_in(&row));
    names.ok_or_else(|| corrupt(META, "a partition's row is unreadable"))
}

fn drops_row(drops: &[DropState]) -> Vec<u8> {
    let mut row = Writer::with_capacity(16 * drops.len() + 1);
    row.number(drops.len() as u64);
    for DropState {
        id,
        dropped,
        is_done,
    } in drops
    {
        row.number(*id);
        row.number(*dropped);
        row.byte(u8::from(*is_done));
    }
    row.finish()
}

fn read_drops(row: &[u8]) -> Option<Vec<DropState>> {
    let mut row = Reader::new(row)?;
    let read = |row: &mut Reader<'_>| {
        Some(DropState {
            id: row.number()?,
            dropped: row.number()?,
            is_done: row.byte()? != 0,
        })
    };
    (0..row.number()?).map(|_| read(&mut row)).collect()
}

/// What a partition that this instance does not work with has stored: its clock, its counts, how
/// far it has come with drops, and the numbers and counts of its topics. What it tallied stays as
/// it is.
pub(crate) struct Stored {
    pub(crate) clock: u64,
    pub(crate) counts: Counts,
    pub(crate) drops: Vec<DropState>,
    /// As they are stored; none while no topic has one.
    pub(crate) topics: Option<Vec<u8>>,
    pub(crate) topic_counts: BTreeMap<TopicNumber, TopicCounts>,
}

impl Stored {
    /// Reads what was stored of a partition; none when nothing was.
    pub(crate) fn read(store: &dyn Store, partition: u16) -> Result<Option<Self>, StoreError> {
        let Some(row) = store.get(META, &key(partition, b'c'))? else {
            return Ok(None);
        };
        let (clock, counts) =
            read(&row).ok_or_else(|| corrupt(META, "a partition's row is unreadable"))?;
        let drops = match store.get(META, &key(partition, b'd'))? {
            Some(row) => {
                read_drops(&row).ok_or_else(|| corrupt(META, "a partition's row is unreadable"))?
            }
            None => Vec::new(),
        };
        let topics = store.get(META, &key(partition, b't'))?;
        let topic_counts = topic_counts(store, partition)?;
        Ok(Some(Stored {
            clock,
            counts,
            drops,
            topics,
            topic_counts,
        }))
    }

    /// Adds the row of a partition to a commit.
    pub(crate) fn write(&self, partition: u16, changes: &mut Changes) {
        let mut row = Writer::with_capacity(64);
        row.number(self.clock);
        row.number(0);
        self.counts.write(&mut row);
        changes.put(META, key(partition, b'c'), row.finish());
        changes.put(META, key(partition, b'd'), drops_row(&self.drops));
        if let Some(topics) = &self.topics {
            changes.put(META, key(partition, b't'), topics.clone());
        }
        for (topic, counts) in &self.topic_counts {
            changes.put(META, topic_key(partition, *topic), counts.to_row());
        }
    }
}

/// Reads the clock and the counts. The life between them is for people who look into the state.
fn read(row: &[u8]) -> Option<(u64, Counts)> {
    let mut row = Reader::new(row)?;
    let clock = row.number()?;
    let _life = row.number()?;
    Some((clock, Counts::read(&mut row)?))
}
