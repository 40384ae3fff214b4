//! Page: from a fetched response to its links.
//!
//! In: status, headers and body exactly as the server sent them. Out: canonical, absolute URLs,
//! each once, those of the headers first, then in the order of the document; what the document says
//! of itself; what was left out.
//!
//! Invariants: never fails and never panics, whatever the response holds; output and work are
//! bounded by [`Limits`]; the same response always gives the same links.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use std::borrow::Cow;
use std::ops::Range;

use encoding_rs::{Encoding, UTF_8};
use rhumb_markup::metas::{METAS_BYTES_MAX, Meta, metas};
use rhumb_url::redirect::{self, Target};
use rhumb_url::{Rules, body_fingerprint, canonical, fingerprint, header_reference};
use rhumb_usage::{is_of_meta, robots_tag};
use rhumb_warc::content_coding::{self, Completeness};
use rhumb_wire::message::{Anchor, Cut};
use url::Url;

use crate::charset::{Charset, charset, style_sheet_charset};
use crate::css;
use crate::document::{About, Document};
use crate::feed::{self, Said};
use crate::link_header::links_in;
use crate::links::{Mention, Mentions, mentions, source_of_link};
use crate::manifest;
use crate::markup::{Markup, decoded_text, query_encoding};
use crate::opened::open;
use crate::options::Options;
use crate::prose::collapsed;
use crate::references::Syntax;
use crate::refresh::refresh_target;
use crate::source::Source;
use crate::srcset;
use rhumb_markup::media_type::MediaType;
use rhumb_markup::scanner::Dialect;

/// Bytes of a title that are kept.
const TITLE_BYTES_MAX: usize = 256;
/// Bytes of a language tag that are kept (RFC 5646, section 4.4.1).
const LANGUAGE_BYTES_MAX: usize = 35;

/// Documents that are written into one another.
const DOCUMENTS_DEEP_MAX: usize = 4;

/// How much of a page is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body after its content codings are undone; the rest is not scanned.
    pub decoded_bytes_max: usize,
    /// The same of a sitemap.
    pub sitemap_bytes_max: usize,
    /// Distinct URLs taken from one page; the rest is not looked at.
    pub links_per_page_max: usize,
    /// The same of a sitemap.
    pub links_per_sitemap_max: usize,
    /// Bytes of a URL; a longer one counts as uncrawlable.
    pub url_bytes_max: usize,
}

/// A response as it came from the server.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The canonical URL that was requested.
    pub url: &'a str,
    /// HTTP status.
    pub status: u16,
    /// Headers in the order sent; values are bytes, because `Location` may hold anything.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body, content codings kept, perhaps cut off.
    pub body: &'a [u8],
}

impl<'a> Response<'a> {
    /// The values of all headers of this name, in order.
    fn headers(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }
}

/// The links of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Canonical, absolute URLs, each once; of a redirect its target, unless that is the page
    /// itself.
    pub urls: Vec<String>,
    /// Where each URL was found first.
    pub sources: Vec<Source>,
    /// What the page writes about each URL, with [`Options::anchors`]; else empty.
    pub anchors: Vec<Anchor>,
    /// When the page of each URL changed, where the document has an entry that says so and
    /// [`Options::news`] are told: in milliseconds of Unix time. It ends with the last that is said.
    pub news: Vec<Option<u64>>,
    /// Fingerprint of the decoded body of a document; none without a body.
    pub body: Option<u64>,
    /// Sketch of the text of an HTML document, with [`Options::sketch`].
    pub sketch: Option<u64>,
    /// The encoding of a document that was read, HTML or a feed; none when there was nothing to be
    /// read.
    pub charset: Option<&'static str>,
    /// The document's title, white space collapsed, at most 256 bytes; empty without one.
    pub title: String,
    /// Its language as a tag of BCP 47, at most 35 bytes; empty without one.
    pub language: String,
    /// The response redirects, and `urls` or `literal` hold the target.
    pub redirect: bool,
    /// The target of a redirect to another spelling of the page's own canonical URL, absolute, as
    /// the server spells it. The caller requests it once, as it is. None when it is spelled like
    /// the page's URL: a loop.
    pub literal: Option<String>,
    /// A robots `meta` or `X-Robots-Tag` says nofollow, so links were left out if that is obeyed.
    pub nofollow: bool,
    /// Distinct hrefs that are no crawlable URL: another scheme, malformed, too long.
    pub uncrawlable: u32,
    /// More distinct URLs were found than a page, or a sitemap, may have; those beyond were left
    /// out.
    pub truncated: bool,
    /// How undoing the content codings ended.
    pub completeness: Completeness,
    /// The document is a sitemap, in XML or as text, or an index of sitemaps.
    pub is_sitemap: bool,
    /// It is an index: its links are sitemaps.
    pub is_index: bool,
    /// The metas that may say something of the use of the page.
    pub metas: Vec<Meta>,
}

impl Links {
    /// The limit beyond which links were left out; none when all were taken.
    pub fn cut(&self) -> Option<Cut> {
        let is_body_cut = self.completeness == Completeness::Cut && self.charset.is_some();
        match (self.truncated, is_body_cut) {
            (true, _) if self.is_sitemap => Some(Cut::SitemapLinks),
            (true, _) => Some(Cut::PageLinks),
            (_, true) if self.is_sitemap => Some(Cut::SitemapBytes),
            (_, true) => Some(Cut::PageBytes),
            _ => None,
        }
    }

    /// Rewrites the URLs, each once afterwards.
    pub fn rewrite(&mut self, rules: &Rules) {
        if !rules.are_active() {
            return;
        }
        let mut met = HashSet::new();
        let rewritten: Vec<String> = self.urls.iter().map(|url| rules.rewrite(url)).collect();
        let is_new: Vec<bool> = rewritten
            .iter()
            .map(|url| met.insert(fingerprint(url)))
            .collect();
        self.urls = rewritten;
        self.keep(&is_new);
    }

    fn retain(&mut self, is_wanted: impl Fn(Source) -> bool) {
        let wanted: Vec<bool> = self
            .sources
            .iter()
            .map(|source| is_wanted(*source))
            .collect();
        self.keep(&wanted);
    }

    fn keep(&mut self, wanted: &[bool]) {
        self.urls = kept(std::mem::take(&mut self.urls), wanted);
        self.sources = kept(std::mem::take(&mut self.sources), wanted);
        self.anchors = kept(std::mem::take(&mut self.anchors), wanted);
        self.news = kept(std::mem::take(&mut self.news), wanted);
    }
}

fn kept<T>(values: Vec<T>, is_kept: &[bool]) -> Vec<T> {
    values
        .into_iter()
        .zip(is_kept)
        .filter_map(|(value, is_kept)| is_kept.then_some(value))
        .collect()
}

/// Finds the links of a response as the shipped configuration wants them: see [`links_by`].
pub fn links(response: &Response<'_>, limits: &Limits, agent: &str) -> Links {
    links_by(response, limits, &Options::default(), agent)
}

/// Finds the links of a response.
///
/// `agent` is our product token, which robots directives may address.
///
/// - A redirect with a target ([`redirect::target`]): the target is the only link.
/// - Status 2xx, or 3xx without a target, whose body browsers show: the links of the headers and,
///   if it is HTML (declared or recognised by its start), a sitemap or a feed (recognised by its
///   root element, gzipped or not), those of the document.
/// - Anything else has no links.
///
/// Nofollow leaves out links, not what the page says of itself: [`Source::is_about_page`].
pub fn links_by(response: &Response<'_>, limits: &Limits, options: &Options, agent: &str) -> Links {
    let Ok(page) = Url::parse(response.url) else {
        return Links::default();
    };
    if let Some(target) = redirect::target(response.status, response.headers("location"), &page) {
        return Links {
            metas: metas_of(response, agent),
            ..redirected(target, &page, limits, options)
        };
    }
    match response.status {
        304 => Links::default(),
        200..=399 => {
            let mut says_nofollow = false;
            for value in response.headers("x-robots-tag") {
                robots_tag::of_header(value, agent, |said| {
                    says_nofollow |= said.says_nofollow();
                });
            }
            let links = Links {
                nofollow: says_nofollow,
                ..Links::default()
            };
            let places = HashMap::new();
            let links_max = limits.links_per_page_max;
            let mut collector = Collector {
                page: &page,
                limits,
                options,
                agent,
                links,
                places,
                links_max,
                in_vain: 0,
                taken: None,
            };
            collector.headers(response);
            collector.body(response);
            if !says_nofollow && collector.links.nofollow && options.obeys_nofollow() {
                // The page says it after its headers were read.
                collector.links.retain(Source::is_about_page);
            }
            collector.links
        }
        _ => Links {
            metas: metas_of(response, agent),
            ..Links::default()
        },
    }
}

/// The metas of a body in which no links are looked for.
fn metas_of(response: &Response<'_>, agent: &str) -> Vec<Meta> {
    let said = MediaType::of(response.headers("content-type"));
    let codings = response.headers("content-encoding");
    let decoded = content_coding::decode(codings, response.body, METAS_BYTES_MAX);
    metas(said, &decoded.body, |name| is_of_meta(name, agent))
}

fn redirected(target: Target, page: &Url, limits: &Limits, options: &Options) -> Links {
    let Target { reference, url } = target;
    let mut links = Links {
        redirect: true,
        ..Links::default()
    };
    if url.len() > limits.url_bytes_max {
        links.uncrawlable = 1;
    } else if url != page.as_str() {
        links.urls.push(url);
        links.sources.push(Source::Location);
        links.anchors.extend(options.anchors.then(Anchor::default));
    } else {
        links.literal = literal(&reference, page).filter(|url| url.len() <= limits.url_bytes_max);
    }
    links
}

/// The target as the server spells it, made absolute; `None` when that is the page's own spelling.
fn literal(location: &str, page: &Url) -> Option<String> {
    let mut target = page.join(location).ok()?;
    target.set_fragment(None);
    (target != *page).then(|| target.into())
}

/// How many links may bring nothing, for each that a page may have.
const IN_VAIN: usize = 4;

/// The links of a response with status 2xx, as they come together.
struct Collector<'a> {
    page: &'a Url,
    limits: &'a Limits,
    options: &'a Options,
    agent: &'a str,
    links: Links,
    /// Where each URL stands among the links, by its fingerprint.
    places: HashMap<u64, usize>,
    /// Distinct URLs that are taken.
    links_max: usize,
    /// Links so far that were there already, or are no URLs.
    in_vain: usize,
    /// Where the link stands that came last; none when it was not taken.
    taken: Option<usize>,
}

/// What was said of an entry so far.
#[derive(Default)]
struct Entry {
    /// Where the links of its page stand.
    pages: Vec<usize>,
    /// When that changed last, if that is news, in milliseconds of Unix time.
    at_ms: Option<u64>,
}

impl Collector<'_> {
    fn headers(&mut self, response: &Response<'_>) {
        let page = self.page;
        for value in response.headers("link") {
            for link in links_in(&header_reference(value)) {
                match source_of_link(link.rel.as_bytes(), self.options) {
                    Some(Source::Canonical) => {
                        self.take(link.target, Source::Canonical, page, None, None)
                    }
                    Some(_) => self.take(link.target, Source::LinkHeader, page, None, None),
                    None => true,
                };
            }
        }
        for value in response.headers("refresh") {
            if let Some(target) = refresh_target(&header_reference(value)) {
                self.take(target, Source::RefreshHeader, page, None, None);
            }
        }
        for (name, source) in [
            ("location", Source::Location),
            ("content-location", Source::ContentLocation),
        ] {
            // A 3xx that is no redirect leads nowhere; the Location of one that is has no target,
            // and counts as uncrawlable.
            if name == "location" && matches!(response.status, 304..=306 | 309..) {
                continue;
            }
            if let Some(value) = response
                .headers(name)
                .find(|value| !value.trim_ascii().is_empty())
            {
                self.take(&header_reference(value), source, page, None, None);
            }
        }
    }

    fn body(&mut self, response: &Response<'_>) {
        let said = MediaType::of(response.headers("content-type"));
        let decode = |bytes_max| {
            content_coding::decode(
                response.headers("content-encoding"),
                response.body,
                bytes_max,
            )
        };
        let about = About {
            page: self.page,
            said,
            is_named_sitemap: self.options.is_named_sitemap,
        };
        let opened = open(
            decode,
            about,
            self.limits.decoded_bytes_max,
            self.limits.sitemap_bytes_max,
        );
        self.links.completeness = opened.completeness;
        self.links.body = (!opened.bytes.is_empty()).then(|| body_fingerprint(&opened.bytes));
        // Those of HTML are found with its links.
        if !matches!(opened.document, Document::Html(_)) {
            self.links.metas = metas(said, &opened.bytes, |name| is_of_meta(name, self.agent));
        }
        self.links.is_sitemap = opened.is_sitemap;
        if opened.is_sitemap {
            // Those of its headers are none of its own.
            self.links_max = self.links.urls.len() + self.limits.links_per_sitemap_max;
        }
        self.read(opened.document, opened.bytes, said.charset);
        if self.links.charset.is_some() && self.links.language.is_empty() {
            let said = response
                .headers("content-language")
                .next()
                .unwrap_or_default();
            self.links.language = language(&String::from_utf8_lossy(said));
        }
    }

    /// Reads a document as what it is. `said`: the encoding that its server names.
    fn read(&mut self, document: Document, body: Cow<'_, [u8]>, said: Option<&'static Encoding>) {
        match document {
            Document::Feed(kind) => self.feed(&body, kind, said),
            Document::Text => self.lines(&body, said),
            Document::Html(dialect) => self.html(body, dialect, said),
            Document::Css if self.options.embedded => self.sheet(&body, said),
            Document::Manifest if self.options.embedded => self.manifest(&body),
            Document::Css | Document::Manifest | Document::Other => {}
        }
    }

    /// The encoding of a body that is read for its own sake: it is told.
    fn charset(&mut self, body: &[u8], said: Option<&'static Encoding>) -> Charset {
        let charset = charset(body, said, self.page.host_str());
        self.links.charset = Some(charset.encoding.name());
        charset
    }

    fn sheet(&mut self, body: &[u8], said: Option<&'static Encoding>) {
        let charset = style_sheet_charset(body, said);
        self.style(
            &decoded_text(body, charset),
            css::Kind::Sheet,
            self.page,
            query_encoding(charset),
        );
    }

    fn manifest(&mut self, body: &[u8]) {
        let page = self.page;
        manifest::urls(body)
            .iter()
            .all(|url| self.take(url, Source::Manifest, page, None, None));
    }

    /// Takes what a style sheet, or a text like one, loads.
    fn style(
        &mut self,
        text: &str,
        kind: css::Kind,
        base: &Url,
        query_encoding: Option<&'static Encoding>,
    ) -> bool {
        let mut seen = HashSet::new();
        let mut goes_on = true;
        css::urls(text, kind, |url| {
            // Sheets repeat themselves.
            let is_new = seen.insert(body_fingerprint(without_fragment(url.as_bytes())));
            goes_on = !is_new || self.take(url, Source::Style, base, query_encoding, None);
            goes_on
        });
        goes_on
    }

    fn html(&mut self, body: Cow<'_, [u8]>, dialect: Dialect, said: Option<&'static Encoding>) {
        let charset = self.charset(&body, said);
        let document = Markup::new(body, dialect, charset);
        let mut found = mentions(
            &document.bytes,
            document.dialect,
            document.encoding,
            self.options,
            self.agent,
        );
        let said = |at: &Option<Range<usize>>, syntax| {
            at.clone()
                .map_or(Cow::Borrowed(""), |at| document.said(at, syntax))
        };
        self.links.metas = std::mem::take(&mut found.metas);
        self.links.title = collapsed(&said(&found.title, Syntax::Text), TITLE_BYTES_MAX);
        self.links.language = language(&said(&found.language, Syntax::Attribute));
        self.links.nofollow |= found.nofollow;
        let sketch = std::mem::take(&mut found.sketch);
        self.links.sketch = self.options.sketch.then(|| sketch.finish()).flatten();
        self.mentioned(&found, &document, self.page, 0);
    }

    /// A document written into another, `depth` documents deep: the one around says what its
    /// relative URLs refer to.
    fn written_into(&mut self, html: &str, around: &Url, depth: usize) -> bool {
        let obeys = self.options.obeys_nofollow();
        if depth > DOCUMENTS_DEEP_MAX || self.links.nofollow && obeys {
            return true;
        }
        let bytes = Cow::Borrowed(html.as_bytes());
        let dialect = Dialect::Html;
        let document = Markup {
            bytes,
            encoding: UTF_8,
            query_encoding: None,
            dialect,
        };
        let found = mentions(&document.bytes, dialect, UTF_8, self.options, self.agent);
        found.nofollow && obeys || self.mentioned(&found, &document, around, depth)
    }

    /// Takes what an HTML document mentions, whose URLs refer to `around` unless it says otherwise;
    /// says whether there may be more.
    fn mentioned(
        &mut self,
        found: &Mentions,
        document: &Markup<'_>,
        around: &Url,
        depth: usize,
    ) -> bool {
        let base = document.base(found, around);
        // Repeated spellings are the common case and comparing them is cheap. Only the first text
        // of a link is kept, unless that is empty.
        let mut seen = HashSet::new();
        for mention in &found.values {
            let value = &document.bytes[mention.at.clone()];
            let is_repeated = match mention.source {
                Source::MetaRefresh | Source::Srcset | Source::Style => false,
                Source::StyleInMarkup | Source::Srcdoc => !seen.insert(value),
                _ => !self.options.anchors && !seen.insert(without_fragment(value)),
            };
            if is_repeated {
                continue;
            }
            let query_encoding = document.query_encoding;
            let value = match mention.source {
                Source::Style => document.encoding.decode_without_bom_handling(value).0,
                _ => document.said(mention.at.clone(), Syntax::Attribute),
            };
            let mut take = |href: &str| {
                self.take(
                    href,
                    mention.source,
                    &base,
                    query_encoding,
                    Some((found, mention)),
                )
            };
            let goes_on = match mention.source {
                Source::MetaRefresh => refresh_target(&value).is_none_or(take),
                Source::Srcset => srcset::urls(&value).all(take),
                Source::Style => self.style(&value, css::Kind::Sheet, &base, query_encoding),
                Source::StyleInMarkup => {
                    self.style(&value, css::Kind::Declarations, &base, query_encoding)
                }
                Source::Srcdoc => self.written_into(&value, &base, depth + 1),
                _ => take(&value),
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn feed(&mut self, body: &[u8], kind: feed::Kind, said: Option<&'static Encoding>) {
        let charset = self.charset(body, said);
        let document = decoded_text(body, charset);
        let page = self.page;
        let options = self.options;
        self.links.is_index = kind == feed::Kind::Index;
        let mut entry = Entry::default();
        let about = feed::said(&document, kind, page, options, |said| match said {
            Said::Link {
                source,
                href,
                base,
                is_page,
            } => {
                let goes_on = self.take(href, source, base, None, None);
                entry.pages.extend(self.taken.filter(|_| is_page));
                goes_on
            }
            Said::Date(date) => {
                let at_ms = options.news.and_then(|news| news.at_ms(date));
                entry.at_ms = entry.at_ms.max(at_ms);
                true
            }
            Said::Entry => {
                self.tell(std::mem::take(&mut entry));
                true
            }
        });
        self.links.title = collapsed(&about.title, TITLE_BYTES_MAX);
        self.links.language = language(&about.language);
    }

    /// All was said of an entry.
    fn tell(&mut self, entry: Entry) {
        if entry.at_ms.is_none() {
            return;
        }
        let news = &mut self.links.news;
        for place in entry.pages {
            if news.len() <= place {
                news.resize(place + 1, None);
            }
            news[place] = news[place].max(entry.at_ms);
        }
    }

    fn lines(&mut self, body: &[u8], said: Option<&'static Encoding>) {
        let charset = self.charset(body, said);
        let page = self.page;
        feed::lines(&decoded_text(body, charset))
            .all(|line| self.take(line, Source::Text, page, None, None));
    }

    /// Takes a link, written like this, if it is wanted, new and a URL; says whether there may be
    /// more.
    fn take(
        &mut self,
        href: &str,
        source: Source,
        base: &Url,
        query_encoding: Option<&'static Encoding>,
        about: Option<(&Mentions, &Mention)>,
    ) -> bool {
        self.taken = None;
        if self.links.nofollow && self.options.obeys_nofollow() && !source.is_about_page() {
            return true;
        }
        let url = canonical(href, Some(base), query_encoding).ok();
        let Some(url) = url.filter(|url| url.len() <= self.limits.url_bytes_max) else {
            self.links.uncrawlable += 1;
            return self.in_vain();
        };
        let anchor = || {
            about
                .map(|(found, mention)| found.prose.anchor(&mention.words))
                .unwrap_or_default()
        };
        let fingerprint = fingerprint(&url);
        if let Some(&place) = self.places.get(&fingerprint) {
            self.taken = Some(place);
            if self.options.anchors && self.links.anchors[place].text.is_empty() {
                self.links.anchors[place] = anchor();
            }
            return self.in_vain();
        }
        if self.links.urls.len() >= self.links_max {
            self.links.truncated = true;
            return false;
        }
        self.taken = Some(self.links.urls.len());
        self.places.insert(fingerprint, self.links.urls.len());
        self.links.anchors.extend(self.options.anchors.then(anchor));
        self.links.sources.push(source);
        self.links.urls.push(url);
        true
    }

    /// Counts a link that brought nothing: a page of nothing else would cost far more time than its
    /// size allows.
    fn in_vain(&mut self) -> bool {
        self.in_vain += 1;
        self.links.truncated |= self.in_vain > IN_VAIN * self.links_max;
        !self.links.truncated
    }
}

/// The first tag of a list of languages, if it is one.
fn language(said: &str) -> String {
    let tag = said.split([',', ';']).next().unwrap_or_default().trim();
    // Many write `en_GB`.
    let tag = tag.replace('_', "-");
    let is_tag = tag.len() <= LANGUAGE_BYTES_MAX
        && tag
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_tag { tag } else { String::new() }
}

/// Cuts an attribute value before its fragment, where that is visible without decoding.
fn without_fragment(value: &[u8]) -> &[u8] {
    match memchr::memchr2(b'#', b'&', value) {
        Some(at) if value[at] == b'#' => &value[..at],
        _ => value,
    }
}
