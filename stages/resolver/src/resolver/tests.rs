use super::*;
use proptest::prelude::*;
use shared::message::{Origin, Quality, UrlList, encode};
use shared::stage::Publish;
use std::collections::{BTreeMap, HashSet};

fn settings() -> Settings {
    Settings {
        window: 2,
        entries: 100,
        refresh: Duration::from_secs(1800),
        lifetime_max: Duration::from_secs(86_400),
        negative: Duration::from_secs(300),
        temporary: Duration::from_secs(30),
        allow_private: false,
    }
}

fn origin(page: &str) -> Origin {
    Origin { page: page.into(), topic: "t".into(), depth: 1, redirects: 0, seed: false, flow: Quality::NONE }
}

/// New URLs, each with a page of its own.
fn new(first_serial: u64, urls: &[&str]) -> Input {
    Input::New(NewUrls {
        partition: 7,
        origins: urls.iter().map(|url| origin(&format!("from {url}"))).collect(),
        urls: urls.iter().collect(),
        origin_of: (0..urls.len() as u32).collect(),
        first_serial,
    })
}

fn refresh(number: u64, servers: &[&str]) -> Input {
    Input::Refresh(DnsRefresh { partition: 7, servers: servers.iter().map(|s| (*s).to_owned()).collect(), number })
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(seconds)
}

fn some(address: &str, ttl_s: u32) -> Found {
    Found::Addresses { addresses: vec![address.parse().unwrap()], ttl_s }
}

fn resolved(address: &str, ttl_s: u32) -> Resolution {
    Resolution::Addresses { addresses: vec![address.parse().unwrap()], ttl_s }
}

struct Harness {
    core: Resolver,
    now: Timestamp,
    tickets: u64,
    publishes: Vec<Publish>,
    finished: Vec<Ticket>,
    asked: Vec<String>,
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
        }
    }

    fn step(&mut self, event: Event<Input, Answer>) {
        let mut out = Output::default();
        self.core.step(self.now, event, &mut out).unwrap();
        self.publishes.append(&mut out.publishes);
        self.finished.append(&mut out.finished);
        self.asked.extend(out.effects.into_iter().map(|effect| effect.name));
    }

    fn input(&mut self, input: Input) -> Ticket {
        self.tickets += 1;
        self.step(Event::Message { ticket: Ticket(self.tickets), input });
        Ticket(self.tickets)
    }

    fn answer(&mut self, name: &str, found: Found) {
        self.step(Event::Answer(Answer { name: name.into(), found }));
    }

    fn take(&mut self) -> Vec<ReadyUrls> {
        std::mem::take(&mut self.publishes).iter().map(|publish| decode(&publish.payload).unwrap()).collect()
    }

    fn count(&self, name: &str) -> u64 {
        self.core.counts().into_iter().find(|(known, _)| *known == name).unwrap().1
    }
}

/// URL, server, resolution, origin page and serial of each URL of a message.
fn rows(message: &ReadyUrls) -> Vec<(String, String, Resolution, String, u64)> {
    assert_eq!(message.urls.len(), message.server_of.len());
    assert_eq!(message.urls.len(), message.origin_of.len());
    assert_eq!(message.urls.len(), message.serials.len());
    let servers: HashSet<_> = message.servers.iter().map(|server| &server.server).collect();
    assert_eq!(servers.len(), message.servers.len(), "each server once");
    message
        .urls
        .iter()
        .enumerate()
        .map(|(at, url)| {
            let server = &message.servers[message.server_of[at] as usize];
            let page = &message.origins[message.origin_of[at] as usize].page;
            (url.into(), server.server.clone(), server.resolution.clone(), page.clone(), message.serials[at])
        })
        .collect()
}

fn row(url: &str, server: &str, resolution: Resolution, serial: u64) -> (String, String, Resolution, String, u64) {
    (url.into(), server.into(), resolution, format!("from {url}"), serial)
}

#[test]
fn urls_wait_for_their_name_and_leave_with_its_address() {
    let mut t = Harness::new(settings());
    let first = t.input(new(10, &["http://a.test/1", "https://a.test:8443/2", "http://b.test/"]));
    let second = t.input(new(13, &["http://a.test/3"]));
    assert_eq!(t.asked, ["a.test", "b.test"], "once for each name");
    assert!(t.publishes.is_empty() && t.finished.is_empty() && !t.core.is_idle());
    assert_eq!(t.count("parked"), 4);
    t.answer("a.test", some("8.8.8.1", 3600));
    assert_eq!(t.publishes[0].causes, [first, second]);
    assert_eq!(t.publishes[0].token, Token::Partition(7));
    assert_eq!(t.finished, [second]);
    let address = resolved("8.8.8.1", 3600);
    assert_eq!(
        rows(&t.take()[0]),
        [
            row("http://a.test/1", "http://a.test", address.clone(), 10),
            row("https://a.test:8443/2", "https://a.test:8443", address.clone(), 11),
            row("http://a.test/3", "http://a.test", address, 13),
        ]
    );
    t.answer("b.test", Found::NoAddress);
    assert_eq!(t.finished, [second, first]);
    assert_eq!(rows(&t.take()[0]), [row("http://b.test/", "http://b.test", Resolution::NoAddress, 12)]);
    assert!(t.core.is_idle());
    assert_eq!(t.count("parked"), 0);
}

#[test]
fn known_names_leave_at_once_in_one_message() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://a.test/", "http://b.test/"]));
    t.answer("a.test", some("8.8.8.1", 60));
    t.answer("b.test", some("8.8.8.2", 60));
    t.take();
    t.now = at(100);
    let whole = t.input(new(3, &["http://a.test/x", "http://b.test/y", "http://a.test/z"]));
    let [message] = &t.take()[..] else { panic!("one message") };
    // The least lifetime is the refresh setting.
    let (a, b) = (resolved("8.8.8.1", 1700), resolved("8.8.8.2", 1700));
    assert_eq!(
        rows(message),
        [
            row("http://a.test/x", "http://a.test", a.clone(), 3),
            row("http://b.test/y", "http://b.test", b, 4),
            row("http://a.test/z", "http://a.test", a.clone(), 5),
        ]
    );
    assert_eq!(t.finished.last(), Some(&whole));
    let parts = t.input(new(6, &["http://c.test/", "http://a.test/w"]));
    assert_eq!(rows(&t.take()[0]), [row("http://a.test/w", "http://a.test", a, 7)]);
    assert_ne!(t.finished.last(), Some(&parts));
    assert_eq!((t.count("cache_hits_total"), t.count("cache_misses_total")), (3, 3));
}

#[test]
fn the_window_bounds_queries_and_names_queue_for_it() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/"]));
    assert_eq!(t.asked, ["a.test", "b.test"]);
    t.answer("b.test", Found::NoAddress);
    assert_eq!(t.asked, ["a.test", "b.test", "c.test"]);
    t.answer("b.test", Found::NoAddress);
    assert_eq!(t.asked.len(), 3, "an answer that nobody waits for frees nothing");
    t.answer("a.test", Found::NoAddress);
    assert_eq!(t.asked.len(), 4);
}

#[test]
fn each_kind_of_answer_is_remembered_for_its_time() {
    for (found, resolution, lifetime_s) in [
        (some("8.8.8.1", 1), resolved("8.8.8.1", 1800), 1800),
        (some("8.8.8.1", 7200), resolved("8.8.8.1", 7200), 7200),
        (some("8.8.8.1", u32::MAX), resolved("8.8.8.1", 86_400), 86_400),
        (Found::NoAddress, Resolution::NoAddress, 300),
        (Found::Temporary, Resolution::Temporary, 30),
        (some("10.0.0.1", 7200), Resolution::Private, 7200),
    ] {
        let mut t = Harness::new(settings());
        t.input(new(1, &["http://a.test/1"]));
        t.answer("a.test", found);
        assert_eq!(t.take()[0].servers[0].resolution, resolution);
        t.now = at(lifetime_s - 1);
        t.input(new(2, &["http://a.test/2"]));
        assert_eq!((t.take().len(), t.asked.len()), (1, 1));
        t.now = at(lifetime_s);
        t.input(new(3, &["http://a.test/3"]));
        assert_eq!((t.take().len(), t.asked.len()), (0, 2));
    }
}

#[test]
fn private_addresses_leave_only_when_allowed() {
    let mixed = Found::Addresses {
        addresses: ["::1", "2606:4700::1", "10.0.0.1", "8.8.8.1", "8.8.8.1"].map(|a| a.parse().unwrap()).to_vec(),
        ttl_s: 3600,
    };
    for (allow_private, expected) in
        [(false, &["8.8.8.1", "2606:4700::1"][..]), (true, &["10.0.0.1", "8.8.8.1", "::1", "2606:4700::1"][..])]
    {
        let mut t = Harness::new(Settings { allow_private, ..settings() });
        t.input(new(1, &["http://a.test/"]));
        t.answer("a.test", mixed.clone());
        let Resolution::Addresses { addresses, .. } = &t.take()[0].servers[0].resolution else { panic!("none") };
        let expected: Vec<IpAddr> = expected.iter().map(|a| a.parse().unwrap()).collect();
        assert_eq!(addresses, &expected);
    }
}

#[test]
fn address_literals_need_no_query() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://127.0.0.1/", "http://[::1]:8080/", "http://8.8.8.8/"]));
    let resolutions: Vec<_> = t.take()[0].servers.iter().map(|server| server.resolution.clone()).collect();
    assert_eq!(resolutions, [Resolution::Private, Resolution::Private, resolved("8.8.8.8", 86_400)]);
    assert!(t.asked.is_empty());
}

#[test]
fn a_refresh_asks_anew_unless_the_name_was_just_asked_for() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://a.test/"]));
    t.answer("a.test", some("8.8.8.1", 3600));
    t.take();
    t.now = at(5);
    let ticket = t.input(refresh(9, &["http://a.test", "https://a.test"]));
    let message = t.take().remove(0);
    assert_eq!((message.refresh, message.urls.len(), message.servers.len(), message.partition), (9, 0, 2, 7));
    assert_eq!(message.servers[1].resolution, resolved("8.8.8.1", 3595));
    assert_eq!(t.finished.last(), Some(&ticket));
    t.now = at(6);
    let ticket = t.input(refresh(10, &["http://a.test:81", "http://8.8.8.9"]));
    assert_eq!(t.take()[0].servers[0].server, "http://8.8.8.9");
    assert_eq!(t.asked, ["a.test", "a.test"]);
    // What is known still serves new URLs meanwhile.
    t.input(new(2, &["http://a.test/2"]));
    assert_eq!(t.take().len(), 1);
    t.answer("a.test", some("8.8.8.2", 3600));
    let message = t.take().remove(0);
    assert_eq!((message.refresh, message.servers.len()), (10, 1));
    assert_eq!(
        message.servers[0],
        ServerResolution { server: "http://a.test:81".into(), resolution: resolved("8.8.8.2", 3600) }
    );
    assert_eq!(t.finished.last(), Some(&ticket));
}

#[test]
fn a_failed_refresh_leaves_what_still_holds() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://a.test/"]));
    t.answer("a.test", some("8.8.8.1", 3600));
    t.now = at(60);
    t.input(refresh(1, &["http://a.test"]));
    t.take();
    t.answer("a.test", Found::Temporary);
    assert_eq!(t.take()[0].servers[0].resolution, resolved("8.8.8.1", 3540));
}

#[test]
fn input_stops_while_too_much_is_parked() {
    let mut t = Harness::new(settings());
    let urls: UrlList = (0..=PARKED_URLS_MAX).map(|n| format!("http://a.test/{n}")).collect();
    let origin_of = vec![0; urls.len()];
    t.input(Input::New(NewUrls { partition: 7, origins: vec![origin("p")], urls, origin_of, first_serial: 1 }));
    assert!(!t.core.wants_input());
    t.answer("a.test", Found::NoAddress);
    assert!(t.core.wants_input());
}

#[test]
fn a_url_without_an_origin_is_corrupt() {
    let Input::New(batch) = new(1, &["http://a.test/"]) else { unreachable!() };
    let broken = NewUrls { origin_of: vec![1], ..batch };
    assert!(matches!(Resolver::decode(Edge::UrlsNew, &encode(&broken)), Err(Undecodable::Corrupt(_))));
}

proptest! {
    /// Goal: P3 at this stage. Method: random batches and refreshes, answers in random order and of random kinds,
    /// time passing; at the end each URL has left once, with its own origin, serial and server, and each ticket
    /// was finished once, after all its messages.
    #[test]
    fn every_url_leaves_exactly_once(
        steps in proptest::collection::vec(
            (proptest::collection::vec((0u8..6, 0u8..2), 0..6), 0u8..4, 0usize..4, 0u64..200), 1..40),
    ) {
        let mut t = Harness::new(Settings { entries: 3, ..settings() });
        let mut serial = 1;
        let mut expected = BTreeMap::new();
        let mut under_way: Vec<String> = Vec::new();
        let (mut asked, mut finished_publishes) = (0, HashSet::new());
        let mut refreshes = 0;
        for (links, kind, pick, pause_s) in &steps {
            t.now = t.now + Duration::from_secs(*pause_s);
            let urls: Vec<String> = (serial..)
                .zip(links)
                .map(|(serial, (host, tls))| {
                    format!("{}://h{host}.test/{serial}", if *tls == 1 { "https" } else { "http" })
                })
                .collect();
            let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
            if *kind == 0 {
                let mut servers: Vec<&str> = urls.iter().map(|url| server_of(url)).collect();
                servers.sort_unstable();
                servers.dedup();
                refreshes += servers.len();
                t.input(refresh(serial, &servers));
            } else {
                t.input(new(serial, &urls));
                for (serial, url) in (serial..).zip(&urls) {
                    expected.insert(serial, (*url).to_owned());
                }
                serial += urls.len() as u64;
            }
            for publish in &t.publishes {
                finished_publishes.extend(publish.causes.iter().copied());
            }
            under_way.extend(t.asked.drain(asked..));
            asked = t.asked.len();
            prop_assert!(under_way.len() <= 2);
            prop_assert_eq!(under_way.iter().collect::<HashSet<_>>().len(), under_way.len());
            if !under_way.is_empty() {
                let name = under_way.remove(pick % under_way.len());
                t.answer(&name, [Found::NoAddress, Found::Temporary, some("8.8.8.8", 9)][usize::from(*kind) % 3].clone());
                under_way.extend(t.asked.drain(asked..));
            }
        }
        while let Some(name) = under_way.pop() {
            t.answer(&name, some("8.8.8.8", 9));
            under_way.extend(t.asked.drain(asked..));
        }
        prop_assert!(t.core.is_idle() && t.core.open.is_empty());
        prop_assert_eq!(t.count("parked"), 0);
        let finished: HashSet<Ticket> = t.finished.iter().copied().collect();
        prop_assert_eq!((finished.len(), t.finished.len()), (steps.len(), steps.len()));
        for message in t.take() {
            if message.refresh != 0 {
                prop_assert!(message.urls.is_empty());
                refreshes -= message.servers.len();
            }
            for (url, server, _, page, serial) in rows(&message) {
                prop_assert_eq!(server_of(&url), server);
                prop_assert_eq!(page, format!("from {url}"));
                prop_assert_eq!(expected.remove(&serial), Some(url));
            }
        }
        prop_assert!(expected.is_empty());
        prop_assert_eq!(refreshes, 0);
    }
}
