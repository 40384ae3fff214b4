//! Nofollow: links that are not to be followed, and pages that say so of all of theirs.

use super::{DEFAULT, HTML, fetched, found_by, html, paths};
use parser::options::Options;
use rhumb_config::Nofollow;

#[test]
fn nofollow_means_what_the_operator_says() {
    let body = "<a rel=nofollow href=/1><a href=/2><meta name=robots content=nofollow><link \
                rel=canonical href=/3>";
    assert_eq!(paths(&found_by(&DEFAULT, &[HTML], body)), ["canonical /3"]);
    let ignoring = found_by(
        &Options {
            nofollow: Nofollow::Ignore,
            ..DEFAULT
        },
        &[HTML],
        body,
    );
    assert_eq!(paths(&ignoring), ["a /1", "a /2", "canonical /3"]);
    assert!(ignoring.nofollow, "that it was said is told");
    let header: (&str, &[u8]) = ("x-robots-tag", b"nofollow");
    let link: (&str, &[u8]) = ("link", b"</4>; rel=next, </5>; rel=canonical");
    assert_eq!(
        paths(&found_by(&DEFAULT, &[HTML, header, link], "<a href=/6>")),
        ["canonical /5"]
    );
    let meta = "<a href=/6><meta name=robots content=nofollow>";
    assert_eq!(
        paths(&found_by(&DEFAULT, &[HTML, link], meta)),
        ["canonical /5"],
        "of what was read before, too"
    );
}

#[test]
fn nofollow_links_are_left_out() {
    let found = html(
        "<a rel=nofollow href=/1><a rel='x UGC' href=/2><area rel=sponsored href=/3><a \
         rel=nofollower href=/4><a rel='noopener noreferrer' href=/5>",
    );
    assert_eq!(found.urls, ["http://h.example/4", "http://h.example/5"]);
    assert!(!found.nofollow, "that is about single links");
}

#[test]
fn a_page_that_says_nofollow_has_only_links_about_itself() {
    // Method: every way to say it, and ways that only look like it, over the same document.
    const BODY: &str = "<a href=/a><iframe src=/b></iframe><link rel=next href=/c><link \
                        rel=canonical href=/d><meta http-equiv=refresh content='0;url=/e'>";
    let cases: &[(&str, &str, bool)] = &[
        ("<meta name=robots content=nofollow>", "", true),
        (
            "<META NAME=' Robots ' CONTENT='noindex, NoFollow'>",
            "",
            true,
        ),
        ("<meta name=robots content='noindex nofollow'>", "", true),
        ("<meta content=none name=robots>", "", true),
        ("<meta name=RHUMB content=nofollow>", "", true),
        ("<meta name=robots content=noindex>", "", false),
        (
            "<meta name=robots content='index, follow, max-snippet:-1'>",
            "",
            false,
        ),
        ("<meta name=googlebot content=nofollow>", "", false),
        ("<meta name=description content=nofollow>", "", false),
        ("", "nofollow", true),
        ("", "noindex, none", true),
        ("", "rhumb: nofollow", true),
        ("", "otherbot: noindex, Rhumb: nofollow", true),
        (
            "",
            "unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow",
            true,
        ),
        (
            "",
            "unavailable_after: Friday, 25-Jun-10 15:00:00 EST, nofollow",
            true,
        ),
        ("", "noindex", false),
        ("", "googlebot: nofollow", false),
        ("", "googlebot: noindex, nofollow", false),
        ("", "max-snippet: none", false),
    ];
    for (meta, header, expected) in cases {
        let body = format!("{BODY}{meta}");
        let headers: [(&str, &[u8]); 3] = [
            ("content-type", b"text/html"),
            ("x-robots-tag", b"noarchive"),
            ("X-Robots-Tag", header.as_bytes()),
        ];
        let found = fetched(200, &headers, body.as_bytes());
        assert_eq!(found.nofollow, *expected, "{meta} {header}");
        let paths: Vec<&str> = found
            .urls
            .iter()
            .map(|url| &url["http://h.example/".len()..])
            .collect();
        let expected = if *expected {
            vec!["d", "e"]
        } else {
            vec!["a", "b", "c", "d", "e"]
        };
        assert_eq!(paths, expected, "{meta} {header}");
    }
}
