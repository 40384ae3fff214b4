//! Sitemaps and feeds: recognised by what they are, whatever the server calls them.

use flate2::Compression;
use flate2::write::GzEncoder;
use parser::options::Options;
use parser::page::{Limits, Links, Response, links_by};
use parser::source::Source;
use rhumb_warc::content_coding::Completeness;
use rhumb_wire::message::Cut;
use std::io::Write as _;
use std::path::Path;

const LIMITS: Limits = Limits {
    decoded_bytes_max: 1 << 20,
    sitemap_bytes_max: 2 << 20,
    links_per_page_max: 1000,
    links_per_sitemap_max: 3000,
    url_bytes_max: 2048,
};

fn read(url: &str, headers: &[(&str, &[u8])], body: &[u8], options: &Options) -> Links {
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

fn found(body: &str) -> Links {
    read(
        "http://h.example/dir/feed",
        &[],
        body.as_bytes(),
        &Options::default(),
    )
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(plain)
        .expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

/// Sitemaps and feeds: the body, its kind and its links.
const FEEDS: &[(&str, Source, &[&str])] = &[
    (
        "<urlset><url><loc>http://o.example/a</loc></url></urlset>",
        Source::Sitemap,
        &["http://o.example/a"],
    ),
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
        "<urlset><url><loc>/a</loc><xhtml:link rel='alternate' hreflang='de' \
         href='/de'/></url></urlset>",
        Source::Sitemap,
        &["http://h.example/a", "http://h.example/de"],
    ),
    (
        "<!DOCTYPE urlset [ <!ENTITY x \"[y]\"> ]\n><urlset><url><loc>/a</loc></url></urlset>",
        Source::Sitemap,
        &["http://h.example/a"],
    ),
    (
        "<urlset><url><loc>/a</loc></url><url><loc>/b",
        Source::Sitemap,
        &["http://h.example/a"],
    ),
    (
        "<urlset><url><loc></loc><loc/></url></urlset>",
        Source::Sitemap,
        &[],
    ),
    (
        "<rss version='2.0'><channel><title>News</title><link>http://h.example/</link><atom:link \
         rel='self' href='/self'/><atom:link rel='next' \
         href='/page-2'/><item><title>x</title><link>/a</link><guid>http://h.example/a</guid><comments>/a#c</comments></item><item><guid>http://h.example/b</guid></item><item><guid isPermaLink='false'>http://h.example/no</guid></item><item><guid>urn:x</guid><enclosure url='/sound'/></item></channel></rss>",
        Source::Feed,
        &[
            "http://h.example/",
            "http://h.example/page-2",
            "http://h.example/a",
            "http://h.example/b",
        ],
    ),
    (
        "<rdf:RDF><channel rdf:about='x'><link>/</link></channel><item><link> /a \
         </link></item></rdf:RDF>",
        Source::Feed,
        &["http://h.example/", "http://h.example/a"],
    ),
    (
        "<feed xmlns='http://www.w3.org/2005/Atom'><link href='/'/><link rel='self' \
         href='/feed'/><entry><link rel='alternate' href='a'/><link rel='enclosure' \
         href='/sound'/><content src='b'/></entry></feed>",
        Source::Feed,
        &[
            "http://h.example/",
            "http://h.example/dir/a",
            "http://h.example/dir/b",
        ],
    ),
    (
        "<feed xml:base='/x/'><entry><link href='a'/></entry></feed>",
        Source::Feed,
        &["http://h.example/x/a"],
    ),
    (
        "<a:feed><a:link href='/a'/></a:feed>",
        Source::Feed,
        &["http://h.example/a"],
    ),
];

/// What comes of references, of markup where there can be none, and of ends that are missing: the
/// body and its links.
const BROKEN: &[(&str, &[&str])] = &[
    (
        "<urlset><loc>/?a=1&copy=2&region=3&lt</loc></urlset>",
        &["/?a=1&copy=2&region=3&lt"],
    ),
    (
        "<urlset><loc>/?a=1&amp;copy=2&#38;amp;</loc></urlset>",
        &["/?a=1&copy=2&amp;"],
    ),
    (
        "<urlset><loc>/a&#xE9;&eacute;</loc></urlset>",
        &["/a%C3%A9%C3%A9"],
    ),
    (
        "<urlset><loc>/?<![CDATA[a&amp;b&section=1]]>&amp;c</loc></urlset>",
        &["/?a&amp;b&section=1&c"],
    ),
    (
        "<rss><channel><link>/?a=1&para=2</link><guid>http://h.example/?x&not=3&times;</guid></channel></rss>",
        &["/?a=1&para=2", "/?x&not=3%C3%97"],
    ),
    (
        "<feed><entry><link href='/?a&sect=1&amp;b&#x26;c'/></entry></feed>",
        &["/?a&sect=1&b&c"],
    ),
    (
        "<urlset><url><loc>/1<lastmod>2031</lastmod></url><url><loc> /2 \
         </url><url><loc>/3</loc></url></urlset>",
        &["/1", "/2", "/3"],
    ),
    (
        "<urlset><url><loc>/1<url><loc>/2<loc>/3<priority>1</priority></urlset>",
        &["/1", "/2", "/3"],
    ),
    (
        "<urlset><loc>/1<br/></loc><loc><b>/2</b></loc><loc>/<i>3</i>/x</loc><loc><!-- x \
         -->/4</loc></urlset>",
        &["/1", "/2", "/3/x", "/4"],
    ),
    (
        "<urlset><loc>/1<image:image><image:loc>/no</image:loc></image:image></urlset>",
        &["/1"],
    ),
    (
        "<urlset><loc>/1<xhtml:link rel='alternate' href='/2'/></urlset>",
        &["/1", "/2"],
    ),
    (
        "<sitemapindex><sitemap><loc>/1</sitemap><sitemap>/2<sitemap>/3</sitemapindex>",
        &["/1", "/2", "/3"],
    ),
    ("<urlset><loc>/1</loc><loc>/half", &["/1"]),
    ("<urlset><loc>/1</loc><loc>/2</lo", &["/1", "/2"]),
    (
        "<urlset><loc>/1</loc><xhtml:link rel='alternate' href='/half",
        &["/1"],
    ),
    (
        "<urlset><loc></loc><loc/><lastmod>x</lastmod><loc> \n </loc></urlset>",
        &[],
    ),
    (
        "<rss><item><link>/1<title>x</title><guid>http://h.example/2<item><link>/3</link></item></rss>",
        &["/1", "/2", "/3"],
    ),
];

/// Where elements of any depth say what relative URLs refer to.
const BASES: &[(&str, &[&str])] = &[
    (
        "<feed xml:base='/a/'><link href='1'/><entry xml:base='b/'><link href='2'/><link \
         xml:base='c/' href='3'/><link href='4'/></entry><entry><link href='5'/></entry></feed>",
        &["/a/1", "/a/b/2", "/a/b/c/3", "/a/b/4", "/a/5"],
    ),
    (
        "<feed><entry xml:base='http://o.example/x/y'><link href='z'/></entry><link \
         href='1'/></feed>",
        &["http://o.example/x/z", "/dir/1"],
    ),
    (
        "<feed xml:base='/?a=1&amp;b'><link href='#x'/></feed>",
        &["/?a=1&b"],
    ),
    (
        "<feed xml:base='http://['><link href='1'/></feed>",
        &["/dir/1"],
    ),
    (
        "<feed><!-- <entry xml:base='/no/'> --><link href='1'/></feed>",
        &["/dir/1"],
    ),
    (
        "<feed><summary><![CDATA[<p xml:base='/no/'>]]><link href='1'/></feed>",
        &["/dir/1"],
    ),
    (
        "<feed><entry xml:base='/a/'><content src='1'/><title>x<entry xml:base='/b/'><link \
         href='2'/></feed>",
        &["/a/1", "/b/2"],
    ),
    (
        "<rss xml:base='/a/'><channel><link xml:base='b/'>1</link><link>2</link></channel></rss>",
        &["/a/b/1", "/a/2"],
    ),
    (
        "<urlset><url xml:base='/a/'><loc>1</loc></url><url><loc>2</loc></url></urlset>",
        &["/a/1", "/dir/2"],
    ),
];

#[test]
fn broken_feeds_keep_what_can_be_read_and_bases_end_with_their_elements() {
    for (body, expected) in BROKEN.iter().chain(BASES) {
        let links = found(body);
        let path = |url: &String| {
            url.strip_prefix("http://h.example")
                .unwrap_or(url)
                .to_owned()
        };
        assert_eq!(
            links.urls.iter().map(path).collect::<Vec<_>>(),
            *expected,
            "{body}"
        );
    }
}

#[test]
fn a_root_is_seen_behind_anything_of_any_length_that_may_stand_before_it() {
    let long = "x>'\"[ ".repeat(10_000);
    let quoted = long.replace('"', "");
    let before = [
        format!("<?xml version='1.0'?><!-- {long} -->"),
        format!("<?xml-stylesheet {long}?>\n<!-- a --><!-- b -->"),
        format!("<!DOCTYPE urlset SYSTEM \"{quoted}\">"),
        format!(
            "<!DOCTYPE urlset [<!-- {long} ]> --><?x {long} ]> ?><!ENTITY x \"{quoted}]>\"> ]>"
        ),
        " \n".repeat(10_000),
        "<!-- a -->".repeat(10_000),
        "<?xml version='1.0'>".to_owned(),
        "<!DOCTYPE urlset [<!ENTITY x \"y>]>".to_owned(),
    ];
    let options = Options::default();
    for before in before {
        let sitemap = format!("{before}<urlset><url><loc>/a</loc></url></urlset>");
        let wide: Vec<u8> = sitemap.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let bodies = [
            sitemap.clone().into_bytes(),
            format!("\u{FEFF}{sitemap}").into_bytes(),
            [b"\xFE\xFF", &*wide].concat(),
            gzip(sitemap.as_bytes()),
            gzip(&[b"\xFE\xFF", &*wide].concat()),
        ];
        for (number, body) in bodies.iter().enumerate() {
            let links = read("http://h.example/s", &[], body, &options);
            let start: String = sitemap.chars().take(40).collect();
            assert_eq!(links.urls, ["http://h.example/a"], "{number} {start}");
        }
    }
    let unmarked: Vec<u8> = "<?xml version='1.0'?><urlset><loc>/a</loc></urlset>"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(
        read("http://h.example/s", &[], &unmarked, &options).urls,
        ["http://h.example/a"]
    );
    for never in ["<!-- ", "<?x ", "<!DOCTYPE urlset [ ", "<!DOCTYPE urlset '"] {
        assert_eq!(
            found(&(never.to_owned() + &"x".repeat(100_000))).urls,
            [""; 0]
        );
    }
}

#[test]
fn titles_with_markup_are_whole() {
    let titles = [
        "<feed><title type='xhtml'><div xmlns='x'>One <em>&lt;two&gt;</em></div></title></feed>",
        "<rss><channel><title>One <b>&lt;two></b><br/></title></channel></rss>",
    ];
    for body in titles {
        assert_eq!(found(body).title, "One <two>", "{body}");
    }
}

#[test]
fn every_kind_of_feed_has_its_links() {
    for (body, source, expected) in FEEDS {
        for content_type in [
            "",
            "text/html",
            "application/rss+xml; charset=utf-8",
            "text/plain",
        ] {
            let headers: [(&str, &[u8]); 1] = [("content-type", content_type.as_bytes())];
            let links = read(
                "http://h.example/dir/feed",
                &headers,
                body.as_bytes(),
                &Options::default(),
            );
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
    let rss = "<rss><channel><title>A &amp; \
               <![CDATA[B]]></title><language>de-at</language><item><title>x</title><enclosure \
               url='/sound'/><media:content url='/film'/></item></channel></rss>";
    let links = read(
        "http://h.example/",
        &[],
        rss.as_bytes(),
        &Options {
            embedded: true,
            ..Options::default()
        },
    );
    assert_eq!(
        (links.title.as_str(), links.language.as_str()),
        ("A & B", "de-at")
    );
    assert_eq!(
        links.urls,
        ["http://h.example/sound", "http://h.example/film"]
    );
    let atom = found("<feed xml:lang='fr'><title type='text'>C</title></feed>");
    assert_eq!(
        (atom.title.as_str(), atom.language.as_str(), atom.charset),
        ("C", "fr", Some("UTF-8"))
    );
}

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
