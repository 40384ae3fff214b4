//! Dates of entries: which pages a sitemap or feed says have changed.

use super::read;
use parser::news::News;
use parser::options::Options;

/// 25 June 2010, 15:00 in UTC.
const AT_MS: u64 = 1_277_478_000_000;

/// What is news since the beginning of that day: the paths of the pages, with the hour.
fn news(body: &str) -> Vec<(String, u64)> {
    let options = Options {
        news: Some(News {
            after_ms: AT_MS - 15 * 3_600_000,
            until_ms: AT_MS + 9 * 3_600_000,
        }),
        ..Options::default()
    };
    let links = read("http://h.example/feed", &[], body.as_bytes(), &options);
    let dated = links.urls.iter().zip(&links.news);
    let told = dated.filter_map(|(url, at_ms)| {
        let path = url.strip_prefix("http://h.example")?.to_owned();
        Some((path, (*at_ms)? / 3_600_000 % 24))
    });
    told.collect()
}

fn told(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    let told = expected
        .iter()
        .map(|(path, hour)| ((*path).to_owned(), *hour));
    told.collect()
}

#[test]
fn the_entries_of_a_sitemap_have_their_own_dates() {
    let map = "<urlset>
        <url><loc>/a</loc><lastmod>2010-06-25T15:00:00Z</lastmod></url>
        <url><lastmod>2010-06-25T09:00:00+02:00</lastmod><loc>/before</loc></url>
        <url><loc>/none</loc></url>
        <url><loc>/old</loc><lastmod>2010-06-24T15:00:00Z</lastmod></url>
        <url><loc>/bad</loc><lastmod>yesterday</lastmod></url>
        <url><loc>/epoch</loc><lastmod>1970-01-01</lastmod></url>
        <url><loc>/future</loc><lastmod>2031-01-01</lastmod></url>
        <url><loc>/day</loc><lastmod>2010-06-25</lastmod></url>
        <url><loc>/open</loc><lastmod>2010-06-25T11:00Z
        <url><loc>/last</loc><lastmod>2010-06-25T12:00:00Z</lastmod>";
    let expected = [
        ("/a", 15),
        ("/before", 7),
        ("/day", 0),
        ("/open", 11),
        ("/last", 12),
    ];
    assert_eq!(news(map), told(&expected));
}

#[test]
fn a_page_that_was_listed_before_as_another_language_has_the_date_of_its_own_entry() {
    let map = "<urlset xmlns:xhtml='http://www.w3.org/1999/xhtml'>
        <url><loc>/en</loc><xhtml:link rel='alternate' hreflang='de' href='/de'/>
            <lastmod>2010-06-25T15:00:00Z</lastmod></url>
        <url><loc>/de</loc><lastmod>2010-06-25T16:00:00Z</lastmod></url></urlset>";
    assert_eq!(news(map), told(&[("/en", 15), ("/de", 16)]));
}

#[test]
fn an_index_says_which_sitemaps_changed() {
    let index = "<sitemapindex>
        <sitemap><loc>/1.xml</loc><lastmod>2010-06-25T15:00:00Z</lastmod></sitemap>
        <sitemap><loc>/2.xml</loc><lastmod>2009-06-25</lastmod></sitemap></sitemapindex>";
    assert_eq!(news(index), told(&[("/1.xml", 15)]));
}

#[test]
fn the_items_of_a_feed_have_dates_and_the_feed_itself_has_none() {
    let rss = "<rss xmlns:dc='http://purl.org/dc/elements/1.1/'><channel><link>/</link>
        <pubDate>Fri, 25 Jun 2010 15:00:00 GMT</pubDate>
        <item><link>/1</link><pubDate>Fri, 25 Jun 2010 15:00:00 GMT</pubDate>
            <comments>/1/comments</comments></item>
        <item><guid>http://h.example/2</guid><dc:date>2010-06-25T16:00:00Z</dc:date></item>
        <item><link>/3</link></item>
        </channel></rss>";
    assert_eq!(news(rss), told(&[("/1", 15), ("/2", 16)]));
    let atom = "<feed xmlns='http://www.w3.org/2005/Atom'><link href='/'/>
        <updated>2010-06-25T15:00:00Z</updated>
        <entry><link href='/1'/><published>2010-06-25T01:00:00Z</published>
            <updated>2010-06-25T15:00:00Z</updated><link rel='replies' href='/1/replies'/></entry>
        <entry><link rel='alternate' href='/2'/><published>2010-06-25T02:00:00Z</published>
            </entry></feed>";
    assert_eq!(news(atom), told(&[("/1", 15), ("/2", 2)]));
}

#[test]
fn no_date_is_read_where_none_is_wanted() {
    let map = "<urlset><url><loc>/a</loc><lastmod>2010-06-25T15:00:00Z</lastmod></url></urlset>";
    let links = read(
        "http://h.example/feed",
        &[],
        map.as_bytes(),
        &Options::default(),
    );
    assert_eq!((links.urls.len(), links.news.len()), (1, 0));
}
