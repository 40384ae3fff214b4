//! What one step has made so far: rows and messages, and the servers that are still to be looked
//! after.
//!
//! A step notes which servers it touched; at its end the core finds each its place and writes its
//! record.

use crate::frontier::index::Index;
use crate::frontier::visited::Visited;
use crate::keys::server_key::ServerKey;
use crate::keys::topic::{TopicIndex, TopicNumber};
use crate::quota::ledger::Claim;
use crate::settings::Settings;
use crate::step::messages::Messages;
use crate::store::rows::Rows;
use rhumb_stage::Output;
use rhumb_stage::store::Store;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::JobId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// URLs that one step moves to a later lane, about: a few milliseconds.
const MOVES_PER_STEP: usize = 300;

/// One step: when it runs, by which settings, and what it has made.
pub(crate) struct Staged<'a> {
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a Settings,
    pub(crate) rows: Rows<'a>,
    /// Where URLs wait.
    pub(crate) index: Index,
    pub(crate) messages: Messages,
    /// Servers whose record changed.
    pub(crate) dirty: BTreeSet<ServerKey>,
    /// Partitions whose counts changed.
    pub(crate) partitions: BTreeSet<u16>,
    /// Visits that ended, or were withdrawn.
    pub(crate) visited: Vec<Visited>,
    /// Partitions that took on new URLs.
    pub(crate) serials: BTreeSet<u16>,
    /// Topics of which a partition counted something.
    pub(crate) topics: BTreeSet<(u16, TopicNumber)>,
    /// How many more URLs of each topic there are that wait or are in flight.
    pub(crate) topic_urls: BTreeMap<TopicIndex, i64>,
    /// The budget of another topic is used up.
    pub(crate) topics_used_up: bool,
    /// Topics whose turns changed.
    pub(crate) turns: BTreeSet<TopicIndex>,
    /// Jobs whose fetchers are to be told to stop; the fetcher of one from an earlier life is not
    /// known.
    pub(crate) stopped: Vec<(JobId, Option<String>)>,
    /// Servers whose place has to be found anew.
    pub(crate) unsettled: VecDeque<ServerKey>,
    /// Servers that have nothing to do.
    pub(crate) idle: BTreeSet<ServerKey>,
    /// URLs that this step may still end without a contact.
    pub(crate) endings_left: usize,
    /// URLs that this step may still move to a later lane, about; those beyond stay where they are
    /// until another step.
    pub(crate) moves_left: usize,
}

impl<'a> Staged<'a> {
    pub(crate) fn new(
        now: Timestamp,
        settings: &'a Settings,
        store: &'a dyn Store,
        index: Index,
        endings_left: usize,
    ) -> Self {
        Staged {
            now,
            settings,
            rows: Rows::new(store),
            index,
            messages: Messages::default(),
            dirty: BTreeSet::new(),
            partitions: BTreeSet::new(),
            visited: Vec::new(),
            serials: BTreeSet::new(),
            topics: BTreeSet::new(),
            topic_urls: BTreeMap::new(),
            topics_used_up: false,
            turns: BTreeSet::new(),
            stopped: Vec::new(),
            unsettled: VecDeque::new(),
            idle: BTreeSet::new(),
            endings_left,
            moves_left: MOVES_PER_STEP,
        }
    }

    /// Notes that the server's record is to be written and its place found anew.
    pub(crate) fn touch(&mut self, key: ServerKey) {
        self.dirty.insert(key);
        self.partitions.insert(key.partition);
        self.unsettle(key);
    }

    /// Notes that the server's place is to be found anew.
    pub(crate) fn unsettle(&mut self, key: ServerKey) {
        if self.unsettled.back() != Some(&key) {
            self.unsettled.push_back(key);
        }
    }

    /// Hands everything over, and the index back. `refresh_number` gives each request for addresses
    /// its number.
    pub(crate) fn flush(
        self,
        out: &mut Output<Claim>,
        refresh_number: impl FnMut() -> u64,
    ) -> Index {
        self.rows.flush(out);
        self.messages.flush(out, refresh_number);
        self.index
    }
}
