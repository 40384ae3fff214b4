//! The section `stages` of `pipeline.yaml`: settings of each stage.

use super::units::{Bytes, duration};
use rhumb_wire::topology::StageName;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

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

/// The settings that every stage has.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// Number of instances.
    pub replicas: u16,
    /// Address on which health and metrics are served.
    pub listen: SocketAddr,
}

impl Stages {
    /// The settings of a stage that every stage has.
    pub fn of(&self, stage: StageName) -> Common {
        let common = |replicas, listen| Common { replicas, listen };
        match stage {
            StageName::HostSplitter => {
                common(self.host_splitter.replicas, self.host_splitter.listen)
            }
            StageName::Dedup => common(self.dedup.replicas, self.dedup.listen),
            StageName::Resolver => common(self.resolver.replicas, self.resolver.listen),
            StageName::Scheduler => common(self.scheduler.replicas, self.scheduler.listen),
            StageName::Fetcher => common(self.fetcher.replicas, self.fetcher.listen),
            StageName::Parser => common(self.parser.replicas, self.parser.listen),
            StageName::Archiver => common(self.archiver.replicas, self.archiver.listen),
        }
    }

    /// The settings that every stage has, by the stage's name, in the order in which a URL passes
    /// the stages.
    pub fn common(&self) -> [(&'static str, Common); StageName::ALL.len()] {
        StageName::ALL.map(|stage| (stage.name(), self.of(stage)))
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

/// The entry of a full URL cache that gives way to a new one.
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
    pub partition_urls_max: u64,
    pub filter_bytes_max: Bytes,
    pub cache: UrlCacheSettings,
}

/// The place where the URL-seen test keeps its fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DedupStore {
    /// In the sieve: memory is bounded by `buffer_bytes` and `filter_bytes_max`.
    Disk,
    /// In memory, 5 to 7 bytes each once there are many, and in a log of 16 bytes each: P6 does not
    /// hold.
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
    pub boost_bytes: Bytes,
    #[serde(deserialize_with = "duration")]
    pub slice: Duration,
    #[serde(deserialize_with = "duration")]
    pub slice_quantum: Duration,
    #[serde(deserialize_with = "duration")]
    pub slice_min: Duration,
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

/// The rule by which the next server, and its next URL, is chosen (Cao, Jiang and Singh 2003).
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

/// The source of a URL's quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QualityProvider {
    /// The nearer to a seed, the better.
    Depth,
    /// The share of its page's quality that flows to it.
    Flow,
    /// Links to it that were found so far.
    Links,
    /// The quality that has flowed to it so far, from all pages that link to it (OPIC: Abiteboul,
    /// Preda and Cobena 2003).
    Opic,
    /// The number that a file has for it.
    Table,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Fetcher {
    pub replicas: u16,
    pub listen: SocketAddr,
    pub connections: u32,
    pub bytes_in_hand_max: Bytes,
    #[serde(deserialize_with = "duration")]
    pub ask_lifetime: Duration,
    #[serde(deserialize_with = "duration")]
    pub renew_every: Duration,
    pub streams: u32,
    pub accept_invalid_certificates: bool,
    pub tls_sessions: u32,
    pub archive: PathBuf,
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

/// The effect of a page's wish that links be not followed: `rel` of a link, robots `meta`,
/// `X-Robots-Tag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nofollow {
    /// The links are not followed.
    #[default]
    Obey,
    /// None.
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
    pub by_topic: bool,
    pub format: WarcFormat,
    pub compression: u8,
    pub digests: usize,
}

/// How the records of WARC files are compressed, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum WarcFormat {
    /// As gzip members (WARC 1.1, annex A).
    #[serde(rename = "warc.gz")]
    Gzip,
    /// As Zstandard frames, without a dictionary (the IIPC's "Zstandard compression for WARC files"
    /// 1.0).
    #[serde(rename = "warc.zst")]
    Zstd,
}

impl WarcFormat {
    /// All there are.
    pub const ALL: [WarcFormat; 2] = [WarcFormat::Gzip, WarcFormat::Zstd];

    /// What the names of such files end in.
    pub fn extension(self) -> &'static str {
        match self {
            WarcFormat::Gzip => "warc.gz",
            WarcFormat::Zstd => "warc.zst",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::shipped;
    use std::collections::BTreeSet;

    #[test]
    fn the_stages_of_the_table_are_those_of_the_file() {
        let (tree, pipeline) = shipped();
        let keys: BTreeSet<&str> = tree["stages"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(keys, StageName::ALL.map(StageName::name).into());
        for stage in StageName::ALL {
            let replicas = pipeline.stages.of(stage).replicas;
            assert_eq!(tree["stages"][stage.name()]["replicas"], replicas);
            assert_eq!(
                replicas,
                u16::from(!stage.row().is_optional),
                "{}",
                stage.name()
            );
        }
    }
}
