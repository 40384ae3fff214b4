//! A core on a simulated clock, with what came out of it.

use fetcher::core::Fetcher;
use fetcher::effect::{Answer, Asked, Effect, End, Response};
use fetcher::settings::Settings;
use rhumb_config::DownloadPause;
use rhumb_config::orders::Orders;
use rhumb_stage::doubt::Past;
use rhumb_stage::{Core as _, Event, Output, Ticket};
use rhumb_url::address::Reach;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{
    AskReply, Edge, HttpVersion, Job, JobId, JobKind, Origin, Page, Report, Request, ToFetcher,
    decode,
};
use rhumb_wire::topology::Token;
use std::time::Duration;

pub(crate) const SERVER: &str = "http://example.org";

/// A core with what came out of it.
pub(crate) struct Bench {
    pub(crate) core: Fetcher,
    pub(crate) now_ms: u64,
    pub(crate) effects: Vec<Effect>,
    pub(crate) pages: Vec<(u64, Page)>,
    pub(crate) reports: Vec<(Option<u64>, Report)>,
    pub(crate) finished: Vec<Ticket>,
}

impl Bench {
    pub(crate) fn new(connections: u32) -> Bench {
        Bench::with(connections, |settings| settings)
    }

    pub(crate) fn with(connections: u32, change: impl FnOnce(Settings) -> Settings) -> Bench {
        let core = Fetcher::new(change(Settings {
            instance: "f0".into(),
            life: 9,
            schedulers: vec![0],
            connections,
            ask_lifetime: Duration::from_secs(1),
            renew_every: Duration::from_secs(5),
            delay: Duration::ZERO,
            download_pause: DownloadPause {
                factor: 2,
                max: Duration::from_secs(30),
            },
            reach: Reach::new(false),
            doubt_max: Duration::from_secs(600),
            past: Past::Successful,
            body_bytes_max: 1000,
            sitemap_bytes_max: 5000,
            streams: 4,
            replays: false,
            product_token: "rhumb".into(),
            keeps_robots: false,
            recrawls: false,
        }));
        let mut bench = Bench {
            core,
            now_ms: 0,
            effects: Vec::new(),
            pages: Vec::new(),
            reports: Vec::new(),
            finished: Vec::new(),
        };
        bench.step(Event::Wake);
        bench
    }

    pub(crate) fn step(&mut self, event: Event<ToFetcher, Answer>) {
        let mut out = Output::default();
        self.core
            .step(Timestamp::from_micros(self.now_ms * 1000), event, &mut out)
            .unwrap();
        for publish in out.publishes {
            match publish.edge {
                Edge::Pages => {
                    assert_eq!(publish.token, Token::None);
                    self.pages
                        .push((publish.tag.expect("tag"), decode(&publish.payload).unwrap()));
                }
                Edge::FetchReports => {
                    assert_eq!(publish.token, Token::Partition(3));
                    self.reports
                        .push((publish.tag, decode(&publish.payload).unwrap()));
                }
                other => panic!("{other:?}"),
            }
        }
        self.effects.extend(out.effects);
        self.finished.extend(out.finished);
    }

    /// Moves the clock on, waking the core whenever it wants to be.
    pub(crate) fn until(&mut self, ms: u64) {
        while let Some(at) = self.core.wake_at().map(|at| at.as_micros().div_ceil(1000))
            && at <= ms
        {
            self.now_ms = self.now_ms.max(at);
            let before = self.core.wake_at();
            self.step(Event::Wake);
            assert_ne!(
                self.core.wake_at(),
                before,
                "the core wants to be woken for nothing"
            );
        }
        self.now_ms = ms;
    }

    /// The ask that is on its way; it is answered.
    pub(crate) fn answer_ask(&mut self) -> u64 {
        let index = self
            .effects
            .iter()
            .position(|effect| matches!(effect, Effect::Ask { .. }))
            .expect("an ask");
        let Effect::Ask { scheduler, ask } = self.effects.remove(index) else {
            unreachable!()
        };
        let result = Asked::Reply(AskReply {
            granted: 1,
            ready: 0,
        });
        self.step(Event::Answer(Answer::Asked {
            scheduler,
            ask: ask.ask,
            result,
        }));
        ask.ask
    }

    /// Operators ask something else of the crawl.
    pub(crate) fn order(&mut self, orders: &Orders) {
        self.core.orders(orders);
        assert_eq!(
            self.core.wake_at(),
            Some(Timestamp::ZERO),
            "the step follows at once"
        );
        self.step(Event::Wake);
    }

    pub(crate) fn tell(&mut self, input: ToFetcher) {
        self.step(Event::Message {
            ticket: Ticket(1),
            input,
        });
    }

    /// Grants a job for the ask on its way.
    pub(crate) fn grant(&mut self, change: impl FnOnce(&mut Job)) -> JobId {
        let ask = self.answer_ask();
        let mut job = job(ask);
        change(&mut job);
        let id = job.id;
        self.tell(ToFetcher::Job(job));
        id
    }

    /// Indices of the requests made, taken.
    pub(crate) fn requests(&mut self) -> Vec<usize> {
        let index = |effect: &Effect| match effect {
            Effect::Request(request) => Some(request.index),
            _ => None,
        };
        let indices = self.effects.iter().filter_map(index).collect();
        self.effects.retain(|effect| index(effect).is_none());
        indices
    }

    pub(crate) fn closes(&self) -> usize {
        self.effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Close { .. }))
            .count()
    }

    pub(crate) fn end(&mut self, job: JobId, index: usize, end: End) {
        self.step(Event::Answer(Answer::Response {
            job,
            index,
            connect_us: Some(77),
            damaged: 0,
            end,
        }));
    }

    pub(crate) fn respond(&mut self, job: JobId, index: usize) {
        self.end(job, index, End::Response(Box::new(response())));
    }

    pub(crate) fn store_pages(&mut self) {
        for (tag, _) in std::mem::take(&mut self.pages) {
            self.step(Event::Stored(tag));
        }
    }

    pub(crate) fn store_reports(&mut self) {
        for tag in self
            .reports
            .iter()
            .filter_map(|(tag, _)| *tag)
            .collect::<Vec<_>>()
        {
            self.step(Event::Stored(tag));
        }
    }

    pub(crate) fn last(&self) -> &Report {
        let (_, report) = self.reports.last().expect("a report");
        assert!(report.last);
        report
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.core
            .counts()
            .into_iter()
            .find(|(other, _)| *other == name)
            .expect("a count")
            .1
    }
}

pub(crate) fn job(ask: u64) -> Job {
    let origin = Origin::seed("t");
    let request = |slot: u64| Request {
        slot: slot + 100,
        url: format!("{SERVER}/{slot}"),
        origin: origin.clone(),
        ..Request::default()
    };
    Job {
        id: JobId {
            scheduler: 0,
            epoch: 2,
            number: 1,
        },
        life: 9,
        ask,
        partition: 3,
        lease_ms: 20_000,
        kind: JobKind::Pages,
        server: SERVER.into(),
        addresses: vec!["93.184.216.34".parse().unwrap()],
        gap_ms: 1000,
        requests: (0..5).map(request).collect(),
        ..Job::default()
    }
}

pub(crate) fn response() -> Response {
    Response {
        room: std::sync::Arc::default(),
        status: 200,
        headers: Vec::new(),
        body: b"page".to_vec(),
        truncated: None,
        keeps_open: true,
        http_version: HttpVersion::Http11,
        request_headers: Vec::new(),
        fetched_at_ms: 1_000_000,
        elapsed_us: 0,
        address: None,
        lacks_length: false,
        leads_back: false,
    }
}
