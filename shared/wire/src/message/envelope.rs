//! The envelope around every message: magic, edge, schema version, checksum, then the rkyv archive.
//!
//! ```text
//! 0      4     5        6         8          16
//! | RHMB | edge | version | 0 0 | xxh3 64 LE | archive ...
//! ```
//!
//! The checksum covers the archive: bytecheck alone misses most bit flips. Payloads arrive
//! unaligned, so the archive is copied to aligned memory before it is checked and read. A large
//! message can be read there ([`InPlace`]).
//!
//! A program reads the present version of a message and, where builds that may still run or whose
//! crawls may go on made another, that one ([`EdgeMessage::BEFORE`]). So the consumers of an edge
//! can be updated before its producers. What is of another version is parked.

use crate::topology::Edge;
use bytes::Bytes;
use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error as Rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;
use xxhash_rust::xxh3::xxh3_64;

pub(super) const MAGIC: [u8; 4] = *b"RHMB";
/// Length of the envelope before the archive, in bytes.
pub const HEADER_BYTES: usize = 16;

/// A message of an edge.
pub trait EdgeMessage: Archive + Sized {
    /// The edge it travels on.
    const EDGE: Edge;
    /// Version of its schema: changes whenever the archive's layout does.
    const VERSION: u8;
    /// It answers a request on its edge: it goes to the asker's inbox, not to the edge's subject.
    const IS_REPLY: bool = false;
    /// The version before, which is read as well; none where no build that may still run made one.
    const BEFORE: Option<Before<Self>> = None;

    /// Bytes that its archive will have, about: memory for so many is taken at once.
    fn bytes_about(&self) -> usize {
        256
    }
}

/// The version of a message before the present one, and how it is read.
#[derive(Clone, Copy, Debug)]
pub struct Before<M> {
    /// The version.
    pub version: u8,
    read: fn(&[u8]) -> Result<M, Undecodable>,
}

impl<M> Before<M> {
    /// The layout that the message had: a type of its own, with its version, that becomes a present
    /// one.
    pub const fn of<Old>() -> Self
    where
        Old: EdgeMessage + Into<M>,
        Old::Archived: for<'a> CheckBytes<HighValidator<'a, Rancor>>
            + Deserialize<Old, HighDeserializer<Rancor>>,
    {
        Before {
            version: Old::VERSION,
            read: decode_as::<Old, M>,
        }
    }
}

fn decode_as<Old, M>(payload: &[u8]) -> Result<M, Undecodable>
where
    Old: EdgeMessage + Into<M>,
    Old::Archived:
        for<'a> CheckBytes<HighValidator<'a, Rancor>> + Deserialize<Old, HighDeserializer<Rancor>>,
{
    decode::<Old>(payload).map(Into::into)
}

/// Why a payload could not be read.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum Undecodable {
    /// Damaged, or never ours: goes to the dead letters.
    #[error("corrupt message: {0}")]
    Corrupt(String),
    /// Of a schema that this program does not know: a rolling update is under way, another instance
    /// (or this one, restarted) will read it.
    #[error("schema version {found} of edge {edge}, this program reads version {known}", edge = .edge.name())]
    UnknownVersion {
        /// The edge.
        edge: Edge,
        /// The version that came.
        found: u8,
        /// The version known here.
        known: u8,
    },
}

/// Puts a message into its envelope.
pub fn encode<M>(message: &M) -> Bytes
where
    M: EdgeMessage + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
{
    let mut buffer: AlignedVec = AlignedVec::with_capacity(HEADER_BYTES + message.bytes_about());
    buffer.extend_from_slice(&[0; HEADER_BYTES]);
    // Serializing into memory fails only when an object graph is recursive; ours are trees.
    let mut buffer = rkyv::api::high::to_bytes_in::<_, Rancor>(message, buffer)
        .expect("a message without cycles always serializes");
    let checksum = xxh3_64(&buffer[HEADER_BYTES..]);
    buffer[0..4].copy_from_slice(&MAGIC);
    buffer[4] = M::EDGE.number();
    buffer[5] = M::VERSION;
    buffer[8..16].copy_from_slice(&checksum.to_le_bytes());
    Bytes::from_owner(buffer)
}

/// Checks a payload, envelope and archive, and reads the message in it.
pub fn decode<M>(payload: &[u8]) -> Result<M, Undecodable>
where
    M: EdgeMessage,
    M::Archived:
        for<'a> CheckBytes<HighValidator<'a, Rancor>> + Deserialize<M, HighDeserializer<Rancor>>,
{
    match opened(payload)? {
        Opened::Before(message) => Ok(message),
        Opened::Archive(archive) => rkyv::from_bytes::<M, Rancor>(&archive).map_err(not_valid),
    }
}

/// A message of the present version in its archive, or one of the version before, read.
enum Opened<M> {
    Archive(AlignedVec),
    Before(M),
}

/// Checks the envelope of a payload, and copies the archive in it to aligned memory.
fn opened<M: EdgeMessage>(payload: &[u8]) -> Result<Opened<M>, Undecodable> {
    let corrupt = |what: &str| Undecodable::Corrupt(what.to_owned());
    let (header, body) = payload
        .split_at_checked(HEADER_BYTES)
        .ok_or_else(|| corrupt("shorter than an envelope"))?;
    if header[0..4] != MAGIC {
        return Err(corrupt("not a rhumb message"));
    }
    if header[4] != M::EDGE.number() {
        return Err(Undecodable::Corrupt(format!(
            "a message of edge number {} on edge {}",
            header[4],
            M::EDGE.name()
        )));
    }
    if let Some(before) = M::BEFORE.filter(|before| before.version == header[5]) {
        return (before.read)(payload).map(Opened::Before);
    }
    if header[5] != M::VERSION {
        return Err(Undecodable::UnknownVersion {
            edge: M::EDGE,
            found: header[5],
            known: M::VERSION,
        });
    }
    if header[8..16] != xxh3_64(body).to_le_bytes() {
        return Err(corrupt("checksum does not match"));
    }
    let mut archive: AlignedVec = AlignedVec::with_capacity(body.len());
    archive.extend_from_slice(body);
    Ok(Opened::Archive(archive))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_valid(error: Rancor) -> Undecodable {
    Undecodable::Corrupt(format!("archive is not valid: {error}"))
}

/// A message that is read where it lies, in its archive: nothing of it is copied out that nobody
/// needs.
pub struct InPlace<M> {
    archive: AlignedVec,
    message: PhantomData<M>,
}

impl<M> InPlace<M>
where
    M: EdgeMessage + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
    M::Archived: for<'a> CheckBytes<HighValidator<'a, Rancor>>,
{
    /// Checks a payload, envelope and archive. A message of the version before is brought to the
    /// present one.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn open(payload: &[u8]) -> Result<Self, Undecodable> {
        let archive = match opened::<M>(payload)? {
            Opened::Archive(archive) => archive,
            Opened::Before(message) => return Ok(InPlace::of(&message)),
        };
        rkyv::access::<M::Archived, Rancor>(&archive).map_err(not_valid)?;
        Ok(InPlace {
            archive,
            message: PhantomData,
        })
    }

    /// Archives a message.
    pub fn of(message: &M) -> Self {
        let archive = rkyv::to_bytes(message)
            .map_err(not_valid)
            .expect("a message without cycles always serializes");
        InPlace {
            archive,
            message: PhantomData,
        }
    }

    /// The message.
    pub fn read(&self) -> &M::Archived {
        rkyv::access::<M::Archived, Rancor>(&self.archive)
            .map_err(not_valid)
            .expect("it was valid when it came")
    }
}

impl<M> fmt::Debug for InPlace<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message of {} bytes", self.archive.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FoundUrls, Origin, SplitUrls, UrlList};
    use proptest::prelude::*;

    fn found() -> FoundUrls {
        FoundUrls {
            origin: Origin {
                page: "http://a.test/".into(),
                topic: "default".into(),
                depth: 3,
                ..Origin::default()
            },
            urls: ["http://a.test/1", "http://b.test/é"].into_iter().collect(),
            ..FoundUrls::default()
        }
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        assert_eq!(decode::<FoundUrls>(&encode(&found())), Ok(found()));
    }

    #[test]
    fn a_message_is_read_in_place_as_it_was() {
        for message in [
            InPlace::<FoundUrls>::open(&encode(&found())).unwrap(),
            InPlace::of(&found()),
        ] {
            let read = message.read();
            assert_eq!(
                (read.origin.page.as_str(), read.origin.depth.to_native()),
                ("http://a.test/", 3)
            );
            assert_eq!(
                rkyv::deserialize::<FoundUrls, Rancor>(read).unwrap(),
                found()
            );
        }
        let mut payload = encode(&found()).to_vec();
        payload[HEADER_BYTES] ^= 1;
        assert_eq!(
            InPlace::<FoundUrls>::open(&payload).err(),
            decode::<FoundUrls>(&payload).err()
        );
        let second = InPlace::<Second>::open(&encode(&First("a".into()))).unwrap();
        assert_eq!(
            (second.read().0.as_str(), second.read().1.to_native()),
            ("a", 7),
            "of the version before"
        );
    }

    #[test]
    fn a_payload_may_lie_at_any_address() {
        let payload = encode(&found());
        for offset in 0..16 {
            let mut moved = vec![0u8; offset];
            moved.extend_from_slice(&payload);
            assert_eq!(decode::<FoundUrls>(&moved[offset..]), Ok(found()));
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed() {
        let payload = encode(&found()).to_vec();
        for bit in 0..payload.len() * 8 {
            let mut damaged = payload.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The two reserved bytes mean nothing yet.
            if !(6..8).contains(&(bit / 8)) {
                assert!(decode::<FoundUrls>(&damaged).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn another_version_is_not_corrupt_and_another_edge_is() {
        let mut payload = encode(&found()).to_vec();
        let known = FoundUrls::VERSION;
        let other = FoundUrls::VERSION + 1;
        payload[5] = other;
        let error = Undecodable::UnknownVersion {
            edge: Edge::UrlsFound,
            found: other,
            known,
        };
        assert_eq!(
            decode::<FoundUrls>(&payload).unwrap_err().to_string(),
            error.to_string()
        );
        let split = encode(&SplitUrls {
            urls: UrlList::new(),
            ..SplitUrls::default()
        });
        assert!(matches!(
            decode::<FoundUrls>(&split),
            Err(Undecodable::Corrupt(_))
        ));
    }

    /// An edge of which three versions are known: each program reads its own and the one before.
    const TITLES: Edge = Edge::further(200, "titles");

    #[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
    struct First(String);
    #[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
    struct Second(String, u32);
    #[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
    struct Third(u32);

    impl EdgeMessage for First {
        const EDGE: Edge = TITLES;
        const VERSION: u8 = 1;
    }

    impl EdgeMessage for Second {
        const EDGE: Edge = TITLES;
        const VERSION: u8 = 2;
        const BEFORE: Option<Before<Self>> = Some(Before::of::<First>());
    }

    impl EdgeMessage for Third {
        const EDGE: Edge = TITLES;
        const VERSION: u8 = 3;
        const BEFORE: Option<Before<Self>> = Some(Before::of::<Second>());
    }

    impl From<First> for Second {
        fn from(First(title): First) -> Second {
            Second(title, 7)
        }
    }

    impl From<Second> for Third {
        fn from(Second(_, number): Second) -> Third {
            Third(number)
        }
    }

    #[test]
    fn a_program_reads_its_own_version_and_the_one_before() {
        let first = encode(&First("a".into()));
        let second = encode(&Second("a".into(), 9));
        assert_eq!(decode::<Second>(&first), Ok(Second("a".into(), 7)));
        assert_eq!(
            (decode::<Second>(&second), decode::<Third>(&second)),
            (Ok(Second("a".into(), 9)), Ok(Third(9)))
        );
        let unknown = |found, known| Undecodable::UnknownVersion {
            edge: TITLES,
            found,
            known,
        };
        assert_eq!(
            decode::<First>(&second),
            Err(unknown(2, 1)),
            "a newer one is for a newer program"
        );
        assert_eq!(
            decode::<Third>(&first),
            Err(unknown(1, 3)),
            "an older one is for an older program"
        );
        let mut damaged = first.to_vec();
        damaged[HEADER_BYTES] ^= 1;
        assert!(matches!(
            decode::<Second>(&damaged),
            Err(Undecodable::Corrupt(_))
        ));
    }

    proptest! {
        #[test]
        fn no_payload_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode::<FoundUrls>(&bytes);
            // With a right envelope, so that the archive itself is what is checked.
            let mut payload = Vec::from(*b"RHMB");
            payload.extend_from_slice(&[Edge::UrlsFound.number(), 1, 0, 0]);
            payload.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
            payload.extend_from_slice(&bytes);
            let _ = decode::<FoundUrls>(&payload);
        }
    }
}
