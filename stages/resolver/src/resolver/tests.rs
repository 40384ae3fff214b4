mod lifetimes;
mod properties;
mod refreshes;
mod silence;
mod snapshots;

use super::*;
use rhumb_stage::Publish;
use rhumb_stage::doubt::Past;
use rhumb_wire::message::{Origin, UrlList, encode};
use std::collections::HashSet;

fn settings() -> Settings {
    Settings {
        window: 2,
        entries: 100,
        refresh: Duration::from_secs(1800),
        lifetime_max: Duration::from_secs(86_400),
        negative: Duration::from_secs(300),
        temporary: Duration::from_secs(30),
        temporary_max: Duration::from_secs(100),
        doubt_max: Duration::from_secs(600),
        past: Past::Successful,
        snapshot_every: Duration::from_secs(300),
        reach: Reach::new(false),
    }
}

fn origin(page: &str) -> Origin {
    Origin {
        page: page.into(),
        topic: "t".into(),
        depth: 1,
        ..Origin::default()
    }
}

/// New URLs, each with a page of its own.
fn new(first_serial: u64, urls: &[&str]) -> Input {
    Input::New(NewUrls {
        partition: 7,
        origins: urls
            .iter()
            .map(|url| origin(&format!("from {url}")))
            .collect(),
        urls: urls.iter().collect(),
        origin_of: (0..urls.len() as u32).collect(),
        first_serial,
    })
}

fn refresh(number: u64, servers: &[&str]) -> Input {
    Input::Refresh(DnsRefresh {
        partition: 7,
        servers: servers.iter().map(|s| (*s).to_owned()).collect(),
        number,
    })
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(seconds)
}

fn some(address: &str, ttl_s: u32) -> Found {
    Found::Addresses {
        addresses: vec![address.parse().unwrap()],
        ttl_s,
    }
}

fn none() -> Found {
    Found::NoAddress { ttl_s: None }
}

fn resolved(address: &str, ttl_s: u32) -> Resolution {
    Resolution::Addresses {
        addresses: vec![address.parse().unwrap()],
        ttl_s,
    }
}

struct Harness {
    core: Resolver,
    now: Timestamp,
    tickets: u64,
    publishes: Vec<Publish>,
    finished: Vec<Ticket>,
    asked: Vec<String>,
    kept: Vec<Vec<u8>>,
}

impl Harness {
    fn new(settings: Settings) -> Self {
        Harness {
            core: Resolver::new(settings),
            now: Timestamp::ZERO,
            tickets: 0,
            publishes: Vec::new(),
            finished: Vec::new(),
            asked: Vec::new(),
            kept: Vec::new(),
        }
    }

    fn step(&mut self, event: Event<Input, Answer>) {
        let mut out = Output::default();
        self.core.step(self.now, event, &mut out).unwrap();
        self.publishes.append(&mut out.publishes);
        self.finished.append(&mut out.finished);
        for effect in out.effects {
            match effect {
                Effect::Query { name } => self.asked.push(name),
                Effect::Keep { snapshot } => self.kept.push(snapshot),
            }
        }
    }

    fn input(&mut self, input: Input) -> Ticket {
        self.tickets += 1;
        self.step(Event::Message {
            ticket: Ticket(self.tickets),
            input,
        });
        Ticket(self.tickets)
    }

    fn answer(&mut self, name: &str, found: Found) {
        self.step(Event::Answer(Answer::Found {
            name: name.into(),
            found,
        }));
    }

    fn take(&mut self) -> Vec<ReadyUrls> {
        std::mem::take(&mut self.publishes)
            .iter()
            .map(|publish| decode(&publish.payload).unwrap())
            .collect()
    }

    /// What was said last of the first server of the message.
    fn last(&mut self) -> Option<Resolution> {
        self.take().pop().unwrap().servers.remove(0).resolution
    }

    fn wake_at_but_for_snapshots(&mut self) -> Option<Timestamp> {
        let snapshot_at = self.core.snapshot_at.take();
        let wake_at = self.core.wake_at();
        self.core.snapshot_at = snapshot_at;
        wake_at
    }

    fn count(&self, name: &str) -> u64 {
        self.core
            .counts()
            .into_iter()
            .find(|(known, _)| *known == name)
            .unwrap()
            .1
    }
}

type Row = (String, String, Option<Resolution>, String, u64);

/// URL, server, resolution, origin page and serial of each URL of a message.
fn rows(message: &ReadyUrls) -> Vec<Row> {
    assert_eq!(message.urls.len(), message.server_of.len());
    assert_eq!(message.urls.len(), message.origin_of.len());
    assert_eq!(message.urls.len(), message.serials.len());
    let servers: HashSet<_> = message
        .servers
        .iter()
        .map(|server| &server.server)
        .collect();
    assert_eq!(servers.len(), message.servers.len(), "each server once");
    message
        .urls
        .iter()
        .enumerate()
        .map(|(at, url)| {
            let server = &message.servers[message.server_of[at] as usize];
            let page = &message.origins[message.origin_of[at] as usize].page;
            (
                url.into(),
                server.server.clone(),
                server.resolution.clone(),
                page.clone(),
                message.serials[at],
            )
        })
        .collect()
}

fn row(url: &str, server: &str, resolution: impl Into<Option<Resolution>>, serial: u64) -> Row {
    (
        url.into(),
        server.into(),
        resolution.into(),
        format!("from {url}"),
        serial,
    )
}

/// The servers of a message, with what is known of them.
fn servers(message: &ReadyUrls) -> Vec<(&str, Option<Resolution>)> {
    message
        .servers
        .iter()
        .map(|found| (found.server.as_str(), found.resolution.clone()))
        .collect()
}

#[test]
fn urls_leave_at_once_and_their_addresses_follow() {
    let mut t = Harness::new(settings());
    let first = t.input(new(
        10,
        &[
            "http://a.test/1",
            "https://a.test:8443/2",
            "http://b.test/",
            "http://a.test/3",
        ],
    ));
    assert_eq!(
        (t.publishes[0].causes.clone(), t.publishes[0].token.clone()),
        (vec![first], Token::Partition(7))
    );
    assert_eq!(t.finished, [first]);
    assert_eq!(
        rows(&t.take()[0]),
        [
            row("http://a.test/1", "http://a.test", None, 10),
            row("https://a.test:8443/2", "https://a.test:8443", None, 11),
            row("http://b.test/", "http://b.test", None, 12),
            row("http://a.test/3", "http://a.test", None, 13),
        ]
    );
    t.input(new(14, &["http://a.test/4"]));
    assert_eq!(
        rows(&t.take()[0]),
        [row("http://a.test/4", "http://a.test", None, 14)]
    );
    assert_eq!(
        (t.asked.clone(), t.count("servers_waiting")),
        (vec!["a.test".into(), "b.test".into()], 3)
    );
    t.answer("a.test", some("8.8.8.1", 3600));
    assert_eq!(
        (t.publishes[0].causes.len(), t.publishes[0].token.clone()),
        (0, Token::Partition(7))
    );
    let message = t.take().remove(0);
    let address = resolved("8.8.8.1", 3600);
    assert_eq!(
        servers(&message),
        [
            ("http://a.test", Some(address.clone())),
            ("https://a.test:8443", Some(address))
        ]
    );
    assert_eq!(
        (message.urls.len(), message.partition, t.core.is_idle()),
        (0, 7, false)
    );
    t.answer("b.test", none());
    assert_eq!(
        servers(&t.take()[0]),
        [("http://b.test", Some(Resolution::NoAddress))]
    );
    assert_eq!((t.count("servers_waiting"), t.core.is_idle()), (0, true));
}

#[test]
fn what_is_known_goes_with_the_urls() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://a.test/", "http://b.test/"]));
    t.answer("a.test", some("8.8.8.1", 60));
    t.answer("b.test", some("8.8.8.2", 60));
    t.take();
    t.now = at(100);
    t.input(new(
        3,
        &[
            "http://a.test/x",
            "http://b.test/y",
            "http://a.test/z",
            "http://c.test/",
        ],
    ));
    let [message] = &t.take()[..] else {
        panic!("one message")
    };
    // The least lifetime is the refresh setting.
    let a = resolved("8.8.8.1", 1700);
    let b = resolved("8.8.8.2", 1700);
    assert_eq!(
        rows(message),
        [
            row("http://a.test/x", "http://a.test", a.clone(), 3),
            row("http://b.test/y", "http://b.test", b, 4),
            row("http://a.test/z", "http://a.test", a, 5),
            row("http://c.test/", "http://c.test", None, 6),
        ]
    );
    assert_eq!(
        (t.count("cache_hits_total"), t.count("cache_misses_total")),
        (2, 3)
    );
}

#[test]
fn the_window_bounds_queries_and_names_queue_for_it() {
    let mut t = Harness::new(settings());
    t.input(new(
        1,
        &[
            "http://a.test/",
            "http://b.test/",
            "http://c.test/",
            "http://d.test/",
        ],
    ));
    assert_eq!(t.asked, ["a.test", "b.test"]);
    t.answer("b.test", none());
    assert_eq!(t.asked, ["a.test", "b.test", "c.test"]);
    t.answer("b.test", none());
    assert_eq!(
        t.asked.len(),
        3,
        "an answer that nobody waits for frees nothing"
    );
    t.answer("a.test", none());
    assert_eq!(t.asked.len(), 4);
}

#[test]
fn private_addresses_leave_only_when_allowed() {
    let mixed = Found::Addresses {
        addresses: ["::1", "2606:4700::1", "10.0.0.1", "8.8.8.1", "8.8.8.1"]
            .map(|a| a.parse().unwrap())
            .to_vec(),
        ttl_s: 3600,
    };
    for (allow_private, expected) in [
        (false, &["8.8.8.1", "2606:4700::1"][..]),
        (true, &["10.0.0.1", "8.8.8.1", "::1", "2606:4700::1"][..]),
    ] {
        let mut t = Harness::new(Settings {
            reach: Reach::new(allow_private),
            ..settings()
        });
        t.input(new(1, &["http://a.test/"]));
        t.answer("a.test", mixed.clone());
        let Some(Resolution::Addresses { addresses, .. }) = t.last() else {
            panic!("none")
        };
        let expected: Vec<IpAddr> = expected.iter().map(|a| a.parse().unwrap()).collect();
        assert_eq!(addresses, expected);
    }
}

#[test]
fn address_literals_need_no_query() {
    let mut t = Harness::new(settings());
    t.input(new(
        1,
        &["http://127.0.0.1/", "http://[::1]:8080/", "http://8.8.8.8/"],
    ));
    let resolutions: Vec<_> = t.take()[0]
        .servers
        .iter()
        .map(|server| server.resolution.clone())
        .collect();
    assert_eq!(
        resolutions,
        [
            Resolution::Private,
            Resolution::Private,
            resolved("8.8.8.8", 86_400)
        ]
        .map(Some)
    );
    assert!(t.asked.is_empty());
}

/// Goal: what waits is bounded, whatever comes, and an answer fits a message. Method: more names
/// than may wait, by new URLs and by refreshes, and more servers of one name than an answer holds.
#[test]
fn so_many_servers_wait_and_no_more() {
    let batch = |servers: std::ops::Range<usize>| {
        let urls: UrlList = servers.map(|n| format!("http://h{n}.test/")).collect();
        let origin_of = vec![0; urls.len()];
        Input::New(NewUrls {
            partition: 7,
            origins: vec![origin("p")],
            urls,
            origin_of,
            first_serial: 1,
        })
    };
    let mut t = Harness::new(settings());
    t.input(batch(0..SERVERS_WAITING_MAX + 5));
    assert!(
        t.take()[0]
            .servers
            .iter()
            .all(|found| found.resolution.is_none())
    );
    t.input(refresh(1, &["http://other.test"]));
    assert_eq!(
        (t.count("servers_waiting"), t.take().len()),
        (SERVERS_WAITING_MAX as u64, 0)
    );
    t.answer("h0.test", none());
    t.input(refresh(2, &["http://other.test"]));
    assert_eq!(t.count("servers_waiting"), SERVERS_WAITING_MAX as u64);

    let mut t = Harness::new(settings());
    let servers: Vec<String> = (1..2 * SERVERS_PER_NAME_MAX)
        .map(|port| format!("http://a.test:{port}"))
        .collect();
    t.input(refresh(
        1,
        &servers.iter().map(String::as_str).collect::<Vec<_>>(),
    ));
    t.answer("a.test", some("2001:4860::1", 60));
    assert_eq!(t.take()[0].servers.len(), SERVERS_PER_NAME_MAX);
    assert_eq!(t.count("servers_waiting"), 0);
}

#[test]
fn a_drain_does_not_wait_for_names() {
    let mut t = Harness::new(Settings {
        snapshot_every: Duration::ZERO,
        ..settings()
    });
    t.input(new(1, &["http://a.test/"]));
    assert!(!t.core.is_idle());
    t.step(Event::Drain);
    assert!(t.core.is_idle());
}

#[test]
fn a_url_without_an_origin_is_corrupt() {
    let Input::New(batch) = new(1, &["http://a.test/"]) else {
        unreachable!()
    };
    let broken = NewUrls {
        origin_of: vec![1],
        ..batch
    };
    assert!(matches!(
        Resolver::decode(Edge::UrlsNew, &encode(&broken)),
        Err(Undecodable::Corrupt(_))
    ));
}

#[test]
fn the_table_of_metrics_has_a_row_for_each_number_and_no_other() {
    let core = Harness::new(settings()).core;
    assert_eq!(
        rhumb_telemetry::metrics::unlike(
            crate::metrics::METRICS,
            &core.counts(),
            &core.histograms()
        ),
        [""; 0]
    );
}
