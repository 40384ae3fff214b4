//! Tests of the running web, over its sockets.

mod change;
mod hostility;
mod outage;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::client::{Client, Response};
use super::robots::Robots;
use super::*;
use url::Url;

fn small() -> Profile {
    Profile {
        hosts: 6,
        pages_per_host: PagesPerHost::Exactly(40),
        ..Profile::raw()
    }
}

fn small_mixed() -> Profile {
    let mut profile = Profile {
        hosts: 8,
        pages_per_host: PagesPerHost::HeavyTail { mean: 60 },
        ..Profile::mixed()
    };
    profile.latency = Latency::Lognormal {
        median_ms: 1.0,
        sigma: 0.5,
    };
    profile.robots.crawl_delay_ms = 0;
    profile
}

async fn connect(web: &SyntheticWeb, host: u32) -> Client {
    Client::connect(web.host_address(host), &web.web.plan.authority(host))
        .await
        .unwrap()
}

/// Waits until the servers know of no open connection.
async fn all_closed(web: &SyntheticWeb) {
    for _ in 0..500 {
        if web.report().open_connections == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("connections stay open");
}

// A crawler as simple as can be. It knows of the web only what any crawler could know.

struct NaiveCrawl {
    clients: BTreeMap<String, Client>,
    rules: BTreeMap<String, Vec<(bool, String)>>,
    seen: BTreeSet<String>,
    queue: VecDeque<Url>,
    found: Truth,
}

impl NaiveCrawl {
    async fn run(web: &SyntheticWeb, seeds: &[String]) -> Truth {
        let mut crawl = Self {
            clients: BTreeMap::new(),
            rules: BTreeMap::new(),
            seen: BTreeSet::new(),
            queue: VecDeque::new(),
            found: Truth::default(),
        };
        for seed in seeds {
            crawl.discover(Url::parse(seed).unwrap());
        }
        while let Some(url) = crawl.queue.pop_front() {
            crawl.visit(web, url).await;
        }
        crawl.found.counted()
    }

    fn discover(&mut self, mut url: Url) {
        url.set_fragment(None);
        if url.scheme() == "http" && self.seen.insert(url.to_string()) {
            self.queue.push_back(url);
        }
    }

    async fn visit(&mut self, web: &SyntheticWeb, url: Url) {
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let authority = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
        if !self.rules.contains_key(&authority) {
            let robots = self.get(web, &authority, "/robots.txt").await;
            let text = if robots.status == 200 {
                String::from_utf8(robots.body).unwrap()
            } else {
                String::new()
            };
            self.rules.insert(authority.clone(), rules_for_all(&text));
        }
        if !is_allowed(&self.rules[&authority], &path) {
            return self.found.disallowed.push(url.to_string());
        }
        let response = self.get(web, &authority, &path).await;
        match response.status {
            200 => {
                for link in links(std::str::from_utf8(&response.body).unwrap()) {
                    self.discover(url.join(&link).unwrap());
                }
                self.found.pages.push(url.to_string());
            }
            301 => {
                self.discover(url.join(response.header("location").unwrap()).unwrap());
                self.found.redirects.push(url.to_string());
            }
            404 => self.found.not_found.push(url.to_string()),
            status => panic!("{url} answered {status}"),
        }
    }

    async fn get(&mut self, web: &SyntheticWeb, authority: &str, path: &str) -> Response {
        let mut client = match self.clients.remove(authority) {
            Some(client) => client,
            None => {
                let name = authority.split(':').next().unwrap();
                let address = resolve(web, name, 1).await.unwrap();
                Client::connect(SocketAddr::new(address.into(), web.port()), authority)
                    .await
                    .unwrap()
            }
        };
        let response = client.get(path).await.unwrap();
        if !response.closes() {
            self.clients.insert(authority.to_owned(), client);
        }
        response
    }
}

async fn resolve(web: &SyntheticWeb, name: &str, kind: u16) -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket
        .send_to(&dns::query(name, kind), web.dns())
        .await
        .unwrap();
    let mut answer = [0; 512];
    let length = tokio::time::timeout(Duration::from_secs(5), socket.recv(&mut answer))
        .await
        .unwrap()
        .unwrap();
    let answers = answer[7];
    let octets: [u8; 4] = answer[length - 4..length].try_into().unwrap();
    (answers > 0).then(|| octets.into())
}

/// (allow, pattern) of the group for `*`.
fn rules_for_all(text: &str) -> Vec<(bool, String)> {
    let mut rules = Vec::new();
    let mut for_us = false;
    for line in text.lines() {
        let line = line.split('#').next().unwrap();
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        match key.trim() {
            "User-agent" => for_us = value.trim() == "*",
            "Allow" if for_us => rules.push((true, value.trim().to_owned())),
            "Disallow" if for_us => rules.push((false, value.trim().to_owned())),
            _ => {}
        }
    }
    rules
}

fn is_allowed(rules: &[(bool, String)], path: &str) -> bool {
    let fits = |pattern: &str| match pattern
        .strip_prefix("/*")
        .and_then(|rest| rest.strip_suffix('$'))
    {
        Some(ending) => path.ends_with(ending),
        None => path.starts_with(pattern),
    };
    let longest = rules
        .iter()
        .filter(|(_, pattern)| fits(pattern))
        .max_by_key(|(_, pattern)| pattern.len());
    longest.is_none_or(|(allow, _)| *allow)
}

fn links(html: &str) -> Vec<String> {
    let mut links = Vec::new();
    for (block, end) in [("<!--", "-->"), ("<script", "</script>")] {
        if let Some(start) = html.find(block) {
            let stop = start + html[start..].find(end).unwrap() + end.len();
            links.extend(self::links(&html[..start]));
            links.extend(self::links(&html[stop..]));
            return links;
        }
    }
    for tag in html
        .split('<')
        .filter(|tag| tag.starts_with("a ") || tag.starts_with("A ") || tag.starts_with("a\n"))
    {
        let Some(at) = tag.to_ascii_lowercase().find("href") else {
            continue;
        };
        let value = tag[at + 4..]
            .trim_start()
            .strip_prefix('=')
            .unwrap()
            .trim_start();
        let quote = value.chars().next().unwrap();
        links.push(
            value[1..]
                .split(quote)
                .next()
                .unwrap()
                .trim()
                .replace("&amp;", "&"),
        );
    }
    links
}

fn sorted(mut truth: Truth) -> Truth {
    for list in [
        &mut truth.pages,
        &mut truth.redirects,
        &mut truth.not_found,
        &mut truth.disallowed,
    ] {
        list.sort();
    }
    truth
}

#[tokio::test]
async fn a_naive_crawl_from_the_first_host_finds_exactly_the_truth() {
    let web = SyntheticWeb::start(small_mixed()).unwrap();
    let found = NaiveCrawl::run(&web, &web.seed_urls()[..1]).await;
    let truth = sorted(web.truth());
    assert_eq!(sorted(found), truth);
    for list in [
        &truth.pages,
        &truth.redirects,
        &truth.not_found,
        &truth.disallowed,
    ] {
        assert!(!list.is_empty(), "every kind of URL occurs");
    }
    let report = web.report();
    assert!(report.ok, "{report:#?}");
    assert_eq!(report.pages.requested, truth.pages.len() as u64);
    assert_eq!(
        (
            report.unexpected.count,
            report.misdirected,
            report.hosts_without_robots_first
        ),
        (0, 0, 0)
    );
    assert_eq!(report.robots_requests, 8);
    assert!(report.connections > 8, "caps force new connections");
}

#[tokio::test]
async fn a_crawl_from_all_hosts_finds_the_same_and_a_reset_forgets_it() {
    let web = SyntheticWeb::start(small()).unwrap();
    let found = NaiveCrawl::run(&web, &web.seed_urls()).await;
    assert_eq!(sorted(found), sorted(web.truth()));
    assert_eq!(web.truth().pages.len(), 240);
    assert!(web.report().ok);
    assert_eq!(web.contacts().len() as u64, web.report().requests);
    web.reset();
    let report = web.report();
    assert_eq!(
        (
            report.requests,
            report.pages.requested,
            report.missing.count
        ),
        (0, 0, 240)
    );
    assert_eq!(report.missing.listed.len(), 20);
    assert!(!report.ok);
}

#[tokio::test]
async fn a_page_is_the_same_on_every_request_and_head_leaves_it_out() {
    let web = SyntheticWeb::start(small()).unwrap();
    let mut client = connect(&web, 2).await;
    let first = client.get("/").await.unwrap();
    assert_eq!(first, client.get("/").await.unwrap());
    assert_eq!(
        first.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let head = format!(
        "HEAD / HTTP/1.1\r\nHOST: {}\r\n\r\n",
        web.web.plan.authority(2)
    );
    client.send(head.as_bytes()).await.unwrap();
    let head = client.receive(false).await.unwrap();
    assert_eq!((head.head, head.body.len()), (first.head, 0));
    assert_eq!(web.report().repeats.count, 1);
}

#[tokio::test]
async fn a_server_closes_after_its_cap_and_on_request() {
    let web = SyntheticWeb::start(Profile {
        request_caps: vec![(1.0, 3)],
        ..small()
    })
    .unwrap();
    let mut client = connect(&web, 0).await;
    for closes in [false, false, true] {
        assert_eq!(client.get("/").await.unwrap().closes(), closes);
    }
    client.wait_for_end().await.unwrap();
    let mut client = connect(&web, 0).await;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nconnection: Close\r\n\r\n",
        web.web.plan.authority(0)
    );
    client.send(request.as_bytes()).await.unwrap();
    assert!(client.receive(true).await.unwrap().closes());
    client.wait_for_end().await.unwrap();
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_order() {
    let web = SyntheticWeb::start(Profile {
        latency: Latency::Fixed { ms: 5 },
        ..small()
    })
    .unwrap();
    let mut client = connect(&web, 1).await;
    let authority = web.web.plan.authority(1);
    let request = |path| format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    client
        .send((request("/") + &request("/nowhere") + &request("/")).as_bytes())
        .await
        .unwrap();
    for status in [200, 404, 200] {
        assert_eq!(client.receive(true).await.unwrap().status, status);
    }
    assert_eq!(
        web.report().unexpected.listed,
        [format!("http://{authority}/nowhere")]
    );
}

#[tokio::test]
async fn a_request_for_a_disallowed_page_is_a_violation() {
    let web = SyntheticWeb::start(small_mixed()).unwrap();
    let url = Url::parse(&web.truth().disallowed[0]).unwrap();
    let host = place::host_of_name(url.host_str().unwrap(), 8).unwrap();
    assert_eq!(
        connect(&web, host)
            .await
            .get(url.path())
            .await
            .unwrap()
            .status,
        200
    );
    let report = web.report();
    assert_eq!(report.violations.robots, 1);
    assert_eq!(report.violations.examples, [format!("disallowed: {url}")]);
    assert_eq!(report.hosts_without_robots_first, 1);
}

#[tokio::test]
async fn a_request_before_the_delay_is_early_and_one_after_is_not() {
    let web = SyntheticWeb::start(Profile {
        delay_expected_ms: 100,
        ..small()
    })
    .unwrap();
    let mut client = connect(&web, 0).await;
    client.get("/robots.txt").await.unwrap();
    connect(&web, 1).await.get("/").await.unwrap();
    tokio::time::sleep(Duration::from_millis(101)).await;
    client.get("/").await.unwrap();
    assert_eq!(web.report().violations.early, 0);
    client.get("/p/1.html").await.unwrap();
    assert_eq!(web.report().violations.early, 1);
    web.expect(0);
    assert_eq!(web.report().violations.early, 0);
}

#[tokio::test]
async fn a_crawl_delay_counts_when_it_is_larger() {
    let mut profile = Profile {
        delay_expected_ms: 1,
        ..small()
    };
    profile.robots = RobotsShares {
        rules: 1.0,
        missing: 0.0,
        disallowed_pages: 0.1,
        crawl_delay: 1.0,
        crawl_delay_ms: 60_000,
    };
    let web = SyntheticWeb::start(profile).unwrap();
    let mut client = connect(&web, 0).await;
    let robots = client.get("/robots.txt").await.unwrap();
    assert!(
        String::from_utf8(robots.body)
            .unwrap()
            .contains("\nCrawl-delay: 60\n")
    );
    tokio::time::sleep(Duration::from_millis(2)).await;
    client.get("/").await.unwrap();
    assert_eq!(web.report().violations.early, 1);
}

#[tokio::test]
async fn a_second_connection_beside_an_open_one_is_a_violation() {
    let web = SyntheticWeb::start(small()).unwrap();
    let mut first = connect(&web, 0).await;
    first.get("/").await.unwrap();
    let mut elsewhere = connect(&web, 1).await;
    elsewhere.get("/").await.unwrap();
    let mut second = connect(&web, 0).await;
    second.get("/").await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(web.report().violations.parallel, 1);
    assert_eq!(web.report().connections, 3);
}

#[tokio::test]
async fn connections_one_after_the_other_are_no_violation() {
    let web = SyntheticWeb::start(Profile {
        latency: Latency::Fixed { ms: 1 },
        ..small()
    })
    .unwrap();
    for round in 0..200 {
        let mut client = connect(&web, 0).await;
        if round % 3 == 0 {
            client.get("/").await.unwrap();
        } else if round % 3 == 1 {
            // The client gives up while the server still thinks.
            let request = format!(
                "GET / HTTP/1.1\r\nHost: {}\r\n\r\n",
                web.web.plan.authority(0)
            );
            client.send(request.as_bytes()).await.unwrap();
        }
        drop(client);
    }
    all_closed(&web).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    let report = web.report();
    assert_eq!((report.violations.parallel, report.connections), (0, 200));
}

#[tokio::test]
async fn a_client_that_gives_up_on_a_slow_answer_may_connect_again() {
    let web = SyntheticWeb::start(Profile {
        latency: Latency::Fixed { ms: 60_000 },
        ..small()
    })
    .unwrap();
    for _ in 0..3 {
        let mut client = connect(&web, 0).await;
        assert!(
            tokio::time::timeout(Duration::from_millis(20), client.get("/"))
                .await
                .is_err()
        );
    }
    all_closed(&web).await;
    assert_eq!(web.report().violations.parallel, 0);
}

#[tokio::test]
async fn names_resolve_to_the_hosts_over_udp() {
    let profile = Profile {
        dns_latency_ms: 10,
        extra_hosts: vec![("elsewhere.test".to_owned(), "127.0.0.7".parse().unwrap())],
        ..small()
    };
    let web = SyntheticWeb::start(profile).unwrap();
    assert_eq!(
        resolve(&web, "h0005.web.test", 1).await,
        Some(Ipv4Addr::new(127, 1, 0, 6))
    );
    assert_eq!(resolve(&web, "h0005.web.test", 28).await, None);
    assert_eq!(resolve(&web, "h0006.web.test", 1).await, None);
    assert_eq!(
        resolve(&web, "elsewhere.test", 1).await,
        Some(Ipv4Addr::new(127, 0, 0, 7))
    );
    assert_eq!(web.report().dns_queries, 4);
}

#[tokio::test]
async fn garbage_on_any_socket_does_no_harm() {
    let web = SyntheticWeb::start(small()).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut dice = dice::Dice::new(9, dice::Purpose::Filler, 0, 0);
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length).map(|_| dice.next() as u8).collect();
        udp.send_to(&bytes, web.dns()).await.unwrap();
        for address in [web.host_address(0), web.control()] {
            let mut client = Client::connect(address, "x").await.unwrap();
            client.send(&bytes).await.unwrap();
            if length % 2 == 0 {
                let _ = client.send(b"\r\n\r\n").await;
            }
        }
    }
    let long_line = vec![b'a'; 64 * 1024];
    let _ = connect(&web, 0).await.send(&long_line).await;
    let mut wrong_host = Client::connect(web.host_address(0), "h0001.web.test")
        .await
        .unwrap();
    assert_eq!(wrong_host.get("/").await.unwrap().status, 421);
    all_closed(&web).await;
    let report = web.report();
    assert!(report.malformed > 0 && report.misdirected == 1);
    assert_eq!(connect(&web, 0).await.get("/").await.unwrap().status, 200);
    assert!(resolve(&web, "h0000.web.test", 1).await.is_some());
}

#[tokio::test]
async fn control_tells_what_the_library_tells() {
    let web = SyntheticWeb::start(small()).unwrap();
    connect(&web, 0).await.get("/").await.unwrap();
    all_closed(&web).await;
    let control = web.control();
    let asked = |method, path| ask(control, method, path);
    let truth: Truth = serde_json::from_str(&asked("GET", "/truth").unwrap()).unwrap();
    assert_eq!(truth, web.truth());
    let report: Report = serde_json::from_str(&asked("GET", "/report").unwrap()).unwrap();
    assert_eq!(report, web.report());
    assert_eq!(report.requests, 1);
    asked("POST", "/reset").unwrap();
    assert_eq!(web.report().requests, 0);
    assert!(asked("GET", "/healthz").is_ok() && asked("GET", "/reset").is_err());
}

#[test]
fn a_web_ends_when_dropped_and_its_port_can_be_used_again() {
    let first = SyntheticWeb::start(small()).unwrap();
    let port = first.port();
    assert!(SyntheticWeb::start(Profile { port, ..small() }).is_err());
    drop(first);
    let second = SyntheticWeb::start(Profile { port, ..small() }).unwrap();
    assert_eq!(second.port(), port);
}

#[tokio::test]
async fn many_hosts_and_thousands_of_connections_are_served() {
    let web = SyntheticWeb::start(Profile {
        hosts: 500,
        pages_per_host: PagesPerHost::Exactly(3),
        ..small()
    })
    .unwrap();
    let mut clients = Vec::new();
    for number in 0..2_000 {
        clients.push(connect(&web, number % 500).await);
    }
    for client in &mut clients {
        assert_eq!(client.get("/").await.unwrap().status, 200);
    }
    assert_eq!(web.report().open_connections, 2_000);
}

#[tokio::test]
async fn one_core_serves_many_times_what_a_crawler_fetches() {
    let web = SyntheticWeb::start(Profile::raw()).unwrap();
    let load = measure(&web, 64, Duration::from_secs(1)).await.unwrap();
    println!("{load:?}");
    let least = if cfg!(debug_assertions) {
        2_000.0
    } else {
        20_000.0
    };
    assert!(load.pages_per_core_s > least, "{load:?}");
}

#[tokio::test]
async fn a_page_is_not_sent_again_to_who_has_it() {
    let web = SyntheticWeb::start(Profile {
        validators: true,
        ..small()
    })
    .unwrap();
    let mut client = connect(&web, 0).await;
    let page = client.get("/").await.unwrap();
    let etag = page.header("etag").unwrap();
    let date = page.header("last-modified").unwrap();
    for (fields, status) in [
        (format!("If-None-Match: {etag}"), 304),
        (format!("If-None-Match: \"x\", W/{etag}"), 304),
        (format!("If-Modified-Since: {date}"), 304),
        (
            format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {date}"),
            200,
        ),
        (
            "If-Modified-Since: Tue, 01 Sep 2015 12:00:00 GMT".to_owned(),
            200,
        ),
    ] {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {}\r\n{fields}\r\n\r\n",
            web.web.plan.authority(0)
        );
        client.send(request.as_bytes()).await.unwrap();
        let answer = client.receive(true).await.unwrap();
        assert_eq!(
            (answer.status, answer.header("etag")),
            (status, Some(etag)),
            "{fields}"
        );
    }
    let without = SyntheticWeb::start(small()).unwrap();
    assert_eq!(
        connect(&without, 0)
            .await
            .get("/")
            .await
            .unwrap()
            .header("etag"),
        None
    );
}
