//! A WARC record, compressed by itself (a member), so that each can be read without the others.
//!
//! In: a type, fields and a block. Out: bytes appended to a buffer. Sources: WARC 1.1 (ISO
//! 28500:2017, annex A for gzip members); the IIPC's "Zstandard compression for WARC files" 1.0.

use crate::compressor::Compressor;
use data_encoding::BASE32;
use rhumb_config::WarcFormat;
use sha1::{Digest as _, Sha1};
use std::ops::Range;

/// SHA-1 of some bytes, as WARC fields have it: `sha1:` and base 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Digest(pub(crate) [u8; 20]);

impl Digest {
    /// Returns the digest of parts that follow each other.
    pub(crate) fn of(parts: &[&[u8]]) -> Digest {
        let mut hash = Sha1::new();
        for part in parts {
            hash.update(part);
        }
        Digest(hash.finalize().into())
    }

    /// Reads what [`Digest::text`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Digest> {
        let bytes = BASE32.decode(text.strip_prefix("sha1:")?.as_bytes()).ok()?;
        Some(Digest(bytes.try_into().ok()?))
    }

    pub(crate) fn text(self) -> String {
        format!("sha1:{}", BASE32.encode(&self.0))
    }
}

/// A record's identity: the same for the same record, should it be made again.
pub(crate) fn record_id(kind: &str, url: &str, date: &str) -> String {
    let hash = xxhash_rust::xxh3::xxh3_128(format!("{kind} {url} {date}").as_bytes());
    // Version 8 of UUIDs: what it is made of is our own affair (RFC 9562, section 5.8).
    let hash = hash & !(0xf << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    let hex = format!("{hash:032x}");
    format!(
        "<urn:uuid:{}-{}-{}-{}-{}>",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// A record about to be written.
pub(crate) struct Record<'a> {
    /// `WARC-Type`.
    pub(crate) kind: &'static str,
    /// `WARC-Record-ID`.
    pub(crate) id: &'a str,
    /// `WARC-Date`.
    pub(crate) date: &'a str,
    /// Further named fields.
    pub(crate) fields: &'a [(&'static str, &'a str)],
    /// `Content-Type` of the block.
    pub(crate) content_type: &'static str,
    /// The digest of the payload, of which the second part of the block is all or nothing.
    pub(crate) payload: Option<Digest>,
    /// The block's parts: the second is what is large.
    pub(crate) block: [&'a [u8]; 2],
    /// The block is compressed already.
    pub(crate) is_coded: bool,
}

/// Makes members.
pub(crate) struct Writer {
    text: Compressor,
    coded: Compressor,
    /// The record as it is before compression.
    plain: Vec<u8>,
}

impl Writer {
    /// Compresses so hard, from 0 (not at all) to 12; what is compressed already is only wrapped.
    pub(crate) fn new(format: WarcFormat, compression: u8) -> Writer {
        let compressor = |level| Compressor::new(format, level);
        Writer {
            text: compressor(compression),
            coded: compressor(0),
            plain: Vec::new(),
        }
    }

    /// Appends a record; returns where in `out` it lies.
    pub(crate) fn write(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> Range<usize> {
        self.plain.clear();
        let [head, body] = record.block;
        let mut field = |name: &str, value: &str| {
            for part in [name, ": ", value, "\r\n"] {
                self.plain.extend_from_slice(part.as_bytes());
            }
        };
        field("WARC/1.1\r\nWARC-Type", record.kind);
        field("WARC-Record-ID", record.id);
        field("WARC-Date", record.date);
        for (name, value) in record.fields {
            field(name, value);
        }
        if let Some(payload) = record.payload {
            field("WARC-Payload-Digest", &payload.text());
        }
        // A body is hashed once: one that has a digest as a payload needs none as part of a block.
        if record.payload.is_none() || body.is_empty() {
            field("WARC-Block-Digest", &Digest::of(&record.block).text());
        }
        field("Content-Type", record.content_type);
        field("Content-Length", &(head.len() + body.len()).to_string());
        for part in [b"\r\n", head, body, b"\r\n\r\n"] {
            self.plain.extend_from_slice(part);
        }
        let compressor = if record.is_coded {
            &mut self.coded
        } else {
            &mut self.text
        };
        let start = out.len();
        compressor.compress(&self.plain, out);
        start..out.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compressor::tests::plain;

    #[test]
    fn a_record_is_a_member_of_its_own_with_the_digest_of_its_block() {
        for format in WarcFormat::ALL {
            a_record_is_a_member(format);
        }
    }

    fn a_record_is_a_member(format: WarcFormat) {
        let mut writer = Writer::new(format, 1);
        let mut out = b"before".to_vec();
        let id = record_id("metadata", "http://a.test/", "d");
        for is_coded in [false, true] {
            let record = Record {
                kind: "metadata",
                id: &id,
                date: "2026-01-31T12:00:00.123Z",
                fields: &[("WARC-Target-URI", "http://a.test/")],
                content_type: "application/warc-fields",
                payload: None,
                block: [b"via: x\r\n", b""],
                is_coded,
            };
            let place = writer.write(&record, &mut out);
            let text = String::from_utf8(plain(format, &out[place])).unwrap();
            // printf 'via: x\r\n' | openssl sha1 -binary | base32
            let expected = format!(
                "WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Record-ID: {id}\r\nWARC-Date: \
                 2026-01-31T12:00:00.123Z\r\n\
                 WARC-Target-URI: http://a.test/\r\nWARC-Block-Digest: {}\r\n\
                 Content-Type: application/warc-fields\r\nContent-Length: 8\r\n\r\nvia: \
                 x\r\n\r\n\r\n",
                Digest::of(&[b"via: x\r\n"]).text()
            );
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_body_is_hashed_as_a_payload_or_as_part_of_a_block() {
        let head = b"HTTP/1.1 200 OK\r\n\r\n".as_slice();
        let body = b"body".as_slice();
        let payload = Digest::of(&[body]);
        for (payload, block, expected) in [
            (
                None,
                [head, body],
                vec![format!(
                    "WARC-Block-Digest: {}",
                    Digest::of(&[head, body]).text()
                )],
            ),
            (
                Some(payload),
                [head, body],
                vec![format!("WARC-Payload-Digest: {}", payload.text())],
            ),
            (
                Some(payload),
                [head, &[]],
                vec![
                    format!("WARC-Payload-Digest: {}", payload.text()),
                    format!("WARC-Block-Digest: {}", Digest::of(&[head]).text()),
                ],
            ),
        ] {
            let kind = "response";
            let id = "i";
            let date = "d";
            let content_type = "application/http";
            let record = Record {
                kind,
                id,
                date,
                fields: &[],
                content_type,
                payload,
                block,
                is_coded: false,
            };
            let mut out = Vec::new();
            Writer::new(WarcFormat::Gzip, 1).write(&record, &mut out);
            let text = String::from_utf8(plain(WarcFormat::Gzip, &out)).unwrap();
            let digests: Vec<&str> = text
                .lines()
                .filter(|line| line.contains("-Digest: "))
                .collect();
            assert_eq!(digests, expected);
        }
    }

    #[test]
    fn digests_and_ids_are_spelled_as_the_standard_says() {
        // The example of RFC 3174.
        let digest = Digest::of(&[b"a", b"bc"]);
        assert_eq!(digest.text(), "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5");
        assert_eq!(Digest::parse(&digest.text()), Some(digest));
        assert_eq!(Digest::parse("md5:x"), None);
        let id = record_id("response", "http://a.test/", "2026");
        assert_eq!((id.len(), &id[..10], &id[24..25]), (47, "<urn:uuid:", "8"));
        assert_ne!(id, record_id("request", "http://a.test/", "2026"));
    }
}
