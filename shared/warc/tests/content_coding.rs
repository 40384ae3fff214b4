//! Content codings: whole, in a row, cut off, corrupt, mislabelled, and far larger than they look.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use rhumb_warc::content_coding::{Completeness, Decoded, decode};

const BYTES_MAX: usize = 1 << 20;

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(plain)
        .expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(plain)
        .expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

fn raw_deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(plain)
        .expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

fn brotli(plain: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    brotli::CompressorWriter::new(&mut encoded, 4096, 5, 22)
        .write_all(plain)
        .expect("writing to memory succeeds");
    encoded
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    zstd::encode_all(plain, 3).expect("writing to memory succeeds")
}

/// Text that compresses about as well as pages do.
fn text(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let words = [
        &b"<p>link "[..],
        b"<a href=/",
        b"some ",
        b"text ",
        b"</a>",
        b"1",
        b"2",
        b"\n",
    ];
    let mut text = Vec::new();
    while text.len() < bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(words[(state >> 29) as usize]);
    }
    text.truncate(bytes);
    text
}

fn decoded<'a>(coding: &str, body: &'a [u8]) -> Decoded<'a> {
    decode([coding.as_bytes()].into_iter(), body, BYTES_MAX)
}

fn every_coding(plain: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("gzip", gzip(plain)),
        ("X-GZip", gzip(plain)),
        ("deflate", zlib(plain)),
        ("deflate", raw_deflate(plain)),
        ("br", brotli(plain)),
        ("zstd", zstd(plain)),
    ]
}

#[test]
fn every_coding_is_undone() {
    for bytes in [1, 100, 17_000, 300_000, BYTES_MAX] {
        let plain = text(bytes);
        for (coding, body) in every_coding(&plain) {
            let decoded = decoded(coding, &body);
            assert_eq!(
                decoded.completeness,
                Completeness::Complete,
                "{coding} {bytes}"
            );
            assert!(*decoded.body == plain, "{coding} {bytes}");
        }
    }
}

#[test]
fn codings_in_a_row_are_undone_last_first() {
    let plain = text(10_000);
    let body = zstd(&brotli(&gzip(&plain)));
    assert!(*decoded("gzip, br,zstd", &body).body == plain);
    let headers: [&[u8]; 3] = [b"gzip", b"identity, br", b"zstd"];
    assert!(*decode(headers.into_iter(), &body, BYTES_MAX).body == plain);
}

#[test]
fn a_row_of_too_many_codings_is_not_started() {
    let body = gzip(b"x");
    let decoded = decoded("gzip, gzip, gzip, gzip, gzip", &body);
    assert_eq!(
        (&*decoded.body, decoded.completeness),
        (&b""[..], Completeness::Broken)
    );
}

#[test]
fn a_body_without_coding_is_borrowed_and_limited() {
    for coding in ["", "identity", "none", "utf-8"] {
        let decoded = decoded(coding, b"<p>");
        assert!(
            matches!(decoded.body, std::borrow::Cow::Borrowed(b"<p>")),
            "{coding}"
        );
        assert_eq!(decoded.completeness, Completeness::Complete);
    }
    let decoded = decode(std::iter::empty(), b"abcdef", 3);
    assert_eq!(
        (&*decoded.body, decoded.completeness),
        (&b"abc"[..], Completeness::Cut)
    );
}

#[test]
fn a_cut_stream_yields_what_came_before_the_cut() {
    // zstd decodes whole blocks of up to 128 KiB of plain text.
    let plain = text(800_000);
    for (coding, body) in every_coding(&plain) {
        for part in [body.len() / 4, body.len() / 2, body.len() - 9] {
            let decoded = decoded(coding, &body[..part]);
            assert_eq!(
                decoded.completeness,
                Completeness::Broken,
                "{coding} {part}"
            );
            assert!(plain.starts_with(&decoded.body), "{coding} {part}");
            assert!(
                decoded.body.len() >= plain.len() / 8,
                "{coding} {part} gives {}",
                decoded.body.len()
            );
        }
    }
}

#[test]
fn a_gzip_stream_without_its_trailer_is_whole() {
    let body = gzip(&text(1000));
    for missing in 1..=8 {
        let decoded = decoded("gzip", &body[..body.len() - missing]);
        assert_eq!(
            (decoded.body.len(), decoded.completeness),
            (1000, Completeness::Complete)
        );
    }
}

#[test]
fn a_corrupt_stream_yields_what_came_before_the_damage() {
    let plain = text(800_000);
    for (coding, mut body) in every_coding(&plain) {
        let middle = body.len() / 2;
        body[middle..].fill(0xFF);
        let decoded = decoded(coding, &body);
        // Raw deflate has no checksum: damage may look like an end.
        assert!(
            decoded.completeness != Completeness::Complete || coding == "deflate",
            "{coding}"
        );
        let common = decoded
            .body
            .iter()
            .zip(&plain)
            .take_while(|(a, b)| a == b)
            .count();
        assert!(common >= plain.len() / 8, "{coding} gives {common}");
    }
}

#[test]
fn members_in_a_row_are_one_body_and_garbage_behind_them_is_ignored() {
    for (coding, first, second) in [
        ("gzip", gzip(b"<p>one "), gzip(b"two")),
        ("zstd", zstd(b"<p>one "), zstd(b"two")),
    ] {
        let body = [&first[..], &second, b"\0\0garbage"].concat();
        let decoded = decoded(coding, &body);
        assert_eq!(
            (&*decoded.body, decoded.completeness),
            (&b"<p>one two"[..], Completeness::Complete),
            "{coding}"
        );
    }
}

#[test]
fn a_frame_of_zstd_that_is_damaged_behind_a_whole_one_breaks_the_body_and_leaves_the_first() {
    let first = zstd(b"<p>one ");
    let mut second = zstd(&text(1000));
    let middle = second.len() / 2;
    second[middle..].fill(0xFF);
    let body = [first, second].concat();
    let decoded = decoded("zstd", &body);
    assert_eq!(
        (&*decoded.body, decoded.completeness),
        (&b"<p>one "[..], Completeness::Broken)
    );
}

#[test]
fn a_wrong_checksum_of_zstd_loses_nothing_but_its_word() {
    let plain = text(10_000);
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    std::io::Write::write_all(&mut encoder, &plain).unwrap();
    let mut body = encoder.finish().unwrap();
    assert_eq!(decoded("zstd", &body).completeness, Completeness::Complete);
    *body.last_mut().unwrap() ^= 1;
    let decoded = decoded("zstd", &body);
    assert!(*decoded.body == plain && decoded.completeness == Completeness::Broken);
}

#[test]
fn endless_empty_members_are_given_up() {
    let body = gzip(b"").repeat(100_000);
    let decoded = decoded("gzip", &body);
    assert_eq!(
        (decoded.body.len(), decoded.completeness),
        (0, Completeness::Broken)
    );
}

#[test]
fn gzip_headers_with_every_optional_field_are_skipped() {
    let plain = gzip(b"<p>");
    let mut body = vec![0x1F, 0x8B, 8, 2 | 4 | 8 | 16, 0, 0, 0, 0, 0, 3];
    body.extend_from_slice(b"\x03\0abcname\0comment\0\xAA\xBB");
    body.extend_from_slice(&plain[10..]);
    assert_eq!(&*decoded("gzip", &body).body, b"<p>");
    for end in 0..body.len() - 8 {
        assert_eq!(
            decoded("gzip", &body[..end]).completeness,
            if end == 0 {
                Completeness::Complete
            } else {
                Completeness::Broken
            }
        );
    }
}

#[test]
fn plain_markup_labelled_as_encoded_comes_out_as_it_is() {
    for coding in ["gzip", "deflate", "br", "zstd", "gzip, br"] {
        let decoded = decoded(coding, b"<!DOCTYPE html><a href=/a>text</a>");
        assert_eq!(
            &*decoded.body, b"<!DOCTYPE html><a href=/a>text</a>",
            "{coding}"
        );
    }
}

#[test]
fn text_labelled_as_encoded_comes_out_as_it_is() {
    let long = format!("{}\u{20ac}{}", "x".repeat(1023), "y".repeat(5000));
    for text in [
        "User-agent: *\nDisallow: /",
        "# caf\u{e9}",
        "Sitemap: /s",
        "c",
        "{\"a\": 1}",
        "\u{feff}title",
        &long,
    ] {
        for coding in [
            "gzip",
            "deflate",
            "br",
            "zstd",
            "gzip, br",
            "gzip, deflate, br, zstd, gzip",
        ] {
            let decoded = decoded(coding, text.as_bytes());
            assert_eq!(
                decoded.completeness,
                Completeness::Complete,
                "{coding} {text}"
            );
            assert!(
                matches!(decoded.body, std::borrow::Cow::Borrowed(body) if body == text.as_bytes()),
                "{coding} {text}"
            );
        }
    }
    for text in [&b"\xFF\xFED\0i\0s\0"[..], b"\xFE\xFF\0D\0i\0s"] {
        for coding in ["gzip", "deflate", "br", "zstd"] {
            assert_eq!(&*decoded(coding, text).body, text, "{coding}: UTF-16");
        }
    }
    // Of an older encoding: what has a signature of its own is told apart.
    for coding in ["gzip", "zstd"] {
        assert_eq!(
            &*decoded(coding, b"# K\xe4fer\n").body,
            b"# K\xe4fer\n",
            "{coding}"
        );
    }
}

#[test]
fn a_body_that_was_encoded_less_often_than_is_said_is_undone_as_often_as_it_was() {
    let plain = text(5000);
    assert!(*decoded("gzip, gzip", &gzip(&plain)).body == plain);
    assert!(*decoded("br, deflate, gzip", &gzip(&plain)).body == plain);
}

#[test]
fn what_is_encoded_is_not_taken_for_text_however_short_it_is() {
    for bytes in 1..300 {
        let plain = text(bytes);
        for (coding, body) in every_coding(&plain) {
            assert!(*decoded(coding, &body).body == plain, "{coding} {bytes}");
        }
    }
}

#[test]
fn a_bomb_stops_at_the_limit_and_is_never_held_whole() {
    // 256 MiB of zeros; what is held is the capacity of the output, which the limit bounds.
    let zeros = vec![0; 1 << 28];
    let bombs = [
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("br", brotli(&zeros)),
        ("zstd", zstd(&zeros)),
    ];
    drop(zeros);
    for (coding, body) in bombs {
        let decoded = decoded(coding, &body);
        assert_eq!(
            (decoded.body.len(), decoded.completeness),
            (BYTES_MAX, Completeness::Cut),
            "{coding}"
        );
        assert!(
            decoded.body.into_owned().capacity() <= BYTES_MAX + 1,
            "{coding}"
        );
    }
}

#[test]
fn a_bomb_inside_a_bomb_is_limited_at_every_step() {
    let body = gzip(&gzip(&vec![0; 1 << 24]));
    let decoded = decode([&b"gzip, gzip"[..]].into_iter(), &body, 4096);
    assert_eq!(
        (decoded.body.len(), decoded.completeness),
        (4096, Completeness::Cut)
    );
}

#[test]
fn windows_larger_than_the_web_allows_are_refused() {
    // A zstd frame that asks for 128 MiB, and a brotli stream with the large-window extension.
    let zstd_frame = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 17 << 3, 0x01, 0x00, 0x00];
    assert_eq!(
        decoded("zstd", &zstd_frame).completeness,
        Completeness::Broken
    );
    assert_eq!(
        decoded("br", &[0x11, 0x1E, 0x03]).completeness,
        Completeness::Broken
    );
}
