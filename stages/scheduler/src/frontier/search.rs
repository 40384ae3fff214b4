//! A search for URLs in the table of URLs, a bounded piece at a time.
//!
//! In: a range of keys, and which URLs are looked for. Out: the rows of those, and from where to go
//! on. URLs in jobs have rows, too.

use crate::frontier::rows::{FrontierUrl, URLS, slot_of};
use crate::keys::server_key::KEY_BYTES;
use crate::keys::slot::RETRIES;
use crate::store::rows::{Rows, corrupt};
use rhumb_config::orders::Selector;
use rhumb_stage::store::StoreError;
use rhumb_url::server_of;

/// How much one piece may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Rows that are looked at. The tried URLs of a server stay together, however many.
    pub(crate) rows: usize,
    /// URLs that are found; the same.
    pub(crate) found: usize,
}

/// What one piece of a search came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Rows that were looked at.
    pub(crate) rows: usize,
    /// URLs that were found.
    pub(crate) found: usize,
    /// From which key to go on; none at the end.
    pub(crate) next: Option<Vec<u8>>,
}

/// Looks for URLs from one key (included) to another (not included). `found` is given the key and
/// the row of each.
///
/// # Errors
/// The store cannot be read, or a row is not understood.
pub(crate) fn search(
    rows: &Rows<'_>,
    (from, to): (&[u8], &[u8]),
    selector: &Selector,
    limits: Limits,
    found: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<Piece, StoreError> {
    let mut piece = Piece::default();
    let mut unreadable = false;
    // The server of the row before, and whether it may have such a URL.
    let mut server = Vec::new();
    let mut may_have = true;
    rows.scan(URLS, from, to, &mut |key, row| {
        let (Some(url), Some(slot)) = (FrontierUrl::url_of(row), slot_of(key)) else {
            unreadable = true;
            return false;
        };
        let is_same_server = server.as_slice() == &key[..KEY_BYTES];
        let is_full = piece.rows >= limits.rows || piece.found >= limits.found;
        if is_full && !(is_same_server && slot >= RETRIES) {
            piece.next = Some(key.to_vec());
            return false;
        }
        if !is_same_server {
            server.clear();
            server.extend_from_slice(&key[..KEY_BYTES]);
            may_have = selector.may_have(server_of(url));
        }
        piece.rows += 1;
        // Most searches need no more of a row than its URL.
        let origin = || {
            FrontierUrl::from_row(row)
                .map(|url| url.origin)
                .unwrap_or_default()
        };
        if may_have && selector.has_found(url, origin) {
            piece.found += 1;
            found(key, row);
        }
        true
    })?;
    if unreadable {
        Err(corrupt(URLS, "a waiting URL is unreadable"))
    } else {
        Ok(piece)
    }
}
