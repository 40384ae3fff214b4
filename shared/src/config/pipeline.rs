//! The keys of `pipeline.yaml`. What each means, its default and its range stand in that file.

use super::units::{Bytes, duration};
use super::{NameServer, Patterns, Proxy};
use crate::message::Edge;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The whole configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Pipeline {
    pub crawl: String,
    pub data: PathBuf,
    pub partitions: u16,
    #[serde(deserialize_with = "duration")]
    pub ownership_lease: Duration,
    pub durability: Durability,
    pub broker: Broker,
    pub network: Network,
    pub politeness: Politeness,
    pub scope: Scope,
    pub url: crate::url::Rules,
    pub limits: Limits,
    pub edges: Edges,
    pub stages: Stages,
}

impl Pipeline {
    /// Where an instance keeps its state: `<data>/<stage>/<instance>`.
    pub fn instance_dir(&self, stage: &str, instance: u16) -> PathBuf {
        self.data.join(stage).join(instance.to_string())
    }

    /// Where the archiver keeps what was fetched.
    pub fn archive_dir(&self) -> PathBuf {
        let dir = &self.stages.archiver.dir;
        if dir.as_os_str().is_empty() { self.data.join("archive") } else { dir.clone() }
    }

    /// The file by which commands find a running crawl.
    pub fn control_file(data: &Path) -> PathBuf {
        data.join("control.json")
    }

    /// Where a crawl keeps the configuration that it runs with.
    pub fn kept_file(data: &Path) -> PathBuf {
        data.join("configuration.json")
    }

    /// The user agent sent with every request.
    pub fn user_agent(&self) -> String {
        if self.network.user_agent.is_empty() {
            concat!("rhumb/", env!("CARGO_PKG_VERSION")).to_owned()
        } else {
            self.network.user_agent.clone()
        }
    }

    /// Which instance of a partitioned stage with so many replicas owns a partition.
    pub fn owner(partition: u16, replicas: u16) -> u16 {
        partition % replicas
    }
}

/// What acknowledged work survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// The death of any process.
    Process,
    /// A power cut.
    Power,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Broker {
    pub url: String,
    #[serde(deserialize_with = "duration")]
    pub sync_interval: Duration,
    pub max_payload: Bytes,
    #[serde(deserialize_with = "duration")]
    pub connect_report_every: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Network {
    pub nameservers: Vec<NameServer>,
    pub allow_private_addresses: bool,
    pub user_agent: String,
    pub headers: BTreeMap<String, String>,
    pub cookies: bool,
    pub proxy: Proxy,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Politeness {
    #[serde(deserialize_with = "duration")]
    pub delay: Duration,
    #[serde(deserialize_with = "duration")]
    pub crawl_delay_max: Duration,
    pub download_factor: u32,
    #[serde(deserialize_with = "duration")]
    pub retry_after_max: Duration,
    pub connections_per_address: u32,
    pub respect_robots: bool,
    #[serde(deserialize_with = "duration")]
    pub robots_lifetime: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Scope {
    pub follow: Follow,
    pub max_depth: u16,
    pub prefixes: Vec<String>,
    pub accept: Patterns,
    pub reject: Patterns,
}

/// Which hosts a topic follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Follow {
    /// Those of its seeds.
    Host,
    /// Those under the registered domains of its seeds.
    Domain,
    /// All.
    Any,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Limits {
    pub max_pages: u64,
    pub pages_per_host: u64,
    pub pages_per_domain: u64,
    pub over_budget: OverBudget,
    pub sitemaps_per_server: usize,
    pub body_bytes_max: Bytes,
    pub header_bytes_max: Bytes,
    pub decoded_bytes_max: Bytes,
    #[serde(deserialize_with = "duration")]
    pub connect_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub request_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub first_byte_timeout: Duration,
    pub transfer_rate_min: Bytes,
    #[serde(deserialize_with = "duration")]
    pub transfer_rate_window: Duration,
    #[serde(deserialize_with = "duration")]
    pub first_answer_timeout: Duration,
    pub skip_types: Vec<String>,
    pub redirects: u8,
    pub url_bytes_max: usize,
    pub segment_repeats: usize,
    pub query_parameters: usize,
    pub links_per_page: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Edges {
    pub urls: UrlEdges,
    pub pages: StreamEdge,
    pub outcomes: StreamEdge,
    pub fetch: FetchEdges,
    pub dns: DnsEdges,
    pub content: ContentEdges,
    pub documents: StreamEdge,
    pub errands: CoreEdge,
    pub dead: StreamEdge,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct UrlEdges {
    pub found: StreamEdge,
    pub split: StreamEdge,
    pub new: StreamEdge,
    pub ready: StreamEdge,
    pub filtered: CoreEdge,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct ContentEdges {
    pub asks: CoreEdge,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct FetchEdges {
    pub reports: StreamEdge,
    pub asks: CoreEdge,
    pub jobs: CoreEdge,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct DnsEdges {
    pub refresh: CoreEdge,
}

/// An edge that is a JetStream stream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct StreamEdge {
    pub subject: String,
    pub storage: Storage,
    pub retention: Retention,
    pub replicas: usize,
    pub bytes_max: Bytes,
    #[serde(deserialize_with = "duration")]
    pub duplicate_window: Duration,
    #[serde(deserialize_with = "duration")]
    pub ack_wait: Duration,
    pub unacked_max: u32,
}

/// An edge of core NATS messages: soft state.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct CoreEdge {
    pub subject: String,
}

/// Where the broker keeps a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "pipeline.yaml documents every value")]
pub enum Storage {
    File,
    Memory,
}

/// When the broker deletes a message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retention {
    /// When its one consumer has acked it.
    WorkQueue,
    /// When all consumers have acked it.
    Interest,
    /// When the stream is full.
    Limits,
}

impl Edges {
    /// The streams with their keys below `edges`.
    pub fn streams(&self) -> [(&'static str, &StreamEdge); 9] {
        [
            ("urls.found", &self.urls.found),
            ("urls.split", &self.urls.split),
            ("urls.new", &self.urls.new),
            ("urls.ready", &self.urls.ready),
            ("pages", &self.pages),
            ("outcomes", &self.outcomes),
            ("documents", &self.documents),
            ("fetch.reports", &self.fetch.reports),
            ("dead", &self.dead),
        ]
    }

    /// The stream of an edge; none for edges of core NATS messages.
    pub fn stream(&self, edge: Edge) -> Option<&StreamEdge> {
        self.streams().into_iter().find(|(key, _)| *key == edge.name()).map(|(_, stream)| stream)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Stages {
    #[serde(rename = "host-splitter")]
    pub host_splitter: HostSplitter,
    pub dedup: Dedup,
    pub resolver: Resolver,
    pub scheduler: Scheduler,
    pub fetcher: Fetcher,
    pub parser: Parser,
    pub archiver: Archiver,
}

/// What every stage is configured with.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// How many instances run.
    pub replicas: u16,
    /// Where health and metrics are served.
    pub listen: SocketAddr,
}

impl Stages {
    /// The settings that every stage has, by stage, in the order of the picture.
    pub fn common(&self) -> [(&'static str, Common); 7] {
        let common = |replicas, listen| Common { replicas, listen };
        [
            ("host-splitter", common(self.host_splitter.replicas, self.host_splitter.listen)),
            ("dedup", common(self.dedup.replicas, self.dedup.listen)),
            ("resolver", common(self.resolver.replicas, self.resolver.listen)),
            ("scheduler", common(self.scheduler.replicas, self.scheduler.listen)),
            ("fetcher", common(self.fetcher.replicas, self.fetcher.listen)),
            ("parser", common(self.parser.replicas, self.parser.listen)),
            ("archiver", common(self.archiver.replicas, self.archiver.listen)),
        ]
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct HostSplitter {
    pub replicas: u16,
    pub listen: SocketAddr,
    pub batch_urls_max: usize,
    #[serde(deserialize_with = "duration")]
    pub linger: Duration,
    pub cache: UrlCacheSettings,
}

/// A cache of URLs that are known.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct UrlCacheSettings {
    pub policy: CachePolicy,
    pub entries: u32,
    pub file: PathBuf,
}

/// Which entry of a full URL cache gives way to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// One that was not used since the hand passed it.
    Clock,
    /// The one whose last use is longest ago.
    Lru,
    /// Any.
    Random,
    /// None: the cache holds the URLs of a file.
    Static,
    /// There is no cache.
    None,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Dedup {
    pub replicas: u16,
    pub listen: SocketAddr,
    pub store: DedupStore,
    pub memtable_bytes: Bytes,
    pub store_cache_bytes: Bytes,
    pub buffer_bytes: Bytes,
    #[serde(deserialize_with = "duration")]
    pub flush_after: Duration,
    pub filter_urls: u64,
    pub filter_bytes_max: Bytes,
    pub cache: UrlCacheSettings,
}

/// Where the URL-seen test keeps its fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DedupStore {
    /// In the sieve: memory is bounded by `buffer_bytes` and `filter_bytes_max`.
    Disk,
    /// In memory, 5 to 7 bytes each once there are many, and in a log of 16 bytes each: P6 does not hold.
    Memory,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Resolver {
    pub replicas: u16,
    pub listen: SocketAddr,
    pub window: usize,
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    pub attempts: usize,
    #[serde(deserialize_with = "duration")]
    pub hedge_after: Duration,
    pub cache: NameCache,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct NameCache {
    pub entries: usize,
    #[serde(deserialize_with = "duration")]
    pub refresh: Duration,
    #[serde(deserialize_with = "duration")]
    pub lifetime_max: Duration,
    #[serde(deserialize_with = "duration")]
    pub negative: Duration,
    #[serde(deserialize_with = "duration")]
    pub temporary: Duration,
    #[serde(deserialize_with = "duration")]
    pub temporary_max: Duration,
    #[serde(deserialize_with = "duration")]
    pub snapshot_every: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Scheduler {
    pub replicas: u16,
    pub listen: SocketAddr,
    pub policy: Policy,
    pub quality: QualityProvider,
    pub quality_table: PathBuf,
    pub requests_per_connection: u32,
    #[serde(deserialize_with = "duration")]
    pub visit_budget: Duration,
    #[serde(deserialize_with = "duration")]
    pub job_lease: Duration,
    pub attempts: u8,
    #[serde(deserialize_with = "duration")]
    pub retry_wait: Duration,
    #[serde(deserialize_with = "duration")]
    pub retry_wait_max: Duration,
    pub resolve_attempts: u8,
    pub server_failures_max: u8,
    pub robots_cache_bytes: Bytes,
    pub memtable_bytes: Bytes,
    pub store_cache_bytes: Bytes,
}

/// What becomes of the URLs of a host or domain whose budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverBudget {
    /// They end over-budget.
    End,
    /// They wait until the crawl is resumed with a larger budget.
    Wait,
}

/// Which server comes next, and which of its URLs (Cao, Jiang and Singh 2003).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The one that has been ready for longest.
    BreadthFirst,
    /// The one with the most pages a second.
    Performance,
    /// The one with the best URL.
    Quality,
    /// The one with the most quality a second.
    Capacity,
}

/// What the quality of a URL is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QualityProvider {
    /// The nearer to a seed, the better.
    Depth,
    /// What flows to it from the page that has it.
    Flow,
    /// What a file says.
    Table,
    /// Drawn, by Zipf's law.
    Zipf,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Fetcher {
    pub replicas: u16,
    pub listen: SocketAddr,
    pub connections: u32,
    #[serde(deserialize_with = "duration")]
    pub ask_lifetime: Duration,
    #[serde(deserialize_with = "duration")]
    pub renew_every: Duration,
    pub streams: u32,
    pub accept_invalid_certificates: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Parser {
    pub replicas: u16,
    pub listen: SocketAddr,
    pub pages_in_hand: u32,
    pub content_seen: bool,
    pub embedded: bool,
    pub forms: bool,
    pub amphtml: bool,
    pub anchors: bool,
    pub nofollow: Nofollow,
}

/// What a page's wish that links be not followed means: `rel` of a link, robots `meta`, `X-Robots-Tag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nofollow {
    /// They are not.
    #[default]
    Obey,
    /// Nothing.
    Ignore,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Archiver {
    pub replicas: u16,
    pub listen: SocketAddr,
    pub dir: PathBuf,
    pub file_bytes_max: Bytes,
    #[serde(deserialize_with = "duration")]
    pub file_age_max: Duration,
    #[serde(deserialize_with = "duration")]
    pub linger: Duration,
    pub compression: u8,
    pub digests: usize,
}
