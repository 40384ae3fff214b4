//! What the scheduler needs of the configuration.

use crate::keys::circle::Circle;
use crate::keys::schedulers::Schedulers;
use crate::ranking::policy::{self, Policy};
use crate::ranking::quality::Qualities;
use crate::ranking::topics::Topics;
use rhumb_config::topics::Depths;
use rhumb_config::{
    DownloadPause, Group, Limits, Pipeline, Politeness, Recrawl, TopicRecrawl, Usages,
};
use rhumb_partition::{Directory, Owners};
use rhumb_url::host_of;
use rhumb_url::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The scheduler waits this much longer than a lease, for the request in hand and for the last
/// report.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The scheduler's settings: sections of the configuration, and what is made of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How servers are spared.
    pub politeness: Politeness,
    /// Limits of the crawl and of URLs.
    pub limits: Limits,
    /// The scheduler's own section.
    pub scheduler: rhumb_config::Scheduler,
    /// Time for which an ask for jobs holds: a fetcher's.
    pub ask_lifetime: Duration,
    /// Time for which the answer that a server has no address holds: a resolver's.
    pub no_address_lifetime: Duration,
    /// Which partition each host belongs to.
    pub directory: Directory,
    /// Generation of the crawl: serials tell it.
    pub generation: u32,
    /// A number that no other life of any process has, of this crawl or of another.
    pub life: u64,
    /// By which name a robots.txt addresses this crawler.
    pub product_token: String,
    /// Source of the qualities of URLs.
    pub quality: Qualities,
    /// Schedulers of the crawl, which share its budgets.
    pub schedulers: Schedulers,
    /// What takes turns.
    pub topics: Topics,
    /// Links away from a seed at which no URL of a topic is followed further.
    pub max_depth: Depths,
    /// What the pages of each topic are for.
    pub usages: Usages,
    /// Whether known pages are visited again.
    pub recrawl: Recrawl,
    /// What differs from it, by topic.
    pub topic_recrawls: BTreeMap<String, TopicRecrawl>,
    /// Milliseconds of Unix time at the origin of the process's time.
    pub origin_ms: u64,
}

impl Settings {
    /// From the configuration; `quality` was made from it.
    pub fn new(pipeline: &Pipeline, quality: Qualities) -> Self {
        let replicas = pipeline.stages.scheduler.replicas;
        let topics = pipeline.topics.iter();
        Settings {
            politeness: pipeline.politeness.clone(),
            limits: pipeline.limits.clone(),
            scheduler: pipeline.stages.scheduler.clone(),
            ask_lifetime: pipeline.stages.fetcher.ask_lifetime,
            no_address_lifetime: pipeline.stages.resolver.cache.negative,
            directory: Directory::new(pipeline.partitions),
            generation: 1,
            life: 0,
            product_token: pipeline.product_token(),
            quality,
            schedulers: Schedulers::of(&Owners::new(pipeline.partitions, replicas), 0),
            topics: Topics::from(pipeline),
            max_depth: Depths::from(pipeline),
            usages: Usages::from(pipeline),
            recrawl: pipeline.recrawl,
            topic_recrawls: topics
                .map(|(name, topic)| (name.clone(), topic.recrawl))
                .collect(),
            origin_ms: 0,
        }
    }

    /// A point of the process's time in milliseconds of Unix time.
    pub(crate) fn unix_ms(&self, at: Timestamp) -> u64 {
        self.origin_ms + at.as_micros() / 1000
    }

    /// By which rules the pages of a topic are visited again.
    pub(crate) fn recrawl_of(&self, topic: &str) -> Recrawl {
        let own = self.topic_recrawls.get(topic);
        own.map_or(self.recrawl, |own| own.over(&self.recrawl))
    }

    /// The rules of the crawl, and of each topic.
    pub(crate) fn recrawls(&self) -> impl Iterator<Item = Recrawl> {
        let own = self.topic_recrawls.values();
        std::iter::once(self.recrawl).chain(own.map(|own| own.over(&self.recrawl)))
    }

    /// The pause after an answer, by the time that the answer took.
    pub(crate) fn download_pause(&self) -> DownloadPause {
        DownloadPause::new(&self.politeness)
    }

    /// How long a job without a renewal may be out.
    pub(crate) fn lease_with_grace(&self) -> Duration {
        self.scheduler.job_lease + GRACE
    }

    /// The group of a server, `scheme://host[:port]`, whose host's registered domain has that hash.
    pub(crate) fn group_of(&self, server: &str, domain: u64) -> Option<Circle> {
        let groups = &self.politeness.groups;
        let number = groups.iter().position(|group| group.has(host_of(server)))?;
        let domain = if groups[number].by.is_some() {
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
            Circle::Address(_) if self.politeness.connections_per_address == 0 => u32::MAX,
            Circle::Address(_) => self.politeness.connections_per_address,
            Circle::Group { number, .. } => self
                .politeness
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
                .politeness
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
        policy::of(self.scheduler.policy)
    }

    /// Slots of fresh URLs that are in memory for each server: those that its rank depends on.
    pub(crate) fn head_max(&self) -> usize {
        if self.policy().by_quality() {
            self.scheduler.requests_per_connection as usize
        } else {
            0
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ranking::quality::Provider;
    use std::sync::LazyLock;

    static DEFAULTS: LazyLock<Pipeline> = LazyLock::new(Pipeline::default);

    /// The settings of `pipeline.yaml`, for four partitions; without sitemaps and traps.
    pub(crate) fn settings() -> Settings {
        with(|_| {})
    }

    /// The same, changed.
    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = Settings::new(&DEFAULTS, Provider::Depth.into());
        settings.directory = Directory::new(4);
        settings.schedulers = Schedulers::of(&Owners::new(4, 1), 0);
        settings.product_token = "rhumb".to_owned();
        settings.limits.sitemaps_per_server = 0;
        settings.limits.shape_pages = 0;
        change(&mut settings);
        settings
    }
}
