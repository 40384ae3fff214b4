//! Kinds: sitemaps and feeds are told by their roots, and each has its links and its title.

use super::{found, read};
use parser::options::Options;
use parser::source::Source;

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
