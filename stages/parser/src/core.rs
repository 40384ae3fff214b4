//! The parser's core: a message of found URLs for each page that has any; several when they are very long.
//!
//! In: [`Page`]s. Out: [`FoundUrls`], caused by their page. Keeps nothing.

use crate::page::{Limits, Links, Response, links};
use shared::config::Pipeline;
use shared::message::{Edge, FoundUrls, Origin, Page, Undecodable, UrlList, decode};
use shared::stage::store::StoreError;
use shared::stage::{Core, Count, Event, Output, Ticket, Token};
use shared::time::Timestamp;
use std::convert::Infallible;

/// URLs of one message, in bytes: the links of a page together may be longer than `broker.max_payload`.
const MESSAGE_BYTES_MAX: usize = 512 << 10;

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much of a page is taken.
    pub limits: Limits,
    /// Whom robots directives may address.
    pub agent: String,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        Settings {
            limits: Limits {
                decoded_bytes_max: pipeline.limits.decoded_bytes_max.as_usize(),
                links_per_page_max: pipeline.limits.links_per_page,
                url_bytes_max: pipeline.limits.url_bytes_max,
            },
            agent: pipeline.user_agent(),
        }
    }
}

/// The parser.
#[derive(Debug)]
pub struct Parser {
    settings: Settings,
    pages: u64,
    bytes: u64,
    links: u64,
    redirects: u64,
    uncrawlable: u64,
    nofollow: u64,
}

impl Parser {
    /// A parser.
    pub fn new(settings: Settings) -> Self {
        Parser { settings, pages: 0, bytes: 0, links: 0, redirects: 0, uncrawlable: 0, nofollow: 0 }
    }

    fn page(&mut self, page: &Page, ticket: Ticket, out: &mut Output<Infallible>) {
        let headers: Vec<(&str, &[u8])> =
            page.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let response = Response { url: &page.url, status: page.status, headers: &headers, body: &page.body };
        let links = links(&response, &self.settings.limits, &self.settings.agent);
        self.count(page, &links);
        let origin = if links.redirect { redirected(page) } else { linked(page) };
        let mut message = FoundUrls { origin, urls: UrlList::new() };
        for url in links.urls.iter().chain(&links.literal) {
            if message.urls.bytes() + url.len() > MESSAGE_BYTES_MAX {
                out.publish(Token::None, &message, vec![ticket]);
                message.urls = UrlList::new();
            }
            message.urls.push(url);
        }
        if !message.urls.is_empty() {
            out.publish(Token::None, &message, vec![ticket]);
        }
        out.finish(ticket);
    }

    fn count(&mut self, page: &Page, links: &Links) {
        self.pages += 1;
        self.bytes += page.body.len() as u64;
        self.links += links.urls.len() as u64;
        self.redirects += u64::from(links.redirect);
        self.uncrawlable += u64::from(links.uncrawlable);
        self.nofollow += u64::from(links.nofollow);
    }
}

/// A link leads one step away from the seed.
fn linked(page: &Page) -> Origin {
    Origin {
        page: page.url.clone(),
        topic: page.origin.topic.clone(),
        depth: page.origin.depth.saturating_add(1),
        redirects: 0,
        seed: false,
    }
}

/// A redirect leads to the same place under another name: same depth, one hop more, a seed still.
fn redirected(page: &Page) -> Origin {
    Origin {
        page: page.url.clone(),
        topic: page.origin.topic.clone(),
        depth: page.origin.depth,
        redirects: page.origin.redirects.saturating_add(1),
        seed: page.origin.seed,
    }
}

impl Core for Parser {
    type Input = Page;
    type Effect = Infallible;
    type Answer = Infallible;

    fn decode(_edge: Edge, payload: &[u8]) -> Result<Page, Undecodable> {
        decode(payload)
    }

    fn step(
        &mut self,
        _now: Timestamp,
        event: Event<Page, Infallible>,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        if let Event::Message { ticket, input } = event {
            self.page(&input, ticket, out);
        }
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }

    fn counts(&self) -> Vec<Count> {
        vec![
            ("pages_total", self.pages),
            ("bytes_total", self.bytes),
            ("links_total", self.links),
            ("redirects_total", self.redirects),
            ("uncrawlable_total", self.uncrawlable),
            ("nofollow_total", self.nofollow),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(status: u16, headers: &[(&str, &str)], body: &str) -> Page {
        Page {
            url: "http://a.test/x".into(),
            origin: Origin { page: String::new(), topic: "t".into(), depth: 3, redirects: 1, seed: true },
            status,
            fetched_at_ms: 0,
            elapsed_us: 0,
            address: None,
            headers: headers.iter().map(|(name, value)| ((*name).into(), value.as_bytes().to_vec())).collect(),
            truncated: false,
            body: body.as_bytes().to_vec(),
        }
    }

    fn found(page: Page) -> Option<FoundUrls> {
        let mut messages = messages(page);
        assert!(messages.len() <= 1);
        messages.pop()
    }

    fn messages(page: Page) -> Vec<FoundUrls> {
        let limits = Limits { decoded_bytes_max: 16 << 20, links_per_page_max: 5000, url_bytes_max: 2048 };
        let mut parser = Parser::new(Settings { limits, agent: "rhumb".into() });
        let mut out = Output::default();
        parser.step(Timestamp::ZERO, Event::Message { ticket: Ticket(7), input: page }, &mut out).unwrap();
        assert_eq!(out.finished, [Ticket(7)]);
        assert!(out.publishes.iter().all(|publish| publish.causes == [Ticket(7)]));
        out.publishes.iter().map(|publish| decode(&publish.payload).unwrap()).collect()
    }

    #[test]
    fn links_lie_one_step_deeper_and_are_no_seeds() {
        let found = found(page(200, &[("content-type", "text/html")], "<a href=/y>y</a>")).unwrap();
        assert_eq!(found.urls.iter().collect::<Vec<_>>(), ["http://a.test/y"]);
        assert_eq!((found.origin.depth, found.origin.redirects, found.origin.seed), (4, 0, false));
        assert_eq!(found.origin.page, "http://a.test/x");
    }

    #[test]
    fn a_redirect_keeps_depth_and_seed_and_counts_a_hop() {
        let found = found(page(301, &[("location", "http://b.test/")], "")).unwrap();
        assert_eq!(found.urls.iter().collect::<Vec<_>>(), ["http://b.test/"]);
        assert_eq!((found.origin.depth, found.origin.redirects, found.origin.seed), (3, 2, true));
    }

    #[test]
    fn links_too_long_for_one_message_travel_in_several() {
        let filler = "x".repeat(2000);
        let body: String = (0..1000).map(|n| format!("<a href=/{n}-{filler}>y</a>")).collect();
        let messages = messages(page(200, &[("content-type", "text/html")], &body));
        assert!(messages.iter().all(|message| message.urls.bytes() <= MESSAGE_BYTES_MAX));
        let urls: Vec<String> =
            messages.iter().flat_map(|message| message.urls.iter().map(str::to_owned).collect::<Vec<_>>()).collect();
        let expected: Vec<String> = (0..1000).map(|n| format!("http://a.test/{n}-{filler}")).collect();
        assert!(urls == expected);
    }

    #[test]
    fn a_page_without_links_makes_no_message() {
        assert_eq!(found(page(200, &[("content-type", "text/html")], "nothing")), None);
        assert_eq!(found(page(404, &[("content-type", "text/html")], "<a href=/y>y</a>")), None);
    }
}
