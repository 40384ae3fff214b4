//! Frames: several messages of an edge that travel as one, so that the broker stores, delivers and
//! acks one in their place.
//!
//! ```text
//! 0      4     5     6            8            16
//! | RHMB | edge | 255 | count LE16 | xxh3 64 LE | length LE32, count times | envelope ... envelope ... |
//! ```
//!
//! In: payloads in their envelopes; what came from a stream. Out: a frame; the payloads again,
//! without a copy. One message needs no frame, and travels in its envelope alone.
//!
//! Invariant: the checksum covers the lengths, and each payload has its own in its envelope. So a
//! damaged payload is one alone, and a frame whose lengths are damaged is damaged as a whole. To a
//! program that knows no frames it is a message of a schema version that it does not read.

use super::envelope::{HEADER_BYTES, MAGIC, Undecodable};
use crate::topology::Edge;
use bytes::{BufMut as _, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

/// The schema version that stands in a frame's envelope; no message has it.
pub const FRAME_VERSION: u8 = u8::MAX;
/// Payloads of one frame, at most.
pub const FRAME_PAYLOADS_MAX: usize = u16::MAX as usize;
/// Bytes of a length.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Puts payloads of an edge into one that has all of them, in their order: a single one as it is.
///
/// # Panics
/// There is none, or there are more than [`FRAME_PAYLOADS_MAX`].
pub fn frame(edge: Edge, payloads: &[Bytes]) -> Bytes {
    if let [payload] = payloads {
        return payload.clone();
    }
    let count = u16::try_from(payloads.len())
        .ok()
        .filter(|&count| count > 0)
        .expect("a frame holds 1 to 65,535 payloads");
    let lengths: Vec<u8> = payloads
        .iter()
        .flat_map(|payload| length_of(payload).to_le_bytes())
        .collect();
    let bytes: usize = payloads.iter().map(Bytes::len).sum();
    let mut frame = BytesMut::with_capacity(HEADER_BYTES + lengths.len() + bytes);
    frame.put_slice(&MAGIC);
    frame.put_u8(edge.number());
    frame.put_u8(FRAME_VERSION);
    frame.put_u16_le(count);
    frame.put_u64_le(xxh3_64(&lengths));
    frame.put_slice(&lengths);
    payloads.iter().for_each(|payload| frame.put_slice(payload));
    frame.freeze()
}

fn length_of(payload: &Bytes) -> u32 {
    u32::try_from(payload.len()).expect("no broker takes a message of 4 GiB")
}

/// The payloads of a message of an edge: those of a frame, or the message itself.
///
/// # Errors
/// It is a frame of another edge, or a damaged one.
pub fn payloads(edge: Edge, message: Bytes) -> Result<Vec<Bytes>, Undecodable> {
    let Some((header, rest)) = message
        .split_at_checked(HEADER_BYTES)
        .filter(|(header, _)| is_frame(header))
    else {
        return Ok(vec![message]);
    };
    let corrupt = |what: &str| Err(Undecodable::Corrupt(what.to_owned()));
    if header[4] != edge.number() {
        return corrupt("a frame of another edge");
    }
    let count = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let Some((lengths, _)) = rest.split_at_checked(count * LENGTH_BYTES) else {
        return corrupt("a frame that ends within its lengths");
    };
    if header[8..16] != xxh3_64(lengths).to_le_bytes() {
        return corrupt("a frame whose checksum does not match its lengths");
    }
    let mut at = HEADER_BYTES + lengths.len();
    let mut payloads = Vec::with_capacity(count);
    for length in lengths.as_chunks::<LENGTH_BYTES>().0 {
        let end = at + u32::from_le_bytes(*length) as usize;
        if end > message.len() {
            return corrupt("a frame that ends within a message");
        }
        payloads.push(message.slice(at..end));
        at = end;
    }
    if payloads.is_empty() || at != message.len() {
        return corrupt("a frame whose lengths are not those of its messages");
    }
    Ok(payloads)
}

fn is_frame(header: &[u8]) -> bool {
    header[..4] == MAGIC && header[5] == FRAME_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FoundUrls, MESSAGES, Origin, decode, encode};
    use proptest::prelude::*;

    const EDGE: Edge = Edge::UrlsFound;

    fn found(page: &str) -> Bytes {
        let origin = Origin {
            page: page.to_owned(),
            ..Origin::default()
        };
        encode(&FoundUrls {
            origin,
            urls: [page].into_iter().collect(),
            ..FoundUrls::default()
        })
    }

    #[test]
    fn messages_come_out_of_a_frame_as_they_were_and_one_alone_has_none() {
        let messages = ["http://a.test/", "http://b.test/long/path", ""].map(found);
        assert_eq!(payloads(EDGE, frame(EDGE, &messages)).unwrap(), messages);
        assert_eq!(frame(EDGE, &messages[..1]), messages[0]);
        assert_eq!(payloads(EDGE, messages[0].clone()).unwrap(), messages[..1]);
        assert_eq!(
            payloads(EDGE, Bytes::from_static(b"short")).unwrap(),
            [Bytes::from_static(b"short")]
        );
    }

    #[test]
    fn no_message_has_the_version_of_a_frame_and_who_knows_no_frames_does_not_take_one_for_damaged()
    {
        assert!(
            MESSAGES
                .iter()
                .all(|row| row.version != FRAME_VERSION && row.before != Some(FRAME_VERSION))
        );
        let framed = frame(EDGE, &["http://a.test/", "http://b.test/"].map(found));
        assert!(matches!(
            decode::<FoundUrls>(&framed),
            Err(Undecodable::UnknownVersion {
                found: FRAME_VERSION,
                ..
            })
        ));
    }

    #[test]
    fn damage_within_a_message_is_that_messages_alone() {
        let messages = ["http://a.test/", "http://b.test/"].map(found);
        let mut damaged = frame(EDGE, &messages).to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let read = payloads(EDGE, damaged.into()).unwrap();
        assert_eq!(read[0], messages[0]);
        assert!(decode::<FoundUrls>(&read[0]).is_ok() && decode::<FoundUrls>(&read[1]).is_err());
    }

    #[test]
    fn a_flipped_bit_of_the_lengths_damages_the_frame_as_a_whole() {
        let framed = frame(EDGE, &["http://a.test/", "http://b.test/"].map(found)).to_vec();
        // What tells the edge is looked at, too; without magic or version it is no frame, and no
        // message either.
        for bit in (4 * 8..5 * 8).chain(6 * 8..(HEADER_BYTES + 2 * LENGTH_BYTES) * 8) {
            let mut damaged = framed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(payloads(EDGE, damaged.into()).is_err(), "bit {bit}");
        }
        for length in HEADER_BYTES..framed.len() {
            assert!(
                payloads(EDGE, framed[..length].to_vec().into()).is_err(),
                "{length}"
            );
        }
        let longer = [framed, vec![0]].concat();
        assert!(payloads(EDGE, longer.into()).is_err());
    }

    proptest! {
        #[test]
        fn what_is_put_into_a_frame_comes_out(messages in proptest::collection::vec(any::<Vec<u8>>(), 2..20)) {
            let messages: Vec<Bytes> = messages.into_iter().map(Bytes::from).collect();
            prop_assert_eq!(payloads(EDGE, frame(EDGE, &messages)).unwrap(), messages);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), is_sealed in any::<bool>()) {
            let mut message = Vec::from(MAGIC);
            message.extend_from_slice(&[EDGE.number(), FRAME_VERSION]);
            message.extend_from_slice(&bytes);
            if is_sealed && message.len() >= HEADER_BYTES {
                let count = usize::from(u16::from_le_bytes([message[6], message[7]]));
                let lengths = message.get(HEADER_BYTES..HEADER_BYTES + count * LENGTH_BYTES);
                if let Some(checksum) = lengths.map(xxh3_64) {
                    message[8..16].copy_from_slice(&checksum.to_le_bytes());
                }
            }
            let _ = payloads(EDGE, message.into());
        }
    }
}
