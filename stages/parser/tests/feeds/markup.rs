//! Markup: what stands before a root, what is broken behind it, and what relative URLs refer to.

use super::{found, gzip, read};
use parser::options::Options;

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
