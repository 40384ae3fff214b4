//! The content-seen test: which page had a body first?
//!
//! In: bodies with the pages that have them. Out: for each the other page that had it first, if
//! there is one.
//!
//! Invariant: the first page that asks for a body is its first for ever, so who asks twice for the
//! same page gets the same answer. What a step learned is in its commit, before its answer leaves.
//!
//! Source: Heydon and Najork 1999, section 3.4.

use rhumb_stage::store::{Changes, Store, StoreError, Table};
use rhumb_wire::message::{Body, Place};

/// Fingerprint of the body (big-endian), whose upper bits are its partition: URL and links of its
/// first page, as fingerprints.
pub(crate) const CONTENT: Table = "content";

/// Returns the first page that had the body. When no page had it before, that is the page that
/// asks.
pub(crate) fn first(
    store: &dyn Store,
    body: &Body,
    changes: &mut Changes,
) -> Result<Place, StoreError> {
    let key = body.fingerprint.to_be_bytes();
    if let Some(place) = store.get(CONTENT, &key)?.as_deref().and_then(from_bytes) {
        return Ok(place);
    }
    let Place { url, links } = body.at;
    changes.put(
        CONTENT,
        key,
        [url.to_le_bytes(), links.to_le_bytes()].concat(),
    );
    Ok(body.at)
}

fn from_bytes(bytes: &[u8]) -> Option<Place> {
    let (url, links) = bytes.split_first_chunk::<8>()?;
    Some(Place {
        url: u64::from_le_bytes(*url),
        links: u64::from_le_bytes(links.try_into().ok()?),
    })
}
