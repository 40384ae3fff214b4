//! A site whose heads are faulty, with redirects that lead nowhere and a cookie wall: its pages are
//! crawled, and each URL ends as what it is. Through real processes, on the site of a test.

use rhumb_tests::harness::{Answer, Site, World, assert_conserved, json};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use synthetic_web::{PagesPerHost, Profile};

const AT_MOST: Duration = Duration::from_secs(60);
const NO_TARGET: &str = "no target: the redirect has no Location, or none that can be crawled";

/// Path, status, lines of the head, links of the body; the outcome, and its reason.
type Faulty = (
    &'static str,
    u16,
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
);

const PAGES: &[Faulty] = &[
    (
        "/",
        200,
        "X-Frame : deny\r\n",
        &[
            "/folds", "/line", "/choices", "/nowhere", "/lost", "/told", "/wall", "/loop",
        ],
        "fetched",
        "",
    ),
    (
        "/folds",
        200,
        "Link:\r\n </next>;\r\n\trel=next\r\n",
        &[],
        "fetched",
        "",
    ),
    ("/next", 200, "", &[], "fetched", ""),
    (
        "/line",
        200,
        "this is no field\r\nX Y: z\r\nX: \u{7}\r\n",
        &["/behind-line"],
        "fetched",
        "",
    ),
    ("/behind-line", 200, "", &[], "fetched", ""),
    ("/choices", 300, "", &["/chosen"], "fetched", ""),
    ("/chosen", 200, "", &[], "fetched", ""),
    (
        "/nowhere",
        301,
        "",
        &["/behind-nowhere"],
        "failed",
        NO_TARGET,
    ),
    ("/behind-nowhere", 200, "", &[], "fetched", ""),
    (
        "/lost",
        302,
        "Location: /no\u{1}\r\n",
        &["/behind-lost"],
        "failed",
        NO_TARGET,
    ),
    ("/behind-lost", 200, "", &[], "fetched", ""),
    (
        "/told",
        302,
        "Location:\r\n\t/target\r\n",
        &["/no"],
        "redirected",
        "",
    ),
    ("/target", 200, "", &[], "fetched", ""),
    (
        "/wall",
        302,
        "Set-Cookie: seen=1\r\nLocation: /wall\r\n",
        &["/behind-wall"],
        "fetched",
        "",
    ),
    ("/behind-wall", 200, "", &[], "fetched", ""),
    (
        "/loop",
        302,
        "Set-Cookie: turn=1\r\nLocation: /loop\r\n",
        &["/no"],
        "redirected",
        "",
    ),
];

fn site() -> Site {
    Site::serve(|path, head| {
        if path == "/robots.txt" {
            let rules = "User-agent: *\nDisallow: /no$\n".to_owned();
            return Answer {
                fields: "X: a\r\n b\r\nX Y: z\r\nX : \u{7f}\r\n".to_owned(),
                ..Answer::html(rules)
            };
        }
        let Some((_, status, fields, links, ..)) = PAGES.iter().find(|(known, ..)| *known == path)
        else {
            return Answer::missing();
        };
        let has_cookie = head.iter().any(|line| {
            line.to_ascii_lowercase().starts_with("cookie:") && line.contains("seen=1")
        });
        let links: String = links
            .iter()
            .map(|link| format!("<a href='{link}'>x</a>"))
            .collect();
        let page = Answer::html(format!("<html><body>{path} {links}</body></html>"));
        match (path, has_cookie) {
            ("/wall", true) => page,
            _ => Answer {
                status: *status,
                fields: (*fields).to_owned(),
                ..page
            },
        }
    })
}

#[test]
fn faulty_heads_are_read_and_what_leads_nowhere_or_to_itself_ends_as_what_it_is() {
    let world = World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(1),
        ..Profile::raw()
    });
    let site = site();
    let crawl = world
        .bare("crawl")
        .arguments(&[format!("{}/", site.name)])
        .set("network.cookies=true");
    let finished = crawl.set("stages.archiver.replicas=1").run(AT_MOST);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, true),
        "{}",
        json(&finished.summary)
    );
    assert_conserved(&finished.summary);

    let log = fs::read_to_string(world.archive().join("crawl.jsonl")).expect("a log");
    let mut ended: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let path = text("url").replacen(&site.name, "", 1);
        ended
            .entry(path)
            .or_default()
            .push((text("outcome"), text("reason")));
    }
    let mut expected: BTreeMap<String, Vec<(String, String)>> = PAGES
        .iter()
        .map(|(path, .., outcome, reason)| {
            (
                (*path).to_owned(),
                vec![((*outcome).to_owned(), (*reason).to_owned())],
            )
        })
        .collect();
    assert_eq!(ended, expected);
    expected.insert("/robots.txt".to_owned(), Vec::new());

    let sent = site.sent();
    assert!(sent.keys().eq(expected.keys()), "{sent:?}");
    for (path, statuses) in &sent {
        match path.as_str() {
            "/wall" => assert_eq!(*statuses, [302, 200]),
            // Once more, since it set a cookie; not again, since it was asked for once more.
            "/loop" => assert_eq!(*statuses, [302, 302]),
            _ => assert_eq!(statuses.len(), 1, "{path}: {statuses:?}"),
        }
    }
}
