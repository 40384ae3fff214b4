//! Usage: what its owner says of the use of a page, and what becomes of it by that.
//!
//! In: a page as the fetcher passed it on. Out: signals and a verdict, the same as the parser's: the
//! archiver reads pages beside it, and waits for no word from it.

use rhumb_config::{Pipeline, Usages};
use rhumb_markup::media_type::MediaType;
use rhumb_markup::metas::{METAS_BYTES_MAX, metas};
use rhumb_usage::{Said, Signals, Verdict, is_of_meta};
use rhumb_warc::content_coding;
use rhumb_wire::message::Page;

/// Reads what owners say of the use of their pages.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    /// What the pages of each topic are for.
    pub(crate) usages: Usages,
    /// By which name headers and metas address us.
    pub(crate) product_token: String,
}

impl From<&Pipeline> for Reader {
    fn from(pipeline: &Pipeline) -> Self {
        Reader {
            usages: Usages::from(pipeline),
            product_token: pipeline.product_token(),
        }
    }
}

/// What is said of the use of a page, and what becomes of it.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) signals: Signals,
    pub(crate) verdict: Verdict,
}

impl Reader {
    /// Reads a page. A robots.txt is none: it is kept, whatever it says. A wall is not the page that
    /// it hides: of that page there is what robots.txt says alone.
    pub(crate) fn read(&self, page: &Page) -> Usage {
        if page.is_robots {
            return Usage::default();
        }
        let signals = if page.wall.is_empty() {
            self.signals(page)
        } else {
            page.usage.clone()
        };
        let verdict = self.usages.of(&page.origin.topic).verdict(signals.stances);
        Usage { signals, verdict }
    }

    /// What robots.txt, headers and metas of a page say.
    fn signals(&self, page: &Page) -> Signals {
        let headers = || {
            let headers = page.headers.iter();
            headers.map(|(name, value)| (name.as_str(), value.as_slice()))
        };
        let values = |wanted: &'static str| {
            let named = headers().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
            named.map(|(_, value)| value)
        };
        let codings = values("content-encoding");
        let decoded = content_coding::decode(codings, &page.body, METAS_BYTES_MAX);
        let metas = metas(
            MediaType::of(values("content-type")),
            &decoded.body,
            |name| is_of_meta(name, &self.product_token),
        );
        let said = Said {
            robots: &page.usage,
            headers: headers(),
            metas: metas
                .iter()
                .map(|(name, content)| (name.as_slice(), content.as_slice())),
        };
        let fetched_s = page.fetched_at_ms / 1000;
        Signals::read(said, &self.product_token, fetched_s.cast_signed())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::page::tests::page;
    use rhumb_config::{Unwanted, Usage as Section};
    use rhumb_usage::{Purpose, Stance};
    use std::io::Write as _;

    pub(crate) fn reader(unwanted: Unwanted) -> Reader {
        Reader {
            usages: Usages::from(Section {
                purposes: vec![Purpose::AiTrain],
                unwanted,
            }),
            product_token: "rhumb".to_owned(),
        }
    }

    /// Such a page, with one more header.
    pub(crate) fn with_header(page: Page, name: &str, value: &str) -> Page {
        let header = (name.to_owned(), value.as_bytes().to_vec());
        Page {
            headers: page.headers.into_iter().chain([header]).collect(),
            ..page
        }
    }

    #[test]
    fn signals_are_read_in_every_place_and_robots_txt_itself_is_kept() {
        let reader = reader(Unwanted::Withhold);
        let meta = b"<meta name=robots content=noai>";
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(meta).unwrap();
        let packed = packed.finish().unwrap();
        let pages = [
            page("http://a.test/1", 1, meta),
            with_header(
                page("http://a.test/2", 1, &packed),
                "content-encoding",
                "gzip",
            ),
            with_header(page("http://a.test/3", 1, b"x"), "tdm-reservation", "1"),
            Page {
                usage: Signals::of_robots_txt("content-usage: train-ai=n\n"),
                ..page("http://a.test/4", 1, b"x")
            },
        ];
        for page in pages {
            let Usage { signals, verdict } = reader.read(&page);
            assert_eq!(signals.stances.on(Purpose::AiTrain), Stance::Refused);
            assert!(verdict.withholds(), "{}", page.url);
            let robots = Page {
                is_robots: true,
                ..page
            };
            assert!(reader.read(&robots).signals.are_silent());
        }
        let silent = reader.read(&page("http://a.test/", 1, b"<meta name=viewport>"));
        assert!(silent.signals.are_silent() && silent.verdict == Verdict::Kept);
    }
    #[test]
    fn a_wall_says_nothing_of_the_page_that_it_hides_and_robots_txt_does() {
        let reader = reader(Unwanted::Withhold);
        let said = page("http://a.test/", 1, b"<meta name=robots content=noai>");
        let said = with_header(said, "tdm-reservation", "1");
        assert!(reader.read(&said).verdict.withholds());
        let wall = Page {
            wall: "cloudflare".into(),
            ..said
        };
        let Usage { signals, verdict } = reader.read(&wall);
        assert!(signals.are_silent() && verdict == Verdict::Kept);
        let robots = Signals::of_robots_txt("content-usage: train-ai=n\n");
        let wall = Page {
            usage: robots.clone(),
            ..wall
        };
        let Usage { signals, verdict } = reader.read(&wall);
        assert!(signals == robots && verdict.withholds());
    }
}
