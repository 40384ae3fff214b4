//! The keys of `pipeline.yaml`; the file itself says what each means, its default and its range.
//! The larger sections have files of their own.

use super::broker::Broker;
use super::edges::{Edges, StreamEdge};
use super::given::Given;
use super::group::Group;
use super::log::Log;
use super::name_server::NameServer;
use super::proxy::Proxy;
use super::scope::Scope;
use super::stages::Stages;
use super::topic::Topic;
use super::units::{Bytes, duration};
use rhumb_wire::Subjects;
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
    pub owner: String,
    pub data: PathBuf,
    pub partitions: u16,
    #[serde(deserialize_with = "duration")]
    pub ownership_lease: Duration,
    pub moves: Moves,
    pub durability: Durability,
    pub broker: Broker,
    pub log: Log,
    pub logs: Logs,
    pub conductor: Conductor,
    pub network: Network,
    pub politeness: Politeness,
    pub scope: Scope,
    pub topics: BTreeMap<String, Topic>,
    pub url: rhumb_url::Rules,
    pub limits: Limits,
    pub edges: Edges,
    pub stages: Stages,
    /// What it was read from.
    #[serde(skip)]
    pub(super) given: Given,
    /// What an operator should mend in it one day, one a line; nothing that is wrong today.
    #[serde(skip)]
    pub warnings: Vec<String>,
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

    /// The scope of a topic. One that is not configured goes by the crawl's.
    pub fn scope_of(&self, topic: &str) -> Scope {
        self.topics
            .get(topic)
            .map_or_else(|| self.scope.clone(), |topic| topic.scope.over(&self.scope))
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

/// How partitions move from one instance to another.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Moves {
    pub cpu_share: f64,
    #[serde(deserialize_with = "duration")]
    pub sigterm_wait: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Logs {
    pub bytes_max: Bytes,
    pub kept: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Conductor {
    pub listen: SocketAddr,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Network {
    pub nameservers: Vec<NameServer>,
    pub allow_private_addresses: bool,
    pub user_agent: String,
    pub product_token: String,
    pub headers: BTreeMap<String, String>,
    pub cookies: bool,
    pub proxy: Proxy,
    #[serde(deserialize_with = "duration")]
    pub doubt_max: Duration,
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
    pub groups: Vec<Group>,
    pub respect_robots: bool,
    #[serde(deserialize_with = "duration")]
    pub robots_lifetime: Duration,
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
    pub sitemap_guess: bool,
    pub body_bytes_max: Bytes,
    pub sitemap_bytes_max: Bytes,
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
    pub shape_pages: u64,
    pub query_parameters: usize,
    pub links_per_page: usize,
    pub links_per_sitemap: usize,
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
