//! What one step makes: changes of state, read back through it while the step lasts, and messages.
//!
//! The store shows what was committed before the step; reads go through here so that a step sees its own
//! changes too. A key changed several times in a step is written once.

use crate::server::ServerKey;
use crate::tokens::Need;
use shared::bus::lane_of;
use shared::message::{DnsRefresh, Errand, FoundUrls, OutcomeEntry, Outcomes, ToFetcher};
use shared::stage::store::{Store, StoreError, Table, Visit};
use shared::stage::{Output, Token};
use shared::url::host_of;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Entries and bytes of one message of outcomes: well below the smallest `broker.max_payload`.
const OUTCOMES_MAX: usize = 500;
const OUTCOME_BYTES_MAX: usize = 512 << 10;
/// Servers in one request for addresses.
const REFRESHES_MAX: usize = 256;

/// Rows changed in a table; none for a removed one.
type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The changes and messages of one step.
pub(crate) struct Staged<'a> {
    store: &'a dyn Store,
    changes: BTreeMap<Table, Rows>,
    outcomes: BTreeMap<u16, Vec<OutcomeEntry>>,
    refreshes: BTreeMap<u16, Vec<String>>,
    sends: Vec<(String, ToFetcher)>,
    errands: Vec<(u16, Errand)>,
    found: Vec<FoundUrls>,
    /// What is needed of budgets that schedulers share.
    pub(crate) needs: Vec<Need>,
    /// Servers whose record changed.
    pub(crate) dirty: BTreeSet<ServerKey>,
    /// Partitions of which something changed.
    pub(crate) partitions: BTreeSet<u16>,
    /// Partitions that took on new URLs.
    pub(crate) serials: BTreeSet<u16>,
    /// Servers whose place has to be found anew.
    pub(crate) unsettled: VecDeque<ServerKey>,
    /// Servers that have nothing to do.
    pub(crate) idle: BTreeSet<ServerKey>,
    /// URLs that this step may still end without a contact.
    pub(crate) endings_left: usize,
}

impl<'a> Staged<'a> {
    pub(crate) fn new(store: &'a dyn Store, endings_left: usize) -> Self {
        Staged {
            store,
            changes: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            refreshes: BTreeMap::new(),
            sends: Vec::new(),
            errands: Vec::new(),
            found: Vec::new(),
            needs: Vec::new(),
            dirty: BTreeSet::new(),
            partitions: BTreeSet::new(),
            serials: BTreeSet::new(),
            unsettled: VecDeque::new(),
            idle: BTreeSet::new(),
            endings_left,
        }
    }

    /// The server's record is to be written and its place found anew.
    pub(crate) fn touch(&mut self, key: ServerKey) {
        self.dirty.insert(key);
        self.partitions.insert(key.partition);
        self.unsettle(key);
    }

    /// The server's place is to be found anew.
    pub(crate) fn unsettle(&mut self, key: ServerKey) {
        if self.unsettled.back() != Some(&key) {
            self.unsettled.push_back(key);
        }
    }

    pub(crate) fn put(&mut self, table: Table, key: Vec<u8>, row: Vec<u8>) {
        self.changes.entry(table).or_default().insert(key, Some(row));
    }

    pub(crate) fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.changes.entry(table).or_default().insert(key, None);
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.changes.get(table).and_then(|rows| rows.get(key)) {
            Some(row) => Ok(row.clone()),
            None => self.store.get(table, key),
        }
    }

    /// Visits rows in order, as [`Store::scan`] does.
    pub(crate) fn scan(&self, table: Table, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let empty = Rows::new();
        let rows = self.changes.get(table).unwrap_or(&empty);
        if from >= to {
            return Ok(());
        }
        let mut staged = rows.range(from.to_vec()..to.to_vec()).peekable();
        let mut more = true;
        self.store.scan(table, from, to, &mut |key, row| {
            while let Some((staged_key, staged_row)) = staged.next_if(|(staged_key, _)| staged_key.as_slice() <= key) {
                if let Some(staged_row) = staged_row {
                    more = visit(staged_key, staged_row);
                }
                if !more || staged_key.as_slice() == key {
                    return more;
                }
            }
            more = visit(key, row);
            more
        })?;
        while more && let Some((key, row)) = staged.next() {
            if let Some(row) = row {
                more = visit(key, row);
            }
        }
        Ok(())
    }

    /// A URL of the partition ended.
    pub(crate) fn outcome(&mut self, partition: u16, entry: OutcomeEntry) {
        self.outcomes.entry(partition).or_default().push(entry);
    }

    /// A server's address is wanted.
    pub(crate) fn refresh(&mut self, partition: u16, server: String) {
        self.refreshes.entry(partition).or_default().push(server);
    }

    /// Tells a fetcher.
    pub(crate) fn send(&mut self, fetcher: &str, message: ToFetcher) {
        self.sends.push((fetcher.to_owned(), message));
    }

    /// Tells the scheduler of another partition.
    pub(crate) fn errand(&mut self, partition: u16, errand: Errand) {
        self.errands.push((partition, errand));
    }

    /// URLs were found.
    pub(crate) fn found(&mut self, found: FoundUrls) {
        self.found.push(found);
    }

    /// Hands everything over; `refresh_number` gives each request for addresses its number.
    pub(crate) fn flush(self, out: &mut Output<Need>, mut refresh_number: impl FnMut() -> u64) {
        for (table, rows) in self.changes {
            for (key, row) in rows {
                out.changes.entries.push((table, key, row));
            }
        }
        for (partition, entries) in self.outcomes {
            publish_outcomes(out, partition, entries);
        }
        for found in self.found {
            out.publish(Token::Lane(lane_of(host_of(&found.origin.page))), &found, Vec::new());
        }
        for (fetcher, message) in self.sends {
            out.send(Token::Instance(fetcher), &message);
        }
        for (partition, servers) in self.refreshes {
            for servers in servers.chunks(REFRESHES_MAX) {
                let refresh = DnsRefresh { partition, servers: servers.to_vec(), number: refresh_number() };
                out.send(Token::Partition(partition), &refresh);
            }
        }
        for (partition, errand) in self.errands {
            out.send(Token::Partition(partition), &errand);
        }
        out.effects.extend(self.needs);
    }
}

/// Outcomes of one step in messages that the broker takes.
fn publish_outcomes<E>(out: &mut Output<E>, partition: u16, entries: Vec<OutcomeEntry>) {
    let mut message = Outcomes::default();
    let mut bytes = 0;
    for entry in entries {
        bytes += entry.url.len() + entry.origin.page.len() + entry.reason.len() + 100;
        message.entries.push(entry);
        if message.entries.len() >= OUTCOMES_MAX || bytes >= OUTCOME_BYTES_MAX {
            out.publish(Token::Partition(partition), &message, Vec::new());
            message.entries.clear();
            bytes = 0;
        }
    }
    if !message.entries.is_empty() {
        out.publish(Token::Partition(partition), &message, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shared::stage::store::{Changes, MemoryStore};

    const TABLE: Table = "table";

    proptest! {
        /// Goal: reads through a step see committed rows and the step's own changes. Method: against a map.
        #[test]
        fn a_step_sees_its_own_changes(
            committed in proptest::collection::btree_map(0u8..30, any::<u8>(), 0..20),
            staged in proptest::collection::vec((0u8..30, proptest::option::of(any::<u8>())), 0..20),
            from in 0u8..30,
            to in 0u8..32,
            limit in 1usize..40,
        ) {
            let store = MemoryStore::default();
            let mut changes = Changes::default();
            for (key, row) in &committed {
                changes.put(TABLE, vec![*key], vec![*row]);
            }
            store.commit(&changes).unwrap();
            let mut model = committed;
            let mut step = Staged::new(&store, 0);
            for (key, row) in staged {
                match row {
                    Some(row) => {
                        step.put(TABLE, vec![key], vec![row]);
                        model.insert(key, row);
                    }
                    None => {
                        step.remove(TABLE, vec![key]);
                        model.remove(&key);
                    }
                }
            }
            let mut seen = Vec::new();
            step.scan(TABLE, &[from], &[to], &mut |key, row| {
                seen.push((key[0], row[0]));
                seen.len() < limit
            }).unwrap();
            let expected: Vec<_> =
                model.iter().filter(|(key, _)| (from..to).contains(key)).map(|(k, r)| (*k, *r)).take(limit).collect();
            prop_assert_eq!(seen, expected);
            for key in 0..30 {
                prop_assert_eq!(step.get(TABLE, &[key]).unwrap(), model.get(&key).map(|row| vec![*row]));
            }
            let mut out = Output::default();
            step.flush(&mut out, || 1);
            store.commit(&out.changes).unwrap();
            for key in 0..30 {
                prop_assert_eq!(store.get(TABLE, &[key]).unwrap(), model.get(&key).map(|row| vec![*row]));
            }
        }
    }

    #[test]
    fn outcomes_are_split_into_messages_of_bounded_size() {
        let store = MemoryStore::default();
        let mut step = Staged::new(&store, 0);
        for number in 0..1203 {
            step.outcome(1, crate::frontier::tests::url(number).into_outcome(Default::default()));
        }
        let mut out = Output::default();
        step.flush(&mut out, || 1);
        let sizes: Vec<_> = out
            .publishes
            .iter()
            .map(|publish| shared::message::decode::<Outcomes>(&publish.payload).unwrap().entries.len())
            .collect();
        assert_eq!(sizes, [500, 500, 203]);
    }
}
