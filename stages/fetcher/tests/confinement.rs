//! Nothing but the job's server at the job's addresses is contacted (P7), and what it sends is
//! passed on as is.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use common::server::{Server, ok};
use common::{failure, fetch, http_settings, is_response, job, job_for, run, run_with, settings};
use fetcher::effect::{Answer, End};
use flate2::Compression;
use flate2::write::GzEncoder;
use rhumb_url::address::Reach;
use rhumb_wire::message::{FailureKind, JobKind, RequestEnd, ResponseSummary, Validators};
use std::io::Write as _;
use std::net::IpAddr;

#[tokio::test]
async fn a_name_is_looked_up_in_the_job_alone() {
    let server = Server::answering(ok(b"page")).await;
    let name = format!("http://crawl.invalid:{}", server.address.port());
    let driver = run(job(&name, 2)).await;
    assert_eq!(driver.pages.len(), 2);
    assert_eq!(driver.pages[0].address, Some(IpAddr::from([127, 0, 0, 1])));
    let head = &server.requests()[0];
    assert!(head.starts_with("GET /0 HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains(&format!(
            "host: crawl.invalid:{}\r\n",
            server.address.port()
        )),
        "{head}"
    );
    assert!(
        head.contains("user-agent: test-agent/1 (mail@example.org)\r\n"),
        "{head}"
    );
    assert!(
        head.contains("accept-encoding: gzip, deflate, br, zstd\r\n"),
        "{head}"
    );
    assert!(
        !head.contains("referer") && !head.contains("cookie"),
        "{head}"
    );
}

#[tokio::test]
async fn a_url_of_another_server_in_a_job_is_forbidden_and_not_contacted() {
    let server = Server::answering(ok(b"page")).await;
    let other = Server::answering(ok(b"secret")).await;
    let name = server.name();
    let urls = [
        format!("{name}/a"),
        format!("{}/b", other.name()),
        format!("https://{}/c", server.address),
        format!("http://user@{}/d", server.address),
        format!("{name}/e"),
    ];
    let driver = run(job_for(&name, &urls)).await;
    let ends = driver.ends();
    assert!(is_response(&ends[0]) && is_response(&ends[4]));
    assert!(
        ends[1..4]
            .iter()
            .all(|end| *end == failure(FailureKind::Forbidden)),
        "{ends:?}"
    );
    assert_eq!((server.accepted(), other.accepted()), (1, 0));
}

#[tokio::test]
async fn a_url_that_the_client_would_read_differently_is_forbidden() {
    // By its letters on the job's server; what a client makes of it is another.
    let other = Server::answering(ok(b"secret")).await;
    let driver = common::Driver::new(settings(), http_settings());
    let server = "http://crawl.invalid";
    for (index, url) in [
        format!("{server}@{}/", other.address),
        format!("{server}:@{}/", other.address),
        format!("http:\\\\{}/", other.address),
        "no url".to_owned(),
        "file:///etc/passwd".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = driver
            .http
            .perform(fetch(index as u64, 0, server, &url))
            .await;
        let Answer::Response {
            end: End::Failure(kind),
            ..
        } = answer
        else {
            panic!("{answer:?}")
        };
        assert_eq!(kind, FailureKind::Forbidden, "{url}");
    }
    assert_eq!(other.accepted(), 0);
}

#[tokio::test]
async fn an_address_literal_that_is_not_among_the_addresses_is_forbidden() {
    let server = Server::answering(ok(b"page")).await;
    let mut rebound = job(&server.name(), 2);
    rebound.addresses = vec![IpAddr::from([192, 0, 2, 1])];
    let driver = run(rebound.clone()).await;
    assert!(
        driver
            .ends()
            .iter()
            .all(|end| *end == failure(FailureKind::Forbidden))
    );
    // The shell holds by itself.
    let Answer::Response { end, .. } = driver
        .http
        .perform(fetcher::effect::Effect::Request(fetcher::effect::Request {
            job: rebound.id,
            index: 0,
            url: rebound.requests[0].url.clone(),
            target: std::sync::Arc::new(fetcher::effect::Target {
                server: rebound.server.clone(),
                addresses: rebound.addresses.clone(),
            }),
            lease_left: std::time::Duration::from_secs(1),
            validators: Validators::default(),
            is_page: true,
            body_bytes_max: 1000,
            head_timeout: None,
            http11: false,
        }))
        .await
    else {
        panic!("no response")
    };
    assert!(matches!(end, End::Failure(FailureKind::Forbidden)));
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn private_addresses_are_not_contacted_unless_allowed() {
    let server = Server::answering(ok(b"page")).await;
    let mut strict = settings();
    strict.reach = Reach::new(false);
    let name = format!("http://crawl.invalid:{}", server.address.port());
    let driver = run_with(job(&name, 2), strict, http_settings()).await;
    assert!(
        driver
            .ends()
            .iter()
            .all(|end| *end == failure(FailureKind::Forbidden))
    );
    assert_eq!(server.accepted(), 0);
    assert_eq!(driver.count("failures_forbidden_total"), 2);
}

#[tokio::test]
async fn addresses_of_one_family_alone_are_tried() {
    let port_holder = Server::answering(ok(b"six")).await;
    let port = port_holder.address.port();
    let Ok(probe) = std::net::TcpListener::bind(("::1", port)) else {
        // A machine without IPv6 has one family only.
        return;
    };
    drop(probe);
    let six = Server::start_at(&format!("[::1]:{port}"), |mut peer| async move {
        peer.hang().await
    })
    .await;
    let mut both = job(&format!("http://crawl.invalid:{port}"), 1);
    both.addresses = vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
    let driver = run(both).await;
    assert_eq!(driver.pages.len(), 1);
    assert_eq!((port_holder.accepted(), six.accepted()), (1, 0));
}

#[tokio::test]
async fn the_next_address_is_tried_when_the_first_refuses() {
    let server = Server::answering(ok(b"page")).await;
    let mut two = job(
        &format!("http://crawl.invalid:{}", server.address.port()),
        2,
    );
    two.addresses = vec!["127.0.0.9".parse().unwrap(), "127.0.0.1".parse().unwrap()];
    let driver = run(two).await;
    assert_eq!(driver.pages.len(), 2);
    assert_eq!(driver.pages[0].address, Some(IpAddr::from([127, 0, 0, 1])));
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_redirect_is_a_page_and_is_not_followed() {
    let server = Server::answering(
        b"HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n".to_vec(),
    )
    .await;
    let driver = run(job(&server.name(), 2)).await;
    assert_eq!(server.n_requests(), 2);
    assert_eq!(driver.pages[0].status, 301);
    assert!(
        driver.pages[0]
            .headers
            .contains(&("location".into(), b"/elsewhere".to_vec()))
    );
}

#[tokio::test]
async fn a_body_and_its_headers_are_passed_on_as_sent() {
    let gzip = [
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 7, 0,
    ];
    let mut response = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/html\r\n\
         Retry-After: 7\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: {}\r\n\r\n",
        gzip.len()
    )
    .into_bytes();
    response.extend_from_slice(&gzip);
    let server = Server::answering(response).await;
    let driver = run(job(&server.name(), 2)).await;
    let page = &driver.pages[0];
    assert_eq!(page.body, gzip);
    assert!(
        page.headers
            .contains(&("content-encoding".into(), b"gzip".to_vec()))
    );
    assert!(
        page.headers
            .contains(&("content-length".into(), b"17".to_vec()))
    );
    assert_eq!(
        page.headers
            .iter()
            .filter(|(name, _)| name == "set-cookie")
            .count(),
        2
    );
    assert!(!server.requests()[1].contains("cookie"));
    assert_eq!(
        (page.url.as_str(), page.origin.topic.as_str()),
        (format!("{}/0", server.name()).as_str(), "t")
    );
    assert!(matches!(
        driver.ends()[0],
        RequestEnd::Response(ResponseSummary {
            retry_after_s: Some(7),
            bytes: 17,
            ..
        })
    ));
}

#[tokio::test]
async fn a_robots_txt_goes_back_in_the_report_cut_to_500_kib() {
    let server = Server::answering(ok(&vec![b'#'; 600 << 10])).await;
    let mut robots = job_for(&server.name(), &[format!("{}/robots.txt", server.name())]);
    robots.kind = JobKind::Robots;
    let driver = run(robots).await;
    assert!(driver.pages.is_empty());
    let report = driver.last_report();
    let found = report.robots.as_ref().unwrap();
    assert_eq!((found.status, found.body.len()), (200, 512_000));
    assert!(is_response(&report.results[0].end));
}

/// What is missing of rules would count as allowed.
#[tokio::test]
async fn a_robots_txt_comes_without_its_coding_and_whole_or_not_at_all() {
    const RULES: &[u8] = b"User-agent: *\nDisallow: /a\nDisallow: /b\n";
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(RULES).unwrap();
    let gzip = gzip.finish().unwrap();
    let answer = |status: &str, fields: &str, announced: usize, body: &[u8]| {
        let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {announced}\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    const CODED: &str = "Content-Encoding: gzip\r\n";
    for (response, expected) in [
        (answer("200 OK", "", RULES.len(), RULES), Ok((200, RULES))),
        (answer("200 OK", CODED, gzip.len(), &gzip), Ok((200, RULES))),
        (
            answer("200 OK", "", RULES.len(), &RULES[..30]),
            Err(FailureKind::Reset),
        ),
        (
            answer("200 OK", CODED, gzip.len(), &gzip[..30]),
            Err(FailureKind::Reset),
        ),
        (
            answer("200 OK", CODED, 30, &gzip[..30]),
            Err(FailureKind::Protocol),
        ),
        // Text was never packed, whatever its server says.
        (
            answer("200 OK", CODED, RULES.len(), RULES),
            Ok((200, RULES)),
        ),
        (answer("404 Not Found", "", 100, b"no"), Ok((404, b"no"))),
    ] {
        let shown = String::from_utf8_lossy(&response).into_owned();
        let server = Server::once(response).await;
        let mut robots = job_for(&server.name(), &[format!("{}/robots.txt", server.name())]);
        robots.kind = JobKind::Robots;
        let driver = run(robots).await;
        let found = driver.last_report().robots.clone();
        match expected {
            Ok((status, body)) => {
                let found = found.unwrap_or_else(|| panic!("{shown}"));
                assert_eq!(
                    (found.status, found.body.as_slice()),
                    (status, body),
                    "{shown}"
                );
            }
            Err(kind) => assert_eq!(
                (found, driver.ends()),
                (None, vec![failure(kind)]),
                "{shown}"
            ),
        }
        let head = &server.requests()[0];
        assert!(
            head.contains("accept-encoding: identity\r\n") && !head.contains("gzip"),
            "{head}"
        );
    }
}

#[tokio::test]
async fn a_redirected_robots_txt_names_its_target() {
    let server = Server::answering(
        b"HTTP/1.1 302 Found\r\nLocation: http://example.org/robots.txt\r\nContent-Length: 0\r\n\r\n".to_vec(),
    )
    .await;
    let mut robots = job_for(&server.name(), &[format!("{}/robots.txt", server.name())]);
    robots.kind = JobKind::Robots;
    let driver = run(robots).await;
    let found = driver.last_report().robots.clone().unwrap();
    assert_eq!(
        found.location.as_deref(),
        Some("http://example.org/robots.txt")
    );
}

/// Runs itself again with proxies in the environment.
#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    const INSIDE: &str = "FETCHER_TEST_BEHIND_PROXY";
    if std::env::var_os(INSIDE).is_none() {
        let proxy = "http://127.0.0.1:1";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again
            .args(["--exact", "proxies_of_the_environment_are_ignored"])
            .env(INSIDE, "1");
        for name in [
            "http_proxy",
            "HTTP_PROXY",
            "https_proxy",
            "HTTPS_PROXY",
            "all_proxy",
            "ALL_PROXY",
        ] {
            again.env(name, proxy);
        }
        let output = again
            .env_remove("no_proxy")
            .env_remove("NO_PROXY")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        return;
    }
    let server = Server::answering(ok(b"page")).await;
    let name = format!("http://crawl.invalid:{}", server.address.port());
    let driver = run(job(&name, 1)).await;
    assert_eq!(driver.pages.len(), 1);
    assert!(server.requests()[0].starts_with("GET /0 "));
}
