//! Content codings: undoes gzip, deflate, br and zstd, singly or in a row.
//!
//! In: the values of `Content-Encoding` and the body as the server sent it, perhaps cut off.
//! Out: the plain body, and whether it is complete.
//!
//! Invariants: the output never exceeds its limit, whatever the body promises; a broken or cut
//! stream yields every byte that could be decoded before the break, never an error that loses the
//! page; a body without codings is borrowed, not copied, and so is one that is text already,
//! whatever its server calls it. Sources: RFC 9110, section 8.4; RFC 1950, 1951, 1952; RFC 7932;
//! RFC 8878; MIME Sniffing, section 3 (binary data bytes).

use std::borrow::Cow;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation as _};

/// Most codings undone in a row; no honest page has more.
const CODINGS_MAX: usize = 4;

/// Largest window a zstd stream may ask for, as a power of two: 8 MiB, what RFC 9659 allows on the
/// web.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// From so many bytes a zstd decoder can tell how many more it wants.
const ZSTD_FRAME_START_BYTES: usize = 5;

/// Most gzip members in a row: a body of nothing but empty members would cost far more time than
/// its size allows.
const GZIP_MEMBERS_MAX: usize = 1024;

/// So many bytes tell whether a body is text; packed ones are found out within the first few.
const TEXT_BYTES: usize = 1024;

/// CRC-32 and length of a gzip member's plain bytes, four bytes each.
const GZIP_TRAILER_BYTES: usize = 8;

/// How much of a body was decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Completeness {
    /// Everything was decoded.
    #[default]
    Complete,
    /// The output reached its limit; the rest was not decoded.
    Cut,
    /// The stream ended early, is corrupt, or has more than four codings; what came before is
    /// there.
    Broken,
}

/// A body without its content codings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The plain bytes; borrowed when the body had no coding.
    pub body: Cow<'a, [u8]>,
    /// The worst among the codings undone.
    pub completeness: Completeness,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Undoes the codings of a body, the last one applied first.
///
/// `values` are the values of all `Content-Encoding` headers in order. Names that are no coding we
/// know count as identity, as browsers do. At most `bytes_max` bytes come out, after every coding.
/// A body that is text was never encoded, or not as often as is said, and comes out as it is; so
/// does one that may be text, or starts like markup, and yields nothing.
pub fn decode<'a, 'h>(
    values: impl Iterator<Item = &'h [u8]>,
    body: &'a [u8],
    bytes_max: usize,
) -> Decoded<'a> {
    let codings: Vec<Coding> = values
        .flat_map(|value| value.split(|&byte| byte == b','))
        .filter_map(coding)
        .take(CODINGS_MAX + 1)
        .collect();
    if codings.len() > CODINGS_MAX && !is_text(body) {
        return Decoded {
            body: Cow::Borrowed(&[]),
            completeness: Completeness::Broken,
        };
    }
    if codings.is_empty() {
        let completeness = if body.len() > bytes_max {
            Completeness::Cut
        } else {
            Completeness::Complete
        };
        return Decoded {
            body: Cow::Borrowed(&body[..body.len().min(bytes_max)]),
            completeness,
        };
    }
    let mut decoded = Decoded {
        body: Cow::Borrowed(body),
        completeness: Completeness::Complete,
    };
    for coding in codings.iter().rev() {
        if is_text(&decoded.body) {
            break;
        }
        let (plain, completeness) = undo(*coding, &decoded.body, bytes_max);
        let is_broken = completeness == Completeness::Broken;
        let is_markup = || plain.is_empty() && looks_like_markup(&decoded.body);
        if is_broken && (!has_binary_data(&decoded.body) || is_markup()) {
            continue;
        }
        decoded = Decoded {
            body: Cow::Owned(plain),
            completeness: completeness.max(decoded.completeness),
        };
    }
    if decoded.body.len() > bytes_max {
        let kept = decoded.body[..bytes_max].to_vec();
        decoded = Decoded {
            body: Cow::Owned(kept),
            completeness: Completeness::Cut.max(decoded.completeness),
        };
    }
    decoded
}

fn coding(name: &[u8]) -> Option<Coding> {
    let name = name.trim_ascii();
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    if is("gzip") || is("x-gzip") {
        Some(Coding::Gzip)
    } else if is("deflate") {
        Some(Coding::Deflate)
    } else if is("br") {
        Some(Coding::Brotli)
    } else if is("zstd") {
        Some(Coding::Zstd)
    } else {
        None
    }
}

/// Returns whether a body begins as text: no coding's output begins as UTF-8 for long, or with a
/// mark of UTF-16.
fn is_text(body: &[u8]) -> bool {
    if body.starts_with(b"\xFF\xFE") || body.starts_with(b"\xFE\xFF") {
        return true;
    }
    let start = &body[..body.len().min(TEXT_BYTES)];
    let is_utf8 = match std::str::from_utf8(start) {
        Ok(_) => true,
        // The last character goes on behind the start.
        Err(error) => error.error_len().is_none() && body.len() > start.len(),
    };
    is_utf8 && !has_binary_data(start)
}

/// Returns whether there are bytes at the start that no text has, in whatever encoding of ASCII's
/// kind.
fn has_binary_data(body: &[u8]) -> bool {
    let start = &body[..body.len().min(TEXT_BYTES)];
    start
        .iter()
        .any(|byte| matches!(byte, 0x00..=0x08 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F))
}

/// Returns whether a body may be plain HTML: some servers announce a coding and send that.
fn looks_like_markup(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    body.trim_ascii_start().first() == Some(&b'<')
}

fn undo(coding: Coding, body: &[u8], bytes_max: usize) -> (Vec<u8>, Completeness) {
    if body.is_empty() {
        return (Vec::new(), Completeness::Complete);
    }
    let mut output = Output::new(body.len(), bytes_max);
    let completeness = match coding {
        Coding::Gzip => gunzip(body, &mut output),
        Coding::Deflate => undeflate(body, &mut output),
        Coding::Brotli => unbrotli(body, &mut output),
        Coding::Zstd => unzstd(body, &mut output),
    };
    output.finish(completeness)
}

/// A growing buffer with a limit. It has room for one byte more than the limit, to tell a full page
/// from a cut one.
struct Output {
    bytes: Vec<u8>,
    filled: usize,
    bytes_max: usize,
}

impl Output {
    fn new(encoded_bytes: usize, bytes_max: usize) -> Self {
        let guess = encoded_bytes.saturating_mul(5).max(4096);
        let bytes = vec![0; guess.min(bytes_max.saturating_add(1))];
        Output {
            bytes,
            filled: 0,
            bytes_max,
        }
    }

    /// Where the next bytes go; empty once the limit is passed.
    fn room(&mut self) -> &mut [u8] {
        if self.filled == self.bytes.len() {
            let bytes = self
                .bytes
                .len()
                .saturating_mul(2)
                .min(self.bytes_max.saturating_add(1));
            self.bytes.reserve_exact(bytes - self.bytes.len());
            self.bytes.resize(bytes, 0);
        }
        &mut self.bytes[self.filled..]
    }

    fn finish(mut self, completeness: Completeness) -> (Vec<u8>, Completeness) {
        let cut = self.filled > self.bytes_max;
        self.bytes.truncate(self.filled.min(self.bytes_max));
        (
            self.bytes,
            if cut { Completeness::Cut } else { completeness },
        )
    }
}

/// Decodes one or more gzip members. A missing trailer loses nothing, and bytes behind the last
/// member are ignored: browsers show pages with either.
fn gunzip(mut body: &[u8], output: &mut Output) -> Completeness {
    for n_members in 0..GZIP_MEMBERS_MAX {
        let Some(start) = gzip_header_bytes(body) else {
            return if n_members > 0 {
                Completeness::Complete
            } else {
                Completeness::Broken
            };
        };
        let member_start = output.filled;
        let (completeness, used) = inflate(&body[start..], false, output);
        if completeness != Completeness::Complete {
            return completeness;
        }
        let Some((trailer, rest)) = body[start + used..].split_first_chunk::<GZIP_TRAILER_BYTES>()
        else {
            return Completeness::Complete;
        };
        let mut crc = Crc::new();
        crc.update(&output.bytes[member_start..output.filled]);
        if !trailer.starts_with(&crc.sum().to_le_bytes()) {
            return Completeness::Broken;
        }
        body = rest;
    }
    Completeness::Broken
}

/// Length of the member header; none when it is missing or incomplete (RFC 1952, section 2.3).
fn gzip_header_bytes(body: &[u8]) -> Option<usize> {
    const HAS_CRC: u8 = 2;
    const HAS_EXTRA: u8 = 4;
    const HAS_NAME: u8 = 8;
    const HAS_COMMENT: u8 = 16;
    if !body.starts_with(&[0x1F, 0x8B, 8]) {
        return None;
    }
    let flags = *body.get(3)?;
    let mut at = 10;
    if flags & HAS_EXTRA != 0 {
        at += 2 + usize::from(u16::from_le_bytes([*body.get(at)?, *body.get(at + 1)?]));
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            at += memchr::memchr(0, body.get(at..)?)? + 1;
        }
    }
    if flags & HAS_CRC != 0 {
        at += 2;
    }
    (at <= body.len()).then_some(at)
}

/// Undoes "deflate": zlib by the standard, raw deflate by habit. The two header bytes tell which.
fn undeflate(body: &[u8], output: &mut Output) -> Completeness {
    let has_zlib_header = body.len() >= 2
        && body[0] & 0x0F == 8
        && u16::from_be_bytes([body[0], body[1]]).is_multiple_of(31);
    let (completeness, _) = inflate(body, has_zlib_header, output);
    if has_zlib_header && completeness == Completeness::Broken && output.filled == 0 {
        return inflate(body, false, output).0;
    }
    completeness
}

/// Decodes one deflate stream. Returns also how many bytes of `body` it took.
fn inflate(body: &[u8], zlib_header: bool, output: &mut Output) -> (Completeness, usize) {
    let mut stream = Decompress::new(zlib_header);
    let mut used = 0;
    loop {
        let room = output.room();
        if room.is_empty() {
            return (Completeness::Cut, used);
        }
        let produced_before = stream.total_out();
        let status = stream.decompress(&body[used..], room, FlushDecompress::None);
        // Both counts are right after an error too: what precedes the break is kept.
        let produced = (stream.total_out() - produced_before) as usize;
        let used_before = std::mem::replace(&mut used, stream.total_in() as usize);
        output.filled += produced;
        match status {
            Ok(Status::StreamEnd) => return (Completeness::Complete, used),
            Ok(_) if produced > 0 || used > used_before => {}
            Ok(_) | Err(_) => return (Completeness::Broken, used),
        }
    }
}

fn unbrotli(body: &[u8], output: &mut Output) -> Completeness {
    // Strict: the large-window extension, with windows of a gigabyte, is not part of RFC 7932.
    let heap = StandardAlloc::default;
    let mut state = BrotliState::new_strict(heap(), heap(), heap());
    let mut available = body.len();
    let mut used = 0;
    let mut total = 0;
    loop {
        let room = output.room();
        if room.is_empty() {
            return Completeness::Cut;
        }
        let mut room_bytes = room.len();
        let mut produced = 0;
        let result = BrotliDecompressStream(
            &mut available,
            &mut used,
            body,
            &mut room_bytes,
            &mut produced,
            room,
            &mut total,
            &mut state,
        );
        output.filled += produced;
        match result {
            BrotliResult::ResultSuccess => return Completeness::Complete,
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                return Completeness::Broken;
            }
        }
    }
}

/// Decodes one or more zstd frames. Bytes behind a whole frame that do not begin another one are
/// ignored.
///
/// The decoder is given a block at a time, as it asks: what it has decoded in a call that ends with
/// an error is lost.
fn unzstd(body: &[u8], output: &mut Output) -> Completeness {
    let Ok(mut stream) = ZstdDecoder::new() else {
        return Completeness::Broken;
    };
    if stream
        .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
        .is_err()
    {
        return Completeness::Broken;
    }
    let mut used = 0;
    let mut wanted = 0;
    loop {
        // Between two frames it wants nothing.
        if wanted == 0 {
            if used > 0 && !begins_zstd_frame(&body[used..]) {
                return Completeness::Complete;
            }
            wanted = ZSTD_FRAME_START_BYTES;
        }
        let room = output.room();
        if room.is_empty() {
            return Completeness::Cut;
        }
        let given = &body[used..body.len().min(used.saturating_add(wanted))];
        let Ok(status) = stream.run_on_buffers(given, room) else {
            return Completeness::Broken;
        };
        used += status.bytes_read;
        output.filled += status.bytes_written;
        if status.remaining > 0 && status.bytes_read == 0 && status.bytes_written == 0 {
            return Completeness::Broken;
        }
        wanted = status.remaining;
    }
}

/// Returns whether a zstd frame begins here, or one that decoders skip (RFC 8878, section 3.1).
fn begins_zstd_frame(rest: &[u8]) -> bool {
    matches!(
        rest,
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..]
    )
}
