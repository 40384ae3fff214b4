//! What the scheduler needs of the configuration.

use crate::keys::circle::Circle;
use crate::keys::schedulers::Schedulers;
use crate::ranking::policy::{self, Policy};
use crate::ranking::quality::Qualities;
use crate::ranking::topics::Topics;
use rhumb_config::topics::Depths;
use rhumb_config::{DownloadPause, Group, OverBudget, Pipeline};
use rhumb_partition::{Directory, Owners};
use rhumb_url::host_of;
use std::sync::Arc;
use std::time::Duration;

/// The scheduler waits this much longer than a lease, for the request in hand and for the last
/// report.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The scheduler's settings; meaning and range of each stand in `pipeline.yaml`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which partition each host belongs to.
    pub directory: Directory,
    /// Generation of the crawl: serials tell it.
    pub generation: u32,
    /// A number that no other life of any process has, of this crawl or of another.
    pub life: u64,
    /// Pause between two contacts of a server.
    pub delay: Duration,
    /// A longer Crawl-delay counts as this.
    pub crawl_delay_max: Duration,
    /// The pause after an answer, by the time that the answer took.
    pub download_pause: DownloadPause,
    /// A longer Retry-After counts as this.
    pub retry_after_max: Duration,
    /// Connections to one address at once; 0: no limit.
    pub connections_per_address: u32,
    /// Hosts that count as one. A host belongs to the first group that has it.
    pub groups: Arc<[Group]>,
    /// Returns whether robots.txt is fetched and obeyed.
    pub respect_robots: bool,
    /// The age at which a robots.txt is fetched again.
    pub robots_lifetime: Duration,
    /// By which name a robots.txt addresses this crawler.
    pub product_token: String,
    /// Which server is next.
    pub policy: rhumb_config::Policy,
    /// Source of the qualities of URLs.
    pub quality: Qualities,
    /// URLs in a job for a server whose own limit is not known.
    pub requests_per_connection: u32,
    /// Time that a job may take at most, by its gaps.
    pub visit_budget: Duration,
    /// Time for the first answer of a server that has sent no page, and was not tried in vain.
    pub first_answer_timeout: Duration,
    /// Lease of a job between renewals.
    pub job_lease: Duration,
    /// Attempts of a URL, or of a robots.txt. After the last one it is given up.
    pub attempts: u8,
    /// Wait after the first failure. It doubles with each further failure.
    pub retry_wait: Duration,
    /// Longest wait after a failure.
    pub retry_wait_max: Duration,
    /// Bytes of rules that are kept parsed.
    pub robots_cache_bytes: usize,
    /// Failures of the name servers in a row after which a server counts as without an address.
    pub resolve_attempts: u8,
    /// Times in a row that a server is set aside before its URLs end.
    pub server_failures_max: u8,
    /// Time for which an ask for jobs holds.
    pub ask_lifetime: Duration,
    /// Time for which the answer that a server has no address holds.
    pub no_address_lifetime: Duration,
    /// Schedulers of the crawl, which share its budgets.
    pub schedulers: Schedulers,
    /// Pages of the crawl that are fetched at most; 0: no limit.
    pub pages_max: u64,
    /// Pages of a registered domain that are fetched at most; 0: no limit.
    pub pages_per_domain: u64,
    /// Pages of a host that are fetched at most; 0: no limit.
    pub pages_per_host: u64,
    /// What becomes of the URLs of a host, or of a domain, whose budget is used up.
    pub over_budget: OverBudget,
    /// Sitemaps of a server that are fetched at most.
    pub sitemaps_per_server: usize,
    /// Returns whether one is looked for where none is named.
    pub sitemap_guess: bool,
    /// Pages of a shape after which it may be a trap; 0: never.
    pub shape_pages: u64,
    /// What takes turns.
    pub topics: Topics,
    /// Links away from a seed at which no URL of a topic is followed further.
    pub max_depth: Depths,
}

impl Settings {
    /// From the configuration; `quality` was made from it.
    pub fn new(pipeline: &Pipeline, quality: Qualities) -> Self {
        let politeness = &pipeline.politeness;
        let scheduler = &pipeline.stages.scheduler;
        Settings {
            directory: Directory::new(pipeline.partitions),
            generation: 1,
            life: 0,
            delay: politeness.delay,
            crawl_delay_max: politeness.crawl_delay_max,
            download_pause: DownloadPause::new(politeness),
            retry_after_max: politeness.retry_after_max,
            connections_per_address: politeness.connections_per_address,
            groups: politeness.groups.clone().into(),
            respect_robots: politeness.respect_robots,
            robots_lifetime: politeness.robots_lifetime,
            product_token: pipeline.product_token(),
            policy: scheduler.policy,
            quality,
            requests_per_connection: scheduler.requests_per_connection.max(1),
            visit_budget: scheduler.visit_budget,
            first_answer_timeout: pipeline.limits.first_answer_timeout,
            job_lease: scheduler.job_lease,
            attempts: scheduler.attempts.max(1),
            retry_wait: scheduler.retry_wait,
            retry_wait_max: scheduler.retry_wait_max,
            robots_cache_bytes: scheduler.robots_cache_bytes.as_usize(),
            resolve_attempts: scheduler.resolve_attempts.max(1),
            server_failures_max: scheduler.server_failures_max.max(1),
            ask_lifetime: pipeline.stages.fetcher.ask_lifetime,
            no_address_lifetime: pipeline.stages.resolver.cache.negative,
            schedulers: Schedulers::of(&Owners::new(pipeline.partitions, scheduler.replicas), 0),
            pages_max: pipeline.limits.max_pages,
            pages_per_domain: pipeline.limits.pages_per_domain,
            pages_per_host: pipeline.limits.pages_per_host,
            over_budget: pipeline.limits.over_budget,
            sitemaps_per_server: pipeline.limits.sitemaps_per_server,
            sitemap_guess: pipeline.limits.sitemap_guess,
            shape_pages: pipeline.limits.shape_pages,
            topics: Topics::from(pipeline),
            max_depth: Depths::from(pipeline),
        }
    }

    /// How long a job without a renewal may be out.
    pub(crate) fn lease_with_grace(&self) -> Duration {
        self.job_lease + GRACE
    }

    /// The group of a server, `scheme://host[:port]`, whose host's registered domain has that hash.
    pub(crate) fn group_of(&self, server: &str, domain: u64) -> Option<Circle> {
        let number = self
            .groups
            .iter()
            .position(|group| group.has(host_of(server)))?;
        let domain = if self.groups[number].by.is_some() {
            domain
        } else {
            0
        };
        Some(Circle::Group {
            number: u16::try_from(number).ok()?,
            domain,
        })
    }

    /// Jobs that may be out in a circle.
    pub(crate) fn jobs_max_of(&self, circle: Circle) -> u32 {
        match circle {
            Circle::Address(_) if self.connections_per_address == 0 => u32::MAX,
            Circle::Address(_) => self.connections_per_address,
            Circle::Group { number, .. } => self
                .groups
                .get(usize::from(number))
                .map_or(u32::MAX, Group::jobs_at_once),
        }
    }

    /// Time between any two contacts in a circle.
    pub(crate) fn delay_of(&self, circle: Circle) -> Duration {
        match circle {
            Circle::Address(_) => Duration::ZERO,
            Circle::Group { number, .. } => self
                .groups
                .get(usize::from(number))
                .map_or(Duration::ZERO, |group| group.delay),
        }
    }

    /// Returns whether links that are found later count for the URLs of a topic.
    pub(crate) fn later_links_count(&self, topic: &str) -> bool {
        self.policy().by_quality() && self.quality.later_links_count(topic)
    }

    /// Returns whether they count as cash, or by their number.
    pub(crate) fn later_links_count_as(&self, topic: &str, cash: bool) -> bool {
        self.later_links_count(topic) && self.quality.is_cash(topic) == cash
    }

    /// Returns whether they count for the topics that have no quality of their own.
    pub(crate) fn later_links_count_mostly(&self) -> bool {
        self.later_links_count("")
    }

    pub(crate) fn policy(&self) -> &'static dyn Policy {
        policy::of(self.policy)
    }

    /// Slots of fresh URLs that are in memory for each server: those that its rank depends on.
    pub(crate) fn head_max(&self) -> usize {
        if self.policy().by_quality() {
            self.requests_per_connection as usize
        } else {
            0
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ranking::quality::Provider;

    /// The settings of `pipeline.yaml`, for four partitions.
    pub(crate) fn settings() -> Settings {
        Settings {
            directory: Directory::new(4),
            generation: 1,
            life: 0,
            delay: Duration::from_secs(1),
            crawl_delay_max: Duration::from_secs(60),
            download_pause: DownloadPause {
                factor: 1,
                max: Duration::from_secs(60),
            },
            retry_after_max: Duration::from_secs(3600),
            connections_per_address: 0,
            groups: Vec::new().into(),
            respect_robots: true,
            robots_lifetime: Duration::from_secs(24 * 3600),
            product_token: "rhumb".into(),
            policy: rhumb_config::Policy::BreadthFirst,
            quality: Provider::Depth.into(),
            requests_per_connection: 50,
            visit_budget: Duration::from_secs(60),
            first_answer_timeout: Duration::from_secs(15),
            job_lease: Duration::from_secs(20),
            attempts: 4,
            retry_wait: Duration::from_secs(30),
            retry_wait_max: Duration::from_secs(900),
            robots_cache_bytes: 1 << 20,
            resolve_attempts: 3,
            server_failures_max: 6,
            ask_lifetime: Duration::from_secs(1),
            no_address_lifetime: Duration::from_secs(300),
            schedulers: Schedulers::of(&Owners::new(4, 1), 0),
            pages_max: 0,
            pages_per_domain: 0,
            over_budget: OverBudget::End,
            pages_per_host: 0,
            sitemaps_per_server: 0,
            sitemap_guess: false,
            shape_pages: 0,
            topics: crate::ranking::topics::tests::topics(&[]),
            max_depth: Depths::all(u16::MAX),
        }
    }
}
