//! Where fresh URLs wait, by fingerprint: so a URL is found when a later link to it counts.
//!
//! In: URLs as they begin and cease to wait among the fresh ones. Out: the server and the slot of
//! one.
//!
//! Rows of 27 bytes lie under the hash of the host, like the URLs, and move with them. They are
//! kept only where later links count. Most links lead to what was found or fetched lately, so the
//! last changes are in memory, too: a look at the store for each boost was a third of the
//! scheduler's work.
//!
//! Invariants: memory is bounded, and says what the store says, since it begins anew with each life
//! of the core. A row may outlast its URL when the configuration changes meanwhile: whoever finds a
//! slot looks what lies there.

use crate::keys::server_key::{HOST_BYTES, ServerKey};
use crate::store::rows::Rows;
use rhumb_stage::store::{StoreError, Table};

/// Table of the index: host and fingerprint → the rest of the server's key, and the slot.
pub(crate) const INDEX: Table = "index";

/// URLs whose last change is in memory, at most: 2 MiB.
const RECENT: usize = 1 << 16;
/// The slot of a URL that waits no longer.
const NOWHERE: u64 = u64::MAX;

/// The index: a table in the store, and in memory its last changes.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Each in the place that its fingerprint gives it; none before the first.
    recent: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    url: u64,
    server: ServerKey,
    slot: u64,
}

impl Index {
    /// A URL with this fingerprint waits in the slot.
    pub(crate) fn note(&mut self, rows: &mut Rows<'_>, server: ServerKey, url: u64, slot: u64) {
        self.remember(server, url, slot);
        let row = [&server.to_bytes()[HOST_BYTES..], &slot.to_be_bytes()].concat();
        rows.put(INDEX, index_key(server.host, url), row);
    }

    /// It waits there no longer.
    pub(crate) fn forget(&mut self, rows: &mut Rows<'_>, server: ServerKey, url: u64) {
        self.remember(server, url, NOWHERE);
        rows.remove(INDEX, index_key(server.host, url));
    }

    /// Where a URL of the host, which is in this partition, waits or waited.
    pub(crate) fn find(
        &self,
        rows: &Rows<'_>,
        partition: u16,
        host: u64,
        url: u64,
    ) -> Result<Option<(ServerKey, u64)>, StoreError> {
        if let Some(Place {
            mut server, slot, ..
        }) = self.recent(url).filter(|place| place.server.host == host)
        {
            // It may have been split since.
            server.partition = partition;
            return Ok((slot != NOWHERE).then_some((server, slot)));
        }
        let Some(row) = rows.get(INDEX, &index_key(host, url))? else {
            return Ok(None);
        };
        let Some((server, slot)) = row.split_last_chunk() else {
            return Ok(None);
        };
        let server = ServerKey::from_bytes(partition, &[&host.to_be_bytes(), server].concat());
        Ok(server.map(|server| (server, u64::from_be_bytes(*slot))))
    }

    fn recent(&self, url: u64) -> Option<Place> {
        self.recent
            .get(place_of(url))
            .copied()
            .filter(|place| place.url == url)
    }

    fn remember(&mut self, server: ServerKey, url: u64, slot: u64) {
        let place = Place { url, server, slot };
        if self.recent.is_empty() {
            self.recent = vec![Place { url: 0, ..place }; RECENT];
        }
        self.recent[place_of(url)] = place;
    }
}

fn place_of(url: u64) -> usize {
    url as usize % RECENT
}

fn index_key(host: u64, url: u64) -> Vec<u8> {
    [host.to_be_bytes(), url.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_stage::store::MemoryStore;

    #[test]
    fn a_url_is_found_where_it_waits_until_it_is_forgotten() {
        let store = MemoryStore::default();
        let mut rows = Rows::new(&store);
        let mut index = Index::default();
        let one = ServerKey::numbered(7);
        let other = ServerKey::numbered(8);
        index.note(&mut rows, one, 5, 99);
        index.note(&mut rows, other, 5, 1);
        // What memory has of the one gave way to the other: the store still knows.
        assert_eq!(index.find(&rows, 0, 7, 5).unwrap(), Some((one, 99)));
        assert_eq!(index.find(&rows, 0, 7, 6).unwrap(), None);
        index.note(&mut rows, one, 5, 98);
        assert_eq!(index.find(&rows, 0, 7, 5).unwrap(), Some((one, 98)));
        index.forget(&mut rows, one, 5);
        assert_eq!(
            (
                index.find(&rows, 0, 7, 5).unwrap(),
                index.find(&rows, 0, 8, 5).unwrap()
            ),
            (None, Some((other, 1)))
        );
    }
}
