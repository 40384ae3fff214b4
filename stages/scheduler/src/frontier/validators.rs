//! Validators: how servers name the versions of the URLs that were fetched, for URLs that are
//! injected again.
//!
//! A complete 2xx response with validators writes a row, in the commit that holds the URL's
//! outcome. The row is read when its URL is fetched again. A response without validators, or one
//! that says that the URL is gone, removes it. A row takes some 25 bytes on disk, and what the
//! server says: an entity tag mostly has 20 to 40 bytes, a date takes 5. Nothing of it is in memory
//! (P6).
//!
//! Source: RFC 9110, sections 8.8 and 13.1.

use crate::frontier::rows::FrontierUrl;
use crate::keys::server_key::ServerKey;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::Rows;
use crate::visits::Dates;
use rhumb_stage::store::{StoreError, Table};
use rhumb_url::fingerprint;
use rhumb_wire::message::{RequestEnd, ResponseSummary, Validators};
use std::time::{Duration, SystemTime};

/// Table of validators: server and URL fingerprint → validators.
pub(crate) const VALIDATORS: Table = "validators";

/// Reads what the server said of the URL when it was fetched last; empty when it said nothing, or
/// the URL is new.
pub(crate) fn read(
    rows: &Rows<'_>,
    server: ServerKey,
    url: &str,
) -> Result<Validators, StoreError> {
    let row = rows.get(VALIDATORS, &key(server, url))?;
    // A row that is not understood only costs a response that could have been spared.
    Ok(row.and_then(|row| from_row(&row)).unwrap_or_default())
}

/// What the server says of the last change of a page that is visited again, and said the last time.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn dates(
    rows: &Rows<'_>,
    server: ServerKey,
    url: &FrontierUrl,
    end: &RequestEnd,
) -> Result<Dates, StoreError> {
    let RequestEnd::Response(response) = end else {
        return Ok(Dates::default());
    };
    if !url.is_planned() {
        return Ok(Dates::default());
    }
    let before = read(rows, server, &url.url)?;
    Ok(Dates {
        before_s: seconds_of(&before.last_modified),
        now_s: seconds_of(&response.validators.last_modified),
    })
}

/// Keeps what the response that ends a URL says.
pub(crate) fn note(rows: &mut Rows<'_>, server: ServerKey, url: &FrontierUrl, end: &RequestEnd) {
    let RequestEnd::Response(ResponseSummary {
        status,
        truncated,
        ref validators,
        ref wall,
        ..
    }) = *end
    else {
        return;
    };
    // It says nothing of the page.
    if !wall.is_empty() {
        return;
    }
    // A URL has a row only when it was fetched before.
    let has_row = url.origin.again != 0 || url.is_planned();
    match status {
        200..=299 if !truncated && *validators != Validators::default() => {
            rows.put(VALIDATORS, key(server, &url.url), to_row(validators));
        }
        // After a body that was cut, the rest is wanted next time.
        200..=299 | 404 | 410 if has_row => rows.remove(VALIDATORS, key(server, &url.url)),
        _ => {}
    }
}

fn key(server: ServerKey, url: &str) -> Vec<u8> {
    let mut key = server.to_bytes();
    key.extend_from_slice(&fingerprint(url).to_be_bytes());
    key
}

fn to_row(validators: &Validators) -> Vec<u8> {
    let Validators {
        etag,
        last_modified,
    } = validators;
    let mut row = Writer::with_capacity(etag.len() + 8);
    row.text(etag);
    match seconds_of(last_modified) {
        Some(seconds) => row.number(seconds + 1),
        None => {
            row.number(0);
            row.text(last_modified);
        }
    }
    row.finish()
}

fn from_row(row: &[u8]) -> Option<Validators> {
    let mut row = Reader::new(row)?;
    let etag = row.text()?.to_owned();
    let last_modified = match row.number()? {
        0 => row.text()?.to_owned(),
        seconds => date_of(seconds - 1),
    };
    Some(Validators {
        etag,
        last_modified,
    })
}

/// Seconds since 1970 of a date in the form in which dates are to be written: the server must get
/// back what it sent.
fn seconds_of(date: &str) -> Option<u64> {
    let seconds = httpdate::parse_http_date(date)
        .ok()?
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()?
        .as_secs();
    (date_of(seconds) == date).then_some(seconds)
}

fn date_of(seconds: u64) -> String {
    // The last date that can be written is in the year 9999.
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
    httpdate::fmt_http_date(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::rows::tests::url;
    use rhumb_stage::Output;
    use rhumb_stage::store::{MemoryStore, Store as _};

    const SERVER: ServerKey = ServerKey::numbered(7);

    fn validators(etag: &str, last_modified: &str) -> Validators {
        Validators {
            etag: etag.into(),
            last_modified: last_modified.into(),
        }
    }

    fn response(status: u16, truncated: bool, validators: Validators) -> RequestEnd {
        RequestEnd::Response(ResponseSummary {
            status,
            bytes: 1,
            truncated,
            elapsed_us: 1,
            validators,
            ..ResponseSummary::default()
        })
    }

    #[test]
    fn validators_come_back_as_the_server_wrote_them() {
        for (etag, date, bytes) in [
            ("\"abc\"", "Sun, 06 Nov 1994 08:49:37 GMT", 12),
            ("W/\"x\"", "", 9),
            ("", "Thu, 01 Jan 1970 00:00:00 GMT", 3),
            ("", "Sunday, 06-Nov-94 08:49:37 GMT", 34),
            ("", "yesterday", 13),
        ] {
            let written = validators(etag, date);
            let row = to_row(&written);
            assert_eq!((from_row(&row), row.len()), (Some(written), bytes));
            for length in 0..row.len() {
                assert_eq!(from_row(&row[..length]), None);
            }
        }
    }

    #[test]
    fn the_last_whole_page_counts_and_what_is_gone_has_none() {
        let store = MemoryStore::default();
        let mut rows = Rows::new(&store);
        let first = url(1);
        let mut again = url(1);
        again.origin.again = 9;
        let one = validators("\"1\"", "");
        let two = validators("\"2\"", "");
        let none = Validators::default();
        let fresh = FrontierUrl {
            origin: rhumb_wire::message::Origin {
                again: 0,
                ..first.origin.clone()
            },
            ..first
        };
        for (url, status, truncated, sent, kept) in [
            (&fresh, 404, false, &one, &none),
            (&fresh, 200, true, &one, &none),
            (&fresh, 200, false, &none, &none),
            (&fresh, 200, false, &one, &one),
            (&again, 304, false, &two, &one),
            (&again, 503, false, &none, &one),
            (&again, 200, false, &two, &two),
            (&again, 200, true, &one, &none),
            (&again, 206, false, &one, &one),
            (&again, 410, false, &none, &none),
        ] {
            note(
                &mut rows,
                SERVER,
                url,
                &response(status, truncated, sent.clone()),
            );
            assert_eq!(
                read(&rows, SERVER, &url.url).unwrap(),
                *kept,
                "{status} {truncated} {sent:?}"
            );
        }
        // What a wall sends is not of its page, and changes nothing of what is kept.
        note(
            &mut rows,
            SERVER,
            &again,
            &response(206, false, one.clone()),
        );
        for sent in [&two, &none] {
            let RequestEnd::Response(mut wall) = response(200, false, sent.clone()) else {
                unreachable!("it is one");
            };
            wall.wall = "cloudflare".to_owned();
            note(&mut rows, SERVER, &again, &RequestEnd::Response(wall));
            assert_eq!(read(&rows, SERVER, &again.url).unwrap(), one);
        }
        note(&mut rows, SERVER, &again, &response(410, false, none));
        let mut out = Output::<()>::default();
        rows.flush(&mut out);
        store.commit(&out.changes).unwrap();
        assert_eq!(
            store.get(VALIDATORS, &key(SERVER, &fresh.url)).unwrap(),
            None
        );
    }
}
