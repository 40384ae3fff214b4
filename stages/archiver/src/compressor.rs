//! A compressor of records: each becomes a member that can be read without the others.
//!
//! In: a record. Out: a gzip member or a Zstandard frame, with a checksum, appended to a buffer.
//! Both by the whole record at once, which costs less than a stream.

use libdeflater::CompressionLvl;
use rhumb_config::WarcFormat;
use zstd::zstd_safe::{self, CCtx, CParameter};

/// What zstd takes for "hardly at all": it only looks whether a block is one byte over and over.
const ZSTD_FASTEST: i32 = -(1 << 17);

/// Compresses in one of the formats.
pub(crate) enum Compressor {
    /// Gzip members.
    Gzip(libdeflater::Compressor),
    /// Zstandard frames.
    Zstd(CCtx<'static>),
}

impl Compressor {
    /// Compresses so hard, from 0 (not at all) to 12.
    pub(crate) fn new(format: WarcFormat, level: u8) -> Compressor {
        match format {
            WarcFormat::Gzip => Compressor::Gzip(libdeflater::Compressor::new(
                CompressionLvl::new(level.into()).unwrap_or_default(),
            )),
            WarcFormat::Zstd => {
                let mut context = CCtx::create();
                let level = if level == 0 {
                    ZSTD_FASTEST
                } else {
                    level.into()
                };
                for parameter in [
                    CParameter::CompressionLevel(level),
                    CParameter::ChecksumFlag(true),
                ] {
                    context
                        .set_parameter(parameter)
                        .expect("zstd takes every level within its bounds, and a checksum");
                }
                Compressor::Zstd(context)
            }
        }
    }

    /// Appends a member that holds `plain`.
    pub(crate) fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let bound = match self {
            Compressor::Gzip(compressor) => compressor.gzip_compress_bound(plain.len()),
            Compressor::Zstd(_) => zstd_safe::compress_bound(plain.len()),
        };
        out.resize(start + bound, 0);
        let to = &mut out[start..];
        let bytes = match self {
            Compressor::Gzip(compressor) => compressor.gzip_compress(plain, to).ok(),
            Compressor::Zstd(context) => context.compress2(to, plain).ok(),
        };
        out.truncate(
            start
                + bytes.expect("a buffer of the size that the compressor asks for is large enough"),
        );
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Read as _;

    /// What the members hold.
    pub(crate) fn plain(format: WarcFormat, members: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        let read = match format {
            WarcFormat::Gzip => flate2::read::MultiGzDecoder::new(members).read_to_end(&mut plain),
            WarcFormat::Zstd => zstd::Decoder::with_buffer(members)
                .unwrap()
                .read_to_end(&mut plain),
        };
        read.unwrap();
        plain
    }

    #[test]
    fn each_format_gives_back_what_went_in_at_every_level_and_says_when_it_is_damaged() {
        let text = "a text that comes again and again; ".repeat(200);
        for format in WarcFormat::ALL {
            for level in 0..=12 {
                let mut compressor = Compressor::new(format, level);
                let mut out = Vec::new();
                compressor.compress(b"", &mut out);
                compressor.compress(text.as_bytes(), &mut out);
                assert_eq!(
                    plain(format, &out),
                    text.as_bytes(),
                    "{format:?} at {level}"
                );
                assert_eq!(
                    out.len() < text.len() / 4,
                    level > 0,
                    "{format:?} at {level}: {} bytes",
                    out.len()
                );
            }
        }
        let mut out = Vec::new();
        Compressor::new(WarcFormat::Zstd, 0).compress(text.as_bytes(), &mut out);
        let middle = out.len() / 2;
        out[middle] ^= 1;
        assert!(zstd::stream::decode_all(&out[..]).is_err(), "the checksum");
    }
}
