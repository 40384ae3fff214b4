//! Goal: a sitemap gives back the URLs that were written into it, however references, CDATA,
//! comments, markup and whatever may stand before its root are mixed; the root that the beginning
//! of a document shows is that of the whole; what a server says of a type does not change with what
//! the standard skips.
//!
//! Input: a byte that says where to cut, then lines, of which each is a URL, a value of
//! `Content-Type` and a piece of a document.

use parser::feed::{Kind, Root, Said, root, said};
use parser::news::News;
use parser::options::Options;
use rhumb_markup::media_type::MediaType;
use url::Url;

/// Takes one input.
pub fn run(data: &[u8]) {
    let Some((&cut, document)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(document);
    roots(document, usize::from(cut));
    sitemap(&text, usize::from(cut));
    for line in document.split(|byte| *byte == b'\n') {
        types(line, document);
    }
}

fn roots(document: &[u8], cut: usize) {
    let whole = root(document, true);
    for bytes in [cut, cut * 16, document.len()] {
        let head = root(&document[..bytes.min(document.len())], false);
        assert!(
            bytes < 3 || head == Root::Beyond || head == whole,
            "{head:?} of {bytes} bytes, {whole:?} of all"
        );
    }
}

/// Writes each line in one of the ways in which a URL can be written.
fn sitemap(text: &str, how: usize) {
    let urls: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.contains(['\0', '\u{FFFD}']))
        .collect();
    let comment = text.replace("--", "- ").replace('-', "- ");
    let mut document = format!("<?xml version='1.0'?><!-- {comment} --><urlset>");
    for (number, url) in urls.iter().enumerate() {
        let escaped = url.replace('&', "&amp;").replace('<', "&lt;");
        document.push_str(&match (number + how) % 5 {
            0 => format!("<loc>{escaped}</loc>"),
            1 => format!(
                "<loc> <![CDATA[{}]]>\n</loc>",
                url.replace("]]>", "]]]]><![CDATA[>")
            ),
            2 => format!("<loc>{escaped}<br/></loc>"),
            3 => format!("<loc><!-- > -->{escaped}<lastmod>2031</lastmod>"),
            _ => format!(
                "<loc>{}</loc>",
                url.chars()
                    .map(|c| format!("&#{};", u32::from(c)))
                    .collect::<String>()
            ),
        });
    }
    document.push_str("</urlset>");
    assert_eq!(root(document.as_bytes(), true), Root::Of(Kind::Sitemap));
    let page = Url::parse("http://h.example/s.xml").expect("a URL");
    let mut found = Vec::new();
    said(
        &document,
        Kind::Sitemap,
        &page,
        &Options::default(),
        |said| {
            if let Said::Link { href, base, .. } = said {
                assert_eq!(base, &page);
                found.push(href.to_owned());
            }
            true
        },
    );
    let is_of_xml = |url: &&str| {
        !url.chars()
            .any(|c| (c < ' ' && c != '\t') || matches!(c, '\u{FFFE}' | '\u{FFFF}'))
    };
    if urls.iter().all(is_of_xml) {
        assert_eq!(found, urls);
    }
    // Whatever it is, it ends.
    said(
        text,
        Kind::Atom,
        &page,
        &Options {
            embedded: true,
            news: Some(News {
                after_ms: 0,
                until_ms: u64::MAX,
            }),
            ..Options::default()
        },
        |_| true,
    );
}

fn types(value: &[u8], body: &[u8]) {
    let said = MediaType::of([value].into_iter());
    let same = MediaType::of([value, b"*/*", b"nonsense", b""].into_iter());
    assert_eq!(said, same);
    assert_eq!(said.html(body), same.html(body));
    let html = MediaType::of([value, b"text/html"].into_iter());
    assert_eq!(html.html(body), Some(rhumb_markup::scanner::Dialect::Html));
}
