//! The mark of sitemaps: a robots.txt, or a sitemap index, names URLs as sitemaps.
//!
//! In: the page that names them, the server whose robots.txt did so first, and whether an index
//! lists them. Out: [`Origin::page`] with the mark, and what it says.
//!
//! The mark is a fragment of the page's URL: `http://a.test/robots.txt#sitemap-of=http://a.test`.
//! No canonical URL has a fragment. So no page that is fetched can pass its links off as sitemaps,
//! whatever it holds and wherever it lies (also one at `/robots.txt`), and no message needs another
//! layout. Source: sitemaps.org protocol 0.9, "Sitemaps & Cross Submits".

use super::urls::Origin;

/// What stands between the page's URL and the server.
const MARK: &str = "#sitemap-of=";
/// The same for sitemaps that an index lists.
const MARK_OF_LISTED: &str = "#listed-sitemap-of=";

impl Origin {
    /// The page on which the URLs stood, without a mark; empty for a seed.
    pub fn found_on(&self) -> &str {
        self.page
            .split_once('#')
            .map_or(&self.page, |(page, _)| page)
    }

    /// The server (`scheme://host[:port]`) whose robots.txt names the URLs as sitemaps, by itself
    /// or by an index that it names; empty when it was an index that no robots.txt names. None when
    /// they are no sitemaps as far as anybody said.
    pub fn sitemap_of(&self) -> Option<&str> {
        let mark = &self.page[self.page.find('#')?..];
        mark.strip_prefix(MARK)
            .or_else(|| mark.strip_prefix(MARK_OF_LISTED))
    }

    /// Returns whether an index lists the URLs as sitemaps, or what it lists redirects to them: no
    /// robots.txt names them itself.
    pub fn is_listed_sitemap(&self) -> bool {
        self.page
            .find('#')
            .is_some_and(|mark| self.page[mark..].starts_with(MARK_OF_LISTED))
    }

    /// The value of [`Origin::page`] for URLs that `page` names as sitemaps of `server`.
    pub fn page_of_sitemaps(page: &str, server: &str) -> String {
        [page, MARK, server].concat()
    }

    /// The value of [`Origin::page`] for URLs that `page`, an index, lists as sitemaps of `server`.
    pub fn page_of_listed_sitemaps(page: &str, server: &str) -> String {
        [page, MARK_OF_LISTED, server].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_page_and_server_and_no_page_has_one_by_itself() {
        let server = "http://a.test";
        for (page, found_on, sitemap_of, is_listed) in [
            ("", "", None, false),
            (
                "http://a.test/robots.txt",
                "http://a.test/robots.txt",
                None,
                false,
            ),
            (
                "http://a.test/x?sitemap-of=http://b.test",
                "http://a.test/x?sitemap-of=http://b.test",
                None,
                false,
            ),
            (
                &Origin::page_of_sitemaps("http://a.test/robots.txt", server),
                "http://a.test/robots.txt",
                Some(server),
                false,
            ),
            (
                &Origin::page_of_listed_sitemaps("http://b.test/i.xml", server),
                "http://b.test/i.xml",
                Some(server),
                true,
            ),
            (
                &Origin::page_of_listed_sitemaps("http://b.test/i.xml", ""),
                "http://b.test/i.xml",
                Some(""),
                true,
            ),
        ] {
            let origin = Origin {
                page: page.into(),
                ..Origin::default()
            };
            assert_eq!(
                (origin.found_on(), origin.sitemap_of()),
                (found_on, sitemap_of),
                "{page}"
            );
            assert_eq!(origin.is_listed_sitemap(), is_listed, "{page}");
        }
        let forged = rhumb_url::canonical(
            "http://a.test/robots.txt#sitemap-of=http://a.test",
            None,
            None,
        )
        .unwrap();
        assert_eq!(
            forged, "http://a.test/robots.txt",
            "a canonical URL has no fragment"
        );
    }
}
