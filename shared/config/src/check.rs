//! The checks of values whose range does not say all. Each message names key, value and what is accepted.

use super::broker::{Broker, MAX_PAYLOAD_MIN, Servers, shown};
use super::edges::Edges;
use super::group::Group;
use super::key_table::field;
use super::pipeline::{Limits, OverBudget, Pipeline};
use super::recrawl::{Recrawl, RecrawlPolicy};
use super::stages::{CachePolicy, UrlCacheSettings};
use super::topic::{DEFAULT_TOPIC, Topic};
use super::units::Bytes;
use rhumb_wire::topology::Edge;
use std::fmt::Display;

/// Headers of a request that are made by the client, or for which there are other keys.
const OWN_HEADERS: [&str; 18] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "proxy-authorization",
    "range",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Returns whether names of headers and media types may have the byte (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether a text can be a token of a subject, and the name of a crawl, of a user or of a
/// topic.
pub fn is_name(text: &str) -> bool {
    let letters = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    !text.is_empty() && text.len() <= 64 && letters
}

/// The complaints so far.
#[derive(Default)]
pub(super) struct Check(pub(super) Vec<String>);

impl Check {
    pub(super) fn within<T: PartialOrd + Display>(&mut self, key: &str, value: T, low: T, high: T) {
        if value < low || value > high {
            self.0.push(format!(
                "configuration key {key} = {value}: accepted are {low} to {high}"
            ));
        }
    }

    /// Of powers of two, the nearest one that is accepted is named.
    pub(super) fn power_of_two(&mut self, key: &str, value: u16) {
        let range = field(key).and_then(|field| field.range);
        let high = range.and_then(|range| range.strip_prefix("1..")?.parse().ok());
        let high = high.unwrap_or(u16::MAX);
        if !(1..=high).contains(&value) || value.is_power_of_two() {
            return;
        }
        let below = 1 << value.ilog2();
        let above = value.next_power_of_two();
        let nearest = if above - value <= value - below {
            above
        } else {
            below
        };
        self.0.push(format!(
            "configuration key {key} = {value}: accepted are powers of two from 1 to {high}, the \
             nearest is {nearest}"
        ));
    }

    /// A group of hosts.
    pub(super) fn group(&mut self, key: &str, group: &Group) {
        if group.by.is_some() != group.hosts.is_empty() {
            self.0.push(format!(
                "configuration key {key}: accepted is either 'by: registered-domain', or 'hosts' \
                 with at least one host"
            ));
        }
    }

    pub(super) fn name(&mut self, key: &str, value: &str) {
        if !is_name(value) {
            self.0.push(format!(
                "configuration key {key} = '{value}': accepted are 1 to 64 letters, digits, - and _"
            ));
        }
    }

    pub(super) fn topic(&mut self, name: &str) {
        self.name("topics", name);
        if name == DEFAULT_TOPIC {
            let what = "URLs of no other topic are of it, and its scope is `scope`";
            self.0
                .push(format!("configuration key topics.{name}: {what}"));
        }
    }

    /// Tokens of a topic's budget would lie with schedulers that have to wait for a budget of hosts
    /// or domains.
    pub(super) fn topic_budget(&mut self, name: &str, topic: &Topic, limits: &Limits) {
        let other = match (
            limits.pages_per_domain,
            limits.pages_per_host,
            limits.over_budget,
        ) {
            (1.., _, _) => "limits.pages_per_domain",
            (_, 1.., OverBudget::Wait) => "limits.pages_per_host with limits.over_budget = wait",
            _ => return,
        };
        if topic.pages_max > 0 {
            self.0.push(format!(
                "configuration key topics.{name}.pages_max: it does not go with {other}"
            ));
        }
    }

    /// Which policies have an end: `section` is that of the crawl, or of a topic with what it takes
    /// over.
    pub(super) fn recrawl(&mut self, section: &str, recrawl: &Recrawl) {
        let has_end = recrawl.policy != RecrawlPolicy::Fresh || !recrawl.interval_max.is_zero();
        if recrawl.visits_max > 0 && !has_end {
            self.0.push(format!(
                "configuration key {section}.visits_max = {}: with {section}.policy fresh a page \
                 that is not worth a visit would never have so many; set {section}.interval_max, \
                 too",
                recrawl.visits_max
            ));
        }
    }

    /// Empty, or where NATS servers may be.
    pub(super) fn url(&mut self, key: &str, value: &str) {
        if !value.is_empty()
            && let Err(error) = Servers::read(value)
        {
            self.0.push(format!(
                "configuration key {key} = '{}': {error}",
                shown(value)
            ));
        }
    }

    /// Who a process is at the broker: once, and under a name that is one token of a subject.
    pub(super) fn access(&mut self, broker: &Broker) {
        let Broker {
            credentials, user, ..
        } = broker;
        let has_file = !credentials.as_os_str().is_empty();
        if has_file && Servers::read(&broker.url).is_ok_and(|servers| servers.credentials.is_some())
        {
            self.0.push(format!(
                "configuration key broker.credentials = '{}': broker.url has a name and password, \
                 or a token, already; accepted is one of the two",
                credentials.display()
            ));
        }
        match broker.user_name() {
            Some(name) if has_file && user.is_empty() && !is_name(name) => self.0.push(format!(
                "configuration key broker.credentials = '{}': '{name}' is no name of a user; \
                 accepted is a file that is named by its user, such as fetcher.nk, or name the \
                 user with broker.user",
                credentials.display()
            )),
            Some(name) if !user.is_empty() => self.name("broker.user", name),
            _ => {}
        }
    }

    pub(super) fn surt_prefix(&mut self, key: &str, prefix: &str) {
        if !prefix.starts_with("http://(") && !prefix.starts_with("https://(") {
            self.0.push(format!(
                "configuration key {key} = '{prefix}': accepted are beginnings of URLs in SURT \
                 form, such as 'https://(org,example,' or 'https://(org,example,)/docs/' (`rhumb \
                 canonical URL` shows a URL's)"
            ));
        }
    }

    pub(super) fn media_type(&mut self, key: &str, pattern: &str) {
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| is_token(byte) && byte != b'*')
        };
        let is_good = pattern
            .split_once('/')
            .is_some_and(|(of, subtype)| is_name(of) && (subtype == "*" || is_name(subtype)));
        if !is_good || pattern.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.0.push(format!(
                "configuration key {key} = '{pattern}': accepted are media types in lower case, \
                 such as application/zip, or all of a kind, such as video/*"
            ));
        }
    }

    /// A header of every request. What the client sends by itself, or what other keys are for, is
    /// not for operators.
    pub(super) fn header(&mut self, name: &str, value: &str) {
        let is_name = !name.is_empty() && name.bytes().all(is_token);
        let is_ours = OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name));
        if !is_name || is_ours {
            self.0.push(format!(
                "configuration key network.headers.{name}: accepted are names of headers but {}",
                OWN_HEADERS.join(", ")
            ));
        }
        if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            // Not shown: it may be what an operator keeps secret.
            self.0.push(format!(
                "configuration key network.headers.{name}: accepted are printable ASCII characters"
            ));
        }
    }

    pub(super) fn url_cache(&mut self, key: &str, cache: &UrlCacheSettings) {
        if cache.policy == CachePolicy::Static && cache.file.as_os_str().is_empty() {
            self.0.push(format!(
                "configuration key {key}.file = '': the policy static needs a file of URLs, one a \
                 line, such as `rhumb export frequent-urls` writes"
            ));
        }
    }

    /// The bounds of all streams. The one that streams have from the defaults is named there.
    pub(super) fn streams(&mut self, edges: &Edges, max_payload: Bytes) {
        let defaults = &edges.defaults;
        self.bytes_max("edges.defaults", None, defaults.bytes_max, max_payload);
        for (name, edge) in edges.streams() {
            let of = Edge::from_name(name);
            let is_special = matches!(
                of,
                Some(
                    Edge::UrlsSplit
                        | Edge::UrlsNew
                        | Edge::UrlsReady
                        | Edge::Pages
                        | Edge::PagesSignals
                )
            );
            if is_special || edge.bytes_max != defaults.bytes_max {
                self.bytes_max(&format!("edges.{name}"), of, edge.bytes_max, max_payload);
            }
        }
    }

    /// The bound of a stream.
    fn bytes_max(&mut self, key: &str, of: Option<Edge>, bytes: Bytes, max_payload: Bytes) {
        // Room for two messages: only a page is larger than what the smallest broker takes.
        let largest = if of == Some(Edge::Pages) {
            max_payload
        } else {
            MAX_PAYLOAD_MIN
        };
        let bytes_min = Bytes(2 * largest.0);
        if bytes.0 == 0 {
            return;
        }
        if of == Some(Edge::PagesSignals) {
            self.0.push(format!(
                "configuration key {key}.bytes_max = {bytes}: accepted is 0 (no bound). The \
                 scheduler passes on what belongs to another one: were the edge full, it would wait \
                 for itself. Bound edges.pages instead"
            ));
        } else if matches!(of, Some(Edge::UrlsSplit | Edge::UrlsNew | Edge::UrlsReady)) {
            self.0.push(format!(
                "configuration key {key}.bytes_max = {bytes}: accepted is 0 (no bound). The \
                 scheduler publishes sitemaps to urls.found, from where they come back through \
                 this edge: were both full, each would wait for the other for ever. Bound \
                 edges.urls.found and edges.pages instead"
            ));
        } else if bytes < bytes_min {
            self.0.push(format!(
                "configuration key {key}.bytes_max = {bytes}: accepted are 0 (no bound) and from \
                 {bytes_min} on"
            ));
        }
    }

    /// A replay must not add to the archive that it reads.
    pub(super) fn replay(&mut self, pipeline: &Pipeline) {
        let dir = pipeline.archive_dir();
        let keeps = pipeline.stages.archiver.replicas > 0;
        if keeps && pipeline.replayed() == Some(dir.as_path()) {
            self.0.push(format!(
                "configuration key stages.archiver.dir = '{}': fetchers answer from this folder \
                 (stages.fetcher.archive); accepted is another one",
                dir.display()
            ));
        }
    }
}
