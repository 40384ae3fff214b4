//! The parser's core: a message of found URLs for each page that has any; several when they are very long.
//!
//! In: [`Page`]s. Out: [`FoundUrls`], caused by their page, when the content-seen test has judged its body: the links of a body
//! that another page of the same server had first are left out. While there is an archiver also what documents say of themselves.

use crate::content::{Answer, Ask, BodySeen, Content};
use crate::options::Options;
use crate::page::{Limits, Links, Response, links_by};
use crate::told;
use shared::bus::lane_of;
use shared::config::Pipeline;
use shared::content_coding::Completeness;
use shared::message::{
    Anchor, ArchivedPage, Body, Document, Documents, Edge, FoundUrls, InPlace, Origin, Page, Place, Undecodable,
    UrlList,
};
use shared::partitions::Owners;
use shared::stage::store::StoreError;
use shared::stage::{Core, Count, Event, Output, Ticket, Token};
use shared::time::Timestamp;
use shared::topology::StageName;
use shared::url::{self, Rules};

/// URLs of one message, in bytes: the links of a page together may be longer than `broker.max_payload`.
const MESSAGE_BYTES_MAX: usize = 512 << 10;

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much of a page is taken.
    pub limits: Limits,
    /// Which links are taken.
    pub options: Options,
    /// How canonical URLs are rewritten.
    pub rules: Rules,
    /// Whom robots directives may address.
    pub agent: String,
    /// Says whether bodies are looked up among those met before.
    pub content_seen: bool,
    /// Says whether anybody keeps what documents say of themselves.
    pub documents: bool,
    /// The instance of dedup that has each partition.
    pub dedups: Owners,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        Settings {
            rules: pipeline.url,
            limits: Limits {
                decoded_bytes_max: pipeline.limits.decoded_bytes_max.as_usize(),
                links_per_page_max: pipeline.limits.links_per_page,
                url_bytes_max: pipeline.limits.url_bytes_max,
            },
            agent: pipeline.user_agent(),
            options: Options::from(pipeline),
            content_seen: pipeline.stages.parser.content_seen,
            documents: pipeline.stages.archiver.replicas > 0,
            dedups: Owners::new(pipeline.partitions, pipeline.stages.dedup.replicas),
        }
    }
}

/// A page's links on their way.
#[derive(Debug)]
struct Parsed {
    ticket: Ticket,
    origin: Origin,
    links: Links,
    document: Option<Document>,
}

/// The parser.
#[derive(Debug)]
pub struct Parser {
    settings: Settings,
    content: Content<Parsed>,
    tally: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    duplicates: u64,
    skipped: u64,
    pages: u64,
    bytes: u64,
    links: u64,
    redirects: u64,
    uncrawlable: u64,
    nofollow: u64,
    truncated: u64,
    cut: u64,
    broken: u64,
}

impl Parser {
    /// A parser.
    pub fn new(settings: Settings) -> Self {
        let content = Content::new(&settings.dedups);
        Parser { settings, content, tally: Tally::default() }
    }

    fn page(&mut self, now: Timestamp, page: &ArchivedPage, ticket: Ticket, out: &mut Output<Ask>) {
        let headers: Vec<(&str, &[u8])> =
            page.headers.iter().map(|header| (header.0.as_str(), header.1.as_slice())).collect();
        let (url, status) = (page.url.as_str(), page.status.to_native());
        let response = Response { url, status, headers: &headers, body: &page.body };
        let Settings { limits, options, agent, .. } = &self.settings;
        let mut links = links_by(&response, limits, options, agent);
        self.rewrite(url, &mut links);
        self.count(page.body.len(), &links);
        let origin = Origin { page: url.to_owned(), ..page.origin.read() };
        let origin = if links.redirect { redirected(origin) } else { linked(origin, links.urls.len()) };
        let document = (self.settings.documents && links.charset.is_some()).then(|| document(page, &mut links));
        let parsed = Parsed { ticket, origin, links, document };
        match parsed.links.body.filter(|_| self.settings.content_seen) {
            Some(fingerprint) => {
                let at = Place { url: url::fingerprint(url), links: links_fingerprint(&parsed) };
                self.content.wait(now, Body { fingerprint, at }, parsed);
            }
            None => self.finish(parsed, out),
        }
    }

    /// Bodies were judged: their pages go on.
    fn judged(&mut self, answer: Answer, out: &mut Output<Ask>) {
        for (mut parsed, verdict) in self.content.answered(answer) {
            self.tally.duplicates += u64::from(verdict != BodySeen::First);
            if verdict == BodySeen::SameLinks {
                self.tally.skipped += parsed.links.urls.len() as u64;
                parsed.links.urls.clear();
                parsed.links.anchors.clear();
            }
            self.finish(parsed, out);
        }
    }

    /// Publishes the links, and what the document says of itself: the page is finished.
    fn finish(&self, mut parsed: Parsed, out: &mut Output<Ask>) {
        publish(&parsed, self.settings.options.anchors, out);
        told::parsed(&parsed.origin, &parsed.links);
        if let Some(document) = parsed.document.take() {
            out.publish(Token::None, &Documents { entries: vec![document] }, vec![parsed.ticket]);
        }
        out.finish(parsed.ticket);
    }

    fn rewrite(&self, url: &str, links: &mut Links) {
        let rules = &self.settings.rules;
        if !rules.are_active() {
            return;
        }
        // A redirect to what is rewritten to the page's own URL is requested once as it is, lest it be lost.
        if links.redirect && links.urls.first().is_some_and(|target| rules.rewrite(target) == url) {
            links.literal = links.urls.pop();
        }
        links.rewrite(rules);
    }

    fn count(&mut self, body_bytes: usize, links: &Links) {
        self.tally.pages += 1;
        self.tally.bytes += body_bytes as u64;
        self.tally.links += links.urls.len() as u64;
        self.tally.redirects += u64::from(links.redirect);
        self.tally.uncrawlable += u64::from(links.uncrawlable);
        self.tally.nofollow += u64::from(links.nofollow);
        self.tally.truncated += u64::from(links.truncated);
        self.tally.cut += u64::from(links.completeness == Completeness::Cut);
        self.tally.broken += u64::from(links.completeness == Completeness::Broken);
    }
}

/// Returns a fingerprint of all that decides what comes of a page's links.
fn links_fingerprint(parsed: &Parsed) -> u64 {
    let Origin { page, topic, depth, .. } = &parsed.origin;
    let mut text = format!("{} {topic} {depth}", url::server_of(page));
    for url in &parsed.links.urls {
        text.push('\n');
        text.push_str(url);
    }
    url::body_fingerprint(text.as_bytes())
}

/// What a document says of itself.
fn document(page: &ArchivedPage, links: &mut Links) -> Document {
    Document {
        url: page.url.as_str().to_owned(),
        fetched_at_ms: page.fetched_at_ms.to_native(),
        title: std::mem::take(&mut links.title),
        language: std::mem::take(&mut links.language),
        links: u32::try_from(links.urls.len()).unwrap_or(u32::MAX),
    }
}

/// Puts the links into messages.
fn publish(parsed: &Parsed, with_anchors: bool, out: &mut Output<Ask>) {
    let Parsed { ticket, origin, links, .. } = parsed;
    let mut message = FoundUrls { origin: origin.clone(), urls: UrlList::new(), anchors: Vec::new() };
    // Links of a host's pages are much alike: they go where their URLs were met before.
    let lane = Token::Lane(lane_of(url::host_of(&origin.page)));
    let mut anchors = links.anchors.iter();
    let mut anchor_bytes = 0;
    for url in links.urls.iter().chain(&links.literal) {
        if message.urls.bytes() + anchor_bytes + url.len() > MESSAGE_BYTES_MAX {
            anchor_bytes = 0;
            out.publish(lane.clone(), &message, vec![*ticket]);
            message.urls = UrlList::new();
            message.anchors.clear();
        }
        message.urls.push(url);
        if with_anchors {
            let anchor = anchors.next().cloned().unwrap_or_default();
            anchor_bytes += size_of::<Anchor>() + anchor.text.len() + anchor.context.len();
            message.anchors.push(anchor);
        }
    }
    if !message.urls.is_empty() {
        out.publish(lane, &message, vec![*ticket]);
    }
}

/// A link leads one step away from the seed. What has flowed to its page flows on, shared among `links` links.
fn linked(origin: Origin, links: usize) -> Origin {
    Origin {
        depth: origin.depth.saturating_add(1),
        redirects: 0,
        seed: false,
        again: 0,
        flow: origin.flow.shared_among(links),
        ..origin
    }
}

/// A redirect leads to the same place under another name: same depth, one hop more, a seed still.
fn redirected(origin: Origin) -> Origin {
    Origin { redirects: origin.redirects.saturating_add(1), ..origin }
}

impl Core for Parser {
    type Input = InPlace<Page>;
    type Effect = Ask;
    type Answer = Answer;

    fn decode(_edge: Edge, payload: &[u8]) -> Result<InPlace<Page>, Undecodable> {
        InPlace::open(payload)
    }

    fn step(
        &mut self,
        now: Timestamp,
        event: Event<InPlace<Page>, Answer>,
        out: &mut Output<Ask>,
    ) -> Result<(), StoreError> {
        match event {
            Event::Message { ticket, input } => match input.read() {
                page if page.is_robots => out.finish(ticket),
                page => self.page(now, page, ticket, out),
            },
            Event::Answer(answer) => self.judged(answer, out),
            Event::Stored(_) | Event::Wake | Event::HearsAgain | Event::Drain => {}
        }
        out.effects.extend(self.content.asks(now));
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        self.content.ask_at()
    }

    fn is_idle(&self) -> bool {
        self.content.is_empty()
    }

    fn configure(&mut self, pipeline: &Pipeline) -> bool {
        self.settings = Settings { dedups: self.settings.dedups.clone(), ..Settings::from(pipeline) };
        true
    }

    fn owners(&mut self, stage: StageName, owners: &Owners) {
        if stage == StageName::Dedup {
            self.content.owned_by(owners);
        }
    }

    fn counts(&self) -> Vec<Count> {
        vec![
            ("pages_total", self.tally.pages),
            ("bytes_total", self.tally.bytes),
            ("links_total", self.tally.links),
            ("redirects_total", self.tally.redirects),
            ("uncrawlable_total", self.tally.uncrawlable),
            ("nofollow_total", self.tally.nofollow),
            // Pages whose links, or whose body, could not all be taken.
            ("truncated_links_total", self.tally.truncated),
            ("cut_bodies_total", self.tally.cut),
            ("broken_codings_total", self.tally.broken),
            ("duplicate_bodies_total", self.tally.duplicates),
            ("skipped_links_total", self.tally.skipped),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::message::{HttpVersion, decode};

    fn page(status: u16, headers: &[(&str, &str)], body: &str) -> Page {
        Page {
            url: "http://a.test/x".into(),
            origin: Origin { depth: 3, redirects: 1, ..Origin::seed("t") },
            status,
            fetched_at_ms: 0,
            elapsed_us: 0,
            address: None,
            http_version: HttpVersion::Http11,
            request_headers: Vec::new(),
            headers: headers.iter().map(|(name, value)| ((*name).into(), value.as_bytes().to_vec())).collect(),
            truncated: false,
            body: body.as_bytes().to_vec(),
            is_robots: false,
        }
    }

    fn message(ticket: u64, page: &Page) -> Event<InPlace<Page>, Answer> {
        Event::Message { ticket: Ticket(ticket), input: InPlace::of(page) }
    }

    fn settings() -> Settings {
        Settings {
            limits: Limits { decoded_bytes_max: 16 << 20, links_per_page_max: 5000, url_bytes_max: 2048 },
            options: Options::default(),
            rules: Rules::default(),
            agent: "rhumb".into(),
            content_seen: true,
            documents: false,
            dedups: Owners::new(4, 1),
        }
    }

    fn found(page: Page) -> Option<FoundUrls> {
        let mut messages = messages(page);
        assert!(messages.len() <= 1);
        messages.pop()
    }

    fn messages(page: Page) -> Vec<FoundUrls> {
        let mut parser = Parser::new(Settings { content_seen: false, ..settings() });
        let mut out = Output::default();
        parser.step(Timestamp::ZERO, message(7, &page), &mut out).unwrap();
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
    fn links_of_a_body_that_were_taken_from_another_page_are_left_out() {
        let mut parser = Parser::new(settings());
        let mut now = Timestamp::ZERO;
        let mut step = |event| {
            let mut out = Output::default();
            parser.step(now, event, &mut out).unwrap();
            now = now + std::time::Duration::from_secs(1);
            parser.step(now, Event::Wake, &mut out).unwrap();
            (out.effects, out.publishes.len(), out.finished, parser.is_idle())
        };
        let html = [("content-type", "text/html")];
        let mut other = page(200, &html, "<a href=/y>y</a>");
        other.url = "http://a.test/other".into();
        let (asks, published, finished, is_idle) = step(message(1, &other));
        assert_eq!((published, finished.len(), is_idle), (0, 0, false), "the page waits for the verdict");
        let [Ask { dedup: 0, ask }] = &asks[..] else { panic!("one ask") };
        let first = Some(Place { url: 1, links: ask.bodies[0].at.links });
        let reply = Some(shared::message::ContentReply { first: vec![first] });
        assert_eq!(step(Event::Answer(Answer { dedup: 0, reply })), (vec![], 0, vec![Ticket(1)], true));

        let mut places = |url: &str, headers: &[(&str, &str)], body: &str| {
            let input = Page { url: url.into(), ..page(200, headers, body) };
            let (asks, ..) = step(message(9, &input));
            step(Event::Answer(Answer { dedup: 0, reply: None }));
            asks[0].ask.bodies[0].at.links
        };
        // Does not begin like HTML, so that the type decides.
        let relative = "see <a href=y>y</a>";
        let there = places("http://a.test/1/x", &html, relative);
        assert_eq!(there, places("http://a.test/1/z", &html, relative));
        assert_ne!(there, places("http://a.test/2/x", &html, relative), "the links lead elsewhere");
        assert_ne!(there, places("http://b.test/1/x", &html, relative), "another server");
        let nofollow = [html[0], ("x-robots-tag", "nofollow")];
        assert_ne!(there, places("http://a.test/1/x", &nofollow, relative), "no links were taken");
        assert_ne!(there, places("http://a.test/1/x", &[("content-type", "text/plain")], relative));

        step(message(2, &page(200, &html, "<a href=/y>y</a>")));
        let (_, published, finished, _) = step(Event::Answer(Answer { dedup: 0, reply: None }));
        assert_eq!((published, finished), (1, vec![Ticket(2)]), "no answer counts as not met before");
    }

    #[test]
    fn a_page_without_links_makes_no_message() {
        assert_eq!(found(page(200, &[("content-type", "text/html")], "nothing")), None);
        assert_eq!(found(page(404, &[("content-type", "text/html")], "<a href=/y>y</a>")), None);
        let robots = page(200, &[("content-type", "text/html")], "<a href=/y>y</a>");
        assert_eq!(found(Page { is_robots: true, ..robots }), None);
    }
    #[test]
    fn a_document_says_of_itself_what_it_is_and_a_redirect_is_none() {
        let mut parser = Parser::new(Settings { content_seen: false, documents: true, ..settings() });
        let mut step = |input| {
            let mut out = Output::default();
            parser.step(Timestamp::ZERO, message(7, &input), &mut out).unwrap();
            assert_eq!(out.finished, [Ticket(7)]);
            let said = out.publishes.into_iter().filter(|publish| publish.edge == Edge::Documents);
            let said = said.map(|publish| (decode::<Documents>(&publish.payload).unwrap().entries, publish.causes));
            said.collect::<Vec<_>>()
        };
        let html = "<html lang=de><title>One</title><a href=/y>y</a>";
        let document = Document {
            url: "http://a.test/x".into(),
            fetched_at_ms: 0,
            title: "One".into(),
            language: "de".into(),
            links: 1,
        };
        let said = step(page(200, &[("content-type", "text/html")], html));
        assert_eq!(said, [(vec![document], vec![Ticket(7)])]);
        assert_eq!(step(page(301, &[("location", "/z")], "")), []);
    }

    #[test]
    fn anchors_travel_beside_their_urls() {
        let options = Options { anchors: true, ..Options::default() };
        let mut parser = Parser::new(Settings { content_seen: false, options, ..settings() });
        let mut anchors = |input| {
            let mut out = Output::default();
            parser.step(Timestamp::ZERO, message(7, &input), &mut out).unwrap();
            let found: FoundUrls = decode(&out.publishes[0].payload).unwrap();
            assert_eq!(found.urls.len(), found.anchors.len());
            found.anchors.into_iter().map(|anchor| anchor.text).collect::<Vec<_>>()
        };
        let html = [("content-type", "text/html")];
        assert_eq!(anchors(page(200, &html, "<a href=/y>why</a> and <a href=/z>zed</a>")), ["why", "zed"]);
        assert_eq!(anchors(page(301, &[("location", "http://b.test/")], "")), [""]);
        assert_eq!(anchors(page(301, &[("location", "http://a.test/%78")], "")), [""], "a literal target, too");
    }
}
