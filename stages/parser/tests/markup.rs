//! What is a link in odd markup: drawings, bases, NUL, and HTML that is written as XML.

use parser::options::Options;
use parser::page::{Limits, Links, Response, links_by};

const LIMITS: Limits = Limits {
    decoded_bytes_max: 1 << 20,
    sitemap_bytes_max: 1 << 20,
    links_per_page_max: 100,
    links_per_sitemap_max: 100,
    url_bytes_max: 2048,
};
const HTML: &str = "text/html; charset=utf-8";
const XHTML: &str = "application/xhtml+xml";

fn found(content_type: &str, body: &str, options: &Options) -> Links {
    let headers: &[(&str, &[u8])] = &[("content-type", content_type.as_bytes())];
    let url = "http://h.example/dir/page";
    links_by(
        &Response {
            url,
            status: 200,
            headers,
            body: body.as_bytes(),
        },
        &LIMITS,
        options,
        "rhumb",
    )
}

/// Asserts the links of documents, each without the server's name.
fn assert_links(content_type: &str, options: &Options, cases: &[(&str, &[&str])]) {
    for (body, expected) in cases {
        let found = found(content_type, body, options);
        let path = |url: &String| {
            url.strip_prefix("http://h.example")
                .unwrap_or(url)
                .to_owned()
        };
        assert_eq!(
            found.urls.iter().map(path).collect::<Vec<_>>(),
            *expected,
            "{body}"
        );
    }
}

#[test]
fn links_of_drawings_are_href_or_else_xlink_href() {
    let cases: &[(&str, &[&str])] = &[
        ("<svg><a href=/a></a></svg>", &["/a"]),
        ("<svg><A XLINK:HREF=/a></A></svg>", &["/a"]),
        (
            "<svg><g><a xlink:href=/no href=b></a></g></svg>",
            &["/dir/b"],
        ),
        ("<svg><a xlink:href=/no href=''></a></svg>", &["/dir/page"]),
        ("<svg><a xlink:title=/no></a></svg>", &[]),
        ("<a xlink:href=/no><svg></svg><a xlink:href=/no>", &[]),
        (
            "<svg><foreignObject><a xlink:href=/no></a><a href=/a></a></foreignObject></svg>",
            &["/a"],
        ),
        ("<svg><a rel=nofollow href=/no></a></svg>", &[]),
        ("<math><a href=/a></a></math>", &["/a"]),
        (
            "<svg><area href=/no /><iframe src=/no /><link rel=next href=/no /><form action=/no \
             /></svg>",
            &[],
        ),
        ("<svg><use href=/no /><image xlink:href=/no /></svg>", &[]),
        (
            "<svg><title><a href=/a></a></title><desc><a href=/b></a></desc></svg>",
            &["/a", "/b"],
        ),
    ];
    assert_links(HTML, &Options::default(), cases);
}

#[test]
fn drawings_load_what_they_refer_to_in_other_documents() {
    let cases: &[(&str, &[&str])] = &[
        (
            "<svg><use xlink:href='/a#x'/><image href=/b /><feImage xlink:href=/c /></svg>",
            &["/a", "/b", "/c"],
        ),
        (
            "<svg><script href=/a xlink:href=/no></script><script src=/no></script></svg>",
            &["/a"],
        ),
        (
            "<svg><linearGradient href='/a#x'/><pattern xlink:href='/b#y'/><textPath \
             href='#no'/></svg>",
            &["/a", "/b"],
        ),
        (
            "<use href=/no><image href=/no><script xlink:href=/no></script><feimage href=/no>",
            &[],
        ),
        (
            "<svg><image src=/no /><video src=/no /><img src=/a></svg>",
            &["/a"],
        ),
        (
            "<svg><a href=/a></a><foreignObject><img src=/b></foreignObject></svg>",
            &["/a", "/b"],
        ),
    ];
    assert_links(
        HTML,
        &Options {
            embedded: true,
            ..Options::default()
        },
        cases,
    );
}

#[test]
fn the_first_base_of_html_with_href_counts_whatever_it_says() {
    let cases: &[(&str, &[&str])] = &[
        ("<a href=a></a><base href=/b/><base href=/no/>", &["/b/a"]),
        (
            "<base href='http://[no'><base href=/no/><a href=a>",
            &["/dir/a"],
        ),
        ("<base href=''><base href=/no/><a href=a>", &["/dir/a"]),
        (
            "<base href='javascript:x'><base href=/no/><a href=a>",
            &["/dir/a"],
        ),
        ("<base href><base href=/no/><a href=a>", &["/dir/a"]),
        ("<base target=x><base HREF=/b/><a href=a>", &["/b/a"]),
        (
            "<svg><base href=/no/></svg><math><base href=/no/></math><base href=/b/><a href=a>",
            &["/b/a"],
        ),
        (
            "<svg><foreignObject><base href=/b/></foreignObject></svg><a href=a>",
            &["/b/a"],
        ),
        ("<svg><p><base href=/b/><a href=a>", &["/b/a"]),
        (
            "<template><base href=/no/></template><base href=/b/><a href=a>",
            &["/b/a"],
        ),
        (
            "<template><template></template><base href=/no/></template></template><base \
             href=/b/><a href=a>",
            &["/b/a"],
        ),
        ("<noscript><base href=/b/></noscript><a href=a>", &["/b/a"]),
        (
            "<!-- <base href=/no/> --><title><base href=/no/></title><script><base \
             href=/no/></script><a href=a>",
            &["/dir/a"],
        ),
        (
            "<iframe srcdoc='<base href=/no/>'></iframe><a href=a>",
            &["/dir/a"],
        ),
        (
            "<base href='//o.example/x/'><a href=a>",
            &["http://o.example/x/a"],
        ),
        ("<base href='?q'><a href=''>", &["/dir/page?q"]),
    ];
    assert_links(HTML, &Options::default(), cases);
}

#[test]
fn only_the_elements_and_attributes_that_the_standard_names_end_foreign_content() {
    let cases: &[(&str, &[&str])] = &[
        (
            "<svg><font color=x><style><a href=/no></style><a href=/a>",
            &["/a"],
        ),
        (
            "<svg><font FACE><style><a href=/no></style><a href=/a>",
            &["/a"],
        ),
        (
            "<math><font size=1><style><a href=/no></style><a href=/a>",
            &["/a"],
        ),
        (
            "<svg><font class=color><style><a href=/a></a></style>",
            &["/a"],
        ),
        ("<svg></p><style><a href=/no></style>", &[]),
        ("<svg></br><style><a href=/no></style>", &[]),
        ("<svg><g></x><style><a href=/a></a></style>", &["/a"]),
        (
            "<math><annotation-xml encoding=text/html><style><a href=/no></style>",
            &[],
        ),
        (
            "<math><annotation-xml encoding=text/xml><style><a href=/a></a></style>",
            &["/a"],
        ),
        (
            "<svg><annotation-xml encoding=text/html><style><a href=/a></a></style>",
            &["/a"],
        ),
        ("<math><mtext><style><a href=/no></style>", &[]),
        ("<math><desc><style><a href=/a></a></style>", &["/a"]),
        (
            "<svg><desc><![CDATA[<a href=/no></a>]]></desc><a href=/a></a></svg>",
            &["/a"],
        ),
    ];
    assert_links(HTML, &Options::default(), cases);
}

#[test]
fn nul_is_the_replacement_character() {
    let cases: &[(&str, &[&str])] = &[
        (
            "<a href=\"/\0a\"></a><a href='/b\0'></a><a href=/\0c></a>",
            &["/%EF%BF%BDa", "/b%EF%BF%BD", "/%EF%BF%BDc"],
        ),
        ("<a href='/?a\0&amp;b'></a>", &["/?a%EF%BF%BD&b"]),
        (
            "<a\0 href=/no></a><a hr\0ef=/no></a><a href\0=/no></a>",
            &[],
        ),
        ("<!--\0<a href=/no>--\0--><a href=/a></a>", &["/a"]),
        ("<base href='/\0/'><a href=a></a>", &["/%EF%BF%BD/a"]),
        (
            "<meta http-equiv=refresh content='0;url=/\0'>",
            &["/%EF%BF%BD"],
        ),
    ];
    assert_links(HTML, &Options::default(), cases);
    assert_eq!(
        found(HTML, "<title>a\0b</title>", &Options::default()).title,
        "a\u{FFFD}b"
    );
}

#[test]
fn xhtml_is_read_as_xml() {
    let cases: &[(&str, &[&str])] = &[
        ("<html><script>x</script><a href='/a'/></html>", &["/a"]),
        (
            "<script><![CDATA[ '</script><a href=\"/no\"/>' ]]></script><a href='/a'/>",
            &["/a"],
        ),
        (
            "<script>1 &lt; 2 <!-- </script><a href='/no'/> --></script><a href='/a'/>",
            &["/a"],
        ),
        ("<style><a href='/a'/></style>", &["/a"]),
        (
            "<title/><textarea/><iframe/><script/><a href='/a'/>",
            &["/a"],
        ),
        ("<p><![CDATA[<a href='/no'/>]]></p><a href='/a'/>", &["/a"]),
        ("<?x <a href='/no'/> > ?><a href='/a'/>", &["/a"]),
        ("<!--><a href='/no'/> --!> - -> --><a href='/a'/>", &["/a"]),
        (
            "<!DOCTYPE html [<!ENTITY x \"<a href='/no'/>]>\"> <!-- ]> ' --> ]><html><a \
             href='/a'/></html>",
            &["/a"],
        ),
        ("<A href='/no'/><a HREF='/no'/><a href='/a'/>", &["/a"]),
        (
            "<h:html xmlns:h='http://www.w3.org/1999/xhtml'><h:a href='/a'/><h:base \
             href='/b/'/></h:html>",
            &["/a"],
        ),
        (
            "<x:html xmlns:x='urn:x'><x:a href='/no'/><y:a href='/no'/></x:html>",
            &[],
        ),
        (
            "<a href='/?a=1&amp;section=2&#38;copy=3'/>",
            &["/?a=1&section=2&copy=3"],
        ),
        (
            "<a href='/?a=1&section=2'/><a href='/caf&eacute;'/>",
            &["/?a=1&section=2", "/caf%C3%A9"],
        ),
        (
            "<svg><a xlink:href='/a'/><p><style><a href='/b'/></style></p></svg><a \
             xlink:href='/no'/>",
            &["/a", "/b"],
        ),
        ("<svg><base href='/no/'/></svg><a href='/a'/>", &["/a"]),
        (
            "<plaintext><a href='/a'/></plaintext><noscript><a href='/b'/></noscript>",
            &["/a", "/b"],
        ),
    ];
    assert_links(XHTML, &Options::default(), cases);
    // Another type of XML is one of XHTML, when the document is HTML.
    let document = "<?xml version='1.0'?><html><script/><a href='/a'/></html>";
    assert_links(
        "application/xml",
        &Options::default(),
        &[(document, &["/a"])],
    );
    assert_links("", &Options::default(), &[(document, &["/a"])]);
    assert_links(HTML, &Options::default(), &[(document, &[])]);
    // Styles are texts with references there.
    let embedded = Options {
        embedded: true,
        ..Options::default()
    };
    let style = "<style>a{b:url(/a?x&amp;y)}<![CDATA[c{d:url(/e&amp;)}]]></style>";
    assert_links(XHTML, &embedded, &[(style, &["/a?x&y", "/e&amp;"])]);
    assert_links(HTML, &embedded, &[(style, &["/a?x&amp;y", "/e&amp;"])]);
}

#[test]
fn the_last_of_several_types_and_the_start_of_untyped_documents_say_what_is_html() {
    let document = "News <a href=/a>";
    assert_links(
        "text/plain, text/html",
        &Options::default(),
        &[(document, &["/a"])],
    );
    assert_links(
        "text/html charset=utf-8",
        &Options::default(),
        &[(document, &["/a"])],
    );
    assert_links(
        "text/html, text/plain",
        &Options::default(),
        &[(document, &[])],
    );
    let long = format!("<!-- {} --> News <a href=/a>", "x".repeat(100_000));
    let cases: &[(&str, &[&str])] = &[
        (&long, &["/a"]),
        ("<!-- <a href=/no> --><a href=/a>", &["/a"]),
        ("\n<FONT size=1>x</FONT><a href=/a>", &["/a"]),
        ("<br /><a href=/a>", &["/a"]),
        ("x <b><a href=/no>", &[]),
        ("<blink><a href=/no>", &[]),
    ];
    for content_type in ["", "*/*", "unknown/unknown", "no type"] {
        assert_links(content_type, &Options::default(), cases);
    }
}
