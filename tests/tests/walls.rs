//! Walls: each vendor's challenge ends its URL refused and leads nowhere; look-alikes are pages like
//! any other; a wall in the place of a robots.txt puts the rules out of reach. Through real
//! processes, on the sites of a test.

use rhumb_tests::harness::{Answer, Site, World, assert_conserved, json};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use synthetic_web::{PagesPerHost, Profile};

const AT_MOST: Duration = Duration::from_secs(60);

/// What a challenge is made of: path, status, header, body, vendor.
type Wall = (&'static str, u16, &'static str, &'static str, &'static str);

const WALLS: &[Wall] = &[
    (
        "/cloudflare",
        403,
        "CF-Mitigated: challenge",
        "",
        "cloudflare",
    ),
    (
        "/cloudflare-200",
        200,
        "cf-mitigated: challenge",
        "",
        "cloudflare",
    ),
    (
        "/cloudflare-429",
        429,
        "cf-mitigated: challenge",
        "",
        "cloudflare",
    ),
    ("/aws", 202, "x-amzn-waf-action: challenge", "", "aws-waf"),
    (
        "/aws-captcha",
        405,
        "x-amzn-waf-action: captcha",
        "",
        "aws-waf",
    ),
    (
        "/vercel",
        429,
        "x-vercel-mitigated: challenge",
        "",
        "vercel",
    ),
    (
        "/datadome",
        403,
        "X-DataDome: protected",
        "<p id=\"cmsg\">Please enable JS</p>\
         <script>var dd={'rt':'c','host':'geo.captcha-delivery.com'}</script>",
        "datadome",
    ),
    (
        "/imperva",
        200,
        "X-Iinfo: 1-2-3",
        "<iframe id=\"main-iframe\" src=\"/_Incapsula_Resource?incident_id=1\"></iframe>",
        "imperva",
    ),
    (
        "/sucuri",
        200,
        "X-Sucuri-ID: 15016",
        "<title>You are being redirected...</title>\
         <script>var w,sucuri_cloudproxy_js='',S='YQ==';</script>",
        "sucuri",
    ),
    (
        "/ddos-guard",
        403,
        "Server: ddos-guard",
        "<title>DDoS-Guard</title>\
         <script src=\"/.well-known/ddos-guard/js-challenge/index.js\"></script>",
        "ddos-guard",
    ),
    (
        "/anubis",
        200,
        "Set-Cookie: techaro.lol-anubis-cookie-verification=1",
        "<script id=\"anubis_challenge\" type=\"application/json\">{}</script>",
        "anubis",
    ),
];

/// Headers of those who stand before a server, and none of which says that a page is a challenge.
const BEFORE_SERVERS: &[&str] = &[
    "X-A: b",
    "Server: cloudflare",
    "CF-Ray: 8e0a1b2c3d4e5f60-FRA",
    "cf-mitigated: block",
    "x-amzn-waf-action: count",
    "X-Amz-Cf-Id: challenge",
    "x-vercel-mitigated: deny",
    "X-DataDome: protected",
    "X-Iinfo: 1-2-3",
    "X-Sucuri-ID: 15016",
    "Server: ddos-guard",
    "Set-Cookie: techaro.lol-anubis-auth=1",
];

/// Pages that look like challenges: a form of one's own, words about others, a door that is shut.
const LOOK_ALIKES: &[&str] = &[
    "<form><input name='password'>\
     <script src=\"https://challenges.cloudflare.com/turnstile/v0/api.js\"></script></form>",
    "<h1>How challenges work</h1><p>A challenge says cf-mitigated: challenge.</p><pre>\
     &lt;p id=\"cmsg\"&gt; var dd={'host':'geo.captcha-delivery.com'}\
     &lt;iframe id=\"main-iframe\" src=\"/_Incapsula_Resource?a\"&gt;\
     &lt;script src=\"/.well-known/ddos-guard/js-challenge/index.js\"&gt;\
     &lt;script id=\"anubis_challenge\"&gt; sucuri_cloudproxy_js='',S='</pre>",
    "<title>Just a moment...</title><h1>Checking your order</h1>\
     <noscript>Please enable JavaScript and cookies to continue</noscript>",
    "<title>Access denied</title><p>This part of the shop is for members. Incident ID: 15.</p>",
    "<form action='/contact'><div class=\"h-captcha\" data-sitekey=\"a\"></div>\
     <script src=\"https://js.hcaptcha.com/1/api.js\"></script></form>",
];

/// The path of a page that looks like a challenge.
fn look_alike(header: usize, body: usize) -> String {
    format!("/like/{header}/{body}")
}

/// The paths of all of them: sixty.
fn look_alikes() -> Vec<String> {
    let of_header = |header| (0..LOOK_ALIKES.len()).map(move |body| look_alike(header, body));
    (0..BEFORE_SERVERS.len()).flat_map(of_header).collect()
}

/// The header and the body of a page that looks like a challenge.
fn parts_of(path: &str) -> Option<(&'static str, &'static str)> {
    let numbers = path.strip_prefix("/like/")?;
    let numbers: (&str, &str) = numbers.split_once('/')?;
    let header: usize = numbers.0.parse().ok()?;
    let body: usize = numbers.1.parse().ok()?;
    Some((BEFORE_SERVERS.get(header)?, LOOK_ALIKES.get(body)?))
}

fn site() -> Site {
    Site::serve(|path, _| {
        if path == "/" {
            let walls = WALLS.iter().map(|(path, ..)| (*path).to_owned());
            let others = ["/shop", "/paid"].map(str::to_owned);
            let links = walls.chain(look_alikes()).chain(others);
            let links = links.map(|path| format!("<a href='{path}'>x</a>"));
            return Answer::html(links.collect());
        }
        if let Some((_, status, header, body, _)) = WALLS.iter().find(|(wall, ..)| *wall == path) {
            // Nobody follows this link.
            return Answer {
                status: *status,
                fields: format!("{header}\r\n"),
                ..Answer::html(format!("<html>{body}<a href='/behind-a-wall'>x</a></html>"))
            };
        }
        if let Some((header, body)) = parts_of(path) {
            return Answer {
                fields: format!("{header}\r\n"),
                ..Answer::html(format!("<html>{body}<a href='{path}/behind'>x</a></html>"))
            };
        }
        match path {
            "/shop" => Answer {
                status: 403,
                ..Answer::html("<p>Members alone.</p>".to_owned())
            },
            "/paid" => Answer {
                status: 402,
                fields: "crawler-price: USD 0.01\r\n".to_owned(),
                ..Answer::html(String::new())
            },
            _ if path.ends_with("/behind") => Answer::html("<p>behind</p>".to_owned()),
            _ => Answer::missing(),
        }
    })
}

fn world() -> World {
    World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(1),
        ..Profile::raw()
    })
}

fn text(line: &Value, key: &str) -> String {
    line[key].as_str().unwrap_or_default().to_owned()
}

/// The lines of the log, by path.
fn log(world: &World, site: &Site) -> BTreeMap<String, Value> {
    let log = fs::read_to_string(world.archive().join("crawl.jsonl")).expect("a log");
    log.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            (text(&line, "url").replacen(&site.name, "", 1), line)
        })
        .collect()
}

/// Asserts that a URL ended at a wall, in which nothing was read.
fn assert_walled(line: &Value, status: u16, vendor: &str) {
    assert_eq!(
        (
            text(line, "outcome").as_str(),
            text(line, "reason").as_str()
        ),
        ("refused", "challenged"),
        "{line}"
    );
    assert_eq!(text(line, "wall"), vendor);
    assert_eq!(line["status"], status);
    assert_eq!(line["title"], "");
}

#[test]
fn walls_end_refused_and_lead_nowhere_and_look_alikes_are_pages() {
    let world = world();
    let site = site();
    let crawl = world
        .bare("crawl")
        .arguments(&[format!("{}/", site.name)])
        // A job that brings walls alone counts as refused, and the server is left alone.
        .set("stages.scheduler.retry_wait=100ms")
        .set("stages.scheduler.retry_wait_max=200ms")
        .set("stages.archiver.replicas=1");
    let finished = crawl.run(AT_MOST);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, true),
        "{}",
        json(&finished.summary)
    );
    assert_conserved(&finished.summary);

    let log = log(&world, &site);
    for (path, status, _, _, vendor) in WALLS {
        assert_walled(&log[*path], *status, vendor);
    }
    for path in look_alikes() {
        let line = &log[&path];
        assert_eq!(
            (text(line, "outcome").as_str(), text(line, "wall").as_str()),
            ("fetched", ""),
            "{path}: {line}"
        );
        let behind = &log[&format!("{path}/behind")];
        assert_eq!(text(behind, "outcome"), "fetched", "{path}");
    }
    assert_eq!(
        (&log["/shop"]["outcome"], &log["/shop"]["wall"]),
        (&Value::from("refused"), &Value::from(""))
    );
    assert_eq!(
        (&log["/paid"]["outcome"], &log["/paid"]["price"]),
        (&Value::from("refused"), &Value::from("USD 0.01"))
    );
    let sent = site.sent();
    assert!(!sent.contains_key("/behind-a-wall"), "{sent:?}");
    // Not once more for being a wall, whatever its status.
    for (path, statuses) in &sent {
        assert_eq!(statuses.len(), 1, "{path}: {statuses:?}");
    }
    assert_eq!(finished.summary.walls, WALLS.len() as u64);
    let report = fs::read_to_string(world.data().join("report.html")).expect("a report");
    let told = format!("{} walls, ", WALLS.len());
    assert!(report.contains(&told), "{report}");
}

#[test]
fn a_wall_in_the_place_of_a_robots_txt_allows_nothing() {
    let world = world();
    let site = Site::serve(|path, _| match path {
        "/robots.txt" => Answer {
            status: 403,
            fields: "cf-mitigated: challenge\r\n".to_owned(),
            ..Answer::html(String::new())
        },
        _ => Answer::html("<p>a page</p>".to_owned()),
    });
    let crawl = world
        .bare("crawl")
        .arguments(&[format!("{}/", site.name)])
        .set("stages.scheduler.attempts=2")
        .set("stages.scheduler.retry_wait=100ms")
        .set("stages.archiver.replicas=1");
    let finished = crawl.run(AT_MOST);
    // Nothing was reached.
    assert_eq!(finished.code, 1, "{}", json(&finished.summary));
    let line = &log(&world, &site)["/"];
    assert_eq!(
        (
            text(line, "outcome").as_str(),
            text(line, "reason").as_str()
        ),
        ("disallowed", "robots.txt unreachable")
    );
    assert!(site.sent().keys().eq(["/robots.txt"]), "{:?}", site.sent());
}
