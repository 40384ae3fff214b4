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
use rhumb_url::redirect::{self, Target};
use rhumb_url::{Rules, body_fingerprint, canonical, fingerprint, header_reference};
use rhumb_warc::content_coding::{self, Completeness};
use rhumb_wire::message::{Anchor, Cut};
use url::Url;

use crate::charset::{Charset, charset, style_sheet_charset};
use crate::css;
use crate::document::{Document, decoded_text, query_encoding};
use crate::feed;
use crate::link_header::links_in;
use crate::links::{Mention, Mentions, mentions, source_of_link};
use crate::manifest;
use crate::media_type::MediaType;
use crate::opened::{About, Kind, open};
use crate::options::Options;
use crate::prose::collapsed;
use crate::references::Syntax;
use crate::refresh::refresh_target;
use crate::robots_meta::header_says_nofollow;
use crate::scanner::Dialect;
use crate::source::Source;
use crate::srcset;

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
        return redirected(target, &page, limits, options);
    }
    match response.status {
        304 => Links::default(),
        200..=399 => {
            let says_nofollow = response
                .headers("x-robots-tag")
                .any(|value| header_says_nofollow(value, agent));
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
            };
            collector.headers(response);
            collector.body(response);
            if !says_nofollow && collector.links.nofollow && options.obeys_nofollow() {
                // The page says it after its headers were read.
                collector.links.retain(Source::is_about_page);
            }
            collector.links
        }
        _ => Links::default(),
    }
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
        let body = opened.bytes;
        let kind = opened.kind;
        self.links.completeness = opened.completeness;
        self.links.body = (!body.is_empty()).then(|| body_fingerprint(&body));
        self.links.is_sitemap = opened.is_sitemap;
        if opened.is_sitemap {
            // Those of its headers are none of its own.
            self.links_max = self.links.urls.len() + self.limits.links_per_sitemap_max;
        }
        let charset = || charset(&body, said.charset, self.page.host_str());
        if let Kind::Feed(kind) = kind {
            let charset = charset();
            self.links.is_index = kind == feed::Kind::Index;
            self.feed(&decoded_text(&body, charset), kind, charset);
        } else if kind == Kind::TextSitemap {
            let charset = charset();
            self.lines(&decoded_text(&body, charset), charset);
        } else if let Some(dialect) = said.html(&body) {
            let charset = charset();
            self.html(Document::new(body, dialect, charset), charset);
        } else if self.options.embedded {
            self.made_with(&body, &said);
        }
        if self.links.charset.is_some() && self.links.language.is_empty() {
            let said = response
                .headers("content-language")
                .next()
                .unwrap_or_default();
            self.links.language = language(&String::from_utf8_lossy(said));
        }
    }

    /// A body that is no page, but may name what pages are made with.
    fn made_with(&mut self, body: &[u8], said: &MediaType<'_>) {
        let page = self.page;
        if said.is_style_sheet(page.path()) {
            let charset = style_sheet_charset(body, said.charset);
            self.style(
                &decoded_text(body, charset),
                css::Kind::Sheet,
                page,
                query_encoding(charset),
            );
        } else if said.is_manifest(page.path()) {
            manifest::urls(body)
                .iter()
                .all(|url| self.take(url, Source::Manifest, page, None, None));
        }
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

    fn html(&mut self, document: Document<'_>, charset: Charset) {
        let found = mentions(
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
        self.links.charset = Some(charset.encoding.name());
        self.links.title = collapsed(&said(&found.title, Syntax::Text), TITLE_BYTES_MAX);
        self.links.language = language(&said(&found.language, Syntax::Attribute));
        self.links.nofollow |= found.nofollow;
        self.links.sketch = if self.options.sketch {
            found.sketch.clone().finish()
        } else {
            None
        };
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
        let document = Document {
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
        document: &Document<'_>,
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

    fn feed(&mut self, document: &str, kind: feed::Kind, charset: Charset) {
        let page = self.page;
        let options = self.options;
        let about = feed::links(document, kind, page, options, |source, href, base| {
            self.take(href, source, base, None, None)
        });
        self.links.charset = Some(charset.encoding.name());
        self.links.title = collapsed(&about.title, TITLE_BYTES_MAX);
        self.links.language = language(&about.language);
    }

    fn lines(&mut self, document: &str, charset: Charset) {
        let page = self.page;
        feed::lines(document).all(|line| self.take(line, Source::Text, page, None, None));
        self.links.charset = Some(charset.encoding.name());
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
            if self.options.anchors && self.links.anchors[place].text.is_empty() {
                self.links.anchors[place] = anchor();
            }
            return self.in_vain();
        }
        if self.links.urls.len() >= self.links_max {
            self.links.truncated = true;
            return false;
        }
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
