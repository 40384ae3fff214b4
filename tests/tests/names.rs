//! A crawl obeys what is written for its own name, and nothing that is written for another's: in
//! robots.txt, in X-Robots-Tag and in robots `meta`. On the site of a test.

use rhumb_tests::harness::{Answer, Site, World, assert_conserved, json, rhumb};
use std::collections::BTreeSet;
use std::time::Duration;
use synthetic_web::{PagesPerHost, Profile};

const AT_MOST: Duration = Duration::from_secs(60);

const RULES: &str = "User-agent: Mozilla\nUser-agent: Safari\nUser-agent: other\nDisallow: /\n\n\
                     User-agent: MY-bot2/9 # in other letters, with a version\nDisallow: \
                     /private/\n\n\
                     User-agent: my-bot\nDisallow: /header\n\nUser-agent: *\nDisallow: /meta\n";

/// What each form has in common: all but what is forbidden to `my-bot2` is asked for.
const ASKED: [&str; 5] = ["/", "/followed", "/header", "/meta", "/robots.txt"];

fn page(fields: &str, body: &str) -> Answer {
    Answer {
        fields: fields.to_owned(),
        ..Answer::html(body.to_owned())
    }
}

fn site() -> Site {
    Site::serve(|path, _| match path {
        "/robots.txt" => Answer {
            content_type: "text/plain".to_owned(),
            ..page("", RULES)
        },
        "/" => page(
            "X-Robots-Tag: mozilla: nofollow, my-bot: none, other: nofollow\r\n",
            "<meta name=Mozilla content=nofollow><meta name=my-bot content=nofollow><a \
             href=/private/a>a</a><a href=/header>h</a><a href=/meta>m</a><a href=/followed>f</a>",
        ),
        "/header" => page(
            "X-Robots-Tag: noindex, My-Bot2: nofollow\r\n",
            "<a href=/from-header>x</a>",
        ),
        "/meta" => page(
            "",
            "<meta name=MY-BOT2 content=none><a href=/from-meta>x</a>",
        ),
        _ => page("", ""),
    })
}

/// Goal: whichever form the user agent has, the groups, tags and elements of `my-bot2` are obeyed,
/// and no others.
#[test]
fn a_crawler_is_addressed_by_its_name_in_every_form_of_user_agent() {
    for settings in [
        &["network.user_agent=Mozilla/5.0 (compatible; my-bot2/1.0; +https://example.org/bot)"][..],
        &[
            "network.user_agent=Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; \
             My-Bot2; x) Safari/537.36",
        ],
        &["network.user_agent=my-bot2/1.0 (+https://example.org/bot)"],
        &[
            "network.user_agent=Mozilla/5.0 (X11) Gecko/20100101 Firefox/125.0",
            "network.product_token=my-bot2",
        ],
    ] {
        let world = World::new(Profile {
            hosts: 1,
            pages_per_host: PagesPerHost::Exactly(1),
            ..Profile::raw()
        });
        let site = site();
        let crawl = world.bare("crawl").arguments(&[format!("{}/", site.name)]);
        let mut running = settings
            .iter()
            .fold(crawl, |crawl, setting| crawl.set(setting))
            .start();
        assert_eq!(running.exit_code(AT_MOST), 0, "{}", running.log());
        let log = running.log();
        let first = log
            .lines()
            .find(|line| line.contains("product_token"))
            .unwrap_or_else(|| panic!("{log}"));
        assert!(first.to_ascii_lowercase().contains("my-bot2"), "{first}");
        let summary = running.finish(AT_MOST).summary;
        assert!(
            summary.product_token.eq_ignore_ascii_case("my-bot2"),
            "{}",
            json(&summary)
        );
        assert_eq!(summary.outcomes["disallowed"], 1, "{}", json(&summary));
        assert_conserved(&summary);
        let asked: BTreeSet<String> = site.sent().into_keys().collect();
        assert_eq!(asked, ASKED.map(str::to_owned).into(), "{settings:?}");
    }
}

/// `rhumb robots` and `rhumb links` read for the configured name, or for the one that is asked
/// about.
#[test]
fn the_tools_read_for_the_same_name_as_a_crawl() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let rules = path("robots.txt");
    let document = path("page.html");
    std::fs::write(&rules, RULES).expect("a file");
    std::fs::write(
        &document,
        "<meta name=my-bot2 content=nofollow><a href=/x>x</a>",
    )
    .expect("a file");
    let agent =
        "network.user_agent=Mozilla/5.0 (compatible; my-bot2/1.0; +https://example.org/bot)";

    let robots =
        |url: &str, more: &[&str]| rhumb(&[&["robots", rules.as_str(), url], more].concat());
    for (url, more, code, token) in [
        ("http://a.test/meta", &[][..], 1, "rhumb"),
        ("http://a.test/private/x", &["--set", agent], 1, "my-bot2"),
        ("http://a.test/meta", &["--set", agent], 0, "my-bot2"),
        (
            "http://a.test/private/x",
            &["--agent", "my-bot2"],
            1,
            "my-bot2",
        ),
        (
            "http://a.test/header",
            &[
                "--agent",
                "Mozilla/5.0 (compatible; my-bot; x)",
                "--set",
                agent,
            ],
            1,
            "my-bot",
        ),
        ("http://a.test/x", &["--agent", "Mozilla"], 1, "Mozilla"),
    ] {
        let said = robots(url, more);
        assert_eq!(said.code, code, "{url} {more:?}: {}", said.err);
        assert_eq!(
            said.out,
            if code == 0 {
                "allowed\n"
            } else {
                "disallowed\n"
            }
        );
        assert_eq!(said.err, format!("for the product token {token}\n"));
    }
    for agent in ["", "my bot/1", "Mozilla/5.0 (X11) Firefox/1", "*"] {
        let said = robots("http://a.test/", &["--agent", agent]);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{agent}");
        assert!(
            said.err.contains(&format!("--agent '{agent}'")) && said.err.contains("product token"),
            "{}",
            said.err
        );
    }

    let links = |more: &[&str]| {
        rhumb(
            &[
                &["links", document.as_str(), "--base", "http://a.test/"],
                more,
            ]
            .concat(),
        )
        .out
    };
    assert_eq!(links(&[]), "http://a.test/x\n");
    assert_eq!(links(&["--set", agent]), "");
    assert_eq!(
        links(&["--set", "network.product_token=other"]),
        "http://a.test/x\n"
    );
}
