//! Sitemaps of sites of a test: of any name and on any host when a robots.txt names them, as long
//! as they may be; and what limits cut is told.

use rhumb_tests::harness::{Answer, Running, Site, World, assert_conserved};
use serde_json::Value;
use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use synthetic_web::{PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);
const OTHER_HOST: &str = "127.43.0.2";

fn world() -> World {
    World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(1),
        ..Profile::raw()
    })
}

/// A crawl of one host that goes on when all is fetched.
fn up(world: &World, settings: &[&str]) -> Running {
    let prepared = world
        .up()
        .set("scope.follow=host")
        .set("stages.archiver.replicas=1");
    settings
        .iter()
        .fold(prepared, |crawl, setting| crawl.set(setting))
        .start()
}

/// Injects a site and waits until it is fetched, which comes to so many pages.
fn fetch(up: &mut Running, site: &Site, pages: u64) {
    up.until(MINUTE, |summary| summary.complete);
    let said = up.rhumb(&["inject", &format!("{}/", site.name)]);
    assert_eq!(said.code, 0, "{}", said.err);
    let summary = up.until(MINUTE, |summary| summary.complete && summary.pages == pages);
    assert_conserved(&summary);
}

fn file(content_type: &str, body: String) -> Answer {
    Answer {
        content_type: content_type.to_owned(),
        ..Answer::html(body)
    }
}

fn listed(root: &str, element: &str, urls: &[String]) -> String {
    let urls: String = urls
        .iter()
        .map(|url| format!("<{element}><loc>{url}</loc></{element}>"))
        .collect();
    format!("<{root}>{urls}</{root}>")
}

fn moved(to: &str) -> Answer {
    Answer {
        status: 301,
        fields: format!("Location: {to}\r\n"),
        ..Answer::html(String::new())
    }
}

/// The site on another host, which is in no scope, with sitemaps of the site whose name is `home`.
fn other_site(home: &Arc<OnceLock<String>>) -> Site {
    let home = Arc::clone(home);
    Site::serve_at(OTHER_HOST, move |path, head| {
        let host = head
            .iter()
            .find_map(|line| line.strip_prefix("host: ").or(line.strip_prefix("Host: ")));
        let own = format!("http://{}", host.unwrap_or_default());
        let home = home.get().expect("a name");
        match path {
            "/robots.txt" => file(
                "text/plain",
                "Sitemap: /its-own.xml\nUser-agent: *\nDisallow: /kept-away\n".to_owned(),
            ),
            "/pages.xml" => {
                let urls = [format!("{home}/from-elsewhere"), format!("{own}/page")];
                file("application/xml", listed("urlset", "url", &urls))
            }
            "/index.xml" => {
                let children = [format!("{own}/child"), format!("{own}/kept-away.xml")];
                file(
                    "application/xml",
                    listed("sitemapindex", "sitemap", &children),
                )
            }
            "/child" => file("text/plain", format!("{own}/page\n{home}/from-child\n")),
            "/target" => file(
                "application/octet-stream",
                format!("{home}/from-redirect\n"),
            ),
            _ => Answer::missing(),
        }
    })
}

/// Goal: a sitemap has any name and lies on any host that robots.txt names, also behind an index
/// and a redirect; what it lists is judged by its own host; robots.txt of the other host is obeyed;
/// a page at `/robots.txt` names nothing. Method: two sites; what each was asked for.
#[test]
fn sitemaps_are_read_wherever_robots_txt_says_that_they_are_and_widen_the_scope_by_nothing_else() {
    let home = Arc::new(OnceLock::new());
    let other = other_site(&home);
    let elsewhere = other.name.clone();
    let site = Site::serve(move |path, head| {
        let host = head
            .iter()
            .find_map(|line| line.strip_prefix("host: ").or(line.strip_prefix("Host: ")));
        let own = format!("http://{}", host.unwrap_or_default());
        match path {
            "/robots.txt" => Answer::html(format!(
                "<a href='{elsewhere}/forged.xml'>x</a>\nSitemap: /today\nSitemap: \
                 {elsewhere}/pages.xml\n\
                 Sitemap: {elsewhere}/index.xml\nSitemap: /moved\n"
            )),
            "/" => Answer::html(format!(
                "<a href=/robots.txt>rules</a> <a href='{elsewhere}/linked.xml'>no</a>"
            )),
            "/today" => file(
                "text/html",
                format!("HTTP://{}/from-text\r\n{elsewhere}/page\r\n", &own[7..]),
            ),
            "/moved" => moved(&format!("{elsewhere}/target")),
            _ => Answer::html("no links".to_owned()),
        }
    });
    home.set(site.name.clone()).expect("set once");
    let world = world();
    fetch(&mut up(&world, &[]), &site, 11);

    let paths = |site: &Site| site.sent().into_keys().collect::<Vec<_>>();
    let expected = [
        "/",
        "/from-child",
        "/from-elsewhere",
        "/from-redirect",
        "/from-text",
        "/moved",
        "/robots.txt",
        "/today",
    ];
    assert_eq!(paths(&site), expected);
    assert_eq!(
        paths(&other),
        [
            "/child",
            "/index.xml",
            "/pages.xml",
            "/robots.txt",
            "/target"
        ]
    );
}

/// The line of a URL in the log of the archiver, as soon as it is there.
fn line_of(world: &World, url: &str) -> Value {
    let end = Instant::now() + MINUTE;
    loop {
        let text = fs::read_to_string(world.archive().join("crawl.jsonl")).unwrap_or_default();
        let mut lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(line) = lines.find(|line| line["url"] == url) {
            return line;
        }
        assert!(Instant::now() < end, "{url} has no line: {text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Goal: a sitemap has more links than a page may have, and more bytes; what a limit cuts is in the
/// log, in `why` and in the numbers. Method: a site with a sitemap of 6,000 URLs of another host,
/// which are filtered and so counted; one with too many URLs for its limit; and a page with too
/// many links.
#[test]
fn a_sitemap_is_longer_than_a_page_may_be_and_what_a_limit_cuts_is_told() {
    let urls = |n: usize, site: &str| -> Vec<String> {
        (0..n).map(|number| format!("{site}/{number}")).collect()
    };
    let site = Site::serve(move |path, _| match path {
        "/robots.txt" => file(
            "text/plain",
            "Sitemap: /long\nSitemap: /cut.xml\n".to_owned(),
        ),
        "/" => Answer::html(
            (0..40)
                .map(|number| format!("<a href=/{number}>x</a>"))
                .collect(),
        ),
        "/long" => file("text/plain", urls(6000, "http://c.invalid").join("\n")),
        "/cut.xml" => file(
            "text/xml",
            listed("urlset", "url", &urls(6100, "http://d.invalid")),
        ),
        _ => Answer::html("no links".to_owned()),
    });
    let world = world();
    let limits = [
        "limits.links_per_page=30",
        "limits.links_per_sitemap=6050",
        "limits.body_bytes_max=64KiB",
    ];
    let mut up = up(&world, &limits);
    fetch(&mut up, &site, 1 + 30 + 2);
    let summary = up.status().expect("a status");
    assert_eq!(summary.urls_filtered, 6000 + 6050);

    let told = |path: &str| {
        let url = format!("{}{path}", site.name);
        let line = line_of(&world, &url);
        let why = up.rhumb(&["why", &url]);
        (
            line["cut"].as_str().map(str::to_owned),
            line["truncated"] == true,
            why.out,
        )
    };
    let (cut, is_truncated, why) = told("/long");
    assert_eq!((cut.as_deref(), is_truncated), (Some(""), false));
    assert!(!why.contains("left out"), "{why}");
    let (cut, is_truncated, why) = told("/cut.xml");
    assert_eq!(
        (cut.as_deref(), is_truncated),
        (Some("limits.links_per_sitemap"), false)
    );
    assert!(
        why.contains(
            "6050 links were taken from it: what is beyond limits.links_per_sitemap was left out"
        ),
        "{why}"
    );
    let archived = format!(
        "found on {}/robots.txt (depth 0, topic default); what is beyond limits.links_per",
        site.name
    );
    assert!(why.contains(&archived), "{why}");
    let (cut, _, why) = told("/");
    assert_eq!(cut.as_deref(), Some("limits.links_per_page"));
    assert!(
        why.contains(
            "30 links were taken from it: what is beyond limits.links_per_page was left out"
        ),
        "{why}"
    );
    assert_eq!(up.count("parser", "rhumb_parser_truncated_links_total"), 2);
    assert_eq!(up.count("parser", "rhumb_parser_cut_sitemaps_total"), 1);
}
