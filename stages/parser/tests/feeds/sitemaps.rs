//! Sitemaps: packed, encoded oddly, as plain text, named by others, and as long as they may be.

use super::{found, gzip, read};
use parser::options::Options;
use rhumb_warc::content_coding::Completeness;
use rhumb_wire::message::Cut;
use std::io::Write as _;
use std::path::Path;

#[test]
fn packed_and_oddly_encoded_sitemaps_are_read_within_the_limits() {
    let sitemap = "<urlset><url><loc>/\u{E9}</loc></url></urlset>";
    let expected = ["http://h.example/%C3%A9"];
    let options = Options::default();
    let octets: (&str, &[u8]) = ("content-type", b"application/octet-stream");
    let packed = gzip(sitemap.as_bytes());
    assert_eq!(
        read("http://h.example/s.xml.gz", &[octets], &packed, &options).urls,
        expected
    );
    let coded: (&str, &[u8]) = ("content-encoding", b"gzip");
    assert_eq!(
        read(
            "http://h.example/s.xml.gz",
            &[octets, coded],
            &packed,
            &options
        )
        .urls,
        expected
    );
    assert_eq!(
        read(
            "http://h.example/s.xml.gz",
            &[octets, coded],
            &gzip(&packed),
            &options
        )
        .urls,
        expected
    );

    let utf_16: Vec<u8> = "\u{FEFF}"
        .encode_utf16()
        .chain(sitemap.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(
        read("http://h.example/s.xml", &[], &utf_16, &options).urls,
        expected
    );
    let latin = [
        b"<?xml version='1.0' encoding='iso-8859-1'?>",
        &b"<urlset><loc>/\xE9</loc></urlset>"[..],
    ]
    .concat();
    assert_eq!(
        read("http://h.example/s.xml", &[], &latin, &options).urls,
        expected
    );

    let other = gzip(b"<html><a href=/a>");
    assert_eq!(
        read("http://h.example/page.gz", &[octets], &other, &options).charset,
        None,
        "an archive is none"
    );
    let bomb = gzip(&[b"<urlset><loc>/a</loc>".as_slice(), &vec![b' '; 64 << 20]].concat());
    let links = read("http://h.example/s.xml.gz", &[octets], &bomb, &options);
    assert_eq!(
        (links.cut(), links.completeness),
        (Some(Cut::SitemapBytes), Completeness::Cut)
    );
    assert_eq!(links.urls, ["http://h.example/a"]);
}

#[test]
fn a_sitemap_may_have_more_links_and_bytes_than_a_page_and_its_limits_are_named() {
    let locs = |n: usize| {
        (0..n)
            .map(|number| format!("<url><loc>/{number}</loc></url>"))
            .collect::<String>()
    };
    let ended = |body: &str| {
        let links = found(body);
        (links.urls.len(), links.cut())
    };
    assert_eq!(
        ended(&format!("<urlset>{}</urlset>", locs(2500))),
        (2500, None)
    );
    assert_eq!(
        ended(&format!("<urlset>{}</urlset>", locs(3001))),
        (3000, Some(Cut::SitemapLinks))
    );
    let index = locs(2500).replace("url>", "sitemap>");
    assert_eq!(
        ended(&format!("<sitemapindex>{index}</sitemapindex>")),
        (2500, None)
    );
    let items: String = (0..1001)
        .map(|number| format!("<item><link>/{number}</link></item>"))
        .collect();
    assert_eq!(
        ended(&format!("<rss>{items}</rss>")),
        (1000, Some(Cut::PageLinks))
    );
    let page: String = (0..1001)
        .map(|number| format!("<a href=/{number}>x</a>"))
        .collect();
    assert_eq!(ended(&page), (1000, Some(Cut::PageLinks)));

    let spaces = |bytes: usize| " ".repeat(bytes);
    let long = |bytes: usize| format!("<urlset>{}<url><loc>/a</loc></url></urlset>", spaces(bytes));
    assert_eq!(ended(&long((2 << 20) - 100)), (1, None));
    assert_eq!(ended(&long(2 << 20)), (0, Some(Cut::SitemapBytes)));
    assert_eq!(
        ended(&format!(
            "<urlset><url><loc>/a</loc></url>{}",
            spaces(2 << 20)
        )),
        (1, Some(Cut::SitemapBytes))
    );
    assert_eq!(
        ended(&format!("<a href=/a>{}<a href=/b>", spaces(1 << 20))),
        (1, Some(Cut::PageBytes))
    );
    let packed = read(
        "http://h.example/s.xml",
        &[("content-encoding", b"gzip")],
        &gzip(long(1 << 20).as_bytes()),
        &Options::default(),
    );
    assert_eq!((packed.urls.len(), packed.cut()), (1, None));
}

/// Goal: what robots.txt or an index names is read as text whatever its name and type, unless it
/// begins like markup.
#[test]
fn a_named_sitemap_is_text_unless_it_begins_like_markup() {
    let named = Options {
        is_named_sitemap: true,
        ..Options::default()
    };
    let text = b"\xEF\xBB\xBF\n  HTTP://h.example/a \rhttps://o.example/b\nftp://h.example/c\n/d"
        .as_slice();
    let expected = ["http://h.example/a", "https://o.example/b"];
    for content_type in [
        "text/plain",
        "",
        "text/html",
        "application/octet-stream",
        "application/json; x",
    ] {
        let headers = [("content-type", content_type.as_bytes())];
        let links = read("http://h.example/list?today", &headers, text, &named);
        assert_eq!(links.urls, expected, "{content_type}");
        assert!(links.is_sitemap && !links.is_index, "{content_type}");
        let links = read("http://h.example/list.gz", &headers, &gzip(text), &named);
        assert_eq!(links.urls, expected, "{content_type}, packed");
        assert_eq!(
            read(
                "http://h.example/list?today",
                &headers,
                text,
                &Options::default()
            )
            .urls,
            [""; 0]
        );
    }
    let items: String = (0..1001)
        .map(|number| format!("<item><link>/{number}</link></item>"))
        .collect();
    let feed = read(
        "http://h.example/list",
        &[],
        format!("<rss>{items}</rss>").as_bytes(),
        &named,
    );
    assert_eq!(
        (feed.urls.len(), feed.is_sitemap),
        (1001, true),
        "a feed may be named, too"
    );
    let html = read(
        "http://h.example/list",
        &[("content-type", b"text/plain")],
        b" <html><a href=/a>http://no.example/",
        &named,
    );
    assert_eq!(html.urls, ["http://h.example/a"]);
    let index = read(
        "http://h.example/i",
        &[],
        b"<sitemapindex><sitemap><loc>/a</loc></sitemap></sitemapindex>",
        &named,
    );
    assert!(index.is_index && index.is_sitemap);
}

#[test]
fn plain_text_sitemaps_have_a_url_a_line() {
    let text = "\u{FEFF}http://h.example/a\r\nhttps://o.example/b \
                \n\nftp://h.example/no\n/relative\nhttp://h.example/a\n";
    let expected = ["http://h.example/a", "https://o.example/b"];
    let cases: &[(&str, &str, bool)] = &[
        ("http://h.example/sitemap.txt", "text/plain", true),
        (
            "http://h.example/x/Sitemap-2.TXT",
            "text/plain; charset=utf-8",
            true,
        ),
        ("http://h.example/sitemap.txt?x=1", "", true),
        ("http://h.example/sitemap.txt", "text/html", false),
        ("http://h.example/sitemap.txt", "application/json", false),
        ("http://h.example/robots.txt", "text/plain", false),
        ("http://h.example/sitemap.txt.html", "text/plain", false),
    ];
    for (url, content_type, is_read) in cases {
        let headers: [(&str, &[u8]); 1] = [("content-type", content_type.as_bytes())];
        let links = read(url, &headers, text.as_bytes(), &Options::default());
        let expected: &[&str] = if *is_read { &expected } else { &[] };
        assert_eq!(links.urls, expected, "{url} {content_type}");
    }
    let packed = read(
        "http://h.example/sitemap.txt.gz",
        &[],
        &gzip(text.as_bytes()),
        &Options::default(),
    );
    assert_eq!(packed.urls, expected);
}

#[test]
fn public_test_files_have_the_links_that_they_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/sitemaps");
    if !folder.exists() {
        // Not by the macro, whose output a test that passes does not show.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no conformance files in {}",
            folder.display()
        );
        return;
    }
    let cases: &[(&str, usize, &str)] = &[
        ("atom.xml", 3, "http://example.org/"),
        ("sitemap.badns.xml", 2, "http://www.example.com/1"),
        (
            "sitemap.index.xml",
            15,
            "https://example.com/sitemap.jss?portalCode=10260&lang=en",
        ),
        ("sitemap.ns.xml", 2, "http://www.example.com/1"),
        ("sitemap.txt", 2, "http://www.domain.com/page1.html"),
        (
            "sitemap-with-bom.txt",
            2,
            "http://www.domain.com/page1.html",
        ),
        ("sitemap.txt.gz", 5, "http://www.example.com/"),
        ("xmlSitemap.gz", 5, "http://www.example.com/"),
        (
            "extension/sitemap-images.xml",
            1,
            "http://www.example.com/images/some_image_landing_page.html",
        ),
        (
            "extension/sitemap-links.xml",
            3,
            "http://www.example.com/english/",
        ),
        (
            "extension/sitemap-mobile.xml",
            3,
            "http://www.example.com/mobile-friendly-1/",
        ),
        (
            "extension/sitemap-news.xml",
            2,
            "http://www.example.org/business/article55.html",
        ),
        (
            "extension/sitemap-videos.xml",
            3,
            "http://www.example.com/videos/some_video_landing_page.html",
        ),
        (
            "extension/sitemap-videos-tvshow.xml",
            1,
            "https://example.org/my-tv-show/23/13/",
        ),
        (
            "extension/hebdenbridgetimes-articles-sitemap.xml",
            74,
            "http://www.hebdenbridgetimes.co.uk/news/local/video-tour-de-yorkshire-in-calderdale-1-7242580",
        ),
        (
            "extension/pagemaps-sitemap.xml",
            2,
            "http://www.example.com/foo",
        ),
        (
            "extension/shinpaideshou-news-sitemap.xml",
            3,
            "https://shinpaideshou.wordpress.com/2017/04/25/job-opening-reischauer-policy-research-fellow/",
        ),
    ];
    for (file, n_links, first) in cases {
        let body =
            std::fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let links = read(
            &format!("http://www.example.com/{file}"),
            &[],
            &body,
            &Options::default(),
        );
        assert_eq!(
            (links.urls.len(), links.urls.first().map(String::as_str)),
            (*n_links, Some(*first)),
            "{file}"
        );
    }
}
