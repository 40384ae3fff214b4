//! Documents: which responses are scanned, and what they say beside their links.

use super::{DEFAULT, HTML, LIMITS, PAGE, fetched, found_by, html, paths};
use parser::options::Options;
use parser::page::{Response, links};
use rhumb_markup::media_type::MediaType;
use rhumb_markup::metas::{METAS_BYTES_MAX, METAS_MAX, metas};
use rhumb_usage::is_of_meta;

#[test]
fn a_document_says_its_title_language_and_encoding() {
    let long = format!("<title>{}</title>", "é".repeat(1000));
    let cases: &[(&str, &str, &str)] = &[
        ("<title> A\n &amp;\tB </title><title>C</title>", "A & B", ""),
        (
            "<svg><title>drawing</title></svg><title>page</title>",
            "page",
            "",
        ),
        ("<title><b>x</b></title>", "<b>x</b>", ""),
        ("<title>open", "open", ""),
        ("<title></title><title>second</title>", "", ""),
        (
            "<html lang=de-AT><meta http-equiv=content-language content=fr>",
            "",
            "de-AT",
        ),
        ("<html xml:lang=en_GB>", "", "en-GB"),
        (
            "<meta http-equiv=Content-Language content='fr, en'>",
            "",
            "fr",
        ),
        ("<html lang='not a tag'>", "", ""),
        ("<p>", "", ""),
        (&long, &"é".repeat(128), ""),
    ];
    for (body, title, language) in cases {
        let found = html(body);
        assert_eq!(
            (found.title.as_str(), found.language.as_str()),
            (*title, *language),
            "{body}"
        );
        assert_eq!(found.charset, Some("UTF-8"));
    }
    let headers: [(&str, &[u8]); 2] = [
        ("content-type", b"text/html; charset=koi8-r"),
        ("content-language", b"ru, en"),
    ];
    let found = fetched(200, &headers, b"<title>\xF0\xD2\xC9</title>");
    assert_eq!(
        (found.title.as_str(), found.language.as_str(), found.charset),
        ("При", "ru", Some("KOI8-R"))
    );
    assert_eq!(
        fetched(200, &[("content-type", b"image/png")], b"\x89PNG").charset,
        None
    );
}

#[test]
fn anchors_are_the_text_of_links_and_what_stands_around_them() {
    let body = "<title>no</title><p>See <a href=/a>the\n <b>b</b>old&amp;<img alt=' image'></a>, \
                or<script>no</script><p><a href=/b></a><ul><li>again <a href=/b>bee</a><li><a \
                href=/c>open<area href=/d><a href=/a>no more</a>";
    let found = found_by(
        &Options {
            anchors: true,
            ..DEFAULT
        },
        &[HTML],
        body,
    );
    let texts: Vec<&str> = found
        .anchors
        .iter()
        .map(|anchor| anchor.text.as_str())
        .collect();
    assert_eq!(paths(&found), ["a /a", "a /b", "a /c", "area /d"]);
    assert_eq!(texts, ["the bold& image", "bee", "open", ""]);
    assert_eq!(
        found.anchors[0].context,
        "See the bold& image, or again bee open no more"
    );
    let none = found_by(&DEFAULT, &[HTML], body);
    assert_eq!(
        (none.urls, none.anchors.len()),
        (found.urls, 0),
        "the same links without them"
    );

    let long = format!("<p>{0} <a href=/a>{0}</a> {0}", "wörd ".repeat(100));
    let found = found_by(
        &Options {
            anchors: true,
            ..DEFAULT
        },
        &[HTML],
        &long,
    );
    let anchor = &found.anchors[0];
    assert!(
        (120..=128).contains(&anchor.text.len()) && (240..=256).contains(&anchor.context.len()),
        "{anchor:?}"
    );
    assert!(anchor.context.contains(&anchor.text));
}

#[test]
fn only_html_that_browsers_show_as_the_page_is_scanned() {
    let cases: &[(u16, &str, &str, usize)] = &[
        (200, "text/html", "<a href=/a>", 1),
        (203, "application/xhtml+xml", "<a href=/a>", 1),
        (200, "", "<!DOCTYPE html><a href=/a>", 1),
        (200, "text/plain", "<html><a href=/a>", 1),
        (200, "text/plain", "see <a href=/a>", 0),
        (200, "application/json", "{\"x\": \"<a href=/a>\"}", 0),
        (404, "text/html", "<a href=/a>", 0),
        (500, "text/html", "<a href=/a>", 0),
        (304, "text/html", "<a href=/a>", 0),
        (300, "text/html", "<a href=/a>", 1),
        (204, "text/html", "<a href=/a>", 1),
        (301, "text/html", "<a href=/a>", 1),
        (999, "text/html", "<a href=/a>", 0),
    ];
    for (status, content_type, body, n_links) in cases {
        let found = fetched(
            *status,
            &[("content-type", content_type.as_bytes())],
            body.as_bytes(),
        );
        assert_eq!(found.urls.len(), *n_links, "{status} {content_type} {body}");
        assert!(!found.redirect);
    }
}

#[test]
fn in_xhtml_every_element_may_close_itself() {
    let document =
        b"<html><head><script src='a.js'/><title/></head><body><a href='/x'>x</a></body></html>";
    for (content_type, expected) in [("application/xhtml+xml", 1), ("text/html", 0)] {
        let headers: [(&str, &[u8]); 1] = [("content-type", content_type.as_bytes())];
        let response = Response {
            url: PAGE,
            status: 200,
            headers: &headers,
            body: document,
        };
        assert_eq!(
            links(&response, &LIMITS, "rhumb").urls.len(),
            expected,
            "{content_type}"
        );
    }
}

/// Method: the scan for links and the scan for metas alone read the same documents.
#[test]
fn the_scan_for_links_finds_the_metas_that_a_scan_for_them_finds() {
    let far = format!(
        "{}<meta name=robots content=far>",
        " ".repeat(METAS_BYTES_MAX)
    );
    let many = "<meta name=rhumb content=x>".repeat(METAS_MAX + 1);
    for (body, found) in [
        ("<meta name=robots content=noai><a href=/b>", 1),
        (
            "<META CONTENT='noai' NAME=' TDM-Reservation '/><meta name=viewport>",
            1,
        ),
        ("<meta http-equiv=refresh name=robots content=noai>", 1),
        ("<meta name=robots><meta content=noai>", 1),
        ("<svg><meta name=robots content=noai>", 1),
        (
            "<svg><title><meta name=rhumb content=noindex></title></svg>",
            1,
        ),
        ("<template><meta name=robots content=none></template>", 1),
        (
            "<!-- <meta name=robots content=noai> --><script><meta name=robots></script>",
            0,
        ),
        (
            "<iframe srcdoc='<meta name=robots content=noai>'></iframe>",
            0,
        ),
        (
            "<meta name=robots content='caf\u{e9}'><meta name=robots content=noai",
            1,
        ),
        (&far, 0),
        (&many, METAS_MAX),
    ] {
        let said = MediaType::of([HTML.1].into_iter());
        let metas = metas(said, body.as_bytes(), |name| is_of_meta(name, "rhumb"));
        assert_eq!(html(body).metas, metas, "{body}");
        assert_eq!(metas.len(), found, "{body}");
    }
}
