//! The section `stages` of `pipeline.yaml`: settings of each stage.

use super::archiver::Archiver;
use super::keys::{choice, section};
use super::units::Bytes;
use rhumb_wire::topology::StageName;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// Settings of each stage.
    pub struct Stages {
        /// Filters found URLs, and batches them by partition.
        #[serde(rename = "host-splitter")]
        pub host_splitter: HostSplitter,
        /// Has the URL-seen test.
        pub dedup: Dedup,
        /// Finds addresses.
        pub resolver: Resolver,
        /// Has the frontier, and grants connection jobs.
        pub scheduler: Scheduler,
        /// Contacts servers.
        pub fetcher: Fetcher,
        /// Takes links from pages.
        pub parser: Parser,
        /// Keeps the crawl: WARC files with an index each, and crawl.jsonl with a line per outcome.
        pub archiver: Archiver,
    }
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

section! {
    /// Settings of host-splitter, which filters found URLs and batches them by partition.
    pub struct HostSplitter {
        /// Instances.
        #[key(default = "1", range = "1..1000")]
        pub replicas: u16,
        /// Address of /healthz, /readyz and /metrics; port 0: a free one.
        #[key(default = "127.0.0.1:0")]
        pub listen: SocketAddr,
        /// URLs in one message.
        #[key(default = "256", range = "1..4096")]
        pub batch_urls_max: usize,
        /// A URL waits this long for others to fill its message.
        #[key(default = "30ms", range = "0s..5s")]
        pub linger: Duration,
        /// Drops links that this instance passed on lately, before they cost a message.
        pub cache: UrlCacheSettings,
    }
}

section! {
    /// A cache of URLs that are known.
    pub struct UrlCacheSettings {
        /// Which URL gives way to a new one when the cache is full.
        #[key(default = "clock")]
        pub policy: CachePolicy,
        /// URLs in the cache; 12 to 25 bytes each.
        #[key(default = "65536", range = "1..268435456")]
        pub entries: u32,
        /// For static: file of URLs, one per line, as `rhumb export frequent-urls` writes them.
        #[key(default = "")]
        pub file: PathBuf,
    }
}

choice! {
    /// The entry of a full URL cache that gives way to a new one.
    pub enum CachePolicy {
        /// One that was not used since the hand passed it.
        #[serde(rename = "clock")]
        Clock,
        /// The one whose last use is longest ago.
        #[serde(rename = "lru")]
        Lru,
        /// Any.
        #[serde(rename = "random")]
        Random,
        /// None: the cache holds the URLs of file.
        #[serde(rename = "static")]
        Static,
        /// There is no cache.
        #[serde(rename = "none")]
        None,
    }
}

section! {
    /// Settings of dedup, which has the URL-seen test.
    pub struct Dedup {
        /// Instances that share the partitions when a run begins. `rhumb scale` changes it while
        /// the crawl runs; the partitions move.
        #[key(default = "1", range = "1..1000")]
        pub replicas: u16,
        /// Address of /healthz, /readyz and /metrics; port 0: a free one.
        #[key(default = "127.0.0.1:0")]
        pub listen: SocketAddr,
        /// Where the URL-seen test keeps its fingerprints. A crawl may change from memory to disk,
        /// but not back.
        #[key(default = "disk")]
        pub store: DedupStore,
        /// Write buffer of each table of the store.
        #[key(default = "8MiB", range = "1MiB..256MiB")]
        pub memtable_bytes: Bytes,
        /// Block cache of the store.
        #[key(default = "32MiB", range = "1MiB..64GiB")]
        pub store_cache_bytes: Bytes,
        /// Memory for URLs that are not in the sieve's runs yet, and for questions to the runs.
        #[key(default = "64MiB", range = "4KiB..64GiB")]
        pub buffer_bytes: Bytes,
        /// A question to the runs waits this long for others.
        #[key(default = "1s", range = "1ms..20s")]
        pub flush_after: Duration,
        /// Memory of all Bloom filters, about 1.5 bytes per known URL; when it is used up, more
        /// questions go to the disk and wait.
        #[key(default = "512MiB", range = "1MiB..64GiB")]
        pub filter_bytes_max: Bytes,
        /// The first Bloom filters of an instance are made for this many URLs, over all its
        /// partitions; each further filter holds half as many as all before it.
        #[key(default = "1000000", range = "1000..1000000000")]
        pub filter_urls: u64,
        /// A partition that knows more URLs is split into two, unless most are of one host; 0: only
        /// by `rhumb split`.
        #[key(default = "20000000", range = "0, 1000..1000000000000")]
        pub partition_urls_max: u64,
        /// Answers for URLs met lately, before the store is asked.
        pub cache: UrlCacheSettings,
    }
}

choice! {
    /// The place where the URL-seen test keeps its fingerprints.
    pub enum DedupStore {
        /// In the sieve: memory is bounded by the keys below.
        #[serde(rename = "disk")]
        Disk,
        /// In memory, faster: 5 to 7 bytes per known URL and at least 70 MB. Each start reads its
        /// log, of 16 bytes each. P6 does not hold.
        #[serde(rename = "memory")]
        Memory,
    }
}

section! {
    /// Settings of the resolver, which finds addresses.
    pub struct Resolver {
        /// Instances.
        #[key(default = "1", range = "1..1000")]
        pub replicas: u16,
        /// Address of /healthz, /readyz and /metrics; port 0: a free one.
        #[key(default = "127.0.0.1:0")]
        pub listen: SocketAddr,
        /// Queries outstanding at once.
        #[key(default = "1024", range = "1..65536")]
        pub window: usize,
        /// Time of one query; twice this when the answer needs TCP, leads to further queries, or is
        /// asked for once more without EDNS.
        #[key(default = "5s", range = "10ms..1m")]
        pub timeout: Duration,
        /// A name has failed for now after this many queries, over all name servers.
        #[key(default = "2", range = "1..10")]
        pub attempts: usize,
        /// A second name server is asked when the first has not answered after this time, or after
        /// its usual time if that is longer; counts as an attempt.
        #[key(default = "100ms", range = "1ms..60s")]
        pub hedge_after: Duration,
        /// What is known of names.
        pub cache: NameCache,
    }
}

section! {
    /// The cache of names and their addresses.
    pub struct NameCache {
        /// Names that are kept.
        #[key(default = "50000", range = "1..100000000")]
        pub entries: usize,
        /// An address is used at least this long, even if its record says less.
        #[key(default = "30m", range = "0s..24h")]
        pub refresh: Duration,
        /// An address is used at most this long.
        #[key(default = "24h", range = "refresh..24h")]
        pub lifetime_max: Duration,
        /// A name without address is remembered as long as its zone says, but at most this long and
        /// at least 1m (or this, if it is less).
        #[key(default = "5m", range = "0s..1h")]
        pub negative: Duration,
        /// A failure is remembered this long; doubles with every further failure.
        #[key(default = "30s", range = "0s..1h")]
        pub temporary: Duration,
        /// The longest time that a failure is remembered.
        #[key(default = "5m", range = "temporary..24h")]
        pub temporary_max: Duration,
        /// The cache is written to the instance's folder at this interval, if it has changed, and
        /// at the end; the next start reads it; 0s: never.
        #[key(default = "5m", range = "0s..24h")]
        pub snapshot_every: Duration,
    }
}

section! {
    /// Settings of the scheduler, which has the frontier.
    pub struct Scheduler {
        /// Instances that share the partitions when a run begins. `rhumb scale` changes it while
        /// the crawl runs; the partitions move.
        #[key(default = "1", range = "1..1000")]
        pub replicas: u16,
        /// Address of /healthz, /readyz and /metrics; port 0: a free one.
        #[key(default = "127.0.0.1:0")]
        pub listen: SocketAddr,
        /// Which server is next; with quality and capacity the best URLs of a server are next, too.
        #[key(default = "breadth-first", live(HostSplitter, Scheduler))]
        pub policy: Policy,
        /// Where the quality of a URL comes from. With links and opic links that are found later
        /// count, too, as long as the URL waits and the policy goes by quality.
        #[key(default = "depth", live(HostSplitter, Scheduler))]
        pub quality: QualityProvider,
        /// File with a URL and a number on each line; URLs that are not in it have 0.
        #[key(default = "")]
        pub quality_table: PathBuf,
        /// Memory in which each host-splitter adds up what later links are worth, at most, if
        /// quality is links or opic; about 64 bytes a URL: the URLs that were met longest ago give
        /// way.
        #[key(default = "64MiB", range = "1MiB..64GiB")]
        pub boost_bytes: Bytes,
        /// URLs in a job for a server whose own limit is not known yet.
        #[key(default = "50", range = "1..1000", live(Scheduler))]
        pub requests_per_connection: u32,
        /// Connection time of a turn, where topics of one priority take turns.
        #[key(default = "1s", range = "10ms..1h", live(Scheduler))]
        pub slice: Duration,
        /// Time by which the turns of a topic become shorter, or longer again
        /// (`topics.*.pages_min`).
        #[key(default = "100ms", range = "1ms..1h", live(Scheduler))]
        pub slice_quantum: Duration,
        /// The shortest turn.
        #[key(default = "100ms", range = "10ms..slice", live(Scheduler))]
        pub slice_min: Duration,
        /// The scheduler plans a connection job to last at most this long.
        #[key(default = "60s", range = "0s..1h", live(Scheduler))]
        pub visit_budget: Duration,
        /// A connection job that is not renewed in this time is lost. Time in which the scheduler
        /// could not hear does not count, if ownership_lease is at most half of this plus 2s.
        #[key(default = "20s", range = "2s..10m")]
        pub job_lease: Duration,
        /// Attempts of a URL; after the last it ends, failed or refused. A connection that cannot
        /// be made costs none.
        #[key(default = "4", range = "1..20", live(Scheduler))]
        pub attempts: u8,
        /// Wait after the first failure; doubles with each further one.
        #[key(default = "30s", range = "0s..1h", live(Scheduler))]
        pub retry_wait: Duration,
        /// The longest wait after a failure.
        #[key(default = "15m", range = "retry_wait..24h", live(Scheduler))]
        pub retry_wait_max: Duration,
        /// A server is unresolvable after this many failures of the name servers in a row.
        #[key(default = "3", range = "1..20", live(Scheduler))]
        pub resolve_attempts: u8,
        /// The URLs of a server end, as the last trouble says, after this many jobs in a row that
        /// it refused (429, 503) or did not answer; after each it is left alone for retry_wait,
        /// doubling.
        #[key(default = "6", range = "1..100", live(Scheduler))]
        pub server_failures_max: u8,
        /// Memory for parsed robots.txt of servers in play.
        #[key(default = "16MiB", range = "0..1GiB")]
        pub robots_cache_bytes: Bytes,
        /// Write buffer of each table of the store.
        #[key(default = "8MiB", range = "1MiB..256MiB")]
        pub memtable_bytes: Bytes,
        /// Block cache of the store.
        #[key(default = "32MiB", range = "1MiB..64GiB")]
        pub store_cache_bytes: Bytes,
    }
}

choice! {
    /// The rule by which the next server, and its next URL, is chosen (Cao, Jiang and Singh 2003).
    pub enum Policy {
        /// The one that has been ready for longest.
        #[serde(rename = "breadth-first")]
        BreadthFirst,
        /// The one with the most pages a second.
        #[serde(rename = "performance")]
        Performance,
        /// The one with the best URL.
        #[serde(rename = "quality")]
        Quality,
        /// The one with the most quality a second.
        #[serde(rename = "capacity")]
        Capacity,
    }
}

choice! {
    /// The source of a URL's quality (OPIC: Abiteboul, Preda and Cobena 2003).
    #[derive(Serialize)]
    pub enum QualityProvider {
        /// The nearer to a seed, the better.
        #[serde(rename = "depth")]
        Depth,
        /// A page shares its quality among its links.
        #[serde(rename = "flow")]
        Flow,
        /// The links to it that were found so far.
        #[serde(rename = "links")]
        Links,
        /// What has flowed to it so far, over all links.
        #[serde(rename = "opic")]
        Opic,
        /// The numbers of quality_table.
        #[serde(rename = "table")]
        Table,
    }
}

section! {
    /// Settings of the fetcher.
    pub struct Fetcher {
        /// Instances.
        #[key(default = "1", range = "1..1000")]
        pub replicas: u16,
        /// Address of /healthz, /readyz and /metrics; port 0: a free one.
        #[key(default = "127.0.0.1:0")]
        pub listen: SocketAddr,
        /// Connections open at once in one instance.
        #[key(default = "64", range = "1..10000")]
        pub connections: u32,
        /// Bodies in memory, from their first byte until their page is in its stream. When they
        /// reach it, bodies are not read on, but for one, until there is room again.
        #[key(default = "256MiB", range = "1MiB..64GiB")]
        pub bytes_in_hand_max: Bytes,
        /// An ask for jobs holds this long.
        #[key(default = "1s", range = "100ms..10s")]
        pub ask_lifetime: Duration,
        /// Interval between renewals of a job's lease.
        #[key(default = "5s", range = "100ms..stages.scheduler.job_lease / 2")]
        pub renew_every: Duration,
        /// Requests at once on an HTTP/2 connection, if politeness.delay is 0s and robots.txt asks
        /// for no delay; otherwise one at a time. Set no more than servers allow: a request that
        /// waits for its turn uses up its time limit.
        #[key(default = "1", range = "1..100")]
        pub streams: u32,
        /// true: any certificate will do; false: a server with a bad one has failed (certificate).
        #[key(default = "false")]
        pub accept_invalid_certificates: bool,
        /// Servers whose last TLS session is kept, so that the next connection resumes it and takes
        /// no full handshake: the oldest give way. Each takes about 10 KiB; 0: none.
        #[key(default = "4096", range = "0..1000000")]
        pub tls_sessions: u32,
        /// Folder with WARC files, also below it: a replay. Fetchers answer from the files, and
        /// contact nobody; name servers are not asked either. What is not there ends as gone. All
        /// pauses of politeness, and all waits for another try, are off; robots.txt counts as it
        /// was recorded. `rhumb crawl --from` sets it; empty: the web.
        #[key(default = "")]
        pub archive: PathBuf,
    }
}

section! {
    /// Settings of the parser.
    pub struct Parser {
        /// Instances.
        #[key(default = "1", range = "1..1000")]
        pub replicas: u16,
        /// Address of /healthz, /readyz and /metrics; port 0: a free one.
        #[key(default = "127.0.0.1:0")]
        pub listen: SocketAddr,
        /// Messages of pages taken from the broker at once, each with up to 256 KiB of pages, or
        /// one page; together at most 8 MiB.
        #[key(default = "64", range = "1..1000")]
        pub pages_in_hand: u32,
        /// Asks dedup whether a body was met before; links that were taken from another page with
        /// the same body are skipped.
        #[key(default = "true")]
        pub content_seen: bool,
        /// Also takes what browsers load: images, scripts, icons, media and style sheets, what
        /// style sheets load in turn (imports, fonts, images), what `style` elements and attributes
        /// and `iframe srcdoc` say, a manifest and its icons; also the images and media of sitemaps
        /// and feeds. All of these are links like others: scope, depth, robots.txt and nofollow
        /// hold, so another host's need scope.follow.
        #[key(default = "false", live(Parser))]
        pub embedded: bool,
        /// Also takes the targets of GET forms, without their fields.
        #[key(default = "false", live(Parser))]
        pub forms: bool,
        /// Also takes link rel=amphtml, which leads to the same page again.
        #[key(default = "false", live(Parser))]
        pub amphtml: bool,
        /// Passes on the text of each link and the text around it (at most 128 and 256 bytes), for
        /// consumers that score URLs.
        #[key(default = "false")]
        pub anchors: bool,
        /// What becomes of a link whose rel says nofollow, ugc or sponsored, or whose page's robots
        /// meta or X-Robots-Tag says nofollow.
        #[key(default = "obey", live(Parser))]
        pub nofollow: Nofollow,
    }
}

choice! {
    /// The effect of a page's wish that links be not followed.
    pub enum Nofollow {
        /// It is not followed.
        #[serde(rename = "obey")]
        Obey,
        /// It is followed.
        #[serde(rename = "ignore")]
        Ignore,
    }
}

/// A page's wish counts.
impl Default for Nofollow {
    fn default() -> Self {
        Nofollow::Obey
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
