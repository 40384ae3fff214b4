//! Bombs: pages that are small as sent and become large when their content coding is undone.
//!
//! A bomb is a page in its coding, then a coded block of zeros, again and again. The block is made
//! once, before anything is served, and fits behind any page. So a bomb costs next to nothing to
//! send, and no other host has to wait for it.
//!
//! The brotli stream is written bit by bit here: a page without compression and a block of zeros
//! need few parts of the format, and a compressor takes longer to build than the rest of this
//! crate.
//!
//! Sources: RFC 1951, section 3.2; RFC 7932, section 9.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};

/// Size of a gzip bomb when it is decoded: 1 GiB, from 1 MiB. A crawler's limit on what is sent
/// would cut off more.
const GZIP_BYTES: usize = 1 << 30;
const GZIP_BLOCK_BYTES: usize = 1 << 20;
/// Size of a brotli bomb when it is decoded: 16 GiB, from less than 100 KiB and the page.
const BROTLI_BYTES: usize = 1 << 34;
const BROTLI_BLOCK_BYTES: usize = 4 << 20;
/// The most plain bytes in a part of a brotli stream that is not compressed.
const BROTLI_STORED_BYTES_MAX: usize = 1 << 16;

/// The parts that bombs are made of.
#[derive(Debug)]
pub(crate) struct Bombs {
    gzip_block: Vec<u8>,
    brotli_block: [u8; BROTLI_BLOCK_CODED_BYTES],
}

impl Bombs {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            gzip_block: gzip_block()?,
            brotli_block: brotli_block(),
        })
    }

    /// The page and 1 GiB of zeros, without an end.
    pub(crate) fn gzip(&self, page: &[u8]) -> io::Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(page)?;
        encoder.flush()?;
        let bomb = encoder.get_ref();
        Ok([
            &bomb[..],
            &self.gzip_block.repeat(GZIP_BYTES / GZIP_BLOCK_BYTES),
        ]
        .concat())
    }

    /// The page and 16 GiB of zeros, without an end.
    pub(crate) fn brotli(&self, page: &[u8]) -> Vec<u8> {
        [
            brotli_beginning(page),
            self.brotli_block.repeat(BROTLI_BYTES / BROTLI_BLOCK_BYTES),
        ]
        .concat()
    }
}

/// A block that refers to nothing before it, and ends with a whole byte.
fn gzip_block() -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; GZIP_BLOCK_BYTES])?;
    encoder.flush()?;
    Ok(encoder.get_ref().clone())
}

/// Six bits that carry nothing: an empty meta-block of metadata. What follows begins with a whole
/// byte.
const BROTLI_ALIGN: u8 = 0b0000_0110;
/// The bytes of a block that becomes zeros.
const BROTLI_BLOCK_CODED_BYTES: usize = 14;

/// A block that copies the zeros before it, leaves the distance of the last copy as it was, and
/// ends with a whole byte.
fn brotli_block() -> [u8; BROTLI_BLOCK_CODED_BYTES] {
    /// The shortest copy of the longest kind. The copy's extra bits say how much longer it is.
    const COPY_BYTES_MIN: usize = 2118;
    // Each field is a value and its bits, in the order of the stream. A prefix code of one symbol
    // takes no bits where it is used.
    let fields: [(usize, u32); 19] = [
        (0, 1),                       // not the last meta-block
        (2, 2),                       // its length has six nibbles
        (BROTLI_BLOCK_BYTES - 1, 24), // its length less one
        (0, 1),                       // it is compressed
        (0, 3),    // literals, commands and distances have one type of block each
        (0, 6),    // distances without postfix bits and direct codes
        (0, 2),    // the context mode of literals
        (0, 2),    // literals and distances have one prefix code each
        (1, 2),    // a simple prefix code of literals
        (0, 2),    // one symbol
        (0, 8),    // a literal that is never used
        (1, 2),    // a simple prefix code of commands
        (0, 2),    // one symbol
        (391, 10), // insert nothing, then make the longest kind of copy
        (1, 2),    // a simple prefix code of distances
        (0, 2),    // one symbol
        (0, 6),    // the last distance again: 4 at first
        (BROTLI_BLOCK_BYTES - COPY_BYTES_MIN, 24),
        (BROTLI_ALIGN as usize, 6),
    ];
    let mut stream = 0_u128;
    let mut at = 0;
    for (value, bits) in fields {
        stream |= (value as u128) << at;
        at += bits;
    }
    std::array::from_fn(|byte| stream.to_le_bytes()[byte])
}

/// The beginning of a stream that can go on: the page without compression, and zeros for the first
/// block to copy.
fn brotli_beginning(page: &[u8]) -> Vec<u8> {
    // The window has 64 KiB: one bit, 0.
    let mut stream = vec![BROTLI_ALIGN << 1];
    for part in [page, &[0; 4]].concat().chunks(BROTLI_STORED_BYTES_MAX) {
        // Not the last meta-block; its length has four nibbles; its length less one; it is not
        // compressed.
        let header = ((part.len() - 1) << 3) | (1 << 19);
        stream.extend_from_slice(&header.to_le_bytes()[..3]);
        stream.extend_from_slice(part);
    }
    stream
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    /// More than a few blocks, so that each fits behind itself.
    const LOOKED_AT: usize = 5 * BROTLI_BLOCK_BYTES;

    #[test]
    fn a_bomb_begins_with_its_page_and_goes_on_with_zeros() {
        let bombs = Bombs::new().unwrap();
        for page in [&b"<a href=/>x</a>"[..], &b"<p>page</p>".repeat(10_000)] {
            let gzip = bombs.gzip(page).unwrap();
            let brotli = bombs.brotli(page);
            assert!(gzip.len() < (1 << 20) + (64 << 10), "{}", gzip.len());
            assert!(brotli.len() < (100 << 10) + page.len(), "{}", brotli.len());
            let streams: [Box<dyn io::Read>; 2] = [
                Box::new(flate2::read::GzDecoder::new(&gzip[..])),
                Box::new(brotli_decompressor::Decompressor::new(&brotli[..], 4_096)),
            ];
            for stream in streams {
                let mut plain = vec![1; LOOKED_AT];
                stream
                    .take(LOOKED_AT as u64)
                    .read_exact(&mut plain)
                    .unwrap();
                assert!(
                    plain.starts_with(page) && plain[page.len()..].iter().all(|byte| *byte == 0)
                );
            }
        }
    }
}
