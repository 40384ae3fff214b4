//! Goal: whatever a body and its codings, decoding ends, gives no more bytes than it may, and gives
//! the same bytes for a larger limit, only more of them (P9). What breaks beyond the smaller limit
//! may be text that was never encoded: with the larger one it comes out as it is; or the block in
//! which it breaks is lost.
//!
//! Input: a byte that says which codings, one for the limit, then the body; with the highest bit
//! set the body is packed first, so that there is something to be unpacked.

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use rhumb_warc::content_coding::{Completeness, decode};
use std::io::Write as _;

const CODINGS: [&str; 8] = [
    "gzip",
    "deflate",
    "br",
    "zstd",
    "gzip, gzip",
    "br, gzip",
    "identity",
    "gzip,gzip,gzip,gzip,gzip",
];

/// Takes one input.
pub fn run(data: &[u8]) {
    let [how, limit, body @ ..] = data else {
        return;
    };
    let codings = CODINGS[usize::from(how % 8)];
    let limit = usize::from(*limit) * 64;
    let packed = match how {
        0x80..=0xBF => gzip(body),
        0xC0..=0xFF => zlib(body),
        _ => body.to_vec(),
    };
    let decoded = |limit| decode([codings.as_bytes()].into_iter(), &packed, limit);
    let small = decoded(limit);
    let large = decoded(1 << 20);
    assert!(small.body.len() <= limit && large.body.len() <= 1 << 20);
    // With several codings an inner limit may break what is outside of it.
    let is_as_it_was = *large.body == *packed;
    if !codings.contains(',') && !is_as_it_was {
        let lost_a_block =
            large.completeness == Completeness::Broken && small.body.starts_with(&large.body);
        assert!(
            large.body.starts_with(&small.body) || lost_a_block,
            "{codings}"
        );
        assert!(
            small.completeness != Completeness::Complete || small.body == large.body,
            "{codings}"
        );
    }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(plain)
        .expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(plain)
        .expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}
