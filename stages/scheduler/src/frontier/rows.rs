//! The rows of the frontier: a URL that has not ended, by server and slot.
//!
//! In: URLs that are taken on, tried again or ended. Out: URLs for jobs.
//!
//! Invariant: a URL that waits or is in flight has exactly one row, and no row outlives its URL
//! (P3).

use crate::frontier::url_end::UrlEnd;
use crate::keys::server_key::{KEY_BYTES, ServerKey};
use crate::store::codec::{Reader, Writer};
use crate::store::rows::{Rows, corrupt};
use rhumb_stage::store::{Store, StoreError, Table};
use rhumb_url::server_of;
use rhumb_wire::message::{Origin, OutcomeEntry, Quality};
use std::ops::Range;

/// Table of the frontier: server and slot → URL.
pub(crate) const URLS: Table = "urls";

/// A URL as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrontierUrl {
    /// Canonical.
    pub(crate) url: String,
    /// How it was found.
    pub(crate) origin: Origin,
    /// Its number among the new URLs of its partition.
    pub(crate) serial: u64,
    /// Contacts made for it.
    pub(crate) attempts: u8,
    /// Point of the partition's clock before which it is not tried again; 0 when it is fresh.
    pub(crate) not_before: u64,
    /// Which visit of its page it is: 1 is the first.
    pub(crate) visit: u32,
}

impl FrontierUrl {
    fn to_row(&self) -> Vec<u8> {
        let mut row = Writer::with_capacity(
            self.url.len() + self.origin.page.len() + self.origin.topic.len() + 24,
        );
        row.text(&self.url);
        // Most pages link to their own server.
        let page = self.origin.page.strip_prefix(server_of(&self.url));
        row.byte(u8::from(page.is_some()));
        row.text(page.unwrap_or(&self.origin.page));
        row.text(&self.origin.topic);
        row.number(u64::from(self.origin.depth));
        row.byte(self.origin.redirects);
        row.byte(u8::from(self.origin.seed));
        row.number(self.origin.again);
        row.number(u64::from(self.origin.flow.to_bits()));
        row.number(self.serial);
        row.byte(self.attempts);
        row.number(self.not_before);
        // Most rows end before it: those of first visits.
        if self.is_planned() {
            row.number(self.visit.into());
        }
        row.finish()
    }

    /// Returns whether it is a planned visit of a known page, and no new URL.
    pub(crate) fn is_planned(&self) -> bool {
        self.visit > 1
    }

    pub(crate) fn from_row(row: &[u8]) -> Option<Self> {
        let mut row = Reader::new(row)?;
        let url = row.text()?.to_owned();
        let of_server = if row.byte()? == 0 {
            ""
        } else {
            server_of(&url)
        };
        let page = [of_server, row.text()?].concat();
        Some(FrontierUrl {
            url,
            origin: Origin {
                page,
                topic: row.text()?.to_owned(),
                depth: u16::try_from(row.number()?).ok()?,
                redirects: row.byte()?,
                seed: row.byte()? != 0,
                again: row.number()?,
                flow: Quality::from_bits(row.small()?),
            },
            serial: row.number()?,
            attempts: row.byte()?,
            not_before: row.number()?,
            visit: if row.is_over() { 1 } else { row.small()? },
        })
    }

    /// Reads the URL of a row alone.
    pub(crate) fn url_of(row: &[u8]) -> Option<&str> {
        Reader::new(row)?.text()
    }

    /// Bytes it takes in a job.
    pub(crate) fn bytes(&self) -> usize {
        self.url.len() + self.origin.page.len() + self.origin.topic.len() + 64
    }

    /// The entry of its end. `is_final`: its page has no visit to come.
    pub(crate) fn into_outcome(self, end: UrlEnd, is_final: bool) -> OutcomeEntry {
        OutcomeEntry {
            url: self.url,
            serial: self.serial,
            origin: self.origin,
            outcome: end.outcome,
            status: end.status,
            fetched_at_ms: end.fetched_at_ms,
            media_type: end.media_type,
            bytes: end.bytes,
            truncated: end.truncated,
            elapsed_us: end.elapsed_us,
            attempts: self.attempts,
            reason: end.reason.to_owned(),
            wall: end.wall,
            price: end.price,
            usage: end.usage,
            says_usage: end.says_usage,
            visit: self.visit,
            change: end.finding.change,
            before: end.finding.before,
            is_final,
        }
    }
}

fn url_key(server: ServerKey, slot: u64) -> Vec<u8> {
    let mut key = server.to_bytes();
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

/// The slot in a key of the table.
pub(crate) fn slot_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(KEY_BYTES..)?.try_into().ok()?))
}

/// Reads a URL that waits or is in flight.
pub(crate) fn read_url(
    rows: &Rows<'_>,
    server: ServerKey,
    slot: u64,
) -> Result<FrontierUrl, StoreError> {
    rows.get(URLS, &url_key(server, slot))?
        .and_then(|row| FrontierUrl::from_row(&row))
        .ok_or_else(|| corrupt(URLS, "a waiting URL is missing or unreadable"))
}

/// Reads the URL in a slot, if there is one.
pub(crate) fn find_url(
    rows: &Rows<'_>,
    server: ServerKey,
    slot: u64,
) -> Result<Option<FrontierUrl>, StoreError> {
    Ok(rows
        .get(URLS, &url_key(server, slot))?
        .and_then(|row| FrontierUrl::from_row(&row)))
}

/// Writes a URL that keeps its slot.
pub(crate) fn write_url(rows: &mut Rows<'_>, server: ServerKey, slot: u64, url: &FrontierUrl) {
    rows.put(URLS, url_key(server, slot), url.to_row());
}

/// Takes the row of a URL away: it ended, or moves to another slot.
pub(crate) fn remove_url(rows: &mut Rows<'_>, server: ServerKey, slot: u64) {
    rows.remove(URLS, url_key(server, slot));
}

/// Visits the URLs of a range of slots in order until `visit` returns false.
pub(crate) fn visit_urls(
    rows: &Rows<'_>,
    server: ServerKey,
    slots: Range<u64>,
    visit: &mut dyn FnMut(u64, FrontierUrl) -> bool,
) -> Result<(), StoreError> {
    let mut unreadable = false;
    rows.scan(
        URLS,
        &url_key(server, slots.start),
        &url_key(server, slots.end),
        &mut |key, row| {
            let (Some(slot), Some(url)) = (slot_of(key), FrontierUrl::from_row(row)) else {
                unreadable = true;
                return false;
            };
            visit(slot, url)
        },
    )?;
    if unreadable {
        Err(corrupt(URLS, "a waiting URL is unreadable"))
    } else {
        Ok(())
    }
}

/// Visits the committed URLs of a range of slots in order until `visit` returns false; unreadable
/// ones are left out.
pub(crate) fn scan_urls(
    store: &dyn Store,
    server: ServerKey,
    slots: Range<u64>,
    visit: &mut dyn FnMut(FrontierUrl) -> bool,
) -> Result<(), StoreError> {
    store.scan(
        URLS,
        &url_key(server, slots.start),
        &url_key(server, slots.end),
        &mut |_, row| FrontierUrl::from_row(row).is_none_or(&mut *visit),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn url(number: u64) -> FrontierUrl {
        FrontierUrl {
            url: format!("http://a.test/{number}"),
            origin: Origin {
                page: "http://a.test/".into(),
                topic: "t".into(),
                depth: 2,
                redirects: 1,
                seed: true,
                again: 1 << 40,
                flow: Quality::SEED,
            },
            serial: number,
            attempts: 3,
            not_before: 0,
            visit: 1,
        }
    }

    #[test]
    fn a_url_comes_back_as_it_was_and_damage_gives_none() {
        for page in [
            "http://a.test/",
            "http://a.test:8080/",
            "http://b.test/x",
            "",
        ] {
            let mut stored = FrontierUrl {
                not_before: 123_456_789,
                ..url(u64::MAX)
            };
            stored.origin.page = page.into();
            let row = stored.to_row();
            assert_eq!(FrontierUrl::from_row(&row), Some(stored));
            for length in 0..row.len() {
                assert_eq!(FrontierUrl::from_row(&row[..length]), None);
            }
        }
        let planned = FrontierUrl {
            visit: 300,
            ..url(1)
        };
        assert_eq!(FrontierUrl::from_row(&planned.to_row()), Some(planned));
    }
}
