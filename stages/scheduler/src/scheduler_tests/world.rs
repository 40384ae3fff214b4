//! A world around the core: a resolver, a fetcher that keeps the rules, and checks of P1, P2, P3 and of budgets.

use super::settings;
use crate::frontier::URLS;
use crate::ready_queue::{Place, Room};
use crate::scheduler::{Input, Scheduler};
use crate::server::Server;
use crate::settings::Settings;
use crate::tokens::{Need, Settled};
use shared::bus::lane_of;
use shared::message::{
    Ask, AskReply, DnsRefresh, Edge, Errand, FailureKind, FoundUrls, Job, JobKind, Origin, Outcome, OutcomeEntry,
    Outcomes, ReadyUrls, Report, RequestEnd, RequestResult, Resolution, RobotsResponse, ServerResolution, ToFetcher,
    Validators, decode,
};
use shared::stage::store::{MemoryStore, Store as _};
use shared::stage::{Core as _, Event, Output, Ticket, Token};
use shared::time::Timestamp;
use shared::url::{host_of, partition, registered_domain, server_of};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const FETCHER: &str = "fetcher-0";
const LIFE: u64 = 7;
const RENEW_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn origin() -> Origin {
    Origin { page: "http://seed.test/".into(), topic: "default".into(), depth: 1, ..Origin::default() }
}

pub(crate) fn addresses() -> Resolution {
    Resolution::Addresses { addresses: vec!["192.0.2.1".parse().unwrap()], ttl_s: 86_400 }
}

pub(crate) fn response(status: u16) -> RequestEnd {
    RequestEnd::Response {
        status,
        bytes: 100,
        truncated: false,
        elapsed_us: 20_000,
        retry_after_s: None,
        fetched_at_ms: 0,
        media_type: String::new(),
        validators: Validators::default(),
    }
}

pub(crate) fn robots(status: u16, body: &str) -> Result<RobotsResponse, FailureKind> {
    Ok(RobotsResponse { status, location: None, body: body.as_bytes().to_vec() })
}

pub(crate) fn redirect(location: &str) -> Result<RobotsResponse, FailureKind> {
    Ok(RobotsResponse { status: 301, location: Some(location.to_owned()), body: Vec::new() })
}

/// What the web answers; the default is a web where all is well.
pub(crate) trait Web {
    fn page(&mut self, _now: Timestamp, _url: &str) -> RequestEnd {
        response(200)
    }
    fn robots(&mut self, _now: Timestamp, _url: &str) -> Result<RobotsResponse, FailureKind> {
        robots(404, "")
    }
    fn resolve(&mut self, _server: &str) -> Option<Resolution> {
        Some(addresses())
    }
    /// Requests that a connection to it serves.
    fn requests_per_connection(&self) -> usize {
        usize::MAX
    }
}

/// All is well.
pub(crate) struct Fine;
impl Web for Fine {}

/// A web whose answers are closures.
pub(crate) struct With<P, R> {
    page: P,
    robots: R,
}

impl<P, R> Web for With<P, R>
where
    P: FnMut(Timestamp, &str) -> RequestEnd,
    R: FnMut(Timestamp, &str) -> Result<RobotsResponse, FailureKind>,
{
    fn page(&mut self, now: Timestamp, url: &str) -> RequestEnd {
        (self.page)(now, url)
    }
    fn robots(&mut self, now: Timestamp, url: &str) -> Result<RobotsResponse, FailureKind> {
        (self.robots)(now, url)
    }
}

/// A web of such pages, without robots.txt.
pub(crate) fn pages(page: impl FnMut(Timestamp, &str) -> RequestEnd) -> impl Web {
    With { page, robots: |_, _: &str| robots(404, "") }
}

/// A web of such robots.txt, where all pages are fine.
pub(crate) fn robots_txt(robots: impl FnMut(Timestamp, &str) -> Result<RobotsResponse, FailureKind>) -> impl Web {
    With { page: |_, _: &str| response(200), robots }
}

/// A server whose partition is another's than `server`'s.
pub(crate) fn elsewhere(server: &str) -> String {
    let home = partition(host_of(server), 4);
    (0..).map(|n| format!("http://e{n}.test")).find(|other| partition(host_of(other), 4) != home).unwrap()
}

/// A job as the fetcher holds it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) job: Job,
    pub(crate) next: usize,
    /// No request before it.
    pub(crate) at: Timestamp,
    reported_at: Timestamp,
    pub(crate) sequence: u32,
    pub(crate) results: Vec<RequestResult>,
    pub(crate) robots: Option<RobotsResponse>,
    /// No request after it.
    pub(crate) lease_end: Timestamp,
    pub(crate) served: u32,
    pub(crate) connected: bool,
}

impl Held {
    /// The next report; a last one names all that remain.
    pub(crate) fn report(&mut self, last: bool, closed_by_server: bool) -> Report {
        if last {
            for request in &self.job.requests[self.next..] {
                self.results.push(RequestResult { slot: request.slot, end: RequestEnd::Untried });
            }
            self.next = self.job.requests.len();
        }
        self.sequence += 1;
        Report {
            job: self.job.id,
            fetcher: FETCHER.into(),
            partition: self.job.partition,
            server: self.job.server.clone(),
            sequence: self.sequence,
            last,
            results: std::mem::take(&mut self.results),
            connect_us: self.connected.then_some(30_000),
            requests: self.served,
            busy_us: 0,
            elapsed_us: 0,
            closed_by_server,
            robots: self.robots.take(),
        }
    }
}

pub(crate) struct World {
    pub(crate) settings: Settings,
    instance: u16,
    pub(crate) owned: Vec<u16>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) core: Scheduler,
    pub(crate) now: Timestamp,
    epoch: u64,
    ticket: u64,
    serials: BTreeMap<u16, u64>,
    /// New URLs told to the scheduler.
    pub(crate) told: BTreeMap<String, u16>,
    pub(crate) outcomes: BTreeMap<String, OutcomeEntry>,
    pub(crate) inbox: VecDeque<ToFetcher>,
    pub(crate) refreshes: VecDeque<DnsRefresh>,
    pub(crate) errands: Vec<(u16, Errand)>,
    /// Asked of the ledgers.
    pub(crate) needs: Vec<Need>,
    /// URLs that the scheduler found.
    pub(crate) found: Vec<FoundUrls>,
    pub(crate) held: Vec<Held>,
    ask: u64,
    received: u64,
    /// Contacts: when, and which URL.
    pub(crate) contacts: Vec<(Timestamp, String)>,
    last_contact: BTreeMap<String, Timestamp>,
    /// Servers that must be left alone until then.
    pub(crate) not_before: BTreeMap<String, Timestamp>,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self::owning(settings, &[0, 1, 2, 3])
    }

    pub(crate) fn owning(settings: Settings, owned: &[u16]) -> Self {
        Self::of(settings, 3, owned)
    }

    /// The world of one of several schedulers.
    pub(crate) fn of(settings: Settings, instance: u16, owned: &[u16]) -> Self {
        let store = Arc::new(MemoryStore::default());
        let now = Timestamp::from_micros(1_000_000);
        let core = Scheduler::open(settings.clone(), instance, 1, owned, store.clone(), now).unwrap();
        World {
            settings,
            instance,
            owned: owned.to_vec(),
            store,
            core,
            now,
            epoch: 1,
            ticket: 0,
            serials: BTreeMap::new(),
            told: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            inbox: VecDeque::new(),
            refreshes: VecDeque::new(),
            errands: Vec::new(),
            needs: Vec::new(),
            found: Vec::new(),
            held: Vec::new(),
            ask: 0,
            received: 0,
            contacts: Vec::new(),
            last_contact: BTreeMap::new(),
            not_before: BTreeMap::new(),
        }
    }

    pub(crate) fn polite() -> Self {
        Self::new(settings())
    }

    /// Steps the core without committing what it made.
    pub(crate) fn step_only(&mut self, input: Option<Input>) -> Output<Need> {
        let mut out = Output::default();
        self.ticket += 1;
        let ticket = Ticket(self.ticket);
        let asks = matches!(input, Some(Input::Ask(_)));
        let event = match input {
            Some(input) => Event::Message { ticket, input },
            None => Event::Wake,
        };
        let message = matches!(event, Event::Message { .. });
        self.core.step(self.now, event, &mut out).unwrap();
        assert_eq!(out.finished, if message { vec![ticket] } else { vec![] });
        assert_eq!(out.replies.len(), usize::from(asks));
        out
    }

    /// The ledger answers.
    pub(crate) fn answer(&mut self, settled: Settled) {
        let mut out = Output::default();
        self.core.step(self.now, Event::Answer(settled), &mut out).unwrap();
        self.commit(out);
    }

    /// Steps the core, commits, takes what it sends, and checks P3 and budgets.
    pub(crate) fn step(&mut self, input: Option<Input>) {
        let out = self.step_only(input);
        self.commit(out);
    }

    fn commit(&mut self, out: Output<Need>) {
        self.store.commit(&out.changes).unwrap();
        self.needs.extend(out.effects);
        let mut granted = 0;
        for send in out.sends {
            match (send.edge, send.token) {
                (Edge::FetchJobs, Token::Instance(fetcher)) => {
                    assert_eq!(fetcher, FETCHER);
                    let message = decode(&send.payload).unwrap();
                    granted += u32::from(matches!(message, ToFetcher::Job(_)));
                    self.inbox.push_back(message);
                }
                (Edge::DnsRefresh, Token::Partition(_)) => self.refreshes.push_back(decode(&send.payload).unwrap()),
                (Edge::Errands, Token::Partition(p)) => self.errands.push((p, decode(&send.payload).unwrap())),
                other => panic!("sent on {other:?}"),
            }
        }
        for (_, reply) in out.replies {
            assert_eq!(decode::<AskReply>(&reply).unwrap().granted, granted);
        }
        for publish in out.publishes {
            if publish.edge == Edge::UrlsFound {
                let found: FoundUrls = decode(&publish.payload).unwrap();
                assert_eq!(publish.token, Token::Lane(lane_of(host_of(&found.origin.page))));
                self.found.push(found);
                continue;
            }
            let outcomes: Outcomes = decode(&publish.payload).unwrap();
            for entry in outcomes.entries {
                assert_eq!(publish.token, Token::Partition(self.told[&entry.url]), "an outcome of its partition");
                let before = self.outcomes.insert(entry.url.clone(), entry);
                assert!(before.is_none(), "P3: a second outcome: {before:?}");
            }
        }
        self.check();
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.core.counts().into_iter().find(|(found, _)| *found == name).expect("a count of that name").1
    }

    /// P3, by the counts and by what lies in the store.
    pub(crate) fn check(&self) {
        let (waiting, in_flight) = (self.count("waiting"), self.count("in_flight"));
        let ended: u64 =
            self.core.counts().iter().filter(|(name, _)| name.starts_with("outcome_")).map(|(_, count)| count).sum();
        assert_eq!(self.count("new_total"), ended + waiting + in_flight, "P3");
        assert_eq!(ended, self.outcomes.len() as u64, "P3: outcomes counted and published");
        let mut rows = 0;
        self.store
            .scan(URLS, &[], &[0xff; 20], &mut |_, _| {
                rows += 1;
                true
            })
            .unwrap();
        assert_eq!(rows, waiting + in_flight, "P3: each URL that has not ended is in the store");
        let limits =
            [(self.settings.pages_per_host, "pages per host"), (self.settings.pages_per_domain, "pages per domain")];
        for (budget, limit) in limits {
            if budget > 0 {
                self.check_budget(budget, limit);
            }
        }
        self.check_connections();
    }

    /// To no address more connections than allowed; nobody waits for room that is there.
    fn check_connections(&self) {
        let max = self.settings.connections_per_address;
        let mut open: BTreeMap<IpAddr, u32> = BTreeMap::new();
        for held in self.held.iter().filter(|held| held.lease_end > self.now) {
            *open.entry(held.job.addresses[0]).or_default() += 1;
        }
        assert!(max == 0 || open.values().all(|&open| open <= max), "more than {max} connections: {open:?}");
        let mut leased: BTreeMap<IpAddr, u32> = BTreeMap::new();
        for lease in self.core.servers.values().filter_map(|server| server.lease.as_ref()) {
            *leased.entry(lease.address).or_default() += 1;
        }
        for (&address, &leases) in &leased {
            assert_eq!(self.core.connections.open(address), leases, "connections to {address}");
        }
        for server in self.core.servers.values() {
            let Place::Held(room @ Room::Address(address), _) = server.place else { continue };
            let heir =
                |other: &Server| matches!(other.place, Place::Ready(..)) && other.address.first() == Some(address);
            let is_taken = !self.core.connections.has_room(address);
            assert!(
                is_taken || self.core.servers.values().any(|other| heir(other)),
                "{} is held for {room:?}, which is free",
                server.name
            );
        }
    }

    /// Of nothing more pages than its budget are fetched or in flight; nothing is over it before it is used up, if that
    /// is for one scheduler to say.
    fn check_budget(&self, budget: u64, limit: &str) {
        let whole = |url| if limit == "pages per host" { host_of(url) } else { registered_domain(host_of(url)) };
        let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in self.outcomes.values().filter(|entry| entry.outcome == Outcome::Fetched) {
            *taken.entry(whole(&entry.url)).or_default() += 1;
        }
        for entry in self.outcomes.values().filter(|entry| entry.outcome == Outcome::OverBudget) {
            let is_used_up = taken.get(whole(&entry.url)) == Some(&budget);
            assert!(
                is_used_up || self.settings.schedulers > 1 || entry.reason != limit,
                "{} is over budget",
                entry.url
            );
        }
        for server in self.core.servers.values() {
            *taken.entry(whole(&server.name)).or_default() += server.load().in_flight;
        }
        assert!(taken.values().all(|&pages| pages <= budget), "more than {budget} pages: {taken:?}");
    }

    /// A batch of new URLs, numbered, all of servers of one partition.
    pub(crate) fn batch(&mut self, urls: &[String], resolution: Option<&Resolution>) -> ReadyUrls {
        let home = partition(host_of(&urls[0]), self.settings.partitions);
        let mut ready = ReadyUrls { partition: home, origins: vec![origin()], ..ReadyUrls::default() };
        for url in urls {
            assert_eq!(partition(host_of(url), self.settings.partitions), home);
            let server = server_of(url);
            let index = ready.servers.iter().position(|known| known.server == server).unwrap_or_else(|| {
                ready.servers.push(ServerResolution { server: server.to_owned(), resolution: resolution.cloned() });
                ready.servers.len() - 1
            });
            let serial = self.serials.entry(home).or_default();
            *serial += 1;
            ready.urls.push(url);
            ready.origin_of.push(0);
            ready.server_of.push(index as u32);
            ready.serials.push(*serial);
            assert!(self.told.insert(url.clone(), home).is_none(), "tests name each URL once");
        }
        ready
    }

    pub(crate) fn tell(&mut self, urls: &[String], resolution: &Resolution) {
        let ready = self.batch(urls, Some(resolution));
        self.step(Some(Input::Ready(ready)));
    }

    /// `n` URLs of a server.
    pub(crate) fn tell_pages(&mut self, server: &str, n: usize) {
        let urls: Vec<_> = (0..n).map(|page| format!("{server}/{page}")).collect();
        self.tell(&urls, &addresses());
    }

    pub(crate) fn pass(&mut self, wait: Duration) {
        self.now = self.now + wait;
    }

    /// The process dies; another one opens what was committed, by a clock of another origin.
    pub(crate) fn crash(&mut self) {
        self.epoch += 1;
        self.needs.clear();
        self.core = {
            let (settings, store) = (self.settings.clone(), self.store.clone());
            Scheduler::open(settings, self.instance, self.epoch, &self.owned, store, self.now).unwrap()
        };
        self.check();
    }

    pub(crate) fn ask(&mut self, free: u32) {
        self.ask += 1;
        let ask = Ask { fetcher: FETCHER.into(), ask: self.ask, free, received: self.received, life: LIFE };
        self.step(Some(Input::Ask(ask)));
        self.receive();
    }

    /// The fetcher takes its messages. P1: a job is for a server that nobody holds.
    pub(crate) fn receive(&mut self) {
        while let Some(message) = self.inbox.pop_front() {
            match message {
                ToFetcher::Job(job) => {
                    self.received += 1;
                    for held in &self.held {
                        assert!(
                            held.job.server != job.server || held.lease_end < self.now,
                            "P1: {} is granted twice",
                            job.server
                        );
                    }
                    self.held.retain(|held| held.job.server != job.server);
                    assert!(!job.addresses.is_empty() && !job.requests.is_empty());
                    assert!(job.requests.iter().all(|request| server_of(&request.url) == job.server));
                    // Counted from the ask, which was sent at most its lifetime ago.
                    let lease_end = self.now + Duration::from_millis(job.lease_ms);
                    self.held.push(Held {
                        job,
                        next: 0,
                        at: self.now,
                        reported_at: self.now,
                        sequence: 0,
                        results: Vec::new(),
                        robots: None,
                        lease_end,
                        served: 0,
                        connected: false,
                    });
                }
                ToFetcher::Renewed { job, sequence } => {
                    if let Some(held) =
                        self.held.iter_mut().find(|held| held.job.id == job && held.sequence == sequence)
                    {
                        held.lease_end = held.reported_at + Duration::from_millis(held.job.lease_ms);
                    }
                }
                ToFetcher::Revoked { job } => self.held.retain(|held| held.job.id != job),
            }
        }
    }

    /// P2: notes a contact, and checks that it does not come too early.
    pub(crate) fn contact(&mut self, server: &str, url: &str, gap: Duration) {
        if let Some(&last) = self.last_contact.get(server) {
            assert!(self.now >= last + gap, "P2: {server} is contacted {:?} after {last:?}", self.now);
        }
        if let Some(&until) = self.not_before.get(server) {
            assert!(self.now >= until, "P2: {server} is to be left alone until {until:?}, contacted {:?}", self.now);
        }
        self.last_contact.insert(server.to_owned(), self.now);
        self.contacts.push((self.now, url.to_owned()));
    }

    /// The fetcher makes the next request of a job it holds. False when the job ended with it.
    pub(crate) fn request(&mut self, index: usize, web: &mut dyn Web) -> bool {
        let held = self.held[index].clone();
        let request = &held.job.requests[held.next];
        let gap = Duration::from_millis(held.job.gap_ms);
        assert!(gap >= self.settings.delay);
        self.contact(&held.job.server, &request.url, gap);
        let end = match held.job.kind {
            JobKind::Pages => web.page(self.now, &request.url),
            JobKind::Robots => match web.robots(self.now, &request.url) {
                Ok(response) => {
                    let end = RequestEnd::Response {
                        status: response.status,
                        bytes: 0,
                        truncated: false,
                        elapsed_us: 1,
                        retry_after_s: None,
                        fetched_at_ms: 0,
                        media_type: String::new(),
                        validators: Validators::default(),
                    };
                    self.held[index].robots = Some(response);
                    end
                }
                Err(kind) => RequestEnd::Failure(kind),
            },
        };
        if let RequestEnd::Response { status: 429 | 503, retry_after_s: Some(seconds), .. } = end {
            let until = self.now + Duration::from_secs(u64::from(seconds)).min(self.settings.retry_after_max);
            self.leave_alone(&held.job.server, until);
        }
        let slot = request.slot;
        let held = &mut self.held[index];
        let took = match end {
            RequestEnd::Response { elapsed_us, .. } => Duration::from_micros(elapsed_us.into()),
            _ => Duration::ZERO,
        };
        // Answers come at once here, whatever they say.
        let pause = self.settings.download_pause.after(took);
        held.at = self.now + gap.max(pause);
        held.next += 1;
        held.connected =
            !matches!(end, RequestEnd::Failure(FailureKind::Connect | FailureKind::Tls | FailureKind::Certificate));
        held.served += u32::from(matches!(end, RequestEnd::Response { .. }));
        let broken = !matches!(end, RequestEnd::Response { status: 0..=428 | 430..=502 | 504.., .. });
        held.results.push(RequestResult { slot, end });
        let more = held.next < held.job.requests.len() && (held.served as usize) < web.requests_per_connection();
        let server = held.job.server.clone();
        self.leave_alone(&server, self.now + pause);
        !broken && more
    }

    /// No contact of the server before then.
    fn leave_alone(&mut self, server: &str, until: Timestamp) {
        let not_before = self.not_before.entry(server.to_owned()).or_insert(until);
        *not_before = until.max(*not_before);
    }

    /// What the fetcher has to do now: requests, reports every five seconds and at the end.
    fn work(&mut self, web: &mut dyn Web) {
        let mut index = 0;
        while index < self.held.len() {
            let now = self.now;
            if self.held[index].lease_end <= now {
                self.held.remove(index);
                continue;
            }
            let goes_on = self.held[index].at > now || self.request(index, web);
            if !goes_on {
                let mut held = self.held.remove(index);
                let closed = held.served as usize >= web.requests_per_connection();
                let report = held.report(true, closed);
                self.step(Some(Input::Report(report)));
                self.receive();
                index = 0;
            } else {
                if now.since(self.held[index].reported_at) >= RENEW_EVERY {
                    self.held[index].reported_at = now;
                    let report = self.held[index].report(false, false);
                    self.step(Some(Input::Report(report)));
                    self.receive();
                }
                index += 1;
            }
        }
    }

    fn resolve(&mut self, web: &mut dyn Web) {
        while let Some(refresh) = self.refreshes.pop_front() {
            let mut answer =
                ReadyUrls { partition: refresh.partition, refresh: refresh.number, ..ReadyUrls::default() };
            for server in refresh.servers {
                if let resolution @ Some(_) = web.resolve(&server) {
                    answer.servers.push(ServerResolution { server, resolution });
                }
            }
            self.step(Some(Input::Ready(answer)));
        }
    }

    /// Runs until all URLs have ended; fails when that takes longer than `longest`.
    pub(crate) fn finish(&mut self, web: &mut dyn Web, longest: Duration) {
        let start = self.now;
        while self.count("waiting") + self.count("in_flight") > 0 {
            let idle = || {
                self.core.servers.values().map(|server| self.core.why_idle(self.now, &server.name).unwrap().to_string())
            };
            let has_time = self.now.since(start) < longest;
            assert!(has_time, "the crawl does not end: {:?}, {:?}", self.core.counts(), idle().collect::<Vec<_>>());
            self.advance(web, 64, start + longest);
        }
    }

    /// Runs for so long.
    pub(crate) fn run(&mut self, web: &mut dyn Web, wait: Duration) {
        let end = self.now + wait;
        while self.now < end {
            self.advance(web, 64, end);
        }
    }

    /// One round of all, then time goes on to the next thing to do, or to `end`.
    fn advance(&mut self, web: &mut dyn Web, connections: u32, end: Timestamp) {
        for _ in 0..10_000 {
            if self.core.wake_at().is_none_or(|at| at > self.now) {
                break;
            }
            self.step(None);
            self.receive();
        }
        assert!(self.core.wake_at().is_none_or(|at| at > self.now), "wakes without end");
        self.resolve(web);
        self.ask(connections.saturating_sub(self.held.len() as u32));
        self.work(web);
        let work = self.held.iter().map(|held| held.at.min(held.reported_at + RENEW_EVERY).min(held.lease_end));
        let next = work.chain(self.core.wake_at()).min();
        self.now = next.unwrap_or(end).max(self.now).min(end).max(self.now);
    }

    pub(crate) fn outcome(&self, url: &str) -> (Outcome, &str) {
        let entry = self.outcomes.get(url).unwrap_or_else(|| panic!("{url} has not ended"));
        (entry.outcome, &entry.reason)
    }

    /// URLs contacted, in order.
    pub(crate) fn contacted(&self) -> Vec<&str> {
        self.contacts.iter().map(|(_, url)| url.as_str()).collect()
    }
}
