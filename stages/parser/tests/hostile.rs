//! Whatever a server sends: no panic, an end, limits kept, the same answer twice (P9).

use parser::options::Options;
use parser::page::{Limits, Response, links, links_by};
use proptest::prelude::*;
use rhumb_config::Nofollow;

const LIMITS: Limits = Limits {
    decoded_bytes_max: 64 << 10,
    sitemap_bytes_max: 64 << 10,
    links_per_page_max: 7,
    links_per_sitemap_max: 7,
    url_bytes_max: 200,
};

/// Everything that there is to be taken.
const ALL: Options = Options {
    embedded: true,
    forms: true,
    amphtml: true,
    anchors: true,
    sketch: true,
    is_named_sitemap: false,
    news: None,
    nofollow: Nofollow::Ignore,
};

/// Pieces of everything the parser looks at.
const PIECES: [&[u8]; 72] = [
    b"<a href=",
    b"<area href='",
    b"<link rel=next href=\"",
    b"<link rel=canonical href=",
    b"<iframe src=",
    b"<base href=",
    b"<meta http-equiv=refresh content='",
    b"5;url=",
    b"<meta name=robots content=nofollow>",
    b"<meta charset=",
    b"shift_jis",
    b"utf-16le",
    b"iso-2022-jp",
    b"gb18030",
    b"<!--",
    b"-->",
    b"<script>",
    b"</script>",
    b"<noscript>",
    b"<svg>",
    b"<math>",
    b"<![CDATA[",
    b"]]>",
    b"<template>",
    b"</",
    b"<",
    b">",
    b"'",
    b"\"",
    b"=",
    b" ",
    b"/",
    b"&",
    b"&amp;",
    b"&#x",
    b"&#55296;",
    b"#",
    b"http://",
    b"//[",
    b"\0",
    b"\xFF\xFE",
    b"\xEF\xBB\xBF",
    b"\x1B$B",
    b"<?xml encoding=",
    b"<style>",
    b"</style>",
    b" style=",
    b"<iframe srcdoc='",
    b"@import ",
    b"@charset \"",
    b"url(",
    b"image-set(",
    b"/*",
    b"*/",
    b"\\",
    b"{",
    b"}",
    b")",
    b"<feed xml:base='",
    b"<urlset>",
    b"<rss>",
    b"<loc>",
    b"</loc>",
    b"<guid>",
    b"<entry xml:base=\"x/",
    b"</entry>",
    b"<foreignObject>",
    b"<font color=x>",
    b" xlink:href=",
    b"<?",
    b"?>",
    b"<!DOCTYPE x [",
];

/// Some of them, to be put together in any order.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0..PIECES.len()).prop_map(|piece| PIECES[piece].to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(piece(), 0..120).prop_map(|pieces| pieces.concat()),
        proptest::collection::vec(any::<u8>(), 0..600),
    ]
}

fn check(response: &Response<'_>) {
    for options in [Options::default(), ALL] {
        let found = links_by(response, &LIMITS, &options, "rhumb");
        assert!(found.urls.len() <= LIMITS.links_per_page_max);
        for (number, url) in found.urls.iter().enumerate() {
            assert!(
                url.starts_with("http") && url.len() <= LIMITS.url_bytes_max && url.is_ascii(),
                "{url}"
            );
            assert!(!found.urls[..number].contains(url), "{url} comes twice");
        }
        assert_eq!(found, links_by(response, &LIMITS, &options, "rhumb"));
    }
}

proptest! {
    #[test]
    fn any_body_with_any_coding_and_type_has_links_within_the_limits(
        body in body(),
        content_type in prop_oneof![Just(&b"text/html"[..]), Just(&b"text/html; charset=gb18030"[..]),
            Just(&b"text/html; charset=utf-16"[..]), Just(&b"text/css"[..]), Just(&b"application/manifest+json"[..]),
            Just(&b"application/xhtml+xml"[..]), Just(&b"text/plain, text/html;charset=\"gbk"[..]), Just(&b""[..])],
        coding in prop_oneof![6 => Just(&b""[..]), 1 => Just(&b"gzip"[..]), 1 => Just(&b"deflate"[..]), 1 => Just(&b"br"[..]),
            1 => Just(&b"zstd"[..])],
    ) {
        let headers = [("content-type", content_type), ("content-encoding", coding)];
        check(&Response { url: "http://h.example/dir/page", status: 200, headers: &headers, body: &body });
    }

    #[test]
    fn any_headers_are_survived(
        status in prop_oneof![Just(200_u16), Just(302), any::<u16>()],
        values in proptest::collection::vec(body(), 4),
    ) {
        let names = ["location", "content-type", "content-encoding", "x-robots-tag"];
        let headers: Vec<(&str, &[u8])> = names.into_iter().zip(values.iter().map(Vec::as_slice)).collect();
        check(&Response { url: "http://h.example/", status, headers: &headers, body: b"<html><a href=/a>" });
    }
}

#[test]
fn large_hostile_documents_end_soon() {
    // Method: four megabytes of what makes naive parsers quadratic; the test runner's patience is
    // the limit.
    let limits = Limits {
        decoded_bytes_max: 4 << 20,
        sitemap_bytes_max: 4 << 20,
        links_per_page_max: 5000,
        links_per_sitemap_max: 5000,
        url_bytes_max: 2048,
    };
    let halves = |first: &str, second: &str| {
        first.repeat((2 << 20) / first.len()) + &second.repeat((2 << 20) / second.len())
    };
    let documents = [
        repeated("<div>"),
        repeated("<a href=/same>"),
        repeated("<a"),
        repeated("<"),
        repeated("&"),
        repeated("<!--"),
        repeated("<script><!--<script>"),
        repeated("<noscript>"),
        repeated("<svg>"),
        repeated("<meta charset"),
        repeated("charset"),
        halves("<b>", "</i>"),
        halves("<x-y>", "</b></x-y>"),
        format!("<a href='{}", "x".repeat(4 << 20)),
        format!("<a href='{}'>", "&amp".repeat(1 << 20)),
        format!("<a {}>", "a ".repeat(2 << 20)),
        format!("<a href='/{}'>", "../".repeat(1 << 20)),
        (0..400_000).map(|n| format!("<a href={n}>")).collect(),
        format!("<base href='/{}/'>", "x".repeat(2 << 20)) + &"<a href=y>".repeat(200_000),
        format!("<feed xml:base='/{}/'>", "x".repeat(2 << 20))
            + &"<link href='y'/>".repeat(130_000),
    ];
    let base = "x".repeat(4_000);
    let in_vain = [
        format!("<urlset xml:base='/{base}/'>") + &"<loc>a</loc>".repeat(200_000),
        format!("<base href='/{base}/'>")
            + &(0..200_000)
                .map(|n| format!("<a href={n}>"))
                .collect::<String>(),
    ];
    for document in in_vain {
        let headers: &[(&str, &[u8])] = &[("content-type", b"text/html")];
        let found = links(
            &Response {
                url: "http://h.example/",
                status: 200,
                headers,
                body: document.as_bytes(),
            },
            &limits,
            "rhumb",
        );
        assert!(
            found.urls.is_empty() && found.truncated,
            "links that are too long are not read for ever"
        );
        assert_eq!(found.uncrawlable, 4 * 5000 + 1);
    }
    for document in documents {
        let response = Response {
            url: "http://h.example/",
            status: 200,
            headers: &[("content-type", b"text/html")],
            body: document.as_bytes(),
        };
        assert!(links(&response, &limits, "rhumb").urls.len() <= 5000);
    }
}

#[test]
fn large_hostile_documents_of_xml_end_soon() {
    // Method: as above, as XHTML and as what they look like.
    let limits = Limits {
        decoded_bytes_max: 4 << 20,
        sitemap_bytes_max: 4 << 20,
        links_per_page_max: 5000,
        links_per_sitemap_max: 5000,
        url_bytes_max: 2048,
    };
    let with = |start: &str, piece: &str| start.to_owned() + &repeated(piece);
    let documents = [
        repeated("<?x>"),
        repeated("<!DOCTYPE x '"),
        repeated("<!DOCTYPE x ["),
        repeated("<!DOCTYPE x [<!-- "),
        repeated("<!--x"),
        with("<!DOCTYPE x [", "<!a '>"),
        with("<feed>", "<a xml:base='b/'>"),
        with("<feed>", "<a xml:base='b/'><link href='c'/></a>"),
        with(
            &format!("<feed xml:base='/{}/'>", "b".repeat(2000)),
            "<a xml:base='c'/><link href='c'/>",
        ),
        with("<feed>", "<link href='c' "),
        with("<urlset>", "<loc>a<b>"),
        with("<urlset><loc>", "<br/>a"),
        with("<urlset><loc>", "&a"),
        with("<urlset><loc>", "&#38"),
        with("<urlset><loc>&", "a"),
        with("<urlset><loc>", "<![CDATA["),
        with("", "<x:a href='b'/>"),
        (0..200_000)
            .map(|n| format!("<x{n}:a href='b'/>"))
            .collect(),
        with("<svg>", "<font a=b c=d>"),
        with(&("<svg>".to_owned() + &"<g>".repeat(100)), "</x>"),
        with("<svg><desc>", "<b><p></b>"),
    ];
    for document in documents {
        for content_type in [&b""[..], b"text/html", b"application/xhtml+xml"] {
            let headers: &[(&str, &[u8])] = &[("content-type", content_type)];
            let response = Response {
                url: "http://h.example/",
                status: 200,
                headers,
                body: document.as_bytes(),
            };
            assert!(links_by(&response, &limits, &ALL, "rhumb").urls.len() <= 5000);
        }
    }
}

fn repeated(piece: &str) -> String {
    piece.repeat((4 << 20) / piece.len())
}

/// Style sheets that would make a naive reader slow, or have it call itself too often.
fn hostile_style_sheets() -> Vec<String> {
    vec![
        repeated("{"),
        repeated("a{b:("),
        repeated("}"),
        repeated("[(url("),
        repeated("url(\""),
        repeated("url( "),
        repeated("url(a "),
        repeated("@import "),
        repeated("@import url("),
        repeated("@import 'a';"),
        repeated("@media ("),
        repeated("image-set("),
        repeated("image-set('a' "),
        repeated("/*"),
        repeated("/**/"),
        repeated("\\"),
        repeated("\\a "),
        repeated("'\n"),
        repeated("1e9"),
        repeated("a{b:url(c)}"),
        (0..400_000).map(|n| format!("a{{b:url({n})}}")).collect(),
        format!("a{{b:url({}", "x".repeat(4 << 20)),
        format!("a{{b:url({})}}", "\\66 ".repeat(1 << 20)),
        format!("a{{b:url(data:,{})}}", "x".repeat(10 << 20)),
        repeated("a{b:url(data:,x)}"),
    ]
}

#[test]
fn large_hostile_style_sheets_end_soon() {
    // Method: as above, each once as a style sheet, once in a page, and once in an attribute of
    // one.
    let limits = Limits {
        decoded_bytes_max: 16 << 20,
        sitemap_bytes_max: 16 << 20,
        links_per_page_max: 5000,
        links_per_sitemap_max: 5000,
        url_bytes_max: 2048,
    };
    let found = |content_type: &str, body: &str| {
        let headers: &[(&str, &[u8])] = &[("content-type", content_type.as_bytes())];
        let response = Response {
            url: "http://h.example/",
            status: 200,
            headers,
            body: body.as_bytes(),
        };
        let found = links_by(&response, &limits, &ALL, "rhumb");
        assert!(found.urls.len() <= 5000);
        found
    };
    for sheet in hostile_style_sheets() {
        found("text/css", &sheet);
        found("text/html", &format!("<style>{sheet}</style>"));
        found(
            "text/html",
            &format!("<p style=\"{}\">", sheet.replace('"', "&quot;")),
        );
    }
    let data = found("text/css", &(repeated("a{b:url(data:,x)}") + "c{d:url(e)}"));
    assert_eq!(
        (data.urls.len(), data.truncated),
        (1, false),
        "what is in the sheet itself is no link"
    );
    let repeats = found("text/css", &(repeated("a{b:url(c)}") + "d{e:url(f)}"));
    assert_eq!((repeats.urls.len(), repeats.truncated), (2, false));
    let pages = [
        repeated("<p style='a:url(b)'>"),
        (0..150_000)
            .map(|n| format!("<p style='a:url({n})'>"))
            .collect(),
        repeated("<style>a{b:url(c)}</style>"),
        repeated("<svg><style>"),
        repeated("<svg><style><![CDATA[("),
        repeated("<iframe srcdoc='<a href=b>'></iframe>"),
        (0..150_000)
            .map(|n| format!("<iframe srcdoc='<a href={n}>'></iframe>"))
            .collect(),
        format!(
            "<iframe srcdoc=\"{}\">",
            "<iframe srcdoc='&lt;iframe srcdoc=x>'></iframe>".repeat(100_000)
        ),
        format!("<iframe srcdoc={}", "&amp;".repeat(1 << 20)),
    ];
    for page in pages {
        found("text/html", &page);
    }
    found("application/manifest+json", &repeated("{\"icons\":["));
}
