//! Report: what the crawler did, compared with the truth.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::behaviour::{Behaviour, Outcome};
use super::freshness::Freshness;
use super::plan::Plan;
use super::record::{HostRecord, Recorder};
use super::resource::Resource;

/// How many URLs a list of the report shows.
const LISTED_MAX: usize = 20;
/// A contact that is too early by this share of the delay is put down to timers.
pub const EARLY_TOLERANCE: f64 = 0.05;

/// URLs: how many, and the first 20 of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Their number.
    pub count: u64,
    /// The first 20.
    pub listed: Vec<String>,
}

/// How many URLs of a kind there are and how many of them were requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// URLs in the truth.
    pub expected: u64,
    /// Those of them that were requested at least once.
    pub requested: u64,
}

/// What a polite crawler never does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violations {
    /// Requests for disallowed URLs.
    pub robots: u64,
    /// Connections accepted while another to the same host was open and remained open.
    pub parallel: u64,
    /// Requests that came too soon after the one before to the same host, or before a Retry-After
    /// was over.
    pub early: u64,
    /// The first 20 of each kind, in words.
    pub examples: Vec<String>,
}

/// What the crawler did since the start or the last reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Nothing is missing, repeated or violated.
    pub ok: bool,
    /// True pages.
    pub pages: Coverage,
    /// Redirects that a perfect crawl meets.
    pub redirects: Coverage,
    /// Links to nowhere that a perfect crawl follows.
    pub not_found: Coverage,
    /// URLs of these three kinds that were never requested.
    pub missing: Listed,
    /// URLs requested more than once, except robots.txt and hostile hosts; none where pages change.
    pub repeats: Listed,
    /// Violations of politeness.
    pub violations: Violations,
    /// URLs requested that no page links to. They are no reason to fail.
    pub unexpected: Listed,
    /// Accepted connections.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: u64,
    /// Requests, robots.txt included.
    pub requests: u64,
    /// Requests for robots.txt.
    pub robots_requests: u64,
    /// Hosts that were sent a request before they were asked for robots.txt.
    pub hosts_without_robots_first: u64,
    /// Requests other than GET and HEAD.
    pub malformed: u64,
    /// Requests with another host's name in the Host header.
    pub misdirected: u64,
    /// Queries the DNS server answered.
    pub dns_queries: u64,
    /// Shortest time between two requests to one host, in milliseconds.
    pub closest_ms: Option<f64>,
    /// Shortest time between two requests to whatever hosts, in milliseconds: all are of one
    /// registered domain.
    pub closest_of_all_ms: Option<f64>,
    /// Most connections that were open at once, to all hosts together.
    pub connections_at_once: u64,
    /// From the first request to the last, in seconds.
    pub elapsed_s: f64,
    /// How fresh the copy was from the start of the web until now; none where no page changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness: Option<Freshness>,
}

impl Report {
    pub(crate) fn new(plan: &Plan, recorder: &Recorder) -> Self {
        let connections_at_once = recorder.connections_at_once();
        let mut report = Self {
            dns_queries: recorder.dns_queries(),
            connections_at_once,
            freshness: Freshness::new(plan, recorder, Duration::ZERO, recorder.now()),
            ..Self::default()
        };
        let mut times = Vec::new();
        let mut span: Option<(Duration, Duration)> = None;
        for host in 0..plan.profile.hosts {
            let mut record = recorder.host(host).clone();
            record.contacts.sort_by_key(|contact| contact.at);
            if let (Some(first), Some(last)) = (record.contacts.first(), record.contacts.last()) {
                let (start, end) = span.unwrap_or((first.at, last.at));
                span = Some((start.min(first.at), end.max(last.at)));
            }
            times.extend(record.contacts.iter().map(|contact| contact.at));
            report.add_totals(&record);
            report.add_coverage(plan, host, &record);
            report.add_early(plan, host, &record, recorder.delay_expected_ms());
        }
        times.sort_unstable();
        let closest = times.windows(2).map(|pair| pair[1] - pair[0]).min();
        report.closest_of_all_ms = closest.map(|closest| closest.as_secs_f64() * 1_000.0);
        report.elapsed_s = span.map_or(0.0, |(start, end)| (end - start).as_secs_f64());
        report.ok = report.is_clean();
        report
    }

    fn is_clean(&self) -> bool {
        let violations = &self.violations;
        let offences = violations.robots + violations.parallel + violations.early;
        self.missing.count + self.repeats.count + offences == 0
    }

    fn add_totals(&mut self, record: &HostRecord) {
        let robots = record
            .contacts
            .iter()
            .filter(|contact| contact.resource == Resource::Robots)
            .count();
        self.connections += u64::from(record.accepted);
        self.open_connections += record.open.len() as u64;
        self.requests += record.contacts.len() as u64;
        self.robots_requests += robots as u64;
        self.malformed += u64::from(record.malformed);
        self.misdirected += u64::from(record.misdirected);
        self.violations.parallel += u64::from(record.parallel);
        self.violations.early += u64::from(record.hasty);
        if record
            .contacts
            .first()
            .is_some_and(|contact| contact.resource != Resource::Robots)
        {
            self.hosts_without_robots_first += 1;
        }
    }

    fn add_coverage(&mut self, plan: &Plan, host: u32, record: &HostRecord) {
        let mut requested: HashMap<Resource, u64> = HashMap::new();
        for contact in &record.contacts {
            *requested.entry(contact.resource).or_default() += 1;
        }
        for resource in plan.found(host) {
            let times = requested.get(&resource).copied().unwrap_or(0);
            self.add_url(plan, host, resource, times);
        }
        for (resource, times) in requested {
            if resource != Resource::Robots && !plan.is_found(host, resource) {
                self.unexpected.count += times;
            }
        }
        let space = LISTED_MAX.saturating_sub(self.unexpected.listed.len());
        let origin = plan.origin(host);
        let unknown = record.unknown_paths.iter().take(space);
        self.unexpected
            .listed
            .extend(unknown.map(|path| format!("{origin}{path}")));
    }

    fn add_url(&mut self, plan: &Plan, host: u32, resource: Resource, times: u64) {
        // A hostile host makes a crawler try again, and so do pages that change.
        let may_repeat = plan.site(host).hostility.is_some() || plan.profile.change.is_some();
        if times > 1 && !may_repeat {
            self.repeats.add(|| plan.url(host, resource));
        }
        if plan.is_disallowed(host, resource) {
            self.violations.robots += times;
            if times > 0 {
                let seen = self.violations.robots;
                self.violations
                    .show(seen, || format!("disallowed: {}", plan.url(host, resource)));
            }
            return;
        }
        let coverage = match Behaviour::of(plan, host, resource).outcome() {
            Outcome::Fetched => &mut self.pages,
            Outcome::Redirected => &mut self.redirects,
            Outcome::NotFound => &mut self.not_found,
            Outcome::OverBudget if times > 0 => {
                self.unexpected.count += times;
                return;
            }
            Outcome::Refused
            | Outcome::Failed
            | Outcome::Unresolvable
            | Outcome::OverBudget
            | Outcome::Rules => return,
        };
        coverage.expected += 1;
        if times > 0 {
            coverage.requested += 1;
        } else {
            self.missing.add(|| plan.url(host, resource));
        }
    }

    /// A Crawl-delay counts from the first request for robots.txt on: before that, nobody can know
    /// of it.
    fn add_early(&mut self, plan: &Plan, host: u32, record: &HostRecord, delay_expected_ms: u64) {
        let crawl_delay_ms = plan.site(host).robots.crawl_delay_ms().unwrap_or(0);
        let mut knows_robots = false;
        for pair in record.contacts.windows(2) {
            let [before, after] = pair else { continue };
            knows_robots |= before.resource == Resource::Robots;
            let delay_ms = if knows_robots {
                delay_expected_ms.max(crawl_delay_ms)
            } else {
                delay_expected_ms
            };
            let gap_ms = (after.at - before.at).as_secs_f64() * 1_000.0;
            self.closest_ms = Some(
                self.closest_ms
                    .map_or(gap_ms, |closest| closest.min(gap_ms)),
            );
            if gap_ms < delay_ms as f64 * (1.0 - EARLY_TOLERANCE) {
                self.violations.early += 1;
                let url = || {
                    format!(
                        "early: {gap_ms:.1} of {delay_ms} ms: {}",
                        plan.url(host, after.resource)
                    )
                };
                let seen = self.violations.early;
                self.violations.show(seen, url);
            }
        }
        if record.parallel > 0 {
            let seen = self.violations.parallel;
            self.violations.show(seen, || {
                format!(
                    "parallel: {} connections to {}",
                    record.parallel,
                    plan.authority(host)
                )
            });
        }
    }
}

impl Listed {
    fn add(&mut self, url: impl FnOnce() -> String) {
        self.count += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(url());
        }
    }
}

impl Violations {
    fn show(&mut self, seen: u64, example: impl FnOnce() -> String) {
        if seen <= LISTED_MAX as u64 {
            self.examples.push(example());
        }
    }
}
