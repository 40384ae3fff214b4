//! Bombs: pages that are small as sent and become large when their content coding is undone.
//!
//! A bomb is a page in its coding, then a coded block of zeros, again and again. The block is made
//! once, before anything is served, and fits behind any page: so a bomb costs next to nothing to
//! send, and no other host has to wait for it.
//!
//! Sources: RFC 1951, section 3.2; RFC 7932, section 9.

use std::io::{self, Write as _};

use brotli::CompressorWriter;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};

/// What a gzip bomb becomes: 1 GiB, from 1 MiB. More would be cut off by a crawler's bound on what is sent.
const GZIP_BYTES: usize = 1 << 30;
const GZIP_BLOCK_BYTES: usize = 1 << 20;
/// What a brotli bomb becomes: 16 GiB, from less than 1 MiB.
const BROTLI_BYTES: usize = 1 << 34;
const BROTLI_BLOCK_BYTES: usize = 4 << 20;
const BROTLI_BUFFER_BYTES: usize = 64 << 10;
const BROTLI_QUALITY: u32 = 5;
/// The window as a power of two: a small one is made sooner.
const BROTLI_WINDOW: u32 = 18;

/// What bombs are made of.
#[derive(Debug)]
pub(crate) struct Bombs {
    gzip_block: Vec<u8>,
    brotli_block: Vec<u8>,
}

impl Bombs {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { gzip_block: gzip_block()?, brotli_block: brotli_block()? })
    }

    /// The page and 1 GiB of zeros, without an end.
    pub(crate) fn gzip(&self, page: &[u8]) -> io::Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(page)?;
        encoder.flush()?;
        let bomb = encoder.get_ref();
        Ok([&bomb[..], &self.gzip_block.repeat(GZIP_BYTES / GZIP_BLOCK_BYTES)].concat())
    }

    /// The page and 16 GiB of zeros, without an end.
    pub(crate) fn brotli(&self, page: &[u8]) -> io::Result<Vec<u8>> {
        let bomb = brotli_beginning(&[page, &[0; BROTLI_BUFFER_BYTES]])?;
        Ok([&bomb[..], &self.brotli_block.repeat(BROTLI_BYTES / BROTLI_BLOCK_BYTES)].concat())
    }
}

/// Refers to nothing before itself, and ends with a whole byte.
fn gzip_block() -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; GZIP_BLOCK_BYTES])?;
    encoder.flush()?;
    Ok(encoder.get_ref().clone())
}

/// Fits behind zeros: it goes on as they do, and leaves all as it found it.
fn brotli_block() -> io::Result<Vec<u8>> {
    let zeros = vec![0; BROTLI_BLOCK_BYTES];
    let one = brotli_beginning(&[&zeros])?;
    let two = brotli_beginning(&[&zeros, &zeros])?;
    Ok(two[one.len()..].to_vec())
}

/// A stream that could go on, up to the end of the last part.
fn brotli_beginning(parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut encoder = CompressorWriter::new(Vec::new(), BROTLI_BUFFER_BYTES, BROTLI_QUALITY, BROTLI_WINDOW);
    for part in parts {
        encoder.write_all(part)?;
        encoder.flush()?;
    }
    Ok(encoder.get_ref().clone())
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
        for page in [&b"<a href=/>x</a>"[..], &b"<p>page</p>".repeat(5_000)] {
            let (gzip, brotli) = (bombs.gzip(page).unwrap(), bombs.brotli(page).unwrap());
            assert!(gzip.len() < (1 << 20) + (64 << 10), "{}", gzip.len());
            assert!(brotli.len() < 1 << 20, "{}", brotli.len());
            let streams: [Box<dyn io::Read>; 2] = [
                Box::new(flate2::read::GzDecoder::new(&gzip[..])),
                Box::new(brotli::Decompressor::new(&brotli[..], 4_096)),
            ];
            for stream in streams {
                let mut plain = vec![1; LOOKED_AT];
                stream.take(LOOKED_AT as u64).read_exact(&mut plain).unwrap();
                assert!(plain.starts_with(page) && plain[page.len()..].iter().all(|byte| *byte == 0));
            }
        }
    }
}
