//! Sitemaps and feeds: recognised by what they are, whatever the server calls them.

use flate2::Compression;
use flate2::write::GzEncoder;
use parser::options::Options;
use parser::page::{Limits, Links, Response, links_by};
use parser::source::Source;
use shared::content_coding::Completeness;
use std::io::Write as _;
use std::path::Path;

const LIMITS: Limits = Limits { decoded_bytes_max: 1 << 20, links_per_page_max: 1000, url_bytes_max: 2048 };

fn read(url: &str, headers: &[(&str, &[u8])], body: &[u8], options: &Options) -> Links {
    links_by(&Response { url, status: 200, headers, body }, &LIMITS, options, "rhumb")
}

fn found(body: &str) -> Links {
    read("http://h.example/dir/feed", &[], body.as_bytes(), &Options::default())
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

/// Sitemaps and feeds: the body, its kind and its links.
const FEEDS: &[(&str, Source, &[&str])] = &[
    ("<urlset><url><loc>http://o.example/a</loc></url></urlset>", Source::Sitemap, &["http://o.example/a"]),
    (
        "<?xml version='1.0'?>\n<!-- c --><urlset xmlns='x'><url><loc>\n /a?b=1&amp;c \n</loc>",
        Source::Sitemap,
        &["http://h.example/a?b=1&c"],
    ),
    (
        "<s:urlset><s:url><s:loc><![CDATA[/a?b&c]]></s:loc></s:url></s:urlset>",
        Source::Sitemap,
        &["http://h.example/a?b&c"],
    ),
    (
        "<sitemapindex><sitemap><loc>/a.xml.gz</loc></sitemap><sitemap>/b.xml</sitemap></sitemapindex>",
        Source::Sitemap,
        &["http://h.example/a.xml.gz", "http://h.example/b.xml"],
    ),
    (
        "<urlset><url><loc>/a</loc><image:image><image:loc>/b.png</image:loc></image:image></url></urlset>",
        Source::Sitemap,
        &["http://h.example/a"],
    ),
    (
        "<urlset><url><loc>/a</loc><xhtml:link rel='alternate' hreflang='de' href='/de'/></url></urlset>",
        Source::Sitemap,
        &["http://h.example/a", "http://h.example/de"],
    ),
    (
        "<!DOCTYPE urlset [ <!ENTITY x \"[y]\"> ]\n><urlset><url><loc>/a</loc></url></urlset>",
        Source::Sitemap,
        &["http://h.example/a"],
    ),
    ("<urlset><url><loc>/a</loc></url><url><loc>/b", Source::Sitemap, &["http://h.example/a"]),
    ("<urlset><url><loc></loc><loc/></url></urlset>", Source::Sitemap, &[]),
    (
        "<rss version='2.0'><channel><title>News</title><link>http://h.example/</link>\
             <atom:link rel='self' href='/self'/><atom:link rel='next' href='/page-2'/>\
             <item><title>x</title><link>/a</link><guid>http://h.example/a</guid><comments>/a#c</comments></item>\
             <item><guid>http://h.example/b</guid></item><item><guid isPermaLink='false'>http://h.example/no</guid></item>\
             <item><guid>urn:x</guid><enclosure url='/sound'/></item></channel></rss>",
        Source::Feed,
        &["http://h.example/", "http://h.example/page-2", "http://h.example/a", "http://h.example/b"],
    ),
    (
        "<rdf:RDF><channel rdf:about='x'><link>/</link></channel><item><link> /a </link></item></rdf:RDF>",
        Source::Feed,
        &["http://h.example/", "http://h.example/a"],
    ),
    (
        "<feed xmlns='http://www.w3.org/2005/Atom'><link href='/'/><link rel='self' href='/feed'/><entry>\
             <link rel='alternate' href='a'/><link rel='enclosure' href='/sound'/><content src='b'/></entry></feed>",
        Source::Feed,
        &["http://h.example/", "http://h.example/dir/a", "http://h.example/dir/b"],
    ),
    ("<feed xml:base='/x/'><entry><link href='a'/></entry></feed>", Source::Feed, &["http://h.example/x/a"]),
    ("<a:feed><a:link href='/a'/></a:feed>", Source::Feed, &["http://h.example/a"]),
];

#[test]
fn every_kind_of_feed_has_its_links() {
    for (body, source, expected) in FEEDS {
        for content_type in ["", "text/html", "application/rss+xml; charset=utf-8", "text/plain"] {
            let headers: [(&str, &[u8]); 1] = [("content-type", content_type.as_bytes())];
            let links = read("http://h.example/dir/feed", &headers, body.as_bytes(), &Options::default());
            assert_eq!(links.urls, *expected, "{content_type} {body}");
            assert!(links.sources.iter().all(|found| found == source), "{body}");
        }
    }
}

#[test]
fn what_is_none_has_no_links() {
    for body in [
        "<urlset2><loc>/a</loc></urlset2>",
        "text <urlset><loc>/a</loc></urlset>",
        "<svg><urlset><loc>/a</loc></urlset></svg>",
        "</urlset><loc>/a</loc>",
        "<!-- <urlset><loc>/a</loc></urlset> -->",
        "{\"urlset\": \"<loc>\"}",
        "",
    ] {
        assert_eq!(found(body).urls, [""; 0], "{body}");
    }
}

#[test]
fn feeds_have_titles_languages_and_what_they_embed() {
    let rss = "<rss><channel><title>A &amp; <![CDATA[B]]></title><language>de-at</language><item><title>x</title>\
               <enclosure url='/sound'/><media:content url='/film'/></item></channel></rss>";
    let links = read("http://h.example/", &[], rss.as_bytes(), &Options { embedded: true, ..Options::default() });
    assert_eq!((links.title.as_str(), links.language.as_str()), ("A & B", "de-at"));
    assert_eq!(links.urls, ["http://h.example/sound", "http://h.example/film"]);
    let atom = found("<feed xml:lang='fr'><title type='text'>C</title></feed>");
    assert_eq!((atom.title.as_str(), atom.language.as_str(), atom.charset), ("C", "fr", Some("UTF-8")));
}

#[test]
fn packed_and_oddly_encoded_sitemaps_are_read_within_the_limits() {
    let sitemap = "<urlset><url><loc>/\u{E9}</loc></url></urlset>";
    let expected = ["http://h.example/%C3%A9"];
    let options = Options::default();
    let octets: (&str, &[u8]) = ("content-type", b"application/octet-stream");
    let packed = gzip(sitemap.as_bytes());
    assert_eq!(read("http://h.example/s.xml.gz", &[octets], &packed, &options).urls, expected);
    let coded: (&str, &[u8]) = ("content-encoding", b"gzip");
    assert_eq!(read("http://h.example/s.xml.gz", &[octets, coded], &packed, &options).urls, expected);
    assert_eq!(read("http://h.example/s.xml.gz", &[octets, coded], &gzip(&packed), &options).urls, expected);

    let utf_16: Vec<u8> = "\u{FEFF}".encode_utf16().chain(sitemap.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(read("http://h.example/s.xml", &[], &utf_16, &options).urls, expected);
    let latin = [b"<?xml version='1.0' encoding='iso-8859-1'?>", &b"<urlset><loc>/\xE9</loc></urlset>"[..]].concat();
    assert_eq!(read("http://h.example/s.xml", &[], &latin, &options).urls, expected);

    let other = gzip(b"<html><a href=/a>");
    assert_eq!(read("http://h.example/page.gz", &[octets], &other, &options).charset, None, "an archive is none");
    let bomb = gzip(&[b"<urlset><loc>/a</loc>".as_slice(), &vec![b' '; 64 << 20]].concat());
    let links = read("http://h.example/s.xml.gz", &[octets], &bomb, &options);
    assert_eq!((links.urls, links.completeness), (vec!["http://h.example/a".to_owned()], Completeness::Complete));

    let many: String = (0..1500).map(|number| format!("<url><loc>/{number}</loc></url>")).collect();
    let links = found(&format!("<urlset>{many}</urlset>"));
    assert_eq!((links.urls.len(), links.truncated), (1000, true));
}

#[test]
fn plain_text_sitemaps_have_a_url_a_line() {
    let text =
        "\u{FEFF}http://h.example/a\r\nhttps://o.example/b \n\nftp://h.example/no\n/relative\nhttp://h.example/a\n";
    let expected = ["http://h.example/a", "https://o.example/b"];
    let cases: &[(&str, &str, bool)] = &[
        ("http://h.example/sitemap.txt", "text/plain", true),
        ("http://h.example/x/Sitemap-2.TXT", "text/plain; charset=utf-8", true),
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
    let packed = read("http://h.example/sitemap.txt.gz", &[], &gzip(text.as_bytes()), &Options::default());
    assert_eq!(packed.urls, expected);
}

#[test]
fn public_test_files_have_the_links_that_they_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/sitemaps");
    if !folder.exists() {
        // Not by the macro, whose output a test that passes does not show.
        let _ = writeln!(std::io::stderr(), "SKIPPED: no conformance files in {}", folder.display());
        return;
    }
    let cases: &[(&str, usize, &str)] = &[
        ("atom.xml", 3, "http://example.org/"),
        ("sitemap.badns.xml", 2, "http://www.example.com/1"),
        ("sitemap.index.xml", 15, "https://example.com/sitemap.jss?portalCode=10260&lang=en"),
        ("sitemap.ns.xml", 2, "http://www.example.com/1"),
        ("sitemap.txt", 2, "http://www.domain.com/page1.html"),
        ("sitemap-with-bom.txt", 2, "http://www.domain.com/page1.html"),
        ("sitemap.txt.gz", 5, "http://www.example.com/"),
        ("xmlSitemap.gz", 5, "http://www.example.com/"),
        ("extension/sitemap-images.xml", 1, "http://www.example.com/images/some_image_landing_page.html"),
        ("extension/sitemap-links.xml", 3, "http://www.example.com/english/"),
        ("extension/sitemap-mobile.xml", 3, "http://www.example.com/mobile-friendly-1/"),
        ("extension/sitemap-news.xml", 2, "http://www.example.org/business/article55.html"),
        ("extension/sitemap-videos.xml", 3, "http://www.example.com/videos/some_video_landing_page.html"),
        ("extension/sitemap-videos-tvshow.xml", 1, "https://example.org/my-tv-show/23/13/"),
        (
            "extension/hebdenbridgetimes-articles-sitemap.xml",
            74,
            "http://www.hebdenbridgetimes.co.uk/news/local/video-tour-de-yorkshire-in-calderdale-1-7242580",
        ),
        ("extension/pagemaps-sitemap.xml", 2, "http://www.example.com/foo"),
        (
            "extension/shinpaideshou-news-sitemap.xml",
            3,
            "https://shinpaideshou.wordpress.com/2017/04/25/job-opening-reischauer-policy-research-fellow/",
        ),
    ];
    for (file, n_links, first) in cases {
        let body = std::fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let links = read(&format!("http://www.example.com/{file}"), &[], &body, &Options::default());
        assert_eq!((links.urls.len(), links.urls.first().map(String::as_str)), (*n_links, Some(*first)), "{file}");
    }
}
