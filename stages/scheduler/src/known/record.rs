//! The record of a known page: what its visits found, and what the next one needs.
//!
//! Invariant: a page has a record from the end of its first visit on, or since it was given as
//! known, and one alone.

use crate::keys::server_key::{KEY_BYTES, ServerKey};
use crate::keys::topic::TopicNumber;
use crate::known::table::Place;
use crate::known::text::Text;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::{Rows, corrupt};
use crate::visits::{Class, Estimate, Hub, OfKind, Signalled, VisitKey};
use rhumb_stage::store::{StoreError, Table};
use rhumb_url::fingerprint;
use rhumb_wire::message::{Origin, PageState, Quality};

/// Table of known pages: server and URL fingerprint → record.
pub(crate) const KNOWN: Table = "known";

/// Bytes of its keys.
pub(crate) const RECORD_KEY_BYTES: usize = KEY_BYTES + 8;

/// A known page. Of its origin it has no redirects, and the page that led to it if that says that
/// it is a sitemap.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) url: String,
    pub(crate) origin: Origin,
    /// Its number among the new URLs of its partition.
    pub(crate) serial: u64,
    /// Visits that ended.
    pub(crate) visits: u32,
    /// When the last visit ended that said something of the page, or 0, …
    pub(crate) answered_ms: u64,
    /// … and when any did, in milliseconds of Unix time.
    pub(crate) asked_ms: u64,
    /// When a visit last found a change of it, in milliseconds of Unix time.
    pub(crate) changed_ms: u64,
    /// So much later than its last visit it counts as visited, in milliseconds: it said that it is
    /// fresh.
    pub(crate) delay_ms: u64,
    /// Fingerprint of its last whole body as sent; 0: none.
    pub(crate) body: u64,
    pub(crate) text: Text,
    pub(crate) state: PageState,
    /// It answered 404 once, and is there as far as anybody was told.
    pub(crate) is_missed: bool,
    /// Its next visit waits at its server, or is in flight.
    pub(crate) is_planned: bool,
    /// It has no next time: it has had all its visits, or its last one was withdrawn.
    pub(crate) rests: bool,
    /// It was given as known, and was not visited since.
    pub(crate) is_given: bool,
    /// What is known of how often it changes, between rates that are so many steps faster than the
    /// default ones.
    pub(crate) estimate: Estimate,
    pub(crate) steps: u8,
    /// Its interval by the rule of that name, in seconds; 0: it has none yet.
    pub(crate) interval_s: u64,
    /// Its class by its last visit.
    pub(crate) class: Class,
    /// Among the pages of which topic it lies.
    pub(crate) topic: TopicNumber,
    /// The signals of a change since its last visit.
    pub(crate) signalled: Signalled,
    /// So much earlier than its last visit it counts as visited, in milliseconds: signals that are
    /// believed say that it changed since.
    pub(crate) moved_ms: u64,
    /// The news that it brought of other pages.
    pub(crate) hub: Hub,
}

impl Record {
    /// Where it lies among those of its server while no visit is planned: by its last visit less
    /// what signals moved it by, or when the next one may be, and once it has had all its visits by
    /// their number.
    pub(crate) fn place(&self) -> Place {
        let clock_ms = match self.class {
            Class::DONE => self.visits.into(),
            _ if self.moved_ms > 0 => self.asked_ms.saturating_sub(self.moved_ms),
            _ => self.asked_ms.saturating_add(self.delay_ms),
        };
        Place {
            topic: self.topic,
            key: VisitKey {
                class: self.class,
                clock_ms,
            },
            fingerprint: fingerprint(&self.url),
        }
    }

    /// It waits from now on as if it had been visited.
    pub(crate) fn counts_as_asked(&mut self, now_ms: u64) {
        self.asked_ms = now_ms.max(self.asked_ms);
        self.delay_ms = 0;
    }

    fn to_row(&self) -> Vec<u8> {
        let mut row = Writer::with_capacity(self.url.len() + self.origin.topic.len() + 64);
        row.text(&self.url);
        row.text(&self.origin.page);
        row.text(&self.origin.topic);
        row.number(self.origin.depth.into());
        row.byte(
            state_byte(self.state)
                | u8::from(self.origin.seed) << 2
                | u8::from(self.is_missed) << 3
                | u8::from(self.is_planned) << 4
                | u8::from(self.rests) << 5
                | u8::from(self.topic != TopicNumber::OTHERS) << 6
                | u8::from(self.is_given) << 7,
        );
        row.number(self.origin.again);
        row.number(self.origin.flow.to_bits().into());
        row.number(self.serial);
        row.number(self.visits.into());
        row.number(self.asked_ms);
        row.number(self.asked_ms.saturating_sub(self.answered_ms));
        row.number(self.asked_ms.saturating_sub(self.changed_ms));
        row.number(self.delay_ms);
        row.array(self.body.to_le_bytes());
        self.text.write(self.body, &mut row);
        row.array(self.estimate.to_bytes());
        row.byte(self.steps);
        row.number(self.interval_s);
        row.byte(self.class.importance);
        row.byte(self.class.rate);
        if self.topic != TopicNumber::OTHERS {
            row.byte(self.topic.0);
        }
        // Most rows end here.
        if !self.signalled.is_none() || self.hub.is_one() {
            for of_kind in self.signalled.to_kinds() {
                row.number(of_kind.count.into());
                row.number(of_kind.latest_ms);
            }
            row.number(self.moved_ms);
            row.array(self.hub.news.to_le_bytes());
            row.array(self.hub.gathered_s.to_le_bytes());
        }
        row.finish()
    }

    pub(crate) fn from_row(row: &[u8]) -> Option<Self> {
        let mut row = Reader::new(row)?;
        let url = row.text()?.to_owned();
        let page = row.text()?.to_owned();
        let topic = row.text()?.to_owned();
        let depth = u16::try_from(row.number()?).ok()?;
        let flags = row.byte()?;
        let again = row.number()?;
        let flow = Quality::from_bits(row.small()?);
        let serial = row.number()?;
        let visits = row.small()?;
        let asked_ms = row.number()?;
        let answered_ms = asked_ms.saturating_sub(row.number()?);
        let changed_ms = asked_ms.saturating_sub(row.number()?);
        let delay_ms = row.number()?;
        let body = u64::from_le_bytes(row.array()?);
        let mut record = Record {
            url,
            origin: Origin {
                page,
                topic,
                depth,
                redirects: 0,
                seed: flags & 4 != 0,
                again,
                flow,
            },
            serial,
            visits,
            asked_ms,
            answered_ms,
            changed_ms,
            delay_ms,
            body,
            text: Text::read(body, &mut row)?,
            state: state_of(flags & 3),
            is_missed: flags & 8 != 0,
            is_planned: flags & 16 != 0,
            rests: flags & 32 != 0,
            is_given: flags & 128 != 0,
            estimate: Estimate::from_bytes(row.array()?),
            steps: row.byte()?,
            interval_s: row.number()?,
            class: Class {
                importance: row.byte()?,
                rate: row.byte()?,
            },
            topic: match flags & 64 {
                0 => TopicNumber::OTHERS,
                _ => TopicNumber(row.byte()?),
            },
            ..Record::default()
        };
        if !row.is_over() {
            let mut of_kinds = Signalled::default().to_kinds();
            for of_kind in &mut of_kinds {
                *of_kind = OfKind {
                    count: row.small()?,
                    latest_ms: row.number()?,
                };
            }
            record.signalled = Signalled::from_kinds(of_kinds);
            record.moved_ms = row.number()?;
            record.hub = Hub {
                news: f32::from_le_bytes(row.array()?),
                gathered_s: f32::from_le_bytes(row.array()?),
            };
        }
        Some(record)
    }
}

const fn state_byte(state: PageState) -> u8 {
    match state {
        PageState::None => 0,
        PageState::Page => 1,
        PageState::Moved => 2,
        PageState::Gone => 3,
    }
}

const fn state_of(byte: u8) -> PageState {
    match byte {
        1 => PageState::Page,
        2 => PageState::Moved,
        3 => PageState::Gone,
        _ => PageState::None,
    }
}

/// The key of the record of a URL.
pub(crate) fn key(server: ServerKey, fingerprint: u64) -> Vec<u8> {
    let mut key = server.to_bytes();
    key.extend_from_slice(&fingerprint.to_be_bytes());
    key
}

/// Reads the record of a URL; none when its page is not known.
///
/// # Errors
/// The store cannot be read, or the record is not understood.
pub(crate) fn read(
    rows: &Rows<'_>,
    server: ServerKey,
    fingerprint: u64,
) -> Result<Option<Record>, StoreError> {
    let Some(row) = rows.get(KNOWN, &key(server, fingerprint))? else {
        return Ok(None);
    };
    let record = Record::from_row(&row);
    let record = record.ok_or_else(|| corrupt(KNOWN, "the record of a page is unreadable"))?;
    Ok(Some(record))
}

/// Writes the record of a page.
pub(crate) fn write(rows: &mut Rows<'_>, server: ServerKey, record: &Record) {
    rows.put(
        KNOWN,
        key(server, fingerprint(&record.url)),
        record.to_row(),
    );
}

/// A page is known no more.
pub(crate) fn remove(rows: &mut Rows<'_>, server: ServerKey, url: &str) {
    rows.remove(KNOWN, key(server, fingerprint(url)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_stage::Difference;
    use rhumb_wire::message::SignalKind;

    #[test]
    fn a_record_comes_back_as_it_was_and_damage_gives_none() {
        for state in [
            PageState::None,
            PageState::Page,
            PageState::Moved,
            PageState::Gone,
        ] {
            let record = Record {
                url: "http://a.test/".into(),
                origin: Origin {
                    page: "http://a.test/robots.txt#sitemap-of=http://a.test".into(),
                    topic: "t".into(),
                    depth: 7,
                    seed: true,
                    again: 1 << 40,
                    flow: Quality::SEED,
                    ..Origin::default()
                },
                serial: 300,
                visits: 12,
                answered_ms: 1_700_000_000_000,
                asked_ms: 1_700_000_600_000,
                changed_ms: 1_600_000_000_000,
                delay_ms: 60_000,
                body: u64::MAX - 1,
                text: Text {
                    difference: Difference::SameText,
                    ..Text::default()
                },
                state,
                is_missed: state == PageState::Page,
                is_planned: state == PageState::Gone,
                rests: state != PageState::Page,
                is_given: state == PageState::Moved,
                estimate: Estimate::from_bytes([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 254]),
                steps: 3,
                interval_s: 86_400,
                class: Class {
                    importance: 128,
                    rate: 99,
                },
                topic: TopicNumber(u8::from(state == PageState::Moved)),
                ..Record::default()
            };
            let row = record.to_row();
            assert_eq!(Record::from_row(&row).as_ref(), Some(&record));
            for length in 0..row.len() {
                assert_eq!(Record::from_row(&row[..length]), None);
            }
            let mut signalled = Signalled::default();
            signalled.take(SignalKind::Feed, 1_700_000_300_000);
            let with_signals = Record {
                signalled,
                moved_ms: u64::MAX,
                hub: Hub {
                    news: 1.5,
                    gathered_s: 60.0,
                },
                ..record
            };
            let longer = with_signals.to_row();
            assert_eq!(longer[..row.len()], row);
            assert_eq!(Record::from_row(&longer), Some(with_signals));
            for length in row.len() + 1..longer.len() {
                assert_eq!(Record::from_row(&longer[..length]), None);
            }
        }
    }
}
