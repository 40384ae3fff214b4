//! Redirects: where they lead, and what is read of those that lead nowhere.

use super::fetched;

#[test]
fn the_target_of_a_redirect_is_its_only_link() {
    let cases: &[(&[u8], &[&str])] = &[
        (b"http://o.example/a#f", &["http://o.example/a"]),
        (b" ../b ", &["http://h.example/b"]),
        (b"//o.example", &["http://o.example/"]),
        (b"/caf\xC3\xA9", &["http://h.example/caf%C3%A9"]),
        (b"/caf\xE9?\xE9", &["http://h.example/caf%E9?%E9"]),
        (
            "http://bücher.example/".as_bytes(),
            &["http://xn--bcher-kva.example/"],
        ),
    ];
    for (location, expected) in cases {
        for status in [300, 301, 302, 303, 307, 308] {
            let headers: [(&str, &[u8]); 2] =
                [("content-type", b"text/html"), ("Location", location)];
            let found = fetched(status, &headers, b"<a href=/no>");
            assert_eq!(
                found.urls,
                *expected,
                "{status} {:?}",
                String::from_utf8_lossy(location)
            );
            assert!(found.redirect);
            assert_eq!(found.literal, None);
        }
    }
    // Of two the first counts, unless it is empty.
    let found = fetched(
        302,
        &[("location", b""), ("location", b"/a"), ("location", b"/b")],
        b"",
    );
    assert_eq!(
        (found.urls, found.redirect),
        (vec!["http://h.example/a".to_owned()], true)
    );
}

#[test]
fn the_body_of_a_redirect_that_leads_nowhere_is_read() {
    let body = b"<title>Moved</title><a href=/moved>here</a>";
    let html: (&str, &[u8]) = ("content-type", b"text/html");
    for status in [300, 301, 302, 303, 305, 307, 308, 399] {
        for location in [
            &b""[..],
            b" ",
            b"mailto:a@h.example",
            b"http://[",
            b"http://u@h.example/",
        ] {
            let found = fetched(status, &[html, ("location", location)], body);
            assert_eq!(
                found.urls,
                ["http://h.example/moved"],
                "{status} {}",
                String::from_utf8_lossy(location)
            );
            assert!(!found.redirect && found.literal.is_none() && found.title == "Moved");
        }
        let found = fetched(
            status,
            &[
                html,
                ("link", b"</next>; rel=next"),
                ("x-robots-tag", b"nofollow"),
            ],
            body,
        );
        assert!(found.urls.is_empty() && found.nofollow, "{status}");
    }
    let found = fetched(300, &[("link", b"</a>; rel=alternate")], b"");
    assert_eq!(found.urls, ["http://h.example/a"], "choices in the head");
}

#[test]
fn a_redirect_to_another_spelling_of_the_same_url_is_given_literally() {
    let cases: &[(&str, Option<&str>)] = &[
        (
            "http://h.example/dir/p%61ge",
            Some("http://h.example/dir/p%61ge"),
        ),
        (
            "http://h.example./dir/page",
            Some("http://h.example./dir/page"),
        ),
        ("page?#f", Some("http://h.example/dir/page?")),
        ("http://h.example/dir/page", None),
        ("#f", None),
        ("http://H.example:80/x/../dir/page", None),
    ];
    for (location, literal) in cases {
        let found = fetched(301, &[("location", location.as_bytes())], b"");
        assert_eq!(found.literal.as_deref(), *literal, "{location}");
        assert!(found.redirect && found.urls.is_empty(), "{location}");
    }
}
