//! What requests say and what is done with the head of a response: conditions, configured headers,
//! cookies, proxies, media types that are not wanted, and how slowly a response may come.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use common::server::{Peer, Server, ok};
use common::{Driver, failure, fetch, http_settings, is_response, job, run, run_with, settings};
use fetcher::effect::{Answer, End};
use fetcher::http::{HttpSettings, Rate};
use rhumb_config::{Layers, Proxy};
use rhumb_wire::message::{
    FailureKind, Job, JobKind, RequestEnd, ResponseSummary, Truncation, Validators,
};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The values of a header in a request.
fn values<'a>(request: &'a str, name: &str) -> Vec<&'a str> {
    let lines = request.lines().filter_map(|line| line.split_once(": "));
    lines
        .filter(|(other, _)| other.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}

#[tokio::test]
async fn a_page_that_has_not_changed_is_not_sent_again() {
    let server = Server::start(|mut peer| async move {
        while let Some(request) = peer.request().await {
            let response = match values(&request, "if-none-match")[..] {
                ["\"v1\""] => b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n".to_vec(),
                _ => ok(b"page"),
            };
            peer.send(response).await;
        }
    })
    .await;
    let mut known = job(&server.name(), 3);
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    known.requests[0].validators = Validators {
        etag: "\"v1\"".into(),
        last_modified: date.into(),
    };
    known.requests[1].validators = Validators {
        etag: "\"v0\"".into(),
        last_modified: String::new(),
    };
    let driver = run(known).await;
    let statuses: Vec<_> = driver
        .pages
        .iter()
        .map(|page| (page.status, page.body.len()))
        .collect();
    assert_eq!(statuses, [(304, 0), (200, 4), (200, 4)]);
    assert!(driver.ends().iter().all(is_response));
    assert_eq!(server.accepted(), 1);
    let requests = server.requests();
    assert_eq!(values(&requests[0], "if-modified-since"), [date]);
    assert!(values(&requests[1], "if-modified-since").is_empty());
    assert!(values(&requests[2], "if-none-match").is_empty());
    // What was sent is known of each page.
    let sent = |page: usize, name: &str| {
        driver.pages[page]
            .request_headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.clone())
    };
    assert_eq!(sent(0, "if-none-match"), Some(b"\"v1\"".to_vec()));
    assert_eq!(sent(2, "if-none-match"), None);
    // A validator that cannot be sent is left out.
    let mut odd = job(&server.name(), 1);
    odd.requests[0].validators = Validators {
        etag: "a\nb".into(),
        last_modified: String::new(),
    };
    assert_eq!(run(odd).await.pages[0].status, 200);
}

#[tokio::test]
async fn configured_headers_go_with_every_request() {
    let server = Server::answering(ok(b"page")).await;
    let headers = vec![
        ("Accept-Language".into(), "de".into()),
        ("accept".into(), "text/*".into()),
    ];
    let driver = run_with(
        job(&server.name(), 2),
        settings(),
        HttpSettings {
            headers,
            ..http_settings()
        },
    )
    .await;
    for request in server.requests() {
        assert_eq!(values(&request, "accept-language"), ["de"]);
        assert_eq!(values(&request, "accept"), ["text/*"]);
        assert_eq!(values(&request, "user-agent").len(), 1);
    }
    assert!(
        driver.pages[0]
            .request_headers
            .contains(&("accept-language".into(), b"de".to_vec()))
    );
}

#[tokio::test]
async fn cookies_go_back_on_the_connection_that_set_them_and_only_when_they_are_wanted() {
    for cookies in [false, true] {
        let server = Server::start(|mut peer| async move {
            while peer.request().await.is_some() {
                peer.send(
                    "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nContent-Length: 1\r\n\r\nx",
                )
                .await;
            }
        })
        .await;
        let limits = HttpSettings {
            cookies,
            ..http_settings()
        };
        let mut driver = Driver::new(settings(), limits);
        driver.grant(job(&server.name(), 2));
        driver.run().await;
        driver.grant(job(&server.name(), 1));
        driver.run().await;
        let sent: Vec<_> = server
            .requests()
            .iter()
            .map(|request| values(request, "cookie").join(";"))
            .collect();
        assert_eq!(
            sent,
            if cookies {
                ["", "a=1", ""]
            } else {
                ["", "", ""]
            }
        );
        let kept = driver.pages[1]
            .request_headers
            .contains(&("cookie".into(), b"a=1".to_vec()));
        assert_eq!(kept, cookies);
    }
}

#[tokio::test]
async fn a_page_behind_a_cookie_wall_comes_over_the_same_connection() {
    // Method: a server that redirects whoever has no cookie to the same URL, under names of it, and
    // what only looks like it.
    let walls = async |location: String, cookie: &'static str, cookies: bool| {
        let server = Server::start(move |mut peer| {
            let location = location.clone();
            async move {
                while let Some(request) = peer.request().await {
                    let response = match values(&request, "cookie")[..] {
                        ["seen=1"] => ok(b"page"),
                        _ => format!(
                            "HTTP/1.1 302 Found\r\n{cookie}Location: {location}\r\nContent-Length: \
                             0\r\n\r\n"
                        )
                        .into_bytes(),
                    };
                    peer.send(response).await;
                }
            }
        })
        .await;
        let limits = HttpSettings {
            cookies,
            ..http_settings()
        };
        let driver = run_with(job(&server.name(), 1), settings(), limits).await;
        assert_eq!(
            (driver.pages.len(), driver.ends().len(), server.accepted()),
            (1, 1, 1)
        );
        (driver.pages[0].status, server.n_requests())
    };
    let sets = "Set-Cookie: seen=1\r\n";
    for location in ["/0", "0", "", "#f", "/x/../0", "?"] {
        let (status, requests) = walls(location.to_owned(), sets, true).await;
        let leads_back = !matches!(location, "" | "?");
        assert_eq!(
            (status, requests),
            if leads_back { (200, 2) } else { (302, 1) },
            "{location:?}"
        );
    }
    assert_eq!(
        walls("/0".to_owned(), sets, false).await,
        (302, 1),
        "cookies are not wanted"
    );
    assert_eq!(
        walls("/0".to_owned(), "", true).await,
        (302, 1),
        "no cookie"
    );
    assert_eq!(
        walls("/1".to_owned(), sets, true).await,
        (302, 1),
        "another URL"
    );
    // A loop ends.
    assert_eq!(
        walls("/0".to_owned(), "Set-Cookie: seen=0\r\n", true).await,
        (302, 2)
    );
    // A cookie that does not go with the next request.
    assert_eq!(
        walls(
            "/0".to_owned(),
            "Set-Cookie: seen=1; Path=/elsewhere\r\n",
            true
        )
        .await,
        (302, 1)
    );
}

/// What a request says but Host, in order.
fn fields(request: &str) -> Vec<(String, Vec<u8>)> {
    let lines = request.lines().filter_map(|line| line.split_once(": "));
    let fields = lines.map(|(name, value)| (name.to_lowercase(), value.as_bytes().to_vec()));
    let mut fields: Vec<_> = fields.filter(|(name, _)| name != "host").collect();
    fields.sort();
    fields
}

/// Goal: an archive has requests as they were sent, each header once. Method: the server's own
/// record is compared, with all that changes headers: robots.txt, conditions, cookies of the server
/// and of the operator, further headers.
#[tokio::test]
async fn what_is_kept_of_a_request_is_what_was_sent() {
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for (kind, headers) in [
        (JobKind::Robots, vec![]),
        (JobKind::Robots, vec![own("accept", "text/*")]),
        (JobKind::Pages, vec![]),
        (
            JobKind::Pages,
            vec![own("accept-language", "de"), own("x-y", "1")],
        ),
        (JobKind::Pages, vec![own("Cookie", "operator=1")]),
    ] {
        let server = Server::start(|mut peer| async move {
            while peer.request().await.is_some() {
                peer.send(
                    "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nContent-Length: 1\r\n\r\nx",
                )
                .await;
            }
        })
        .await;
        let mut asked = Job {
            kind,
            ..job(&server.name(), 3)
        };
        asked.requests[1].validators = Validators {
            etag: "\"v\"".into(),
            last_modified: "yesterday".into(),
        };
        let limits = HttpSettings {
            cookies: true,
            headers,
            ..http_settings()
        };
        let mut keeping = settings();
        keeping.keeps_robots = true;
        let driver = run_with(asked, keeping, limits).await;
        let kept = driver.pages.iter().map(|page| {
            let mut kept = page.request_headers.clone();
            kept.sort();
            kept
        });
        let sent: Vec<_> = server
            .requests()
            .iter()
            .map(|request| fields(request))
            .collect();
        assert_eq!(
            (sent.len(), kept.collect::<Vec<_>>()),
            (3, sent),
            "{kind:?}"
        );
    }
}

fn through(proxy: &str) -> HttpSettings {
    let set = vec![
        format!("network.proxy={proxy}"),
        "network.allow_private_addresses=true".into(),
    ];
    let proxy: Proxy = Layers { file: None, set }
        .load_with(std::iter::empty())
        .unwrap()
        .network
        .proxy;
    HttpSettings {
        proxy,
        ..http_settings()
    }
}

/// A job whose server can be reached through nobody but a proxy.
fn job_of_a_name(paths: usize) -> Job {
    Job {
        addresses: vec![Ipv4Addr::new(192, 0, 2, 7).into()],
        ..job("http://crawl.invalid:8080", paths)
    }
}

#[tokio::test]
async fn an_http_proxy_is_asked_for_everything_over_one_connection() {
    let proxy = Server::answering(ok(b"page")).await;
    let address = format!("http://crawler:secret@{}", proxy.address);
    let driver = run_with(job_of_a_name(3), settings(), through(&address)).await;
    assert_eq!(driver.pages.len(), 3, "{:?}", driver.ends());
    assert_eq!(proxy.accepted(), 1);
    for request in proxy.requests() {
        assert!(
            request.starts_with("GET http://crawl.invalid:8080/"),
            "{request}"
        );
        assert_eq!(
            values(&request, "proxy-authorization"),
            ["Basic Y3Jhd2xlcjpzZWNyZXQ="]
        );
    }
    assert_eq!(
        driver.pages[0].address, None,
        "who answered the proxy, nobody knows"
    );
    assert!(driver.pages.iter().all(|page| {
        page.request_headers
            .iter()
            .all(|(name, _)| !name.starts_with("proxy"))
    }));
}

#[tokio::test]
async fn a_proxy_does_not_widen_what_a_job_may_contact() {
    let proxy = Server::answering(ok(b"page")).await;
    let mut literal = job("http://192.0.2.9", 1);
    literal.addresses = vec![Ipv4Addr::new(192, 0, 2, 7).into()];
    let driver = run_with(
        literal,
        settings(),
        through(&format!("http://{}", proxy.address)),
    )
    .await;
    assert_eq!(driver.ends(), [failure(FailureKind::Forbidden)]);
    assert_eq!(proxy.accepted(), 0);
}

/// Takes part in the SOCKS 5 handshake (RFC 1928, and 1929 when the client has a password) and
/// gives the address that is asked for, as it stands in the request.
async fn socks(peer: &mut Peer) -> Vec<u8> {
    let stream = &mut peer.stream;
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await.unwrap();
    let mut methods = vec![0; greeting[1].into()];
    stream.read_exact(&mut methods).await.unwrap();
    let method = if methods.contains(&2) { 2 } else { 0 };
    stream.write_all(&[5, method]).await.unwrap();
    if method == 2 {
        for _ in 0..2 {
            let mut head = [0; 2];
            stream.read_exact(&mut head[..1]).await.unwrap();
            if head[0] == 1 {
                stream.read_exact(&mut head[1..]).await.unwrap();
            }
            let length = if head[0] == 1 { head[1] } else { head[0] };
            let mut text = vec![0; length.into()];
            stream.read_exact(&mut text).await.unwrap();
        }
        stream.write_all(&[1, 0]).await.unwrap();
    }
    let mut head = [0; 4];
    stream.read_exact(&mut head).await.unwrap();
    let mut target = match head[3] {
        1 => vec![0; 4],
        3 => {
            let mut length = [0];
            stream.read_exact(&mut length).await.unwrap();
            vec![0; length[0].into()]
        }
        other => panic!("{other}"),
    };
    stream.read_exact(&mut target).await.unwrap();
    let mut port = [0; 2];
    stream.read_exact(&mut port).await.unwrap();
    assert_eq!(u16::from_be_bytes(port), 8080);
    stream
        .write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        .await
        .unwrap();
    target
}

#[tokio::test]
async fn a_socks_proxy_is_told_the_address_unless_it_is_to_look_for_it() {
    for (scheme, target) in [
        ("socks5", [192, 0, 2, 7].to_vec()),
        ("socks5h", b"crawl.invalid".to_vec()),
        ("socks5", vec![192, 0, 2, 7]),
    ] {
        let (tell, told) = std::sync::mpsc::channel();
        let proxy = Server::start(move |mut peer| {
            let tell = tell.clone();
            async move {
                tell.send(socks(&mut peer).await).unwrap();
                while peer.request().await.is_some() {
                    peer.send(ok(b"page")).await;
                }
            }
        })
        .await;
        let address = format!("{scheme}://crawler:secret@{}", proxy.address);
        let driver = run_with(job_of_a_name(2), settings(), through(&address)).await;
        assert_eq!(driver.pages.len(), 2, "{:?}", driver.ends());
        assert_eq!(
            (proxy.accepted(), told.try_iter().collect::<Vec<_>>()),
            (1, vec![target])
        );
    }
}

#[tokio::test]
async fn bodies_of_unwanted_media_types_are_not_read() {
    let of_type = |media_type: &str, body: &[u8]| {
        let mut response = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        response.extend_from_slice(body);
        response
    };
    let responses = [
        of_type("Image/PNG", &[b'i'; 1000]),
        of_type("text/html", b"page"),
        of_type("application/zip; x=y", &[b'z'; 200_000]),
    ];
    let server = Server::start(move |mut peer| {
        let responses = responses.clone();
        async move {
            for response in responses {
                peer.request().await;
                peer.send(response).await;
            }
            peer.hang().await;
        }
    })
    .await;
    let skip_types = vec!["image/*".into(), "application/zip".into()];
    let limits = HttpSettings {
        skip_types,
        ..http_settings()
    };
    let driver = run_with(job(&server.name(), 4), settings(), limits.clone()).await;
    let pages: Vec<_> = driver
        .pages
        .iter()
        .map(|page| (page.status, page.body.len(), page.truncated.is_some()))
        .collect();
    assert_eq!(pages, [(200, 0, true), (200, 4, false), (200, 0, true)]);
    let ends = driver.ends();
    assert!(
        matches!(
            ends[0],
            RequestEnd::Response(ResponseSummary {
                bytes: 0,
                truncated: true,
                ..
            })
        ),
        "{ends:?}"
    );
    // The small one was read and thrown away; the large one cost the connection, which its server
    // did not close.
    assert_eq!((server.accepted(), &ends[3]), (1, &RequestEnd::Untried));
    assert!(!driver.last_report().closed_by_server);

    // Whatever a robots.txt says of its type, it is read.
    let odd = Server::answering(of_type("image/png", b"User-agent: *")).await;
    let mut robots = job(&odd.name(), 1);
    robots.kind = JobKind::Robots;
    let driver = run_with(robots, settings(), limits).await;
    assert_eq!(
        driver.last_report().robots.as_ref().unwrap().body,
        b"User-agent: *"
    );
}

/// Answers with a head, some bytes at once, and then as many every ten milliseconds, without end.
async fn dripping(at_once: usize, drip: usize) -> Server {
    Server::start(move |mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            .await;
        peer.send(vec![b'x'; at_once]).await;
        while peer.send(vec![b'x'; drip]).await.is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

fn at_rate(bytes_min: u64) -> HttpSettings {
    let transfer_rate = Rate {
        bytes_min,
        window: Duration::from_millis(200),
    };
    HttpSettings {
        transfer_rate,
        ..http_settings()
    }
}

#[tokio::test]
async fn a_body_that_drips_is_too_slow() {
    let server = dripping(1, 1).await;
    let begun = Instant::now();
    let driver = run_with(job(&server.name(), 2), settings(), at_rate(10_000)).await;
    assert_eq!(
        driver.ends(),
        [failure(FailureKind::Slow), RequestEnd::Untried]
    );
    assert!(driver.pages.is_empty());
    assert!(
        (200..1500).contains(&begun.elapsed().as_millis()),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn what_came_fast_of_a_body_that_stalls_is_kept_and_marked() {
    // 50 kB at once, then 100 bytes a second.
    let server = dripping(50_000, 1).await;
    let driver = run_with(job(&server.name(), 2), settings(), at_rate(10_000)).await;
    assert_eq!(driver.pages[0].truncated, Some(Truncation::Time));
    assert!(driver.pages[0].body.len() >= 50_000);
    assert_eq!(driver.ends()[1], RequestEnd::Untried);
    assert!(!driver.last_report().closed_by_server);
    // And so when the time for the request is over.
    let limits = HttpSettings {
        request_timeout: Duration::from_millis(400),
        ..at_rate(0)
    };
    let driver = run_with(job(&server.name(), 1), settings(), limits).await;
    assert!(
        driver.pages[0].truncated == Some(Truncation::Time) && driver.pages[0].body.len() >= 50_000
    );
}

#[tokio::test]
async fn a_body_that_keeps_its_rate_is_whole_however_long_it_takes() {
    let server = Server::start(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 8000\r\n\r\n")
            .await;
        for _ in 0..80 {
            peer.send([b'x'; 100]).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        peer.hang().await;
    })
    .await;
    let driver = run_with(job(&server.name(), 1), settings(), at_rate(1000)).await;
    assert_eq!(driver.pages[0].truncated, None);
    assert_eq!(driver.pages[0].body.len(), 8000);
}

#[tokio::test]
async fn the_head_has_less_time_than_the_whole_response() {
    let silent = Server::start(|mut peer| async move { peer.hang().await }).await;
    let limits = HttpSettings {
        first_byte_timeout: Duration::from_millis(200),
        ..http_settings()
    };
    let begun = Instant::now();
    let driver = run_with(job(&silent.name(), 1), settings(), limits.clone()).await;
    assert_eq!(driver.ends(), [failure(FailureKind::Timeout)]);
    assert!(
        (200..1500).contains(&begun.elapsed().as_millis()),
        "{:?}",
        begun.elapsed()
    );
    // A body may take longer than the head.
    let server = Server::start(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npa")
            .await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        peer.send("ge").await;
        peer.hang().await;
    })
    .await;
    let driver = run_with(job(&server.name(), 1), settings(), limits).await;
    assert_eq!(driver.pages[0].body, b"page");
}

/// Goal: bodies of all requests together take no more room than they may, and one body. Method: a
/// server sends three bodies, and there is room for one and a half. One comes, since one may go
/// beyond, and another one if it is quick. The others come when pages are stored and give their
/// room back.
#[tokio::test]
async fn a_body_without_room_waits_until_a_page_is_stored_and_its_server_is_not_called_slow() {
    const BODY_BYTES: usize = 400_000;
    let server = Server::answering(ok(&[b'x'; BODY_BYTES])).await;
    let rate = Rate {
        bytes_min: 1 << 20,
        window: Duration::from_millis(300),
    };
    let narrow = HttpSettings {
        bytes_in_hand_max: BODY_BYTES * 3 / 2,
        transfer_rate: rate,
        ..http_settings()
    };
    let Driver { http, .. } = Driver::new(settings(), narrow);
    let mut answers = tokio::task::JoinSet::new();
    for number in 0..3 {
        answers.spawn(http.perform(fetch(
            number,
            0,
            &server.name(),
            &format!("{}/{number}", server.name()),
        )));
    }
    let mut pages = Vec::new();
    while let Ok(Some(answer)) =
        tokio::time::timeout(Duration::from_secs(1), answers.join_next()).await
    {
        pages.push(answer.unwrap());
    }
    assert!(
        (1..=2).contains(&pages.len()),
        "there is no room for three: {}",
        pages.len()
    );
    // By now the others have waited for longer than their server could take for so little.
    let mut whole = 0;
    while let Some(answer) = pages.pop() {
        let Answer::Response {
            end: End::Response(response),
            ..
        } = answer
        else {
            panic!("no response")
        };
        assert_eq!(
            (response.body.len(), response.truncated),
            (BODY_BYTES, None)
        );
        whole += 1;
        drop(response);
        if let Some(answer) = answers.join_next().await {
            pages.push(answer.unwrap());
        }
    }
    assert_eq!(whole, 3);
}
