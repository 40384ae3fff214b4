//! The table of the next visits: by server, lot and last visit.
//!
//! A lot is the pages of one topic and one class. The key of a row has the class behind the server.
//! That of a topic with a number has a mark and the number before the class: no page that has a
//! visit to come is so important that its class begins with the mark.
//!
//! Invariant: a page has a row here exactly while it has a record and no visit of it is planned.

use crate::keys::server_key::{KEY_BYTES, ServerKey};
use crate::keys::topic::TopicNumber;
use crate::store::rows::Rows;
use crate::visits::{Class, VisitKey};
use rhumb_stage::store::{StoreError, Table};

/// Table of the next visits: server, lot, last visit and URL fingerprint → nothing.
pub(crate) const VISITS: Table = "visits";

/// Bytes of a visit's key behind its server and topic.
const VISIT_BYTES: usize = 10;
/// Bytes of a page's fingerprint.
const FINGERPRINT_BYTES: usize = 8;
/// Stands before the number of a topic. The class of what is done begins with it, too, and then has
/// a byte that is no number of a topic.
const TOPIC_MARK: u8 = u8::MAX;

/// Pages that lie together at their server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lot {
    pub(crate) topic: TopicNumber,
    pub(crate) class: Class,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) topic: TopicNumber,
    pub(crate) key: VisitKey,
    /// Of the page's URL.
    pub(crate) fingerprint: u64,
}

impl Place {
    pub(crate) fn lot(&self) -> Lot {
        Lot {
            topic: self.topic,
            class: self.key.class,
        }
    }
}

/// How the keys begin of a topic's rows at a server.
fn topic_start(server: ServerKey, topic: TopicNumber) -> Vec<u8> {
    let mut key = server.to_bytes();
    if topic != TopicNumber::OTHERS {
        key.extend_from_slice(&[TOPIC_MARK, topic.0]);
    }
    key
}

fn row_key(server: ServerKey, place: Place) -> Vec<u8> {
    let mut key = topic_start(server, place.topic);
    key.extend_from_slice(&place.key.to_bytes());
    key.extend_from_slice(&place.fingerprint.to_be_bytes());
    key
}

/// A page has no planned visit.
pub(crate) fn put(rows: &mut Rows<'_>, server: ServerKey, place: Place) {
    rows.put(VISITS, row_key(server, place), Vec::new());
}

/// A visit of a page is planned.
pub(crate) fn remove(rows: &mut Rows<'_>, server: ServerKey, place: Place) {
    rows.remove(VISITS, row_key(server, place));
}

/// The next page of a lot of a server behind one that was the first of it. Where those lay that
/// were removed before it nothing is looked at.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn next_of_lot(
    rows: &Rows<'_>,
    server: ServerKey,
    place: Place,
) -> Result<Option<Place>, StoreError> {
    let from = row_key(server, place);
    let to = behind(server, place.lot());
    Ok(first(rows, &from, &to, server.partition)?.map(|(_, place)| place))
}

/// The first row in a range of keys, with its server, which is of this partition.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn first(
    rows: &Rows<'_>,
    from: &[u8],
    to: &[u8],
    partition: u16,
) -> Result<Option<(ServerKey, Place)>, StoreError> {
    let mut found = None;
    rows.scan(VISITS, from, to, &mut |key, _| {
        found = read_key(partition, key);
        // A key that this program did not write is passed over.
        found.is_none()
    })?;
    Ok(found)
}

/// Where the rows behind this one begin.
pub(crate) fn behind_row(server: ServerKey, place: Place) -> Vec<u8> {
    let mut key = row_key(server, place);
    key.push(0);
    key
}

/// Where the rows behind a lot of a server begin.
pub(crate) fn behind(server: ServerKey, lot: Lot) -> Vec<u8> {
    let mut key = topic_start(server, lot.topic);
    match next_class(lot.class) {
        Some(class) => key.extend_from_slice(&[class.importance, class.rate]),
        // Behind all that is done.
        None => key.extend_from_slice(&[u8::MAX; VISIT_BYTES]),
    }
    key
}

fn next_class(class: Class) -> Option<Class> {
    let number = u16::from_be_bytes([class.importance, class.rate]).checked_add(1)?;
    let [importance, rate] = number.to_be_bytes();
    Some(Class { importance, rate })
}

fn read_key(partition: u16, key: &[u8]) -> Option<(ServerKey, Place)> {
    let (server, mut rest) = key.split_at_checked(KEY_BYTES)?;
    let mut topic = TopicNumber::OTHERS;
    if rest.len() > VISIT_BYTES + FINGERPRINT_BYTES {
        let (&[mark, number], of_topic) = rest.split_first_chunk()?;
        if mark != TOPIC_MARK {
            return None;
        }
        topic = TopicNumber(number);
        rest = of_topic;
    }
    let (visit, fingerprint) = rest.split_first_chunk::<VISIT_BYTES>()?;
    let place = Place {
        topic,
        key: VisitKey::from_bytes(*visit),
        fingerprint: u64::from_be_bytes(fingerprint.try_into().ok()?),
    };
    Some((ServerKey::from_bytes(partition, server)?, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_stage::store::MemoryStore;

    const CLASSES: [Class; 4] = [
        Class {
            importance: 0,
            rate: 0,
        },
        Class {
            importance: 128,
            rate: u8::MAX,
        },
        Class {
            importance: 254,
            rate: u8::MAX,
        },
        Class::DONE,
    ];
    const TOPICS: [TopicNumber; 4] = [
        TopicNumber::OTHERS,
        TopicNumber(1),
        TopicNumber(128),
        TopicNumber::MAX,
    ];

    /// Some time in 2023; also more visits than a page may have.
    const CLOCK_MS: u64 = 1_700_000_000_000;

    fn place(topic: TopicNumber, class: Class, clock_ms: u64) -> Place {
        Place {
            topic,
            key: VisitKey { class, clock_ms },
            fingerprint: u64::MAX - clock_ms,
        }
    }

    /// Goal: each lot is found by its first page, and followed to its end, whatever lies before and
    /// behind it. Method: two servers with three pages in each of many lots.
    #[test]
    fn lots_lie_apart() {
        let servers = [1, u64::MAX].map(ServerKey::numbered);
        let store = MemoryStore::default();
        let mut rows = Rows::new(&store);
        let lots = TOPICS.map(|topic| CLASSES.map(|class| (topic, class)));
        for server in servers {
            for (topic, class) in lots.into_iter().flatten() {
                for clock_ms in [0, 7, CLOCK_MS] {
                    put(&mut rows, server, place(topic, class, clock_ms));
                }
            }
        }
        let mut from = Vec::new();
        let mut found = Vec::new();
        while let Some((server, place)) = first(&rows, &from, &[u8::MAX; 32], 0).unwrap() {
            assert_eq!(place.key.clock_ms, 0);
            let next = |clock_ms, fingerprint| {
                let place = Place {
                    fingerprint,
                    ..self::place(place.topic, place.key.class, clock_ms)
                };
                let next = next_of_lot(&rows, server, place).unwrap();
                next.map(|place| place.key.clock_ms)
            };
            assert_eq!(next(1, 0), Some(7));
            assert_eq!(next(CLOCK_MS, u64::MAX), None);
            from = behind(server, place.lot());
            found.push((server.host, place.lot()));
        }
        assert_eq!(found.len(), 2 * TOPICS.len() * CLASSES.len());
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 2 * TOPICS.len() * CLASSES.len());
    }

    #[test]
    fn a_row_without_a_topic_is_as_programs_before_wrote_it() {
        let server = ServerKey::numbered(9);
        let place = place(TopicNumber::OTHERS, CLASSES[1], 5);
        let mut before = server.to_bytes();
        before.extend_from_slice(&[128, 255, 0, 0, 0, 0, 0, 0, 0, 5]);
        before.extend_from_slice(&place.fingerprint.to_be_bytes());
        assert_eq!(row_key(server, place), before);
        assert_eq!(read_key(0, &before), Some((server, place)));
        before.extend_from_slice(&[0, 0]);
        assert_eq!(read_key(0, &before), None);
    }
}
