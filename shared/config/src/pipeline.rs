//! The keys of `pipeline.yaml`, which is made of them. The larger sections have files of their own.

use super::broker::Broker;
use super::edges::{Edges, StreamEdge};
use super::given::Given;
use super::group::Group;
use super::keys::{choice, section};
use super::log::Log;
use super::name_server::NameServer;
use super::proxy::Proxy;
use super::recrawl::{Recrawl, RecrawlPolicy};
use super::scope::Scope;
use super::stages::Stages;
use super::topic::Topic;
use super::units::Bytes;
use super::usage::Usage;
use rhumb_wire::Subjects;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

section! {
    /// The whole configuration.
    pub struct Pipeline {
        /// Name of the crawl: first token of its subjects; letters, digits, - and _.
        #[key(default = "default", fixed)]
        pub crawl: String,
        /// Who runs the crawl, such as the namespace and the name of a release: the processes of
        /// another owner do not take part in it, although it has the same name and broker.
        #[key(default = "", fixed)]
        pub owner: String,
        /// Where instances keep their state, and the private broker its streams.
        #[key(default = "rhumb-data")]
        pub data: PathBuf,
        /// Ranges of the hosts' hashes, which the instances of dedup and of scheduler share, when a
        /// crawl begins; they split later (`rhumb split`). A power of two.
        #[key(default = "64", range = "1..4096", fixed)]
        pub partitions: u16,
        /// A dedup or scheduler process that vanished loses its instance's lease after this time,
        /// and another may take its place.
        #[key(default = "4s", range = "2s..1m", fixed)]
        pub ownership_lease: Duration,
        /// How partitions move from one instance to another.
        pub moves: Moves,
        /// What acknowledged work survives.
        #[key(default = "process")]
        pub durability: Durability,
        /// The broker, and who the crawl is there.
        pub broker: Broker,
        /// How log lines look, which there are, and how often one comes again.
        pub log: Log,
        /// Logs of the stages that rhumb starts: `<data>/logs/<stage>-<instance>.log`, `.log.1`
        /// and so on.
        pub logs: Logs,
        /// Of `rhumb conduct`, and of the `rhumb` that runs a crawl.
        pub conductor: Conductor,
        /// Name servers, addresses, and what requests say.
        pub network: Network,
        /// How servers are spared.
        pub politeness: Politeness,
        /// Which URLs are followed.
        pub scope: Scope,
        /// Crawl goals that share the fleet, by name, 200 at most. A topic that is not named here
        /// goes by `scope`; all those take turns as one, of priority 0.
        #[key(default = "{}")]
        pub topics: BTreeMap<String, Topic>,
        /// What the pages are for, and what becomes of those whose owners refuse that.
        pub usage: Usage,
        /// Whether, and how often, pages are visited again that were fetched before. Without a rule
        /// each page is fetched once.
        pub recrawl: Recrawl,
        /// Rewritings that may change what a URL stands for: all off by default.
        pub url: rhumb_url::Rules,
        /// Limits of the crawl, of a request, of a body, of a URL.
        pub limits: Limits,
        /// How the streams of the edges are kept. A stream may say each key of `defaults` itself.
        pub edges: Edges,
        /// Settings of each stage.
        pub stages: Stages,
    }
    beside {
        /// What it was read from.
        pub(super) given: Given,
        /// What an operator should mend in it one day, one a line; nothing that is wrong today.
        pub warnings: Vec<String>,
    }
}

impl Pipeline {
    /// The subjects of the crawl.
    pub fn subjects(&self) -> Subjects {
        Subjects::new(&self.crawl)
    }

    /// Where an instance keeps its state: `<data>/<stage>/<instance>`.
    pub fn instance_dir(&self, stage: &str, instance: u16) -> PathBuf {
        self.data.join(stage).join(instance.to_string())
    }

    /// Where the archiver keeps what was fetched.
    pub fn archive_dir(&self) -> PathBuf {
        let dir = &self.stages.archiver.dir;
        if dir.as_os_str().is_empty() {
            self.data.join("archive")
        } else {
            dir.clone()
        }
    }

    /// The file by which commands find a running crawl.
    pub fn control_file(data: &Path) -> PathBuf {
        data.join("control.json")
    }

    /// Where a crawl keeps the configuration that it runs with.
    pub fn kept_file(data: &Path) -> PathBuf {
        data.join("configuration.json")
    }

    /// Copies of an edge's stream.
    pub fn replicas(&self, edge: &StreamEdge) -> usize {
        if edge.replicas == 0 {
            self.broker.replicas
        } else {
            edge.replicas
        }
    }

    /// By which rules the pages of a topic are visited again. One that is not configured goes by the
    /// crawl's.
    pub fn recrawl_of(&self, topic: &str) -> Recrawl {
        let topic = self.topics.get(topic);
        topic.map_or(self.recrawl, |topic| topic.recrawl.over(&self.recrawl))
    }

    /// Returns whether pages are visited again: those of the crawl, or of a topic.
    pub fn visits_again(&self) -> bool {
        let own = self
            .topics
            .values()
            .filter_map(|topic| topic.recrawl.policy);
        let mut policies = own.chain([self.recrawl.policy]);
        policies.any(|policy| policy != RecrawlPolicy::None)
    }

    /// The scope of a topic. One that is not configured goes by the crawl's.
    pub fn scope_of(&self, topic: &str) -> Scope {
        self.topics
            .get(topic)
            .map_or_else(|| self.scope.clone(), |topic| topic.scope.over(&self.scope))
    }
}

choice! {
    /// What acknowledged work survives.
    pub enum Durability {
        /// The death of any process.
        #[serde(rename = "process")]
        Process,
        /// Also a power cut, by fsync.
        #[serde(rename = "power")]
        Power,
    }
}

section! {
    /// How partitions move from one instance to another.
    pub struct Moves {
        /// Of one core: the most that copying a partition that moves to another instance takes, at
        /// the one that has it and at the one that gets it.
        #[key(default = "0.5", range = "0.01..1")]
        pub cpu_share: f64,
        /// An instance of dedup or scheduler that no `rhumb` supervises works on for this long
        /// after SIGTERM. If it is no longer wanted by then, it gives its partitions away before it
        /// ends; otherwise it keeps them.
        #[key(default = "5s", range = "0s..1m")]
        pub sigterm_wait: Duration,
    }
}

section! {
    /// Logs of the stages that `rhumb` starts.
    pub struct Logs {
        /// A log of this size is closed, and the next one begins.
        #[key(default = "16MiB", range = "64KiB..16GiB")]
        pub bytes_max: Bytes,
        /// Closed logs that are kept of each instance; older ones are removed.
        #[key(default = "2", range = "1..100")]
        pub kept: u32,
    }
}

section! {
    /// The process that conducts a crawl.
    pub struct Conductor {
        /// Address of /healthz, /readyz, /metrics, and of /scale for autoscalers; port 0: a free
        /// one.
        #[key(default = "127.0.0.1:0")]
        pub listen: SocketAddr,
    }
}

section! {
    /// Name servers, addresses, and what requests say.
    pub struct Network {
        /// Name servers: `[ip:port, tls://ip#name, https://ip/path#name, ...]`, plain DNS, or over
        /// TLS or HTTPS with a certificate for that name; empty: the system's.
        #[key(default = "[]")]
        pub nameservers: Vec<NameServer>,
        /// true: loopback and private addresses, and those of this machine's own interfaces, may be
        /// contacted, and `user_agent` needs no contact.
        #[key(default = "false")]
        pub allow_private_addresses: bool,
        /// What servers are told: it must name a contact (an e-mail or web address) unless the
        /// crawl is local; at most 1024 bytes.
        #[key(default = "")]
        pub user_agent: String,
        /// The name by which robots.txt, X-Robots-Tag and robots meta address this crawler, in any
        /// case of letters; letters, digits, _ and -, at most 64. It should be part of `user_agent`
        /// (RFC 9309, 2.2.1). Empty: found there, mybot in `mybot/1.0 (+https://example.org/bot)`
        /// and in `Mozilla/5.0 (compatible; mybot/1.0; +https://example.org/bot)`; an agent in
        /// which it cannot be told apart is refused.
        #[key(default = "")]
        pub product_token: String,
        /// `{name: value, ...}`: sent with every request to every server, and kept with the pages;
        /// a header named accept replaces the usual one.
        #[key(default = "{}")]
        pub headers: BTreeMap<String, String>,
        /// true: a connection sends back the cookies that the server set on it, at most 50 of 4 KiB
        /// each; every connection begins without cookies. A URL that redirects to itself with a
        /// cookie is asked for once more.
        #[key(default = "false")]
        pub cookies: bool,
        /// `http://`, `https://`, `socks5://` or `socks5h://[user:password@]host[:port]`. Every
        /// server is contacted through the proxy alone; name servers are contacted directly.
        /// Proxies that the environment names are never used. The crawler still resolves each
        /// server and checks its addresses; socks5 is told the checked address, the others are told
        /// the name and resolve it again. Put a proxy with a password into the environment
        /// (`RHUMB__NETWORK__PROXY`), where other users do not see it.
        #[key(default = "")]
        pub proxy: Proxy,
        /// When eight servers in a row cannot be reached, and none in between can, a fetcher takes
        /// its own network for broken: it says so, holds no failure against any server, and asks
        /// for one job at a time, until a server answers or this time is over; likewise a resolver
        /// whose name servers fail for every name. While nothing has ever answered the crawl, one
        /// silent server or name is enough. A list of dead hosts ends this much later; 0s: never.
        #[key(default = "10m", range = "0s..24h")]
        pub doubt_max: Duration,
    }
}

section! {
    /// How servers are spared.
    pub struct Politeness {
        /// Time between two contacts of a server.
        #[key(default = "1s", range = "0s..1h", live(Scheduler, Fetcher))]
        pub delay: Duration,
        /// A longer Crawl-delay counts as this.
        #[key(default = "60s", range = "0s..1h", live(Scheduler, Fetcher))]
        pub crawl_delay_max: Duration,
        /// After an answer that took t, a server is left alone for at least t times this factor,
        /// but at most for crawl_delay_max; without effect when delay is 0s.
        #[key(default = "1", range = "0..100", live(Scheduler, Fetcher))]
        pub download_factor: u32,
        /// A longer Retry-After counts as this.
        #[key(default = "1h", range = "0s..24h", live(Scheduler))]
        pub retry_after_max: Duration,
        /// Connections at once to one IP address, all its servers together; 0: no limit, since many
        /// sites share an address.
        #[key(default = "0", range = "0..10000", live(Scheduler))]
        pub connections_per_address: u32,
        /// Hosts that count as one; a host belongs to the first group that has it. Such as `{hosts:
        /// [cdn.example, '*.shop.example'], delay: 5s}`: these hosts are one group; `{by:
        /// registered-domain, jobs_max: 2}`: every domain is a group of its own.
        #[key(default = "[]")]
        pub groups: Vec<Group>,
        /// false: robots.txt is neither asked for nor obeyed.
        #[key(default = "true", live(Scheduler))]
        pub respect_robots: bool,
        /// A robots.txt is used this long, then it is fetched again.
        #[key(default = "24h", range = "10s..24h", live(Scheduler))]
        pub robots_lifetime: Duration,
    }
}

section! {
    /// Limits of the crawl, of a request, of a body, of a URL.
    pub struct Limits {
        /// The crawl stops after this many pages with outcome fetched, over all schedulers; 0: no
        /// limit.
        #[key(default = "0")]
        pub max_pages: u64,
        /// After this many pages with outcome fetched of one host, over all its servers, the host's
        /// other URLs are over budget; 0: no limit.
        #[key(default = "0", range = "0..1000000000", live(Scheduler))]
        pub pages_per_host: u64,
        /// As `pages_per_host`, for one registered domain, over all its hosts and all schedulers.
        /// Counting begins with the run that sets it. Several schedulers keep a key per domain in
        /// the broker; 0: no limit.
        #[key(default = "0", range = "0..1000000000", live(Scheduler))]
        pub pages_per_domain: u64,
        /// What becomes of the URLs of a host or domain without budget.
        #[key(default = "end", live(Scheduler))]
        pub over_budget: OverBudget,
        /// This many of the sitemaps named in a server's robots.txt are fetched, the first ones; a
        /// sitemap index leads to more.
        #[key(default = "10", range = "0..100", live(Scheduler))]
        pub sitemaps_per_server: usize,
        /// Also takes /sitemap.xml of each server whose robots.txt names no sitemap, or that has no
        /// robots.txt; not with `politeness.respect_robots: false`, which asks for none.
        #[key(default = "false", live(Scheduler))]
        pub sitemap_guess: bool,
        /// A longer body is cut there and marked. At least 1 byte, at most 7/8 of
        /// broker.max_payload less 64KiB.
        #[key(default = "4MiB", live(Fetcher))]
        pub body_bytes_max: Bytes,
        /// Bytes of a sitemap, in the place of `decoded_bytes_max`; of one that robots.txt or an
        /// index names also as it is sent, in the place of `body_bytes_max`, as far as a message
        /// takes it (7/8 of broker.max_payload less 64KiB). sitemaps.org allows as many bytes,
        /// unpacked.
        #[key(default = "50MiB", range = "64KiB..1GiB", live(Fetcher, Parser))]
        pub sitemap_bytes_max: Bytes,
        /// Bytes of all headers of a response together, at most 256 of them; over HTTP/1.1 at most
        /// 408KiB count, even if this is larger.
        #[key(default = "256KiB", range = "8KiB..1MiB", live(Fetcher))]
        pub header_bytes_max: Bytes,
        /// Bytes of a body after its content coding is undone.
        #[key(default = "16MiB", range = "1KiB..1GiB", live(Parser))]
        pub decoded_bytes_max: Bytes,
        /// Time until a connection is there, TLS included.
        #[key(default = "10s", range = "10ms..5m", live(Fetcher))]
        pub connect_timeout: Duration,
        /// Time from sending a request to the end of its body.
        #[key(default = "60s", range = "10ms..1h", live(Fetcher))]
        pub request_timeout: Duration,
        /// Time from sending a request to the end of the response's head.
        #[key(default = "30s", range = "10ms..1h", live(Fetcher))]
        pub first_byte_timeout: Duration,
        /// As `first_byte_timeout`, for a server that has sent no page and was not tried in vain
        /// yet: one that never answers holds a connection no longer; its next try has
        /// `first_byte_timeout`.
        #[key(default = "15s", range = "10ms..1h", live(Scheduler))]
        pub first_answer_timeout: Duration,
        /// Bytes per second: a body that brings less in one `transfer_rate_window` is given up. A
        /// body cut by this or by `request_timeout` is kept, marked truncated, if it came at this
        /// rate or faster until its last byte, or has stood still for longer than it moved;
        /// otherwise the request has failed (slow, timeout); 0: no limit.
        #[key(default = "1KiB", range = "0..1GiB", live(Fetcher))]
        pub transfer_rate_min: Bytes,
        /// Consecutive windows in which the rate is measured.
        #[key(default = "10s", range = "10ms..1h", live(Fetcher))]
        pub transfer_rate_window: Duration,
        /// Media types, such as `[application/zip, video/*]`, whose bodies are not read: the page
        /// counts as fetched, marked truncated, with 0 bytes. Over HTTP/1.1 this ends the
        /// connection, unless the server announced at most 16 KiB.
        #[key(default = "[]", live(Fetcher))]
        pub skip_types: Vec<String>,
        /// Redirects in a row that are followed.
        #[key(default = "10", range = "0..50", live(HostSplitter))]
        pub redirects: u8,
        /// Longer URLs are filtered.
        #[key(default = "2048", range = "64..4096", live(HostSplitter, Fetcher, Parser))]
        pub url_bytes_max: usize,
        /// A path in which one segment stands more often is a trap.
        #[key(default = "5", range = "1..1000", live(HostSplitter))]
        pub segment_repeats: usize,
        /// Pages of one shape of a server (`/calendar/0/0`) after which it is a trap if nine of ten
        /// of its last pages repeat others, and only its own pages lead there. Its URLs are kept
        /// back until nothing else waits, and end as trapped. One page of 32 is judged, at least 20
        /// and at most the last 1,000 to 2,000 of them; 0: never.
        #[key(default = "100000", live(Parser, Scheduler))]
        pub shape_pages: u64,
        /// A URL with more parameters is filtered.
        #[key(default = "100", range = "0..1000", live(HostSplitter))]
        pub query_parameters: usize,
        /// Further links of a page, or of a feed, are ignored.
        #[key(default = "5000", range = "1..100000", live(Parser))]
        pub links_per_page: usize,
        /// Further links of a sitemap, or of an index of them, are ignored; sitemaps.org allows as
        /// many.
        #[key(default = "50000", range = "1..1000000", live(Parser))]
        pub links_per_sitemap: usize,
    }
}

choice! {
    /// What becomes of the URLs of a host or domain whose budget is used up.
    pub enum OverBudget {
        /// They end with outcome over-budget.
        #[serde(rename = "end")]
        End,
        /// They wait for a resumed crawl with a larger budget.
        #[serde(rename = "wait")]
        Wait,
    }
}
