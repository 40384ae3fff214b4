//! Coding: pages packed for clients that can unpack them (RFC 9110, section 8.4).

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The largest part of a page that a brotli stream refers back to, as a power of two.
const BROTLI_WINDOW: u32 = 20;
/// Bytes that the brotli encoder writes at a time.
const BROTLI_BUFFER: usize = 32 << 10;

/// How a host packs its pages. It packs them each time they are asked for, so the fastest level has
/// to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Brotli,
}

impl Coding {
    /// As in `Content-Encoding`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
        }
    }

    /// Returns whether a client that sent this `Accept-Encoding` can unpack it.
    pub(crate) fn is_among(self, accepted: &str) -> bool {
        accepted.split(',').any(|coding| {
            coding
                .split(';')
                .next()
                .is_some_and(|name| name.trim() == self.name())
        })
    }

    /// Packs the parts of a page, one behind the other.
    pub(crate) fn pack(self, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
                parts.iter().try_for_each(|part| packer.write_all(part))?;
                packer.finish()
            }
            Self::Brotli => {
                let mut packer =
                    brotli::CompressorWriter::new(Vec::new(), BROTLI_BUFFER, 1, BROTLI_WINDOW);
                parts.iter().try_for_each(|part| packer.write_all(part))?;
                packer.flush()?;
                Ok(packer.into_inner())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_packed_page_is_unpacked_to_what_it_was() {
        let parts = [&b"<p>one</p>"[..], &b"<p>two</p>".repeat(20_000)];
        let page = parts.concat();
        let mut gunzipped = Vec::new();
        let mut unbrotlied = Vec::new();
        let packed = Coding::Gzip.pack(&parts).unwrap();
        flate2::read::GzDecoder::new(&packed[..])
            .read_to_end(&mut gunzipped)
            .unwrap();
        let packed = Coding::Brotli.pack(&parts).unwrap();
        brotli_decompressor::Decompressor::new(&packed[..], 4096)
            .read_to_end(&mut unbrotlied)
            .unwrap();
        assert!(gunzipped == page && unbrotlied == page);
    }

    #[test]
    fn a_coding_is_accepted_by_its_name() {
        assert!(Coding::Brotli.is_among("gzip, deflate, br;q=0.5, zstd"));
        assert!(!Coding::Brotli.is_among("gzip, brotli"));
        assert!(!Coding::Gzip.is_among(""));
    }
}
