//! Checks: the promises, watched from outside the cores.
//!
//! - P1: no request to a server while another job's lease on it is valid; none after the job's own
//!   lease; no second connection while the first one's lease is valid. A lease is valid from its
//!   grant to its end by the scheduler's clock, or until its fetcher has sent the last report.
//! - P2: between two contacts of a server at least the delay, or the Crawl-delay once robots.txt
//!   was read; no contact before a Retry-After is over, by the job that was told, or by one granted
//!   after the scheduler was told; inside a job none before the pause that the last answer's
//!   duration asks for.
//! - P3: the counts of dedup and scheduler conserve after every step; each new URL has one outcome
//!   in the end.
//! - Visits: those of a page have no gap, none is told twice, and none is planned beyond
//!   `recrawl.visits_max`.
//! - P4: no URL is new twice, but once more for each injection that wants it again.
//! - P5: no page is requested by a robots.txt that is older than `politeness.robots_lifetime`.
//! - P7: no request to another server than the one that the job was granted for.
//! - Circles: over all schedulers no more jobs are out for an address than
//!   `politeness.connections_per_address`, and in a group than its `jobs_max`; between two contacts
//!   of a group at least its delay.
//! - Budgets: of no host more pages are fetched than `limits.pages_per_host`, and of no registered
//!   domain more than `limits.pages_per_domain`.

use super::agenda::{Place, Process};
use super::broker::Outgoing;
use super::circles::Circles;
use super::graph::Robots;
use super::plan::{Micros, SECOND};
use super::web::Web;
use rhumb_config::{DownloadPause, Pipeline};
use rhumb_stage::Count;
use rhumb_url::{host_of, path_of, registered_domain, server_of};
use rhumb_wire::message::{
    Edge, JobId, NewUrls, Outcome, OutcomeEntry, Outcomes, Report, RequestEnd, RequestResult,
    ResponseSummary, ToFetcher, decode,
};
use rhumb_wire::topology::StageName;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// What has a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    Host,
    Domain,
}

struct Lease {
    server: String,
    /// By the scheduler's clock.
    until: Micros,
    lease: Micros,
    /// In the order of events.
    granted: u64,
    /// Its fetcher has sent the last report.
    ended: bool,
}

#[derive(Default)]
struct Politeness {
    last_contact: Option<Micros>,
    crawl_delay: Micros,
    /// Crawl-delays that jobs were told and the scheduler has not heard of yet.
    crawl_delays_told: HashMap<JobId, Micros>,
    /// Retry-Afters: since which event the scheduler has known of each, and when it is over.
    known: Vec<(u64, Micros)>,
    /// When its robots.txt was answered last.
    robots_at: Option<Micros>,
    /// When the pause is over that an answer to a job asks for, by Retry-After or by how long it
    /// took.
    told: HashMap<JobId, Micros>,
}

/// A URL's way through the URL-seen test: its first, or that of an injection that wants it again.
fn pass(url: &str, again: u64) -> String {
    if again == 0 {
        url.to_owned()
    } else {
        format!("{url} again {again}")
    }
}

/// The URL of a way through the URL-seen test.
pub(crate) fn url_of(pass: &str) -> &str {
    pass.split(' ').next().unwrap_or_default()
}

/// What has been seen so far, and what was wrong with it.
pub(crate) struct Checks {
    delay: Micros,
    download_pause: DownloadPause,
    robots_lifetime: Micros,
    circles: Circles,
    /// 0: no limit.
    pages_per_host: u64,
    pages_per_domain: u64,
    /// Faults make connections of dead and cut-off holders overlap with others.
    faults: bool,
    /// Grants, and reports that were taken, so far: more than one may fall into a microsecond.
    events: u64,
    leases: HashMap<JobId, Lease>,
    by_server: HashMap<String, Vec<JobId>>,
    /// By server, connections that are open.
    open: HashMap<String, Vec<(Process, JobId)>>,
    politeness: HashMap<String, Politeness>,
    ids: HashSet<String>,
    serials: HashMap<(u16, u64), String>,
    /// URLs that passed the URL-seen test, each time that they did ([`pass`]).
    pub(crate) new: BTreeMap<String, (u16, u64)>,
    /// How URLs ended, with the reason.
    pub(crate) outcomes: BTreeMap<String, (Outcome, String)>,
    /// The last visit of each page, by its URL and serial number, of those that had more than one.
    pub(crate) visits: BTreeMap<(String, u64), u32>,
    visits_max: u32,
    /// Pages with outcome fetched, by host and by registered domain.
    fetched: BTreeMap<(Limit, String), u64>,
    /// What was wrong.
    pub(crate) violations: Vec<String>,
}

impl Checks {
    pub(crate) fn new(pipeline: &Pipeline, faults: bool) -> Self {
        let politeness = &pipeline.politeness;
        Checks {
            delay: politeness.delay.as_micros() as Micros,
            download_pause: DownloadPause::new(politeness),
            robots_lifetime: politeness.robots_lifetime.as_micros() as Micros,
            circles: Circles::new(pipeline),
            pages_per_host: pipeline.limits.pages_per_host,
            pages_per_domain: pipeline.limits.pages_per_domain,
            faults,
            events: 0,
            leases: HashMap::new(),
            by_server: HashMap::new(),
            open: HashMap::new(),
            politeness: HashMap::new(),
            ids: HashSet::new(),
            serials: HashMap::new(),
            new: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            visits: BTreeMap::new(),
            visits_max: pipeline.recrawl.visits_max,
            fetched: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    /// A process sends a soft message.
    pub(crate) fn sends(&mut self, now: Micros, from: Process, edge: Edge, payload: &[u8]) {
        if edge != Edge::FetchJobs {
            return;
        }
        match decode::<ToFetcher>(payload) {
            Ok(ToFetcher::Job(job)) => {
                let lease = job.lease_ms * 1000;
                if let Some(other) = self.valid_other(now, &job.server, job.id) {
                    self.violated(format!(
                        "P1: {from:?} grants {:?} on {} while {other:?} is valid",
                        job.id, job.server
                    ));
                }
                if self.leases.contains_key(&job.id) {
                    self.violated(format!("P1: {from:?} grants {:?} twice", job.id));
                }
                self.by_server
                    .entry(job.server.clone())
                    .or_default()
                    .push(job.id);
                let address = job.addresses.first().copied();
                self.events += 1;
                let granted = self.events;
                let until = now + lease;
                let lease = Lease {
                    server: job.server.clone(),
                    until,
                    lease,
                    granted,
                    ended: false,
                };
                self.leases.insert(job.id, lease);
                let leases = &self.leases;
                let is_valid = |job| {
                    leases
                        .get(&job)
                        .is_some_and(|lease| !lease.ended && lease.until > now)
                };
                let wrong = self.circles.granted(job.id, &job.server, address, is_valid);
                self.violations.extend(wrong);
            }
            Ok(ToFetcher::Renewed { job, .. }) => {
                if let Some(lease) = self.leases.get_mut(&job) {
                    lease.until = lease.until.max(now + lease.lease);
                }
            }
            Ok(ToFetcher::Revoked { .. }) => {}
            Err(error) => self.violated(format!("{from:?} sends an unreadable message: {error}")),
        }
    }

    /// Another job than `job` with a valid lease on the server.
    fn valid_other(&mut self, now: Micros, server: &str, job: JobId) -> Option<JobId> {
        let jobs = self.by_server.get(server)?;
        jobs.iter()
            .copied()
            .find(|&other| other != job && self.is_valid(now, other))
    }

    fn is_valid(&self, now: Micros, job: JobId) -> bool {
        self.leases
            .get(&job)
            .is_some_and(|lease| !lease.ended && lease.until > now)
    }

    /// A process publishes a message.
    pub(crate) fn publishes(&mut self, from: Process, message: &Outgoing) {
        match message.edge {
            Edge::FetchReports => match decode::<Report>(&message.payload) {
                Ok(report) => self.reports(from, &report),
                Err(error) => {
                    self.violated(format!("{from:?} publishes an unreadable report: {error}"))
                }
            },
            Edge::UrlsNew if self.ids.insert(message.id.clone()) => {
                match decode::<NewUrls>(&message.payload) {
                    Ok(new) => self.finds_new(&new),
                    Err(error) => {
                        self.violated(format!("{from:?} publishes unreadable new URLs: {error}"))
                    }
                }
            }
            Edge::Outcomes if self.ids.insert(message.id.clone()) => {
                match decode::<Outcomes>(&message.payload) {
                    Ok(outcomes) => self.ends(&outcomes),
                    Err(error) => {
                        self.violated(format!("{from:?} publishes unreadable outcomes: {error}"))
                    }
                }
            }
            _ => {}
        }
    }

    fn reports(&mut self, from: Process, report: &Report) {
        if report.last {
            let open = self
                .open
                .get(&report.server)
                .is_some_and(|open| open.contains(&(from, report.job)));
            if open {
                self.violated(format!(
                    "P1: the last report of {:?} comes before the close",
                    report.job
                ));
            }
            if let Some(lease) = self.leases.get_mut(&report.job) {
                lease.ended = true;
            }
        }
    }

    /// A scheduler takes a report.
    pub(crate) fn learns(&mut self, now: Micros, report: &Report) {
        self.events += 1;
        // Of a job whose lease is over it takes no robots.txt.
        let is_out = self
            .leases
            .get(&report.job)
            .is_some_and(|lease| lease.until > now);
        let politeness = self.politeness.entry(report.server.clone()).or_default();
        if let Some(&delay) = politeness
            .crawl_delays_told
            .get(&report.job)
            .filter(|_| is_out && report.robots.is_some())
        {
            politeness.crawl_delay = delay;
        }
        let asks = |result: &RequestResult| {
            matches!(
                result.end,
                RequestEnd::Response(ResponseSummary {
                    status: 429 | 503,
                    retry_after_s: Some(_),
                    ..
                })
            )
        };
        if let Some(&until) = politeness
            .told
            .get(&report.job)
            .filter(|_| report.results.iter().any(asks))
        {
            politeness.known.push((self.events, until));
        }
    }

    fn finds_new(&mut self, new: &NewUrls) {
        for ((serial, url), &origin) in (new.first_serial..)
            .zip(new.urls.iter())
            .zip(&new.origin_of)
        {
            let url = pass(url, new.origins[origin as usize].again);
            let place = (new.partition, serial);
            if let Some(before) = self.new.insert(url.clone(), place) {
                self.violated(format!(
                    "P4: {url} is new twice: as {before:?} and as {place:?}"
                ));
            }
            if let Some(other) = self.serials.insert(place, url.clone()) {
                self.violated(format!("P4: {place:?} stands for {other} and for {url}"));
            }
            if serial > 1 && !self.serials.contains_key(&(new.partition, serial - 1)) {
                self.violated(format!("P4: {place:?} comes after a gap"));
            }
        }
    }

    fn ends(&mut self, outcomes: &Outcomes) {
        for entry in &outcomes.entries {
            if entry.visit > 1 {
                self.visits_again(entry);
                continue;
            }
            let end = (entry.outcome, entry.reason.clone());
            let url = pass(&entry.url, entry.origin.again);
            if !self.new.contains_key(&url) {
                self.violated(format!("P3: {url} ends {end:?} and never was new"));
            }
            if let Some(before) = self.outcomes.insert(url.clone(), end.clone()) {
                self.violated(format!("P3: {url} ends {before:?} and {end:?}"));
            }
            if entry.outcome == Outcome::Fetched {
                self.fetches(host_of(&entry.url));
            }
        }
    }

    fn visits_again(&mut self, entry: &OutcomeEntry) {
        let page = (entry.url.clone(), entry.serial);
        let before = self.visits.insert(page, entry.visit).unwrap_or(1);
        if entry.visit != before + 1 || entry.visit > self.visits_max {
            self.violated(format!(
                "visit {} of {} comes after visit {before}",
                entry.visit, entry.url
            ));
        }
        if !self.is_known(&entry.url) {
            self.violated(format!("{} is visited again, and is not known", entry.url));
        }
    }

    /// Whether a URL ended so that its page is known.
    fn is_known(&self, url: &str) -> bool {
        let passes = self.outcomes.range(url.to_owned()..);
        let mut passes = passes.take_while(|(pass, _)| pass.starts_with(url));
        passes.any(|(pass, (outcome, _))| url_of(pass) == url && makes_known(*outcome))
    }

    /// Pages that are known.
    pub(crate) fn known(&self) -> u64 {
        let passes = self.outcomes.iter();
        let known = passes.filter(|(_, (outcome, _))| makes_known(*outcome));
        let urls: HashSet<&str> = known.map(|(pass, _)| url_of(pass)).collect();
        urls.len() as u64
    }

    fn fetches(&mut self, host: &str) {
        let limits = [
            (Limit::Host, host, self.pages_per_host),
            (
                Limit::Domain,
                registered_domain(host),
                self.pages_per_domain,
            ),
        ];
        for (limit, name, budget) in limits {
            let fetched = self.fetched.entry((limit, name.to_owned())).or_default();
            *fetched += 1;
            if budget > 0 && *fetched > budget {
                let what = format!("{fetched} pages of {name} are fetched, its budget is {budget}");
                self.violated(what);
            }
        }
    }

    /// Whether a URL may have ended over budget for that reason: as many pages were fetched.
    pub(crate) fn is_used_up(&self, url: &str, reason: &str) -> bool {
        let (limit, name, budget) = match reason {
            "pages per host" => (Limit::Host, host_of(url), self.pages_per_host),
            _ => (
                Limit::Domain,
                registered_domain(host_of(url)),
                self.pages_per_domain,
            ),
        };
        self.fetched.get(&(limit, name.to_owned())) == Some(&budget)
    }

    /// Whether a URL ended over budget.
    pub(crate) fn is_over_budget(&self, url: &str) -> bool {
        self.outcomes
            .get(url)
            .is_some_and(|(outcome, _)| *outcome == Outcome::OverBudget)
    }

    /// A connection is there.
    pub(crate) fn opens(&mut self, now: Micros, server: &str, process: Process, job: JobId) {
        let others = self.open.entry(server.to_owned()).or_default().clone();
        for &(other_process, other) in &others {
            let same = (other_process, other) == (process, job);
            if same || !self.faults || self.is_valid(now, other) {
                self.violated(format!(
                    "P1: {process:?} opens a connection to {server} for {job:?}; {other_process:?} \
                     has one for {other:?}"
                ));
            }
        }
        self.open
            .entry(server.to_owned())
            .or_default()
            .push((process, job));
    }

    /// A connection is closed.
    pub(crate) fn closes(&mut self, server: &str, process: Process, job: JobId) {
        if let Some(open) = self.open.get_mut(server) {
            open.retain(|other| *other != (process, job));
        }
    }

    /// A request is sent.
    pub(crate) fn contacts(
        &mut self,
        now: Micros,
        server: &str,
        process: Process,
        job: JobId,
        url: &str,
    ) {
        if let Some(other) = self.valid_other(now, server, job) {
            self.violated(format!(
                "P1: {process:?} requests {url} for {job:?} while {other:?} is valid"
            ));
        }
        match self.leases.get(&job) {
            None => self.violated(format!(
                "P1: {process:?} requests {url} for {job:?}, which nobody granted"
            )),
            Some(lease) if lease.server != server_of(url) => {
                self.violated(format!(
                    "P7: {process:?} requests {url} for {job:?} on {server}"
                ));
            }
            Some(lease) if lease.ended || lease.until <= now => {
                self.violated(format!(
                    "P1: {process:?} requests {url} after the lease of {job:?}"
                ));
            }
            Some(_) => {}
        }
        self.violations
            .extend(self.circles.contacted(now, server, job));
        let delay = self.delay;
        let granted = self.leases.get(&job).map_or(0, |lease| lease.granted);
        let politeness = self.politeness.entry(server.to_owned()).or_default();
        let gap = delay.max(politeness.crawl_delay);
        let since = politeness
            .last_contact
            .map_or(Micros::MAX, |last| now - last);
        let told = politeness.told.get(&job).copied().unwrap_or_default();
        let robots_age = politeness
            .robots_at
            .map_or(Micros::MAX, |at| now.saturating_sub(at));
        politeness.known.retain(|(_, until)| *until > now);
        let known = politeness
            .known
            .iter()
            .filter(|(since, _)| *since < granted)
            .map(|(_, until)| *until);
        let not_before = known.max().unwrap_or_default().max(told);
        politeness.last_contact = Some(now);
        if since < gap {
            self.violated(format!(
                "P2: {process:?} requests {url} for {job:?} {since} µs after the last contact, the \
                 delay is {gap} µs"
            ));
        }
        if robots_age > self.robots_lifetime && !is_robots(url) {
            self.violated(format!(
                "P5: {process:?} requests {url} for {job:?} by a robots.txt that is {robots_age} \
                 µs old"
            ));
        }
        if now < not_before {
            let early = not_before - now;
            self.violated(format!(
                "P2: {process:?} requests {url} for {job:?} {early} µs before the pause is over \
                 that was asked for"
            ));
        }
    }

    /// An answer will have come at `at`.
    pub(crate) fn answers(&mut self, at: Micros, server: &str, job: JobId, answer: &Answered) {
        let politeness = self.politeness.entry(server.to_owned()).or_default();
        let mut tell = |until: Micros| {
            let told = politeness.told.entry(job).or_default();
            *told = until.max(*told);
        };
        tell(
            at + self
                .download_pause
                .after(Duration::from_micros(answer.took))
                .as_micros() as Micros,
        );
        if let (429 | 503, Some(seconds)) = (answer.status, answer.retry_after_s) {
            tell(at + seconds * SECOND);
        }
        if let Some(seconds) = answer.crawl_delay_s {
            politeness.crawl_delays_told.insert(job, seconds * SECOND);
        }
        if let Some(asker) = &answer.robots_of {
            self.politeness.entry(asker.clone()).or_default().robots_at = Some(at);
        }
    }

    /// P3 on what a core counts.
    pub(crate) fn counts(&mut self, place: Place, counts: &[Count]) {
        let count = |name: &str| match counts.iter().find(|(other, _)| *other == name) {
            Some((_, value)) => *value,
            None => panic!("{place:?} does not count {name}"),
        };
        match place.stage {
            StageName::Dedup => {
                let found = count("found_total");
                let sum = count("filtered_total") + count("repeated_total") + count("new_total");
                if found != sum {
                    self.violated(format!(
                        "P3: {place:?} found {found}, filtered + repeated + new = {sum}"
                    ));
                }
                if count("misrouted_total") > 0 {
                    self.violated(format!(
                        "P3: {place:?} got URLs of partitions that are not its own"
                    ));
                }
            }
            StageName::Scheduler => {
                let ended: u64 = counts
                    .iter()
                    .filter(|(name, _)| name.starts_with("outcome_"))
                    .map(|(_, n)| n)
                    .sum();
                let new = count("new_total") + count("visits_out");
                let in_hand = count("waiting") + count("in_flight");
                let sum = ended + count("pages_given_total") + in_hand;
                if new != sum {
                    self.violated(format!(
                        "P3: {place:?} new + visits out {new}, outcomes + given + waiting + in \
                         flight = {sum}"
                    ));
                }
                if count("invariants_broken_total") > 0 {
                    self.violated(format!("{place:?} met what cannot be"));
                }
                if count("foreign_total") + count("malformed_total") > 0 {
                    self.violated(format!("P3: {place:?} got messages that it could not take"));
                }
            }
            _ => {}
        }
    }
}

/// What of an answer matters for politeness.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) took: Micros,
    pub(crate) retry_after_s: Option<u64>,
    pub(crate) crawl_delay_s: Option<u64>,
    /// The server for which it says what may be fetched.
    pub(crate) robots_of: Option<String>,
}

/// Whether a page is known whose first visit ended so.
fn makes_known(outcome: Outcome) -> bool {
    use Outcome::{Disallowed, Dropped, OverBudget, Trapped};
    !matches!(outcome, Disallowed | Dropped | OverBudget | Trapped)
}

fn is_robots(url: &str) -> bool {
    path_of(url) == "/robots.txt" || path_of(url).starts_with("/robots-of-")
}

impl Web {
    /// The server for which a final answer at a path says what may be fetched.
    pub(crate) fn robots_of(&self, server: usize, path: &str, status: u16) -> Option<String> {
        let of = match path
            .strip_prefix("/robots-of-")
            .and_then(|rest| rest.strip_suffix(".txt"))
        {
            Some(of) => of.parse().ok()?,
            None if path == "/robots.txt" && matches!(status, 200 | 404) => server,
            None => return None,
        };
        self.graph.servers.get(of).map(|server| server.url.clone())
    }

    /// The Crawl-delay that a server's own robots.txt asks for.
    pub(crate) fn crawl_delay(&self, server: usize) -> Option<u64> {
        match self.graph.servers[server].robots {
            Robots::Rules(seconds) => seconds,
            _ => None,
        }
    }
}
