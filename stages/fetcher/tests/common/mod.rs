//! What the tests share: a driver that plays stage loop and scheduler around core and shell, and
//! small servers.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod server;

use fetcher::core::Fetcher;
use fetcher::effect::{Answer, Asked, Effect};
use fetcher::http::{Http, HttpSettings, Rate};
use fetcher::settings::Settings;
use rhumb_config::Proxy;
use rhumb_stage::{Core as _, Event, Output, Ticket};
use rhumb_url::address::Reach;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{
    Ask, AskReply, Edge, FailureKind, Job, JobId, JobKind, Origin, Page, Report, Request,
    RequestEnd, ToFetcher, Validators, decode,
};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

pub(crate) fn settings() -> Settings {
    Settings {
        instance: "0".into(),
        life: 1,
        schedulers: vec![0],
        connections: 64,
        ask_lifetime: Duration::from_secs(1),
        renew_every: Duration::from_secs(5),
        delay: Duration::ZERO,
        download_pause: rhumb_config::DownloadPause::default(),
        reach: Reach::All,
        doubt_max: Duration::from_secs(600),
        past: rhumb_stage::doubt::Past::Successful,
        body_bytes_max: 1 << 20,
        sitemap_bytes_max: 50 << 20,
        streams: 1,
        replays: false,
        product_token: "rhumb".into(),
        keeps_robots: false,
        recrawls: false,
    }
}

pub(crate) fn http_settings() -> HttpSettings {
    HttpSettings {
        user_agent: "test-agent/1 (mail@example.org)".into(),
        connect_timeout: Duration::from_secs(2),
        request_timeout: Duration::from_secs(2),
        first_byte_timeout: Duration::from_secs(2),
        transfer_rate: Rate {
            bytes_min: 1024,
            window: Duration::from_secs(10),
        },
        skip_types: Vec::new(),
        headers: Vec::new(),
        cookies: false,
        proxy: Proxy::default(),
        header_bytes_max: 64 << 10,
        url_bytes_max: 2048,
        message_bytes_max: 8 << 20,
        bytes_in_hand_max: 64 << 20,
        accept_invalid_certificates: false,
        tls_sessions: 100,
    }
}

/// A job for some paths of a server; its id is set when it is granted.
pub(crate) fn job(server: &str, paths: usize) -> Job {
    let urls: Vec<String> = (0..paths).map(|path| format!("{server}/{path}")).collect();
    job_for(server, &urls)
}

pub(crate) fn job_for(server: &str, urls: &[String]) -> Job {
    let origin = Origin {
        page: "http://example.org/".into(),
        topic: "t".into(),
        depth: 1,
        ..Origin::default()
    };
    let request = |(slot, url): (usize, &String)| Request {
        slot: slot as u64,
        url: url.clone(),
        origin: origin.clone(),
        ..Request::default()
    };
    Job {
        id: JobId {
            scheduler: 0,
            epoch: 1,
            number: 0,
        },
        life: 1,
        partition: 3,
        lease_ms: 20_000,
        kind: JobKind::Pages,
        server: server.to_owned(),
        addresses: vec![IpAddr::from([127, 0, 0, 1])],
        requests: urls.iter().enumerate().map(request).collect(),
        ..Job::default()
    }
}

/// What the scheduler has to grant, and has granted.
#[derive(Default)]
struct Scheduler {
    waiting: VecDeque<Job>,
    granted: Vec<Job>,
    number: u64,
}

impl Scheduler {
    fn grant(&mut self, ask: &Ask) -> Asked {
        let free = (ask.free as usize).min(self.waiting.len());
        for mut job in self.waiting.drain(..free) {
            self.number += 1;
            job.ask = ask.ask;
            job.id.number = self.number;
            self.granted.push(job);
        }
        Asked::Reply(AskReply {
            granted: free as u32,
            ready: 0,
        })
    }
}

/// Stage loop and scheduler.
pub(crate) struct Driver {
    pub(crate) core: Fetcher,
    pub(crate) http: Http,
    pub(crate) pages: Vec<Page>,
    pub(crate) reports: Vec<Report>,
    /// When the last reports came.
    pub(crate) ended_at: Vec<Instant>,
    pub(crate) confirms_renewals: bool,
    /// Throws pages away after counting them.
    pub(crate) counts_only: bool,
    pub(crate) n_pages: usize,
    scheduler: Arc<Mutex<Scheduler>>,
    effects: JoinSet<Answer>,
    origin: Instant,
    expected: usize,
    last_reports: usize,
}

impl Driver {
    pub(crate) fn new(settings: Settings, http: HttpSettings) -> Driver {
        let scheduler = Arc::new(Mutex::new(Scheduler::default()));
        let asked = scheduler.clone();
        let http = Http::new(
            http,
            Arc::new(move |_, ask| {
                let reply = asked.lock().unwrap().grant(&ask);
                Box::pin(async move { reply })
            }),
        );
        Driver {
            core: Fetcher::new(settings),
            http: http.unwrap(),
            pages: Vec::new(),
            reports: Vec::new(),
            ended_at: Vec::new(),
            confirms_renewals: true,
            counts_only: false,
            n_pages: 0,
            scheduler,
            effects: JoinSet::new(),
            origin: Instant::now(),
            expected: 0,
            last_reports: 0,
        }
    }

    pub(crate) fn grant(&mut self, job: Job) {
        self.expected += 1;
        self.scheduler.lock().unwrap().waiting.push_back(job);
    }

    /// Steps the core and plays the loop for what comes out.
    pub(crate) fn step(&mut self, event: Event<ToFetcher, Answer>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut out = Output::default();
            let now = Timestamp::ZERO + self.origin.elapsed();
            self.core.step(now, event, &mut out).unwrap();
            for publish in out.publishes {
                match publish.edge {
                    Edge::Pages if self.counts_only => self.n_pages += 1,
                    Edge::Pages => self.pages.push(decode(&publish.payload).unwrap()),
                    Edge::FetchReports => {
                        events.extend(self.report(decode(&publish.payload).unwrap()))
                    }
                    other => panic!("{other:?}"),
                }
                events.extend(publish.tag.map(Event::Stored));
            }
            for effect in out.effects {
                // As in the loop: an effect runs in the order in which it was asked for.
                let work = self.http.perform(effect);
                self.effects.spawn(work);
            }
        }
    }

    fn report(&mut self, report: Report) -> Option<Event<ToFetcher, Answer>> {
        let renewed = ToFetcher::Renewed {
            job: report.job,
            sequence: report.sequence,
        };
        if report.last {
            self.last_reports += 1;
            self.ended_at.push(Instant::now());
        }
        let confirm = !report.last && self.confirms_renewals;
        self.reports.push(report);
        confirm.then_some(Event::Message {
            ticket: Ticket(0),
            input: renewed,
        })
    }

    /// One turn of the loop.
    pub(crate) async fn turn(&mut self) {
        let granted = std::mem::take(&mut self.scheduler.lock().unwrap().granted);
        for job in granted {
            self.step(Event::Message {
                ticket: Ticket(0),
                input: ToFetcher::Job(job),
            });
        }
        let wake = self
            .core
            .wake_at()
            .map_or(Duration::from_secs(1), |at| at.since(Timestamp::ZERO));
        let soon = Instant::now() + Duration::from_millis(5);
        let wake = tokio::time::Instant::from_std((self.origin + wake).min(soon));
        tokio::select! {
            biased;
            Some(answer) = self.effects.join_next() => self.step(Event::Answer(answer.unwrap())),
            () = tokio::time::sleep_until(wake) => self.step(Event::Wake),
        }
    }

    /// Until all granted jobs have ended.
    pub(crate) async fn run(&mut self) {
        self.step(Event::Wake);
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.last_reports < self.expected {
            assert!(
                Instant::now() < deadline,
                "jobs do not end: {:?}",
                self.core.counts()
            );
            self.turn().await;
        }
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.core
            .counts()
            .into_iter()
            .find(|(other, _)| *other == name)
            .expect("a count")
            .1
    }

    /// How all requests ended, by slot.
    pub(crate) fn ends(&self) -> Vec<RequestEnd> {
        let mut results: Vec<_> = self
            .reports
            .iter()
            .flat_map(|report| report.results.clone())
            .collect();
        results.sort_by_key(|result| result.slot);
        results.into_iter().map(|result| result.end).collect()
    }

    pub(crate) fn last_report(&self) -> &Report {
        self.reports
            .iter()
            .rfind(|report| report.last)
            .expect("a last report")
    }
}

/// Runs one job alone.
pub(crate) async fn run(job: Job) -> Driver {
    run_with(job, settings(), http_settings()).await
}

pub(crate) async fn run_with(job: Job, settings: Settings, http: HttpSettings) -> Driver {
    let mut driver = Driver::new(settings, http);
    driver.grant(job);
    driver.run().await;
    driver
}

pub(crate) fn failure(kind: FailureKind) -> RequestEnd {
    RequestEnd::Failure(kind)
}

pub(crate) fn is_response(end: &RequestEnd) -> bool {
    matches!(end, RequestEnd::Response(_))
}

/// An effect of a request, for tests of the shell alone.
pub(crate) fn fetch(number: u64, index: usize, server: &str, url: &str) -> Effect {
    Effect::Request(fetcher::effect::Request {
        job: JobId {
            scheduler: 0,
            epoch: 1,
            number,
        },
        index,
        url: url.to_owned(),
        target: Arc::new(fetcher::effect::Target {
            server: server.to_owned(),
            addresses: vec![IpAddr::from([127, 0, 0, 1])],
        }),
        lease_left: Duration::from_secs(20),
        validators: Validators::default(),
        is_page: true,
        body_bytes_max: 1 << 20,
        head_timeout: None,
        http11: false,
    })
}
