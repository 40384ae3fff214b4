//! What browsers load: a case for each way in which a page, a style sheet or a manifest makes a
//! browser load something, and for each that looks like one.

use parser::css::{Kind, urls};
use parser::options::Options;
use parser::page::{Limits, Links, Response, links_by};
use parser::source::Source;
use proptest::prelude::*;
use rhumb_config::Nofollow;

const LIMITS: Limits = Limits {
    decoded_bytes_max: 16 << 20,
    sitemap_bytes_max: 16 << 20,
    links_per_page_max: 100,
    links_per_sitemap_max: 100,
    url_bytes_max: 2048,
};
const DEFAULT: Options = Options {
    embedded: false,
    forms: false,
    amphtml: false,
    anchors: false,
    sketch: false,
    is_named_sitemap: false,
    news: None,
    nofollow: Nofollow::Obey,
};
const EMBEDDED: Options = Options {
    embedded: true,
    ..DEFAULT
};
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css";

fn found_by(options: &Options, url: &str, content_type: &str, body: &[u8]) -> Links {
    let headers: &[(&str, &[u8])] = &[("content-type", content_type.as_bytes())];
    links_by(
        &Response {
            url,
            status: 200,
            headers,
            body,
        },
        &LIMITS,
        options,
        "rhumb",
    )
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

/// What a style sheet loads, as written.
fn loaded(css: &str, kind: Kind) -> Vec<String> {
    let mut found = Vec::new();
    urls(css, kind, |url| {
        found.push(url.to_owned());
        true
    });
    found
}

/// Asserts what pages load, and that without the option they load nothing.
fn assert_pages(cases: &[(&str, &[&str])]) {
    for (body, expected) in cases {
        let page = "http://h.example/dir/page";
        assert_eq!(
            paths(&found_by(&EMBEDDED, page, HTML, body.as_bytes())),
            *expected,
            "{body}"
        );
        assert_eq!(
            paths(&found_by(&DEFAULT, page, HTML, body.as_bytes())),
            [""; 0],
            "{body}"
        );
    }
}

#[test]
fn a_style_sheet_loads_imports_urls_and_sets_of_images() {
    let cases: &[(&str, &[&str])] = &[
        ("a{background:url(a.png)}", &["a.png"]),
        (
            "a{background:url( 'a.png' )}b{background:URL(\"b.png\")}",
            &["a.png", "b.png"],
        ),
        (
            "a{b:url(\"\\66oo\");c:url(a\\)b);d:url('x\\\ny')}",
            &["foo", "a)b", "xy"],
        ),
        ("a{b:\\75rl(a)}", &["a"]),
        ("a{/* url(no) */b:url(a)/**/}/* url(no", &["a"]),
        (
            "@import 'a';@import url(b);@IMPORT url(\"c\") screen;",
            &["a", "b", "c"],
        ),
        (
            "@import 'a' layer(x) supports(background: url(no)) screen and (a: \
             url(no));b{c:url(d)}",
            &["a", "d"],
        ),
        ("@charset \"utf-8\";@layer a, b;@import 'a';", &["a"]),
        ("@import/**/'a'", &["a"]),
        ("@import x 'no';@import;@import 'a'", &["a"]),
        ("a{}@import 'no';", &[]),
        ("@media x{@import 'no';a{b:url(c)}}", &["c"]),
        ("@namespace svg url(no);@namespace 'no';a{b:url(c)}", &["c"]),
        (
            "@supports (a: url(no)) and (b:{x:url(no)}){a{b:url(c)}}",
            &["c"],
        ),
        (
            "@font-face{src:local('no'),url(a.woff2) format(\"woff2\"),url(b.woff)format('no')}",
            &["a.woff2", "b.woff"],
        ),
        (
            "a{b:image-set(\"a\" 1x,url(b) 2x,url('c') type('no'));d:-webkit-image-set(url(e) \
             1x);f:'no'}",
            &["a", "b", "c", "e"],
        ),
        (
            "a{b:image-set(linear-gradient(x,'no') 1x,'a')}b{content:'no'}",
            &["a"],
        ),
        ("a{--x:url(a);--y:{z:url(b)}}", &["a", "b"]),
        ("a{b:url(#no);c:url();d:url('');e:url(\" #no\")}", &[]),
        ("a{b:url(data:image/png;base64,x);c:url('DATA:,x')}", &[]),
        ("a[href='url(no)']::after{content:\"url(no)\"}", &[]),
        ("a{b:url(a b);c:url(a'b);d:url(e)}", &["e"]),
        ("a{b:'line\nend;c:url(a)}", &["a"]),
        ("a{b:url(a", &["a"]),
        ("a{b:url('a", &["a"]),
        ("a{b:url(", &[]),
        ("@import", &[]),
        ("}}])>url(a)", &["a"]),
        ("<!-- a{b:url(c)} -->", &["c"]),
        ("a{&:hover{b:url(c)}@media x{d:url(e)}}", &["c", "e"]),
        ("@media x{", &[]),
        ("\0@import\0", &[]),
        ("", &[]),
    ];
    for (css, expected) in cases {
        assert_eq!(loaded(css, Kind::Sheet), *expected, "{css}");
    }
    assert_eq!(
        loaded("b:url(a);c:image-set('d')", Kind::Declarations),
        ["a", "d"]
    );
    assert_eq!(loaded("@import 'no';b:url(a)", Kind::Declarations), ["a"]);
}

#[test]
fn a_fetched_style_sheet_is_read_when_wanted() {
    let css =
        b"@import 'a.css';b{c:url(../d.png);e:url(//o.example/f);g:url(d.png#x);h:url(d.png#y)}";
    let sheet = "http://h.example/css/x/style.css";
    let expected = [
        "style /css/x/a.css",
        "style /css/d.png",
        "style http://o.example/f",
        "style /css/x/d.png",
    ];
    let found = found_by(&EMBEDDED, sheet, CSS, css);
    assert_eq!(paths(&found), expected);
    assert_eq!(
        (found.charset, found.uncrawlable),
        (None, 0),
        "a style sheet is no document"
    );
    assert_eq!(paths(&found_by(&EMBEDDED, sheet, "", css)), expected);
    assert_eq!(
        paths(&found_by(&EMBEDDED, sheet, "text/plain", css)),
        [""; 0]
    );
    assert_eq!(paths(&found_by(&DEFAULT, sheet, CSS, css)), [""; 0]);

    let headers: &[(&str, &[u8])] = &[("content-type", b"text/css"), ("x-robots-tag", b"nofollow")];
    let response = Response {
        url: sheet,
        status: 200,
        headers,
        body: css,
    };
    assert_eq!(
        links_by(&response, &LIMITS, &EMBEDDED, "rhumb").urls,
        [""; 0]
    );
}

#[test]
fn a_style_sheet_is_read_in_its_encoding() {
    let utf_16: Vec<u8> = "\u{FEFF}a{b:url(é)}"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let cases: &[(&str, Vec<u8>, &str)] = &[
        (CSS, "a{b:url(é)}".into(), "/%C3%A9"),
        (
            CSS,
            b"@charset \"windows-1252\";a{b:url(\xE9)}".to_vec(),
            "/%C3%A9",
        ),
        (
            CSS,
            b"@charset \"windows-1252\";a{b:url(?\xE9)}".to_vec(),
            "/?%E9",
        ),
        (CSS, "@charset \"utf-16\";a{b:url(é)}".into(), "/%C3%A9"),
        (
            "text/css; charset=koi8-r",
            b"@charset \"windows-1252\";a{b:url(\xC1)}".to_vec(),
            "/%D0%B0",
        ),
        (
            "text/css; charset=koi8-r",
            "\u{FEFF}a{b:url(é)}".into(),
            "/%C3%A9",
        ),
        (CSS, utf_16, "/%C3%A9"),
        (CSS, b"a{b:url(\xE9)}".to_vec(), "/%EF%BF%BD"),
    ];
    for (content_type, css, expected) in cases {
        let found = found_by(&EMBEDDED, "http://h.example/", content_type, css);
        assert_eq!(
            paths(&found),
            [format!("style {expected}")],
            "{content_type} {css:?}"
        );
    }
}

#[test]
fn styles_in_a_page_are_read() {
    assert_pages(&[
        (
            "<style>@import '/a';b{c:url(/d)}</style>",
            &["style /a", "style /d"],
        ),
        (
            "<base href=/x/><style>a{b:url(c)}</style><p style='d:url(e)'>",
            &["style /x/c", "style /x/e"],
        ),
        (
            "<p style='a:url(/b);c:url(&quot;/d&quot;)'><p style=a:url&lpar;/e)>",
            &["style /b", "style /d", "style /e"],
        ),
        (
            "<custom-element-with-a-name style='a:url(/b)'>",
            &["style /b"],
        ),
        (
            "<p style='a:url(/b)'><p style='a:url(/b)'><p style=\"a:url('/b')\">",
            &["style /b"],
        ),
        (
            "<p style='color:#fff;a:url(/b)'><p style='color:#fff;a:url(/c)'>",
            &["style /b", "style /c"],
        ),
        (
            "<p style='@import \"/no\"'><p style='a:b'><style>a{b:c}</style>",
            &[],
        ),
        ("<style>a{b:url(/a&amp;b)}</style>", &["style /a&amp;b"]),
        (
            "<svg><style>a{b:url(/a&amp;b)}</style></svg>",
            &["style /a&b"],
        ),
        (
            "<svg><style>a{}<![CDATA[b{c:url(/d&amp;)}]]>e{f:url(/g)}</style></svg>",
            &["style /d&amp;", "style /g"],
        ),
        ("<style><!-- a{b:url(/c)} --></style>", &["style /c"]),
        ("<style>a{b:url(/c", &["style /c"]),
        (
            "<script>'<style>a{b:url(/no)}</style>'</script><p data-style='a:url(/no)'>",
            &[],
        ),
        ("<a style='a:url(/b)'", &[]),
    ]);
    let both = b"<link rel=stylesheet href=/a style='b:url(/c)'><a href=/d style='e:url(/f)'>";
    let found = found_by(&EMBEDDED, "http://h.example/", HTML, both);
    assert_eq!(paths(&found), ["style /c", "link /a", "style /f", "a /d"]);
}

#[test]
fn elements_load_what_they_name() {
    assert_pages(&[
        (
            "<body background=/a><table background=/b><td BACKGROUND=/c><p background=/no>",
            &["image /a", "image /b", "image /c"],
        ),
        (
            "<input type=image src=/a><input type=text src=/no><input src=/no>",
            &["image /a"],
        ),
        (
            "<svg><image href=/a /><image xlink:href=/b /><use href='/c#x'/><use xlink:href=#no \
             /><use href=' #no'/></svg>",
            &["image /a", "image /b", "image /c"],
        ),
        (
            "<svg><image href=/a xlink:href=/no /><script xlink:href=/b></script></svg>",
            &["image /a", "script /b"],
        ),
        ("<image src=/a srcset='/b 2x'>", &["image /a", "srcset /b"]),
        (
            "<object data=/a><param name=movie value=/b><param name=SRC value=/c><param name=x \
             value=/no></object>",
            &["image /a", "image /b", "image /c"],
        ),
        (
            "<embed src=/a><video src=/b poster=/c><audio src=/d><track src=/e>",
            &["image /a", "media /b", "media /c", "media /d", "media /e"],
        ),
        (
            "<source src=/a srcset='/b, /c 2x'>",
            &["media /a", "srcset /b", "srcset /c"],
        ),
        (
            "<link rel=preload as=image href=/a imagesrcset='/b 1x, /c 2x'><link rel=x \
             imagesrcset='/no 1x'>",
            &["link /a", "srcset /b", "srcset /c"],
        ),
    ]);
    for rel in [
        "stylesheet",
        "icon",
        "shortcut icon",
        "apple-touch-icon",
        "apple-touch-icon-precomposed",
        "mask-icon",
        "preload",
        "apple-touch-startup-image",
        "modulepreload",
        "prefetch",
        "prerender",
        "manifest",
        "ALTERNATE StyleSheet",
    ] {
        assert_pages(&[(&format!("<link rel='{rel}' href=/a>"), &["link /a"])]);
    }
}

#[test]
fn a_document_in_an_attribute_is_read_as_one() {
    let cases: &[(&str, &[&str])] = &[
        (
            "<iframe srcdoc='<img src=a><a href=b>c</a>'></iframe>",
            &["image /dir/a", "a /dir/b"],
        ),
        (
            "<base href=/x/><iframe srcdoc='<img src=a>'>",
            &["image /x/a"],
        ),
        (
            "<base href=/x/><iframe srcdoc='<base href=y/><img src=a>'></iframe><img src=b>",
            &["image /x/y/a", "image /x/b"],
        ),
        (
            "<iframe srcdoc='<p style=&quot;a:url(b)&quot;>&lt;img src=&amp;amp;>'>",
            &["style /dir/b", "image /dir/&"],
        ),
        (
            "<iframe srcdoc=\"<iframe srcdoc='<img src=/a>'></iframe>\">",
            &["image /a"],
        ),
        (
            "<iframe srcdoc='<img src=/a>'></iframe><iframe srcdoc='<img src=/a>'>",
            &["image /a"],
        ),
        (
            "<iframe srcdoc='<meta name=robots content=nofollow><img src=/a>'></iframe><img \
             src=/b>",
            &["image /b"],
        ),
        (
            "<meta name=robots content=nofollow><iframe srcdoc='<img src=/a><meta \
             http-equiv=refresh content=0;/b>'>",
            &[],
        ),
        (
            "<iframe src=/a srcdoc='<img src=/b>'>",
            &["frame /a", "image /b"],
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(
            paths(&found_by(
                &EMBEDDED,
                "http://h.example/dir/page",
                HTML,
                body.as_bytes()
            )),
            *expected,
            "{body}"
        );
    }
    let without = found_by(
        &DEFAULT,
        "http://h.example/",
        HTML,
        b"<iframe src=/a srcdoc='<img src=/b><a href=/c>'>",
    );
    assert_eq!(paths(&without), ["frame /a"]);

    // Each is written into the one before, whose references it doubles.
    let mut deep = String::from("<img src=/0>");
    for depth in 1..10 {
        let inside = deep.replace('&', "&amp;").replace('"', "&quot;");
        deep = format!("<iframe srcdoc=\"{inside}\"></iframe><img src=/{depth}>");
    }
    let mut found = found_by(&EMBEDDED, "http://h.example/", HTML, deep.as_bytes()).urls;
    found.sort();
    assert_eq!(
        found,
        [5, 6, 7, 8, 9].map(|depth| format!("http://h.example/{depth}")),
        "no deeper than four"
    );

    let anchors = Options {
        anchors: true,
        ..EMBEDDED
    };
    let found = found_by(
        &anchors,
        "http://h.example/",
        HTML,
        b"<a href=/1>one</a><iframe srcdoc='<a href=/2>two</a>'>",
    );
    let texts: Vec<&str> = found
        .anchors
        .iter()
        .map(|anchor| anchor.text.as_str())
        .collect();
    assert_eq!(
        (paths(&found), texts),
        (
            vec!["a /1".to_owned(), "a /2".to_owned()],
            vec!["one", "two"]
        )
    );
}

#[test]
fn a_manifest_names_images_and_a_start() {
    let manifest =
        br#"{"name": "x", "start_url": "../", "icons": [{"src": "i/a.png"}, {"src": "data:,x"}]}"#;
    for (url, content_type) in [
        ("http://h.example/app/x", "application/manifest+json"),
        ("http://h.example/app/manifest.json", "application/json"),
        ("http://h.example/app/x.webmanifest", "text/plain"),
    ] {
        let found = found_by(&EMBEDDED, url, content_type, manifest);
        assert_eq!(
            paths(&found),
            ["manifest /app/i/a.png", "manifest /"],
            "{url}"
        );
        assert_eq!(
            paths(&found_by(&DEFAULT, url, content_type, manifest)),
            [""; 0],
            "{url}"
        );
    }
    assert_eq!(
        paths(&found_by(
            &EMBEDDED,
            "http://h.example/x.json",
            "application/json",
            manifest
        )),
        [""; 0]
    );
}

proptest! {
    /// Whatever URL is written, however, it comes back.
    #[test]
    fn a_url_is_read_as_it_was_meant(url in "[ -~é\u{1F600}]{0,20}", quote in prop_oneof![Just('"'), Just('\'')]) {
        prop_assume!(!url.trim_start().is_empty() && !url.trim_start().starts_with('#'));
        prop_assume!(!url.trim_start().to_ascii_lowercase().starts_with("data:"));
        let escaped: String = url.chars().map(|c| format!("\\{:x} ", c as u32)).collect();
        let quoted = url.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"));
        let css = format!("@import {quote}{quoted}{quote};a{{b:url({escaped});c:url({quote}{quoted}{quote})}}");
        prop_assert_eq!(loaded(&css, Kind::Sheet), [url.clone(), url.clone(), url]);
    }
}
