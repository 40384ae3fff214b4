//! The messages that carry URLs from their discovery to the frontier.

use super::envelope::EdgeMessage;
use super::quality::Quality;
use super::text::UrlList;
use crate::topology::Edge;
use rkyv::rancor::Infallible;
use rkyv::{Archive, Deserialize, Serialize};

/// How URLs were found: the trace of discovery that travels with them to their outcome. By default
/// nothing is known.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq, Hash,
)]
pub struct Origin {
    /// The page on which the URLs stood; empty for a seed. Of sitemaps that are named as such it
    /// has a mark, and of pages that are given as known: see [`Origin::found_on`],
    /// [`Origin::sitemap_of`], [`Origin::last_visit`].
    pub page: String,
    /// The crawl goal they belong to.
    pub topic: String,
    /// Links from a seed to these URLs: 0 for a seed. A redirect target keeps its source's depth.
    pub depth: u16,
    /// Redirects followed in a row to get to these URLs.
    pub redirects: u8,
    /// A seed, or what a seed redirected to: its host joins the scope.
    pub seed: bool,
    /// Number of the injection that wants them fetched although they were met before (`rhumb inject
    /// --again`); 0: none. The URL-seen test lets each URL pass once for each injection, however
    /// often its messages come. Redirect targets inherit it, links do not. Of pages that are given
    /// as known it is the time of their last visit.
    pub again: u64,
    /// Quality that flowed to each of these URLs: a seed has 1, and a page shares its own equally
    /// among its links (a form of OPIC that looks at each page once: Abiteboul, Preda and Cobena
    /// 2003).
    pub flow: Quality,
}

impl ArchivedOrigin {
    /// The origin, copied out of its archive.
    pub fn read(&self) -> Origin {
        let Ok(origin) = rkyv::deserialize::<Origin, Infallible>(self);
        origin
    }
}

impl Origin {
    /// The origin of the seeds of a topic.
    pub fn seed(topic: &str) -> Self {
        Origin {
            topic: topic.to_owned(),
            seed: true,
            flow: Quality::SEED,
            ..Origin::default()
        }
    }

    /// Where they were found, for people: `found on http://a.test/ (depth 1, topic default)`.
    pub fn in_words(&self) -> String {
        let Origin {
            topic,
            depth,
            redirects,
            ..
        } = self;
        let page = self.found_on();
        match (page, redirects) {
            ("", _) => format!("a seed of topic {topic}"),
            (_, 0) => format!("found on {page} (depth {depth}, topic {topic})"),
            _ => format!("redirected to from {page} (depth {depth}, topic {topic})"),
        }
    }
}

/// `urls.found`: the links of one page, the target of a redirect, the sitemaps that a robots.txt
/// names, or seeds. All URLs are canonical, apart from the literal target of a redirect whose
/// canonical form is its source's.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct FoundUrls {
    /// How they were found.
    pub origin: Origin,
    /// The URLs.
    pub urls: UrlList,
    /// For each URL the text that its page has about it, when `stages.parser.anchors` is on; else
    /// empty.
    pub anchors: Vec<Anchor>,
    /// Which visit of their page found them: 1 is the first; 0 where no page did.
    pub visit: u32,
}

impl FoundUrls {
    /// Returns whether a later visit of their page found them. What its links are worth was counted
    /// at the first one.
    pub fn are_of_later_visit(&self) -> bool {
        self.visit > 1
    }
}

/// The text of a link and around it, for consumers that score URLs.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Anchor {
    /// The text of the link, white space collapsed, at most 128 bytes.
    pub text: String,
    /// The text around the link, white space collapsed, at most 256 bytes.
    pub context: String,
}

/// Why a found URL did not go on to the URL-seen test.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum FilterReason {
    /// Its host is not one that the topic follows.
    Scope,
    /// More links away from a seed than `scope.max_depth`.
    Depth,
    /// More redirects in a row than `limits.redirects`.
    Redirects,
    /// Longer than `limits.url_bytes_max`, not of the form of a canonical URL, or with a NUL.
    Form,
    /// Not under `scope.prefixes`, not matched by `scope.accept`, or matched by `scope.reject`.
    Pattern,
    /// A segment stands in its path more than `limits.segment_repeats` times: a trap.
    Segments,
    /// More than `limits.query_parameters` parameters.
    Parameters,
}

impl FilterReason {
    /// All reasons.
    pub const ALL: [FilterReason; 7] = [
        FilterReason::Scope,
        FilterReason::Depth,
        FilterReason::Redirects,
        FilterReason::Form,
        FilterReason::Pattern,
        FilterReason::Segments,
        FilterReason::Parameters,
    ];

    /// The reason's name in status, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            FilterReason::Scope => "scope",
            FilterReason::Depth => "depth",
            FilterReason::Redirects => "redirects",
            FilterReason::Form => "form",
            FilterReason::Pattern => "pattern",
            FilterReason::Segments => "segments",
            FilterReason::Parameters => "parameters",
        }
    }
}

/// `urls.filtered`: URLs of one page that the filters rejected. For taps: counted in
/// [`SplitUrls::filtered`].
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct FilteredUrls {
    /// How they were found.
    pub origin: Origin,
    /// The URLs.
    pub urls: UrlList,
    /// For each URL the reason.
    pub reasons: Vec<FilterReason>,
}

/// `urls.boosts.<p>`: what later links add to URLs of one partition that were found before. One that
/// is lost only leaves a URL in its place.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Boosts {
    /// Partition of all of them.
    pub partition: u16,
    /// At most 100.
    pub boosts: Vec<Boost>,
}

/// What later links add to a URL.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boost {
    /// The hash of the URL's host.
    pub host: u64,
    /// The fingerprint of the URL.
    pub url: u64,
    /// What is added to its quality.
    pub worth: Quality,
    /// The worth is cash, of pages whose topic goes by that, and not a number of links.
    pub is_cash: bool,
}

/// `urls.split.<p>`: up to `stages.host-splitter.batch_urls_max` (256) URLs of one partition, from
/// several pages.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct SplitUrls {
    /// How the URLs were found, each way once.
    pub origins: Vec<Origin>,
    /// The URLs.
    pub urls: UrlList,
    /// For each URL its index in `origins`.
    pub origin_of: Vec<u32>,
    /// URLs rejected upstream since the last batch, by [`FilterReason`] in order of `ALL`: they
    /// ride along so that found = filtered + repeated + new is counted in one place (P3).
    pub filtered: [u32; FilterReason::ALL.len()],
    /// URLs dropped upstream since the last batch because a cache knew them: they ride along, too.
    pub repeated: u32,
    /// Different in each batch of a host-splitter's life, so that the broker takes no two for the
    /// same message.
    pub number: u64,
}

/// `urls.new.<p>`: URLs that passed the URL-seen test.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct NewUrls {
    /// Partition of all of them.
    pub partition: u16,
    /// How the URLs were found, each way once.
    pub origins: Vec<Origin>,
    /// The URLs.
    pub urls: UrlList,
    /// For each URL its index in `origins`.
    pub origin_of: Vec<u32>,
    /// Serial number of the first URL; the others follow it without a gap. A partition's new URLs
    /// are numbered 1, 2, 3, … in the commit that accepts them, so that the frontier recognises one
    /// that comes twice whatever the broker did (P3).
    pub first_serial: u64,
}

/// The resolver's answer about a host.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Addresses that may be contacted, and for how many seconds they may be used.
    Addresses {
        /// In the order of preference.
        addresses: Vec<std::net::IpAddr>,
        /// Seconds.
        ttl_s: u32,
    },
    /// The name does not exist, or has no address.
    NoAddress,
    /// All its addresses are private, loopback or link-local, and those are not allowed (P7).
    Private,
    /// The name servers did not answer, or with a failure; another try may help.
    Temporary,
}

/// A server and its address, as far as it is known.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, PartialEq, Eq)]
pub struct ServerResolution {
    /// `scheme://host[:port]`, as in the canonical URLs.
    pub server: String,
    /// Its address; none while the question is pending. The answer then follows in a message of its
    /// own.
    pub resolution: Option<Resolution>,
}

/// `urls.ready.<p>`: new URLs with the addresses of their servers; without URLs, addresses that
/// were pending or that `dns.refresh` asked for.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct ReadyUrls {
    /// Partition of all of them.
    pub partition: u16,
    /// The servers, each once.
    pub servers: Vec<ServerResolution>,
    /// How the URLs were found, each way once.
    pub origins: Vec<Origin>,
    /// The URLs.
    pub urls: UrlList,
    /// For each URL its index in `origins`.
    pub origin_of: Vec<u32>,
    /// For each URL its index in `servers`.
    pub server_of: Vec<u32>,
    /// For each URL its serial number, see [`NewUrls::first_serial`].
    pub serials: Vec<u64>,
    /// [`DnsRefresh::number`] of the request that this answers at once; else 0.
    pub refresh: u64,
}

/// `dns.refresh.<p>`: servers whose addresses are wanted anew.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct DnsRefresh {
    /// Partition of all of them.
    pub partition: u16,
    /// `scheme://host[:port]` each.
    pub servers: Vec<String>,
    /// Different in each request, so that the broker takes no two answers for the same message.
    pub number: u64,
}

impl EdgeMessage for FilteredUrls {
    const EDGE: Edge = Edge::UrlsFiltered;
    const VERSION: u8 = 4;
}
impl EdgeMessage for SplitUrls {
    const EDGE: Edge = Edge::UrlsSplit;
    const VERSION: u8 = 5;
}
impl EdgeMessage for NewUrls {
    const EDGE: Edge = Edge::UrlsNew;
    const VERSION: u8 = 4;
}
impl EdgeMessage for ReadyUrls {
    const EDGE: Edge = Edge::UrlsReady;
    const VERSION: u8 = 5;
}
impl EdgeMessage for DnsRefresh {
    const EDGE: Edge = Edge::DnsRefresh;
    const VERSION: u8 = 1;
}
