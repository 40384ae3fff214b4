//! The parser's core: a message of found URLs for each page that has any; several when they are
//! very long.
//!
//! In: [`Page`]s. Out: [`FoundUrls`], caused by their page, when the content-seen test has judged
//! its body: the links of a body that another page of the same server had first are left out. While
//! there is an archiver also what documents say of themselves. Signals, caused by no page.

use crate::content::{Answer, Ask, BodySeen, Content};
use crate::cuts::Cuts;
use crate::news::News;
use crate::options::Options;
use crate::page::{Limits, Links, Response, links_by};
use crate::signals::Signals;
use crate::texts::{self, Seen};
use crate::told;
use rhumb_config::{Pipeline, Usages};
use rhumb_partition::Owners;
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, Output, Ticket};
use rhumb_url::sketch;
use rhumb_url::time::Timestamp;
use rhumb_url::{Rules, Scheme, Server};
use rhumb_usage::{Said, Stances, Verdict};
use rhumb_warc::content_coding::Completeness;
use rhumb_wire::lane_of;
use rhumb_wire::message::{
    Anchor, ArchivedPage, Body, Cut, DatedPage, Document, Documents, Edge, FoundUrls, InPlace,
    Origin, Page, PageSignal, Place, SignalKind, Undecodable, UrlList,
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
    /// What the pages of each topic are for.
    pub usages: Usages,
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
            usages: Usages::from(pipeline),
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
    /// Which visit of the page it is.
    visit: u32,
    origin: Origin,
    links: Links,
    /// What the owner says of the use of the page.
    usage: Stances,
    /// Its sketch goes to the traps of its host's scheduler.
    is_sampled: bool,
    /// What the visit found of its text.
    text: Option<Seen>,
    /// Pages of which it says that they have changed.
    dated: Vec<DatedPage>,
    document: Option<Document>,
}

/// The parser.
#[derive(Debug)]
pub struct Parser {
    settings: Settings,
    content: Content<Parsed>,
    cuts: Cuts,
    signals: Signals,
    is_draining: bool,
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
    unwanted: u64,
    cut: u64,
    cut_sitemaps: u64,
    broken: u64,
    unchanged: u64,
}

impl Parser {
    /// A parser.
    pub fn new(settings: Settings) -> Self {
        let content = Content::new(&settings.dedups);
        let signals = Signals::new(&settings.dedups);
        Parser {
            settings,
            content,
            cuts: Cuts::default(),
            signals,
            is_draining: false,
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
        let is_first = page.visit.to_native() <= 1;
        // A page that is visited again is like itself.
        let is_sampled = options.sketch && is_first && sketch::is_wanted_of(fingerprint);
        let options = Options {
            sketch: is_sampled || page.text.is_some(),
            is_named_sitemap: found.sitemap_of().is_some(),
            news: news(page),
            ..*options
        };
        let mut links = links_by(&response, limits, &options, product_token);
        let text = texts::seen(page, &links);
        let usage = usage(page, &headers, &links, product_token);
        let verdict = self.settings.usages.of(&found.topic).verdict(usage.stances);
        self.rewrite(url, &mut links);
        self.count(page.body.len(), &links);
        self.cuts.read(
            fingerprint,
            links.urls.len(),
            links.cut(),
            page.truncated.is_some(),
        );
        let dated = dated(page, &links, &found);
        let origin = Origin {
            page: page_of_links(url, &links, &found),
            ..found
        };
        let origin = if links.redirect {
            redirected(origin)
        } else {
            linked(origin, links.urls.len())
        };
        self.tally.unwanted += u64::from(verdict != Verdict::Kept);
        let stances = usage.stances;
        let is_read = links.charset.is_some() || links.cut().is_some();
        let is_told = self.settings.documents && (is_read || !usage.are_silent());
        let document = is_told.then(|| Document {
            usage,
            text_changed: text.and_then(|seen| seen.text.is_changed),
            similarity: text.and_then(|seen| seen.similarity),
            ..document(page, &mut links, verdict)
        });
        let parsed = Parsed {
            ticket,
            visit: page.visit.to_native(),
            origin,
            links,
            usage: stances,
            is_sampled,
            text,
            dated,
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
            None => self.finish(now, parsed, out),
        }
    }

    /// Bodies were judged: their pages go on.
    fn judged(&mut self, now: Timestamp, answer: Answer, out: &mut Output<Ask>) {
        for (mut parsed, verdict) in self.content.answered(answer) {
            self.tally.duplicates += u64::from(verdict != BodySeen::First);
            if verdict == BodySeen::SameLinks {
                self.tally.skipped += parsed.links.urls.len() as u64;
                parsed.links.urls.clear();
                parsed.links.anchors.clear();
            }
            self.finish(now, parsed, out);
        }
    }

    /// Publishes the links, and what the document says of itself: the page is finished.
    ///
    /// A sitemap belongs to its server. Its URLs are the topic's that found it, and beyond its
    /// scope those of the other topics whose scopes let them pass: the first that takes one has it.
    fn finish(&mut self, now: Timestamp, mut parsed: Parsed, out: &mut Output<Ask>) {
        if let Some(signal) = signal(&parsed) {
            self.signals.add(now, signal);
        }
        for dated in std::mem::take(&mut parsed.dated) {
            self.signals.add_dated(now, dated);
        }
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

/// What its owner says of the use of a page.
fn usage(
    page: &ArchivedPage,
    headers: &[(&str, &[u8])],
    links: &Links,
    product_token: &str,
) -> rhumb_usage::Signals {
    let metas = links.metas.iter();
    let said = Said {
        robots: &page.usage(),
        headers: headers.iter().copied(),
        metas: metas.map(|(name, content)| (name.as_slice(), content.as_slice())),
    };
    let fetched_s = page.fetched_at_ms.to_native() / 1000;
    rhumb_usage::Signals::read(said, product_token, fetched_s.cast_signed())
}

/// What the scheduler of a page's host should know of it: what a page looks like that leads on to
/// others, what its owner says of its use, and what a visit found of its text.
fn signal(parsed: &Parsed) -> Option<PageSignal> {
    let links = &parsed.links;
    let page = parsed.origin.found_on();
    let usage = parsed.usage;
    let leads_on = parsed.is_sampled && !links.urls.is_empty();
    let sketch = links.sketch.filter(|_| leads_on);
    let text = parsed.text.map(|seen| seen.text);
    (sketch.is_some() || text.is_some() || !usage.are_unsaid()).then(|| PageSignal {
        url: rhumb_url::fingerprint(page),
        host: rhumb_url::host_hash(rhumb_url::host_of(page)),
        shape: rhumb_url::shape_hash(page),
        sketch,
        usage,
        text,
    })
}

/// The time since the visit before; none at the first visit: all pages that a sitemap lists are as
/// new to the crawl as it is.
fn news(page: &ArchivedPage) -> Option<News> {
    let after_ms = page.visited_ms.to_native();
    (after_ms > 0).then(|| News {
        after_ms,
        until_ms: page.fetched_at_ms.to_native(),
    })
}

/// The pages of which a sitemap or feed says that they have changed since the visit before. It
/// speaks for its own host, and for the one whose robots.txt names it (sitemaps.org protocol 0.9,
/// "Sitemaps & Cross Submits").
fn dated(document: &ArchivedPage, links: &Links, found: &Origin) -> Vec<DatedPage> {
    let url = document.url.as_str();
    let by = rhumb_url::fingerprint(url);
    let fetched_at_ms = document.fetched_at_ms.to_native();
    let waited_ms = fetched_at_ms.saturating_sub(document.visited_ms.to_native());
    let its_server = rhumb_url::server_of(url);
    let kind = match links.is_sitemap {
        true => SignalKind::Sitemap,
        false => SignalKind::Feed,
    };
    let own = rhumb_url::host_of(url);
    let named_by = found.sitemap_of().map(rhumb_url::host_of);
    let pages = links.urls.iter().zip(&links.news);
    let dated = pages.filter_map(|(page, at_ms)| {
        let at_ms = (*at_ms)?;
        let server = rhumb_url::server_of(page);
        let Server { scheme, host, port } = server.parse().ok()?;
        (host == own || named_by == Some(&host)).then(|| DatedPage {
            url: rhumb_url::fingerprint(page),
            host: rhumb_url::host_hash(&host),
            is_https: scheme == Scheme::Https,
            port,
            at_ms,
            kind,
            by: if server == its_server { by } else { 0 },
            waited_ms,
        })
    });
    dated.collect()
}

/// What a document says of itself: of one that is withheld, nothing of its text.
fn document(page: &ArchivedPage, links: &mut Links, verdict: Verdict) -> Document {
    let title = std::mem::take(&mut links.title);
    Document {
        url: page.url.as_str().to_owned(),
        fetched_at_ms: page.fetched_at_ms.to_native(),
        title: if verdict.withholds() {
            String::new()
        } else {
            title
        },
        language: std::mem::take(&mut links.language),
        links: u32::try_from(links.urls.len()).unwrap_or(u32::MAX),
        cut: links.cut(),
        verdict,
        ..Document::default()
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
        visit: parsed.visit,
        ..FoundUrls::default()
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
                page if page.is_robots || !page.wall.is_empty() => out.finish(ticket),
                page if page.is_unchanged => {
                    self.tally.unchanged += 1;
                    out.finish(ticket);
                }
                page => self.page(now, page, ticket, out),
            },
            Event::Answer(answer) => self.judged(now, answer, out),
            Event::Drain => self.is_draining = true,
            Event::Stored(_) | Event::Wake | Event::HearsAgain => {}
        }
        self.signals.flush_due(now, self.is_draining, out);
        out.effects.extend(self.content.asks(now));
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        let dues = [self.content.ask_at(), self.signals.flush_at()];
        dues.into_iter().flatten().min()
    }

    fn is_idle(&self) -> bool {
        self.content.is_empty() && self.signals.are_told()
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
            self.signals.divided_by(owners);
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
            // Pages whose owners refuse a purpose of the crawl, where that changes anything.
            ("unwanted_total", self.tally.unwanted),
            // Pages whose links, or whose body, could not all be taken.
            ("truncated_links_total", self.tally.truncated),
            ("cut_bodies_total", self.tally.cut),
            ("cut_sitemaps_total", self.tally.cut_sitemaps),
            ("broken_codings_total", self.tally.broken),
            ("pages_unchanged_total", self.tally.unchanged),
            ("duplicate_bodies_total", self.tally.duplicates),
            ("skipped_links_total", self.tally.skipped),
            ("signals_total", self.signals.told()),
        ]
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
