//! Where fresh URLs wait, by fingerprint: so a URL is found when a later link to it counts.
//!
//! In: URLs as they begin and cease to wait among the fresh ones. Out: the server and the slot of one.
//!
//! Rows of 27 bytes lie under the hash of the host, like the URLs, and move with them. They are kept only where later links
//! count. A row may outlast its URL when the configuration changes meanwhile: whoever finds a slot looks what lies there.

use crate::keys::server_key::{HOST_BYTES, ServerKey};
use crate::store::rows::Rows;
use shared::stage::store::{StoreError, Table};

/// Table of the index: host and fingerprint → the rest of the server's key, and the slot.
pub(crate) const INDEX: Table = "index";

fn index_key(host: u64, url: u64) -> Vec<u8> {
    [host.to_be_bytes(), url.to_be_bytes()].concat()
}

/// A URL with this fingerprint waits in the slot.
pub(crate) fn note(rows: &mut Rows<'_>, server: ServerKey, url: u64, slot: u64) {
    let row = [&server.to_bytes()[HOST_BYTES..], &slot.to_be_bytes()].concat();
    rows.put(INDEX, index_key(server.host, url), row);
}

/// It waits there no longer.
pub(crate) fn forget(rows: &mut Rows<'_>, server: ServerKey, url: u64) {
    rows.remove(INDEX, index_key(server.host, url));
}

/// Where a URL of the host, which is in this partition, waits or waited.
pub(crate) fn find(
    rows: &Rows<'_>,
    partition: u16,
    host: u64,
    url: u64,
) -> Result<Option<(ServerKey, u64)>, StoreError> {
    let Some(row) = rows.get(INDEX, &index_key(host, url))? else { return Ok(None) };
    let Some((server, slot)) = row.split_last_chunk() else { return Ok(None) };
    let server = ServerKey::from_bytes(partition, &[&host.to_be_bytes(), server].concat());
    Ok(server.map(|server| (server, u64::from_be_bytes(*slot))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::stage::store::MemoryStore;

    #[test]
    fn a_url_is_found_where_it_waits_until_it_is_forgotten() {
        let store = MemoryStore::default();
        let mut rows = Rows::new(&store);
        let (one, other) = (ServerKey::numbered(7), ServerKey::numbered(8));
        note(&mut rows, one, 5, 99);
        note(&mut rows, other, 5, 1);
        assert_eq!(find(&rows, 0, 7, 5).unwrap(), Some((one, 99)));
        assert_eq!(find(&rows, 0, 7, 6).unwrap(), None);
        note(&mut rows, one, 5, 98);
        assert_eq!(find(&rows, 0, 7, 5).unwrap(), Some((one, 98)));
        forget(&mut rows, one, 5);
        assert_eq!((find(&rows, 0, 7, 5).unwrap(), find(&rows, 0, 8, 5).unwrap()), (None, Some((other, 1))));
    }
}
