//! From responses to links: a case for each source of links and each way to leave some out.

use parser::options::Options;
use parser::page::{Limits, Links, Response, links, links_by};
use parser::source::Source;
use rhumb_config::Nofollow;

const LIMITS: Limits = Limits {
    decoded_bytes_max: 1 << 20,
    sitemap_bytes_max: 1 << 20,
    links_per_page_max: 100,
    links_per_sitemap_max: 100,
    url_bytes_max: 2048,
};
const PAGE: &str = "http://h.example/dir/page";

fn fetched(status: u16, headers: &[(&str, &[u8])], body: &[u8]) -> Links {
    links(
        &Response {
            url: PAGE,
            status,
            headers,
            body,
        },
        &LIMITS,
        "rhumb",
    )
}

fn html(body: &str) -> Links {
    fetched(
        200,
        &[("content-type", b"text/html; charset=utf-8")],
        body.as_bytes(),
    )
}

const HTML: (&str, &[u8]) = ("content-type", b"text/html; charset=utf-8");
const DEFAULT: Options = Options {
    embedded: false,
    forms: false,
    amphtml: false,
    anchors: false,
    sketch: false,
    is_named_sitemap: false,
    nofollow: Nofollow::Obey,
};

fn found_by(options: &Options, headers: &[(&str, &[u8])], body: &str) -> Links {
    let response = Response {
        url: PAGE,
        status: 200,
        headers,
        body: body.as_bytes(),
    };
    let found = links_by(&response, &LIMITS, options, "rhumb");
    assert_eq!(found.urls.len(), found.sources.len());
    found
}

/// What was found, as `SOURCE PATH`.
fn paths(found: &Links) -> Vec<String> {
    let path = |(source, url): (&Source, &String)| {
        format!(
            "{} {}",
            source.name(),
            url.strip_prefix("http://h.example").unwrap_or(url)
        )
    };
    found.sources.iter().zip(&found.urls).map(path).collect()
}

#[test]
fn what_a_page_embeds_is_taken_when_wanted() {
    let cases: &[(&str, &[&str])] = &[
        ("<img src=/a>", &["image /a"]),
        (
            "<img src=/a srcset='/b 1x, /c 2x, /d'>",
            &["image /a", "srcset /b", "srcset /c", "srcset /d"],
        ),
        (
            "<picture><source srcset='/a 2x' media=x><img src=/b></picture>",
            &["srcset /a", "image /b"],
        ),
        ("<script src=/a>'<img src=/no>'</script>", &["script /a"]),
        (
            "<video src=/a poster=/b><source src=/c><track src=/d></video>",
            &["media /a", "media /b", "media /c", "media /d"],
        ),
        ("<audio src=/a>", &["media /a"]),
        ("<embed src=/a><object data=/b>", &["image /a", "image /b"]),
        (
            "<link rel='shortcut icon' href=/a><link rel='alternate stylesheet' href=/b>",
            &["link /a", "link /b"],
        ),
        (
            "<link rel=preload href=/a><link rel=manifest href=/b>",
            &["link /a", "link /b"],
        ),
        (
            "<link rel=preconnect href=/a><link rel=dns-prefetch href=/b>",
            &[],
        ),
        ("<img src='data:image/png;base64,x'>", &[]),
    ];
    for (body, expected) in cases {
        assert_eq!(
            paths(&found_by(
                &Options {
                    embedded: true,
                    ..DEFAULT
                },
                &[HTML],
                body
            )),
            *expected,
            "{body}"
        );
        assert_eq!(paths(&found_by(&DEFAULT, &[HTML], body)), [""; 0], "{body}");
    }
}

#[test]
fn forms_and_amp_pages_are_taken_when_wanted() {
    let cases: &[(&str, &[&str])] = &[
        ("<form action=/a>", &["form /a"]),
        ("<form action=/a method=GET>", &["form /a"]),
        ("<form action=/a method=nonsense>", &["form /a"]),
        ("<form action=/a method=Post>", &[]),
        ("<form action=/a method=dialog>", &[]),
        ("<form action=''><form>", &[]),
        ("<form action=/a rel=nofollow>", &[]),
        ("<link rel=amphtml href=/a>", &["link /a"]),
    ];
    for (body, expected) in cases {
        let options = Options {
            forms: true,
            amphtml: true,
            ..DEFAULT
        };
        assert_eq!(
            paths(&found_by(&options, &[HTML], body)),
            *expected,
            "{body}"
        );
        assert_eq!(paths(&found_by(&DEFAULT, &[HTML], body)), [""; 0], "{body}");
    }
}

#[test]
fn headers_have_links_too_whatever_the_body() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "Link",
            "</a>; rel=next, <b>; rel=\"prev\"",
            &["link-header /a", "link-header /dir/b"],
        ),
        ("link", "</a>; rel=canonical", &["canonical /a"]),
        ("link", "</a>; rel=stylesheet, </b>; rel=amphtml, </c>", &[]),
        ("link", "</a>; rel=next; anchor=\"/other\"", &[]),
        (
            "link",
            "</a>; rel=\"next prefetch\", </b>; rel=prefetch",
            &["link-header /a"],
        ),
        ("Refresh", "3; url=/a", &["refresh-header /a"]),
        ("refresh", "3", &[]),
        ("Content-Location", "/a", &["content-location /a"]),
        (
            "content-location",
            "/caf\u{E9}",
            &["content-location /caf%C3%A9"],
        ),
        ("Location", "/a", &["location /a"]),
        ("content-location", "mailto:a@b", &[]),
    ];
    for (name, value, expected) in cases {
        let pdf: (&str, &[u8]) = ("content-type", b"application/pdf");
        assert_eq!(
            paths(&found_by(
                &DEFAULT,
                &[pdf, (name, value.as_bytes())],
                "%PDF"
            )),
            *expected,
            "{name}: {value}"
        );
    }
    let both = found_by(
        &DEFAULT,
        &[HTML, ("link", b"</a>; rel=next")],
        "<base href=/x/><a href=b><a href=/a>",
    );
    assert_eq!(paths(&both), ["link-header /a", "a /x/b"]);
}

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
fn every_source_of_links_is_read_and_nothing_else() {
    let cases: &[(&str, &[&str])] = &[
        ("<a href=/a>x</a>", &["http://h.example/a"]),
        ("<A HREF='b'>", &["http://h.example/dir/b"]),
        (
            "<a\nclass=x\nhref\n=\n\" ../c \"\n>",
            &["http://h.example/c"],
        ),
        ("<a href=//o.example/d>", &["http://o.example/d"]),
        ("<a href=?q>", &["http://h.example/dir/page?q"]),
        ("<a href='/a\n\tb'>", &["http://h.example/ab"]),
        ("<a href=/1 href=/2>", &["http://h.example/1"]),
        ("<a href>", &["http://h.example/dir/page"]),
        ("<a name=/a>", &[]),
        ("<a data-href=/a>", &[]),
        ("<area href=/a>", &["http://h.example/a"]),
        (
            "<iframe src=/a><a href=/inside></iframe>",
            &["http://h.example/a"],
        ),
        (
            "<frameset><frame src=/a><frame src=/b></frameset>",
            &["http://h.example/a", "http://h.example/b"],
        ),
        ("<link rel=canonical href=/a>", &["http://h.example/a"]),
        (
            "<link rel='NEXT' href=/a><link rel=prev href=/b>",
            &["http://h.example/a", "http://h.example/b"],
        ),
        ("<link rel='x alternate' href=/a>", &["http://h.example/a"]),
        ("<link rel='alternate stylesheet' href=/a>", &[]),
        (
            "<link rel='shortcut icon' href=/a><link rel=preconnect href=/b><link href=/c>",
            &[],
        ),
        (
            "<meta http-equiv=Refresh content=\"5; URL='/a?x=1&amp;y=2'\">",
            &["http://h.example/a?x=1&y=2"],
        ),
        (
            "<meta http-equiv=refresh content=5><meta name=refresh content='0;url=/a'>",
            &[],
        ),
        (
            "<img src=/a><script src=/b></script><embed src=/c><object data=/d></object><form \
             action=/e>",
            &[],
        ),
        (
            "<!-- <a href=/a> --><script>'<a href=/b>'</script><style><a href=/c></style>",
            &[],
        ),
        (
            "<textarea><a href=/a></textarea><title><a href=/b></title><xmp><a href=/c></xmp>",
            &[],
        ),
        (
            "<script><!-- <script> </script> <a href=/no> --></script><a href=/a>",
            &["http://h.example/a"],
        ),
        (
            "<noscript><a href=/a></noscript><NoScript><iframe src=/b>",
            &["http://h.example/a", "http://h.example/b"],
        ),
        ("<template><a href=/a></template>", &["http://h.example/a"]),
        (
            "<svg><title><a href=/a></a></title></svg>",
            &["http://h.example/a"],
        ),
        (
            "<div a='<a href=/no>'><a href=/a title='>'>",
            &["http://h.example/a"],
        ),
        (
            "<table><a href=/a><b><p></table></i></b><a href=/b",
            &["http://h.example/a"],
        ),
        ("<plaintext><a href=/a>", &[]),
    ];
    for (body, expected) in cases {
        assert_eq!(html(body).urls, *expected, "{body}");
    }
}

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
