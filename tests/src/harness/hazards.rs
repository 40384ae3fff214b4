//! Hazards: a web of honest and hostile hosts, and the settings of a crawl of it that ends within a
//! test.

use super::crawl::Crawl;
use std::time::Duration;
use synthetic_web::{CrawlLimits, Latency, PagesPerHost, Profile, RobotsShares};

/// `limits.request_timeout`
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// `stages.scheduler.retry_wait`
pub const RETRY_WAIT: Duration = Duration::from_millis(500);
/// `stages.scheduler.retry_wait_max`
const RETRY_WAIT_MAX: Duration = Duration::from_secs(8);
/// `politeness.retry_after_max`, no less than a busy server asks for
const RETRY_AFTER_MAX: Duration = Duration::from_secs(1);
/// `stages.scheduler.attempts`
pub const ATTEMPTS: usize = 4;
/// `stages.scheduler.server_failures_max`
pub const SERVER_FAILURES_MAX: usize = 4;
/// `limits.body_bytes_max`
const BODY_BYTES_MAX: u64 = 2 << 20;
/// `limits.decoded_bytes_max`
const DECODED_BYTES_MAX: u64 = 4 << 20;
/// What ends mazes that have no end of their own.
pub const CRAWL_LIMITS: CrawlLimits = CrawlLimits {
    redirects: 10,
    segment_repeats: 5,
    query_parameters: 12,
    pages_per_host: 100,
    images: false,
};
/// Honest hosts of [`honest_hosts`].
pub const HONEST_HOSTS: u32 = 17;

/// Honest hosts with so many pages each, among them redirects, dead links and disallowed ones.
pub fn honest_hosts(pages: u32) -> Profile {
    Profile {
        hosts: HONEST_HOSTS,
        pages_per_host: PagesPerHost::Exactly(pages),
        latency: Latency::Fixed { ms: 20 },
        links_min: 5,
        links_max: 30,
        redirects: 0.05,
        not_found: 0.03,
        robots: RobotsShares {
            rules: 0.5,
            disallowed_pages: 0.15,
            ..Profile::raw().robots
        },
        delay_expected_ms: 20,
        crawl_limits: CRAWL_LIMITS,
        ..Profile::raw()
    }
}

/// A crawl with waits and limits that are short enough for a test.
pub fn hurried(crawl: Crawl) -> Crawl {
    crawl
        .set(&format!(
            "limits.request_timeout={}ms",
            REQUEST_TIMEOUT.as_millis()
        ))
        .set(&format!(
            "stages.scheduler.retry_wait={}ms",
            RETRY_WAIT.as_millis()
        ))
        .set(&format!(
            "stages.scheduler.retry_wait_max={}ms",
            RETRY_WAIT_MAX.as_millis()
        ))
        .set(&format!("stages.scheduler.attempts={ATTEMPTS}"))
        .set(&format!(
            "stages.scheduler.server_failures_max={SERVER_FAILURES_MAX}"
        ))
        .set(&format!(
            "politeness.retry_after_max={}ms",
            RETRY_AFTER_MAX.as_millis()
        ))
        .set("stages.resolver.timeout=1500ms")
        .set(&format!(
            "stages.resolver.cache.temporary={}ms",
            RETRY_WAIT.as_millis()
        ))
        .set(&format!("limits.body_bytes_max={BODY_BYTES_MAX}"))
        .set(&format!("limits.decoded_bytes_max={DECODED_BYTES_MAX}"))
        .set(&format!("limits.redirects={}", CRAWL_LIMITS.redirects))
        .set(&format!(
            "limits.segment_repeats={}",
            CRAWL_LIMITS.segment_repeats
        ))
        .set(&format!(
            "limits.query_parameters={}",
            CRAWL_LIMITS.query_parameters
        ))
        .set(&format!(
            "limits.pages_per_host={}",
            CRAWL_LIMITS.pages_per_host
        ))
        .set("url.drop_session_ids=true")
        .set("stages.fetcher.accept_invalid_certificates=true")
}
