//! The parser's core: a message of found URLs for each page that has any; several when they are
//! very long.
//!
//! In: [`Page`]s. Out: [`FoundUrls`], caused by their page, when the content-seen test has judged
//! its body: the links of a body that another page of the same server had first are left out. While
//! there is an archiver also what documents say of themselves.

use crate::content::{Answer, Ask, BodySeen, Content};
use crate::cuts::Cuts;
use crate::options::Options;
use crate::page::{Limits, Links, Response, links_by};
use crate::told;
use rhumb_config::Pipeline;
use rhumb_partition::Owners;
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, Output, Ticket};
use rhumb_url::Rules;
use rhumb_url::sketch;
use rhumb_url::time::Timestamp;
use rhumb_warc::content_coding::Completeness;
use rhumb_wire::lane_of;
use rhumb_wire::message::{
    Anchor, ArchivedPage, Body, Cut, Document, Documents, Edge, FoundUrls, InPlace, Origin, Page,
    Place, Undecodable, UrlList,
};
use rhumb_wire::topology::StageName;
use rhumb_wire::topology::Token;

/// URLs of one message, in bytes: the links of a page together may be longer than
/// `broker.max_payload`.
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
    /// By which name robots directives address us.
    pub product_token: String,
    /// Returns whether bodies are looked up among those met before.
    pub content_seen: bool,
    /// Returns whether anybody keeps what documents say of themselves.
    pub documents: bool,
    /// The topics that are configured and not removed: each may take the URLs of a sitemap.
    pub topics: Vec<String>,
    /// The instance of dedup that has each partition.
    pub dedups: Owners,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        Settings {
            rules: pipeline.url,
            limits: Limits {
                decoded_bytes_max: pipeline.limits.decoded_bytes_max.as_usize(),
                sitemap_bytes_max: pipeline.limits.sitemap_bytes_max.as_usize(),
                links_per_page_max: pipeline.limits.links_per_page,
                links_per_sitemap_max: pipeline.limits.links_per_sitemap,
                url_bytes_max: pipeline.limits.url_bytes_max,
            },
            product_token: pipeline.product_token(),
            options: Options::from(pipeline),
            content_seen: pipeline.stages.parser.content_seen,
            documents: pipeline.stages.archiver.replicas > 0,
            topics: pipeline
                .topics
                .iter()
                .filter(|(_, topic)| !topic.removed)
                .map(|(name, _)| name.clone())
                .collect(),
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
    cuts: Cuts,
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
    cut_sitemaps: u64,
    broken: u64,
}

impl Parser {
    /// A parser.
    pub fn new(settings: Settings) -> Self {
        let content = Content::new(&settings.dedups);
        Parser {
            settings,
            content,
            cuts: Cuts::default(),
            tally: Tally::default(),
        }
    }

    fn page(&mut self, now: Timestamp, page: &ArchivedPage, ticket: Ticket, out: &mut Output<Ask>) {
        let headers: Vec<(&str, &[u8])> = page
            .headers
            .iter()
            .map(|header| (header.0.as_str(), header.1.as_slice()))
            .collect();
        let url = page.url.as_str();
        let status = page.status.to_native();
        let response = Response {
            url,
            status,
            headers: &headers,
            body: &page.body,
        };
        let Settings {
            limits,
            options,
            product_token,
            ..
        } = &self.settings;
        let found = page.origin.read();
        let fingerprint = rhumb_url::fingerprint(url);
        let options = Options {
            sketch: options.sketch && sketch::is_wanted_of(fingerprint),
            is_named_sitemap: found.sitemap_of().is_some(),
            ..*options
        };
        let mut links = links_by(&response, limits, &options, product_token);
        self.rewrite(url, &mut links);
        self.count(page.body.len(), &links);
        self.cuts.read(
            fingerprint,
            links.urls.len(),
            links.cut(),
            page.truncated.is_some(),
        );
        let origin = Origin {
            page: page_of_links(url, &links, &found),
            ..found
        };
        let origin = if links.redirect {
            redirected(origin)
        } else {
            linked(origin, links.urls.len())
        };
        let is_told = links.charset.is_some() || links.cut().is_some();
        let document = (self.settings.documents && is_told).then(|| document(page, &mut links));
        let parsed = Parsed {
            ticket,
            origin,
            links,
            document,
        };
        match parsed.links.body.filter(|_| self.settings.content_seen) {
            Some(fingerprint) => {
                let at = Place {
                    url: fingerprint,
                    links: links_fingerprint(&parsed),
                };
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
    ///
    /// A sitemap belongs to its server. Its URLs are the topic's that found it, and beyond its
    /// scope those of the other topics whose scopes let them pass: the first that takes one has it.
    fn finish(&self, mut parsed: Parsed, out: &mut Output<Ask>) {
        publish(&parsed, &parsed.origin, self.settings.options.anchors, out);
        if parsed.links.is_sitemap {
            for topic in self
                .settings
                .topics
                .iter()
                .filter(|topic| **topic != parsed.origin.topic)
            {
                let origin = Origin {
                    topic: topic.clone(),
                    ..parsed.origin.clone()
                };
                publish(&parsed, &origin, self.settings.options.anchors, out);
            }
        }
        told::parsed(&parsed.origin, &parsed.links);
        if let Some(document) = parsed.document.take() {
            out.publish(
                Token::None,
                &Documents {
                    entries: vec![document],
                },
                vec![parsed.ticket],
            );
        }
        out.finish(parsed.ticket);
    }

    fn rewrite(&self, url: &str, links: &mut Links) {
        let rules = &self.settings.rules;
        if !rules.are_active() {
            return;
        }
        // A redirect to what is rewritten to the page's own URL is requested once as it is, lest it
        // be lost.
        if links.redirect
            && links
                .urls
                .first()
                .is_some_and(|target| rules.rewrite(target) == url)
        {
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
        self.tally.cut_sitemaps += u64::from(matches!(
            links.cut(),
            Some(Cut::SitemapLinks | Cut::SitemapBytes)
        ));
        self.tally.broken += u64::from(links.completeness == Completeness::Broken);
    }
}

/// Returns a fingerprint of all that decides what comes of a page's links.
fn links_fingerprint(parsed: &Parsed) -> u64 {
    let Origin {
        page, topic, depth, ..
    } = &parsed.origin;
    let mut text = format!("{} {topic} {depth}", rhumb_url::server_of(page));
    // The same index may be named by one robots.txt, and by none.
    text.extend(parsed.origin.sitemap_of());
    for url in &parsed.links.urls {
        text.push('\n');
        text.push_str(url);
    }
    rhumb_url::body_fingerprint(text.as_bytes())
}

/// What a document says of itself.
fn document(page: &ArchivedPage, links: &mut Links) -> Document {
    Document {
        url: page.url.as_str().to_owned(),
        fetched_at_ms: page.fetched_at_ms.to_native(),
        title: std::mem::take(&mut links.title),
        language: std::mem::take(&mut links.language),
        links: u32::try_from(links.urls.len()).unwrap_or(u32::MAX),
        cut: links.cut(),
    }
}

/// [`Origin::page`] of a page's links. Where a sitemap redirects to is a sitemap of the same
/// server, named or listed as that is. So are those that an index lists; those of an index that
/// nobody named are no server's. An index that another one lists names none: an index lists no
/// indexes (sitemaps.org).
fn page_of_links(url: &str, links: &Links, found: &Origin) -> String {
    let is_listed = found.is_listed_sitemap();
    match found.sitemap_of() {
        Some(server) if links.redirect && !is_listed => Origin::page_of_sitemaps(url, server),
        Some(server) if links.redirect || links.is_index && !is_listed => {
            Origin::page_of_listed_sitemaps(url, server)
        }
        None if links.is_index => Origin::page_of_listed_sitemaps(url, ""),
        _ => url.to_owned(),
    }
}

/// Puts the links into messages, found so.
fn publish(parsed: &Parsed, origin: &Origin, with_anchors: bool, out: &mut Output<Ask>) {
    let Parsed { ticket, links, .. } = parsed;
    let mut message = FoundUrls {
        origin: origin.clone(),
        urls: UrlList::new(),
        anchors: Vec::new(),
        sketch: links.sketch,
    };
    // Links of a host's pages are much alike: they go where their URLs were met before.
    let lane = Token::Lane(lane_of(rhumb_url::host_of(&origin.page)));
    let mut anchors = links.anchors.iter();
    let mut anchor_bytes = 0;
    for url in links.urls.iter().chain(&links.literal) {
        if message.urls.bytes() + anchor_bytes + url.len() > MESSAGE_BYTES_MAX {
            anchor_bytes = 0;
            out.publish(lane.clone(), &message, vec![*ticket]);
            message.urls = UrlList::new();
            message.anchors.clear();
            message.sketch = None;
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

/// A link leads one step away from the seed. What has flowed to its page flows on, shared among
/// `links` links.
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
    Origin {
        redirects: origin.redirects.saturating_add(1),
        ..origin
    }
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

    /// Whether a document was read to its end.
    fn why(&self, _: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        Ok(self.cuts.told_of(rhumb_url::fingerprint(url)))
    }

    fn configure(&mut self, pipeline: &Pipeline) -> bool {
        self.settings = Settings {
            dedups: self.settings.dedups.clone(),
            ..Settings::from(pipeline)
        };
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
            ("cut_sitemaps_total", self.tally.cut_sitemaps),
            ("broken_codings_total", self.tally.broken),
            ("duplicate_bodies_total", self.tally.duplicates),
            ("skipped_links_total", self.tally.skipped),
        ]
    }
}

#[cfg(test)]
mod tests;
