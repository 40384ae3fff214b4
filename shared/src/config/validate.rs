//! Ranges: what type alone does not say. Every message names key, value and the accepted range.

use super::{Bytes, CachePolicy, Pipeline, Retention, StreamEdge, UrlCacheSettings};
use crate::bus;
use std::fmt::Display;
use std::time::Duration;

pub(super) fn errors(pipeline: &Pipeline) -> Vec<String> {
    let mut check = Check(Vec::new());
    let seconds = Duration::from_secs;
    let millis = Duration::from_millis;
    let hour = seconds(3600);

    check.name("crawl", &pipeline.crawl);
    check.within("partitions", pipeline.partitions, 1, 4096);
    check.lasting("ownership_lease", pipeline.ownership_lease, seconds(2), seconds(60));
    check.within("broker.max_payload", pipeline.broker.max_payload, bus::MAX_PAYLOAD_MIN, Bytes(8 << 20));
    check.url("broker.url", &pipeline.broker.url);
    let sync_interval = pipeline.broker.sync_interval;
    check.lasting("broker.sync_interval", sync_interval, millis(1), 24 * hour);
    check.lasting("broker.connect_report_every", pipeline.broker.connect_report_every, seconds(1), hour);

    check.lasting("politeness.delay", pipeline.politeness.delay, Duration::ZERO, hour);
    check.lasting("politeness.crawl_delay_max", pipeline.politeness.crawl_delay_max, Duration::ZERO, hour);
    check.within("politeness.download_factor", pipeline.politeness.download_factor, 0, 100);
    check.lasting("politeness.retry_after_max", pipeline.politeness.retry_after_max, Duration::ZERO, 24 * hour);
    check.within("politeness.connections_per_address", pipeline.politeness.connections_per_address, 0, 10_000);
    check.lasting("politeness.robots_lifetime", pipeline.politeness.robots_lifetime, seconds(60), 24 * hour);

    let limits = &pipeline.limits;
    // A page carries its headers and its trace beside the body.
    let body_bytes_max = Bytes(pipeline.broker.max_payload.0 / 8 * 7 - (64 << 10));
    check.within("limits.pages_per_host", limits.pages_per_host, 0, 1_000_000_000);
    check.within("limits.pages_per_domain", limits.pages_per_domain, 0, 1_000_000_000);
    check.within("limits.sitemaps_per_server", limits.sitemaps_per_server, 0, 100);
    check.within("limits.body_bytes_max", limits.body_bytes_max, Bytes(1), body_bytes_max);
    check.within("limits.header_bytes_max", limits.header_bytes_max, Bytes(8 << 10), Bytes(1 << 20));
    check.within("limits.decoded_bytes_max", limits.decoded_bytes_max, Bytes(1 << 10), Bytes(1 << 30));
    check.lasting("limits.connect_timeout", limits.connect_timeout, millis(10), seconds(300));
    check.lasting("limits.request_timeout", limits.request_timeout, millis(10), hour);
    check.lasting("limits.first_byte_timeout", limits.first_byte_timeout, millis(10), hour);
    check.within("limits.transfer_rate_min", limits.transfer_rate_min, Bytes(0), Bytes(1 << 30));
    check.lasting("limits.transfer_rate_window", limits.transfer_rate_window, millis(10), hour);
    for media_type in &limits.skip_types {
        check.media_type("limits.skip_types", media_type);
    }
    check.lasting("limits.first_answer_timeout", limits.first_answer_timeout, millis(10), hour);
    check.within("limits.redirects", limits.redirects, 0, 50);
    check.within("limits.url_bytes_max", limits.url_bytes_max, 64, crate::url::URL_BYTES_MAX);
    check.within("limits.segment_repeats", limits.segment_repeats, 1, 1_000);
    check.within("limits.query_parameters", limits.query_parameters, 0, 1_000);
    for prefix in &pipeline.scope.prefixes {
        check.surt_prefix("scope.prefixes", prefix);
    }
    check.within("limits.links_per_page", limits.links_per_page, 1, 100_000);

    for (key, edge) in pipeline.edges.streams() {
        check.stream(key, edge, pipeline.broker.max_payload);
    }

    let stages = &pipeline.stages;
    for (stage, common) in stages.common() {
        // The archiver alone is not needed for a crawl.
        let replicas_min = u16::from(stage != "archiver");
        check.within(&format!("stages.{stage}.replicas"), common.replicas, replicas_min, 1000);
    }
    check.within("stages.host-splitter.batch_urls_max", stages.host_splitter.batch_urls_max, 1, 4096);
    check.lasting("stages.host-splitter.linger", stages.host_splitter.linger, Duration::ZERO, seconds(5));

    let dedup = &stages.dedup;
    check.within("stages.dedup.memtable_bytes", dedup.memtable_bytes, Bytes(1 << 20), Bytes(256 << 20));
    check.within("stages.dedup.store_cache_bytes", dedup.store_cache_bytes, Bytes(1 << 20), Bytes(64 << 30));
    for (stage, cache) in [("host-splitter", &stages.host_splitter.cache), ("dedup", &dedup.cache)] {
        check.url_cache(&format!("stages.{stage}.cache"), cache);
    }
    check.within("stages.dedup.buffer_bytes", dedup.buffer_bytes, Bytes(4 << 10), Bytes(64 << 30));
    check.within("stages.dedup.filter_bytes_max", dedup.filter_bytes_max, Bytes(1 << 20), Bytes(64 << 30));
    check.lasting("stages.dedup.flush_after", dedup.flush_after, millis(1), seconds(20));
    check.within("stages.dedup.filter_urls", dedup.filter_urls, 1_000, 1_000_000_000);

    let resolver = &stages.resolver;
    check.within("stages.resolver.window", resolver.window, 1, 65_536);
    check.lasting("stages.resolver.timeout", resolver.timeout, millis(10), seconds(60));
    check.within("stages.resolver.attempts", resolver.attempts, 1, 10);
    check.lasting("stages.resolver.hedge_after", resolver.hedge_after, millis(1), seconds(60));
    check.within("stages.resolver.cache.entries", resolver.cache.entries, 1, 100_000_000);
    check.lasting("stages.resolver.cache.refresh", resolver.cache.refresh, Duration::ZERO, 24 * hour);
    check.lasting("stages.resolver.cache.lifetime_max", resolver.cache.lifetime_max, resolver.cache.refresh, 24 * hour);
    check.lasting("stages.resolver.cache.negative", resolver.cache.negative, Duration::ZERO, hour);
    check.lasting("stages.resolver.cache.temporary", resolver.cache.temporary, Duration::ZERO, hour);
    let temporary = resolver.cache.temporary;
    check.lasting("stages.resolver.cache.temporary_max", resolver.cache.temporary_max, temporary, 24 * hour);
    check.lasting("stages.resolver.cache.snapshot_every", resolver.cache.snapshot_every, Duration::ZERO, 24 * hour);

    let scheduler = &stages.scheduler;
    check.within("stages.scheduler.requests_per_connection", scheduler.requests_per_connection, 1, 1000);
    check.lasting("stages.scheduler.visit_budget", scheduler.visit_budget, Duration::ZERO, hour);
    check.lasting("stages.scheduler.job_lease", scheduler.job_lease, seconds(2), seconds(600));
    check.within("stages.scheduler.attempts", scheduler.attempts, 1, 20);
    check.lasting("stages.scheduler.retry_wait", scheduler.retry_wait, Duration::ZERO, hour);
    check.lasting("stages.scheduler.retry_wait_max", scheduler.retry_wait_max, scheduler.retry_wait, 24 * hour);
    check.within("stages.scheduler.resolve_attempts", scheduler.resolve_attempts, 1, 20);
    check.within("stages.scheduler.server_failures_max", scheduler.server_failures_max, 1, 100);
    check.within("stages.scheduler.robots_cache_bytes", scheduler.robots_cache_bytes, Bytes(0), Bytes(1 << 30));
    check.within("stages.scheduler.memtable_bytes", scheduler.memtable_bytes, Bytes(1 << 20), Bytes(256 << 20));
    check.within("stages.scheduler.store_cache_bytes", scheduler.store_cache_bytes, Bytes(1 << 20), Bytes(64 << 30));

    let fetcher = &stages.fetcher;
    check.within("stages.fetcher.connections", fetcher.connections, 1, 10_000);
    check.lasting("stages.fetcher.ask_lifetime", fetcher.ask_lifetime, millis(100), seconds(10));
    check.lasting("stages.fetcher.renew_every", fetcher.renew_every, millis(100), scheduler.job_lease / 2);
    check.within("stages.fetcher.streams", fetcher.streams, 1, 100);
    check.within("stages.parser.pages_in_hand", stages.parser.pages_in_hand, 1, 1000);

    let archiver = &stages.archiver;
    check.within("stages.archiver.file_bytes_max", archiver.file_bytes_max, Bytes(1 << 20), Bytes(64 << 30));
    check.lasting("stages.archiver.file_age_max", archiver.file_age_max, seconds(1), 30 * 24 * hour);
    check.lasting("stages.archiver.linger", archiver.linger, millis(1), seconds(10));
    check.within("stages.archiver.compression", archiver.compression, 0, 12);
    check.within("stages.archiver.digests", archiver.digests, 0, 1_000_000_000);

    check.user_agent(pipeline);
    for (name, value) in &pipeline.network.headers {
        check.header(name, value);
    }
    check.0
}

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

/// What names of headers and media types are made of (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

struct Check(Vec<String>);

impl Check {
    fn within<T: PartialOrd + Display>(&mut self, key: &str, value: T, low: T, high: T) {
        if value < low || value > high {
            self.0.push(format!("configuration key {key} = {value}: accepted are {low} to {high}"));
        }
    }

    fn lasting(&mut self, key: &str, value: Duration, low: Duration, high: Duration) {
        if value < low || value > high {
            let [value, low, high] = [value, low, high].map(humantime::format_duration);
            self.0.push(format!("configuration key {key} = {value}: accepted are {low} to {high}"));
        }
    }

    fn name(&mut self, key: &str, value: &str) {
        let letters = value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if value.is_empty() || value.len() > 64 || !letters {
            self.0.push(format!("configuration key {key} = '{value}': accepted are 1 to 64 letters, digits, - and _"));
        }
    }

    /// Empty, or where a NATS server may be.
    fn url(&mut self, key: &str, value: &str) {
        let is_good = value.parse().is_ok_and(|url: async_nats::ServerAddr| {
            matches!(url.scheme(), "nats" | "tls" | "ws" | "wss") && !url.host().is_empty() && url.port() != 0
        });
        if !value.is_empty() && !is_good {
            self.0.push(format!(
                "configuration key {key} = '{}': accepted are nats://host:port, tls://host:port, or nothing for a \
                 private server",
                bus::shown(value)
            ));
        }
    }

    fn surt_prefix(&mut self, key: &str, prefix: &str) {
        if !prefix.starts_with("http://(") && !prefix.starts_with("https://(") {
            self.0.push(format!(
                "configuration key {key} = '{prefix}': accepted are beginnings of URLs in SURT form, such as \
                 'https://(org,example,' or 'https://(org,example,)/docs/' (`rhumb canonical URL` shows a URL's)"
            ));
        }
    }

    fn media_type(&mut self, key: &str, pattern: &str) {
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| is_token(byte) && byte != b'*');
        let is_good =
            pattern.split_once('/').is_some_and(|(of, subtype)| is_name(of) && (subtype == "*" || is_name(subtype)));
        if !is_good || pattern.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.0.push(format!(
                "configuration key {key} = '{pattern}': accepted are media types in lower case, such as application/zip, \
                 or all of a kind, such as video/*"
            ));
        }
    }

    /// A header of every request. What the client sends by itself, or what other keys are for, is not for operators.
    fn header(&mut self, name: &str, value: &str) {
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
            self.0.push(format!("configuration key network.headers.{name}: accepted are printable ASCII characters"));
        }
    }

    fn url_cache(&mut self, key: &str, cache: &UrlCacheSettings) {
        self.within(&format!("{key}.entries"), cache.entries, 1, 1 << 28);
        if cache.policy == CachePolicy::Static && cache.file.as_os_str().is_empty() {
            self.0.push(format!(
                "configuration key {key}.file = '': the policy static needs a file of URLs, one a line, such as \
                 `rhumb export frequent-urls` writes"
            ));
        }
    }

    fn stream(&mut self, name: &str, edge: &StreamEdge, max_payload: Bytes) {
        let key = &format!("edges.{name}");
        // Who takes part is known when the streams are made: with another retention what nobody has taken yet would go.
        let (accepted, spelled) = match name {
            "pages" | "documents" | "outcomes" => (Retention::Interest, "interest"),
            "dead" => (Retention::Limits, "limits"),
            _ => (Retention::WorkQueue, "work-queue"),
        };
        if edge.retention != accepted {
            self.0.push(format!("configuration key {key}.retention: accepted is {spelled}, or messages would be lost"));
        }
        // Room for two messages: none but a page is larger than the smallest broker takes.
        let largest = if name == "pages" { max_payload } else { bus::MAX_PAYLOAD_MIN };
        let bytes_min = Bytes(2 * largest.0);
        if edge.bytes_max.0 != 0 && edge.bytes_max < bytes_min {
            let bytes = edge.bytes_max;
            self.0.push(format!(
                "configuration key {key}.bytes_max = {bytes}: accepted are 0 (no bound) and from {bytes_min} on"
            ));
        }
        self.within(&format!("{key}.replicas"), edge.replicas, 1, 5);
        self.within(&format!("{key}.unacked_max"), edge.unacked_max, 1, 1_000_000);
        let second = Duration::from_secs(1);
        self.lasting(&format!("{key}.ack_wait"), edge.ack_wait, second, 3600 * second);
        self.lasting(&format!("{key}.duplicate_window"), edge.duplicate_window, second, 3600 * second);
    }

    /// The owner of a server must be able to ask who crawls it.
    fn user_agent(&mut self, pipeline: &Pipeline) {
        let agent = &pipeline.network.user_agent;
        if agent.chars().any(|c| c.is_control() || !c.is_ascii()) {
            self.0.push(format!(
                "configuration key network.user_agent = {agent:?}: accepted are printable ASCII characters"
            ));
        }
        let names_a_contact = agent.contains('@') || agent.contains("http://") || agent.contains("https://");
        if !pipeline.network.allow_private_addresses && !names_a_contact {
            self.0.push(format!(
                "configuration key network.user_agent = '{agent}': a crawl of the public web needs an agent that names a \
                 contact, such as 'mybot/1.0 (+https://example.org/bot)' or 'mybot/1.0 (crawler@example.org)'; \
                 a crawl of private addresses (network.allow_private_addresses: true) needs none"
            ));
        }
    }
}
