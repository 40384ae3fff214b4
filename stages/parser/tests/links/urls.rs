//! URLs: what becomes of a reference on a page.

use super::{fetched, html};

#[test]
fn the_first_base_applies_to_the_whole_document() {
    let cases: &[(&str, &[&str])] = &[
        (
            "<a href=a><base href=/b/><a href=c>",
            &["http://h.example/b/a", "http://h.example/b/c"],
        ),
        (
            "<base target=x><base href=/1/><base href=/2/><a href=a>",
            &["http://h.example/1/a"],
        ),
        (
            "<base href=http://o.example/x/y><a href=z><a href='?q'>",
            &["http://o.example/x/z", "http://o.example/x/y?q"],
        ),
        (
            "<base href='/a&#47;b/'><a href=c>",
            &["http://h.example/a/b/c"],
        ),
        (
            "<base href='data:,x'><base href=/2/><a href=a>",
            &["http://h.example/dir/a"],
        ),
        (
            "<base href='http://['><a href=a>",
            &["http://h.example/dir/a"],
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(html(body).urls, *expected, "{body}");
    }
}

#[test]
fn character_references_in_values_are_resolved_by_the_rules_for_attributes() {
    let cases = [
        ("<a href='/?a=1&amp;b=2'>", "http://h.example/?a=1&b=2"),
        ("<a href='/?a=1&b=2'>", "http://h.example/?a=1&b=2"),
        ("<a href='/?a&copy=1'>", "http://h.example/?a&copy=1"),
        ("<a href='/?a&copy;=1'>", "http://h.example/?a%C2%A9=1"),
        ("<a href='&#x2F;a&#98'>", "http://h.example/ab"),
        ("<a href='/a&num;fragment'>", "http://h.example/a"),
        ("<a href='&#32;/a&#10;'>", "http://h.example/a"),
    ];
    for (body, expected) in cases {
        assert_eq!(html(body).urls, [expected], "{body}");
    }
}

#[test]
fn each_url_comes_once_in_document_order() {
    let found = html(
        "<a href=/b#1><a href=/a><a href=/b#2><a href='http://H.example:80/a'><a href='/x/../b'>",
    );
    assert_eq!(found.urls, ["http://h.example/b", "http://h.example/a"]);
}

#[test]
fn hrefs_that_are_no_crawlable_url_are_counted() {
    let long = format!("<a href='/{}'>", "x".repeat(3000));
    let found = html(&format!(
        "<a href='mailto:a@b'><a href='javascript:f()'><a href='http://['>{long}<a href=/a>"
    ));
    assert_eq!(found.urls, ["http://h.example/a"]);
    assert_eq!(found.uncrawlable, 4);
}

#[test]
fn hostile_hrefs_are_counted_and_those_beside_them_are_taken() {
    let hostile: [Vec<u8>; 6] = [
        format!("/{}", "x".repeat(100_000)).into(),
        format!("http://{}/", "x.".repeat(50_000)).into(),
        format!("/?{}", "a=1&".repeat(10_000)).into(),
        b"http://a\0b/".to_vec(),
        b"http://a\xFFb/".to_vec(),
        [b"/".as_slice(), &[0xFF; 100_000]].concat(),
    ];
    let mut body = b"<a href=/first>".to_vec();
    for (n, href) in hostile.iter().enumerate() {
        body.extend(
            [
                b"<a href='",
                href.as_slice(),
                b"'><a href=/",
                n.to_string().as_bytes(),
                b">",
            ]
            .concat(),
        );
    }
    // As browsers read them.
    body.extend(b"<a href='/\xFF'><a href='/\0x'><a href=/last>");
    let found = fetched(200, &[("content-type", b"text/html; charset=utf-8")], &body);
    let paths = [
        "first",
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "%EF%BF%BD",
        "%EF%BF%BDx",
        "last",
    ];
    assert_eq!(
        found.urls,
        paths.map(|path| format!("http://h.example/{path}"))
    );
    assert_eq!(found.uncrawlable, hostile.len() as u32);

    for href in hostile {
        let found = fetched(301, &[("location", &href)], b"");
        assert!(
            !found.redirect
                && found.urls.is_empty()
                && found.literal.is_none()
                && found.uncrawlable == 1
        );
    }
}

#[test]
fn no_more_links_than_allowed_are_taken() {
    let body: String = (0..101)
        .map(|n| format!("<a href='mailto:{n}'><a href=/{n}><a href=/0>"))
        .collect();
    let found = html(&body);
    assert_eq!(found.urls.len(), 100);
    assert!(found.truncated);
    let found = html(&body.replace("href=/100", "href=/99"));
    assert_eq!(found.urls.len(), 100);
    assert!(
        !found.truncated,
        "exactly as many as allowed are all of them"
    );
}

#[test]
fn values_are_read_and_queries_written_in_the_encoding_of_the_document() {
    let utf_16 = |text: &str, swap: bool| -> Vec<u8> {
        let units = "\u{FEFF}"
            .encode_utf16()
            .chain(text.encode_utf16().collect::<Vec<_>>());
        units
            .flat_map(|unit| {
                if swap {
                    unit.to_be_bytes()
                } else {
                    unit.to_le_bytes()
                }
            })
            .collect()
    };
    let cases: &[(&str, Vec<u8>, &str)] = &[
        (
            "text/html; charset=utf-8",
            "<a href='/é?é'>".into(),
            "/%C3%A9?%C3%A9",
        ),
        (
            "text/html; charset=windows-1252",
            b"<a href='/\xE9?\xE9'>".to_vec(),
            "/%C3%A9?%E9",
        ),
        (
            "text/html; charset=iso-8859-1",
            b"<a href='/\x80?&eacute;'>".to_vec(),
            "/%E2%82%AC?%E9",
        ),
        (
            "text/html; charset=Shift_JIS",
            b"<a href='/\x83\x5C?\x83\x5C'>".to_vec(),
            "/%E3%82%BD?%83%5C",
        ),
        (
            "text/html; charset=gbk",
            b"<a href='/\xD6\xD0?\xD6\xD0'>".to_vec(),
            "/%E4%B8%AD?%D6%D0",
        ),
        (
            "text/html; charset=iso-2022-jp",
            b"<a href='/\x1B$B$\"\x1B(B'>".to_vec(),
            "/%E3%81%82",
        ),
        (
            "text/html; charset=windows-1252",
            utf_16("<a href='/é?é'>", false),
            "/%C3%A9?%C3%A9",
        ),
        (
            "text/html",
            utf_16("<a href='/é?é'>", true),
            "/%C3%A9?%C3%A9",
        ),
        ("", utf_16("<html><a href='/é?é'>", false), "/%C3%A9?%C3%A9"),
        (
            "text/html; charset=windows-1252",
            "\u{FEFF}<a href='/é?é'>".into(),
            "/%C3%A9?%C3%A9",
        ),
        (
            "text/html",
            b"<meta charset=koi8-r><a href='/\xC1?\xC1'>".to_vec(),
            "/%D0%B0?%C1",
        ),
        (
            "text/html; charset=utf-8",
            "<meta charset=koi8-r><a href='/é?é'>".into(),
            "/%C3%A9?%C3%A9",
        ),
        ("text/html", "<a href='/é?é'>".into(), "/%C3%A9?%C3%A9"),
        (
            "text/html",
            b"caf\xE9 cr\xE8me <a href='/\xE9?\xE9'>".to_vec(),
            "/%C3%A9?%E9",
        ),
    ];
    for (content_type, body, expected) in cases {
        let found = fetched(200, &[("content-type", content_type.as_bytes())], body);
        let expected = format!("http://h.example{expected}");
        assert_eq!(
            found.urls,
            [expected],
            "{content_type} {:?}",
            String::from_utf8_lossy(body)
        );
    }
}
