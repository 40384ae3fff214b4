//! The scheduler against made-up resolvers, fetchers and servers: everything passes through its core, its
//! messages and a store in memory; P1 to P3 and the budgets are checked after every step.

mod budget_scenarios;
mod idle_scenarios;
mod properties;
mod robots_scenarios;
mod scenarios;
mod timing;
mod token_scenarios;
mod world;

pub(crate) use self::world::origin;

use crate::quality::Provider;
use crate::settings::Settings;
use shared::config::{self, DownloadPause, OverBudget};
use std::time::Duration;

/// The settings of `pipeline.yaml`, for four partitions.
pub(crate) fn settings() -> Settings {
    Settings {
        partitions: 4,
        delay: Duration::from_secs(1),
        crawl_delay_max: Duration::from_secs(60),
        download_pause: DownloadPause { factor: 1, max: Duration::from_secs(60) },
        retry_after_max: Duration::from_secs(3600),
        connections_per_address: 0,
        respect_robots: true,
        robots_lifetime: Duration::from_secs(24 * 3600),
        agent: "rhumb".into(),
        policy: config::Policy::BreadthFirst,
        quality: Provider::Depth,
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
        schedulers: 1,
        pages_max: 0,
        pages_per_domain: 0,
        over_budget: OverBudget::End,
        pages_per_host: 0,
        sitemaps_per_server: 0,
        max_depth: u16::MAX,
    }
}
