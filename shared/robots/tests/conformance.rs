//! Goal: public robots.txt files give the verdicts that RFC 9309 demands. Method: triples of agent,
//! path and verdict, derived by hand from the RFC's text for each file of the folder of conformance
//! data; where that is absent the tests say so and check nothing else. A file without triples
//! fails.

use rhumb_robots::Robots;
use rhumb_robots::product_token;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of vectors, if this checkout has them beside it.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/robots");
    if !folder.exists() {
        // Not by the macro, whose output a test that passes does not show.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no conformance vectors in {}",
            folder.display()
        );
        return None;
    }
    Some(folder)
}

fn read(folder: &Path, file: &str, agent: &str) -> Robots {
    let body = std::fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let token =
        product_token::of_user_agent(agent).unwrap_or_else(|error| panic!("{agent}: {error}"));
    Robots::parse(&body, &token)
}

/// Agent, path, allowed.
type Verdict = (&'static str, &'static str, bool);

const NEWSWEEK: &[Verdict] = &[
    ("any", "/", true),
    ("any", "/login.aspx", false),
    ("any", "/profile/x", false),
    ("any", "/a/output/print", false),
    ("any", "/output/print", true),
    ("Googlebot", "/a/output/print?x", false),
    (
        "Googlebot/2.1 (+http://example.com/)",
        "/search.aspx?q=1",
        false,
    ),
    ("Googlebot", "/searches", true),
];

const VERDICTS: &[(&str, &[Verdict])] = &[
    (
        "astore.amazon.com-robots.txt",
        &[("any", "/", true), ("any", "/a?b", true)],
    ),
    (
        // 2.2.1: groups of one token are merged; 2.2.4: Crawl-delay does not end a group
        "crawl-delay-group-merging.txt",
        &[
            ("mybot", "/private/", false),
            ("mybot", "/login/", true),
            ("yourbot", "/private/x", false),
            ("yourbot", "/login/", false),
            ("yourbot", "/", true),
            ("other", "/private/", true),
        ],
    ),
    (
        // misspelt records are not the RFC's; what their authors meant is followed
        "directive-typos-robots.txt",
        &[
            ("bot1", "/desallow/", false),
            ("bot1", "/dissalow/", false),
            ("bot1", "/useragent/", true),
            ("bot2", "/useragent/", false),
            ("bot2", "/dissalow/", true),
            ("bot3", "/useg-agent/", false),
            ("bot4", "/useragent-no-colon/", false),
            ("bot4", "/useg-agent/", true),
            ("other", "/desallow/", true),
        ],
    ),
    ("dos-line-endings.txt", &[("any", "/", true)]),
    (
        "extended-standard-robots.txt",
        &[
            ("bot1", "/", true),
            ("bot4", "/a", true),
            ("other", "/", true),
        ],
    ),
    (
        "extension-robots.txt",
        &[
            ("other", "/private/", true),
            ("mybot", "/private/x", false),
            ("mybot", "/secret/", true),
            ("otherbot", "/admin/", false),
            ("otherbot", "/private/", true),
        ],
    ),
    (
        "extensions-group-merging.txt",
        &[
            ("other", "/llms.txt", true),
            ("other", "/a", false),
            ("mybot", "/private/", false),
            // Clean-Param ends no group either
            ("mybot", "/login/", false),
            ("mybot", "/a", true),
            ("yourbot", "/private/", false),
            ("yourbot", "/login/", false),
        ],
    ),
    (
        // 2.2: white space before the colon is in the grammar; a missing colon is not, and is
        // forgiven
        "format-errors-robots.txt",
        &[
            ("bot1", "/whitespace-before-colon/", false),
            ("bot1", "/no-colon/", false),
            ("bot1", "/no-colon-useragent/", true),
            ("bot2", "/no-colon-useragent/", false),
            ("bot2", "/no-colon/", true),
            ("bot3", "/whitespace-before-colon/x", true),
            ("bot3", "/a", false),
        ],
    ),
    (
        // 2.2.2: a `%` that starts no escape is one character like any other
        "malformed-path.txt",
        &[
            ("any", "/wiki/Wikipedia_talk:Mediation_Committee/x", false),
            ("any", "/wiki/Wikipedia_talk%3AMediation_Committee/x", false),
            ("any", "/wiki/Wikipedia_talk%253Mediation_Committee/", false),
            ("any", "/wiki/Wikipedia_talk", true),
        ],
    ),
    (
        "many-user-agents.txt",
        &[
            ("OutfoxBot", "/", false),
            ("alexibot/3.0", "/a", false),
            ("BackDoorBot", "/", false),
            ("Zeus", "/", false),
            ("wget", "/", false),
            ("rhumb/0.1", "/", true),
            ("rhumb/0.1", "/bot-trap/x", false),
            ("rhumb/0.1", "/home.php", false),
            ("Zeus", "/bot-trap", false),
        ],
    ),
    (
        // 2.2.1: a group may name several agents; `*` only counts for those no group names
        "merge-rules.txt",
        &[
            ("testy", "/", false),
            ("curl/8.0", "/a", false),
            ("wget", "/foo/bar", true),
            ("wget", "/tmp/bar", false),
            ("wget", "/ckh/bar", true),
            ("other", "/foo/bar", false),
            ("other", "/tmp/bar/x", false),
            ("other", "/tmp", true),
        ],
    ),
    (
        // 2.2.2: the most octets win
        "precedence-of-rules.txt",
        &[
            ("testy", "/foo", false),
            ("testy", "/foo/bar", true),
            ("testy", "/foo/bar/x", true),
            ("testy", "/foo/b", false),
            ("testy", "/foo/boo", false),
            ("testy", "/", true),
            ("wget", "/foo", true),
            ("wget", "/index.html", true),
            ("wget", "/index", false),
            ("wget", "/a", false),
            ("other", "/foo", true),
        ],
    ),
    (
        "relative-sitemap-robots.txt",
        &[
            ("any", "/cache/", false),
            ("any", "/files/a", false),
            ("any", "/file", true),
        ],
    ),
    (
        // 5.2
        "rfc9309-example-longest-match-robots.txt",
        &[
            ("foobot", "/example/page/", true),
            ("foobot", "/example/page/disallow.gif", true),
            ("foobot", "/example/page/disallowed.gif", false),
            ("other", "/example/page/disallowed.gif", true),
        ],
    ),
    (
        // 2.2.1, figure 2
        "rfc9309-example-rule-group-merging.txt",
        &[
            ("examplebot", "/foo", false),
            ("ExampleBot/1", "/bar", false),
            ("examplebot", "/baz", false),
            ("examplebot", "/", true),
            ("bazbot", "/foo", true),
            ("bazbot", "/baz", false),
            ("other", "/bar", false),
            ("other", "/baz", true),
        ],
    ),
    (
        // 5.1
        "rfc9309-example-simple-robots.txt",
        &[
            ("other", "/a.gif", false),
            ("other", "/a.gif?x", true),
            ("other", "/example/", false),
            ("other", "/publications/", true),
            ("other", "/publications/a.gif", true),
            ("foobot", "/", false),
            ("foobot", "/publications/", false),
            ("foobot", "/example/page.html", true),
            ("foobot", "/example/allowed.gif", true),
            ("foobot", "/robots.txt", true),
            ("barbot", "/example/page.html", false),
            ("bazbot", "/example/page.html", false),
            ("bazbot", "/example/", true),
            ("quxbot", "/example/page.html", true),
            ("quxbot", "/a.gif", true),
        ],
    ),
    ("robots-with-utf16be-bom.txt", NEWSWEEK),
    ("robots-with-utf16le-bom.txt", NEWSWEEK),
    ("robots-with-utf8-bom.txt", NEWSWEEK),
    ("sitemap-robots-dedup.txt", &[("any", "/", true)]),
    (
        "sitemap-robots.txt",
        &[("any", "/", true), ("any", "/dir/my-sitemap.xml", true)],
    ),
    (
        "twitter.com-robots.txt",
        &[
            ("any", "/a?b", false),
            ("any", "/?", false),
            ("any", "/a/with_friends", false),
            ("any", "/with_friends", true),
            ("Googlebot", "/x?y", false),
            ("msnbot", "/x", true),
        ],
    ),
    (
        "wildcards.txt",
        &[
            ("any", "/gp/cart/view", false),
            ("any", "/wishlist/", false),
            ("any", "/wishlist/universal/x", true),
            ("any", "/wishlist/get-button", true),
            ("any", "/gp/wishlist/ipad-install", true),
            ("any", "/gp/registry/wishlist/1/reserve", false),
            ("any", "/x/y/gcrnsts", false),
            ("any", "/gcrnsts?a", false),
            ("any", "/dp/product", true),
            ("any", "/rss/people/1/reviews", true),
            ("Googlebot", "/rss/people/1/reviews", false),
            ("Googlebot", "/rss/people/reviews", true),
            ("Googlebot", "/x/sim/B001132UEE", false),
            ("any", "/x/sim/B001132UEE", true),
            ("EtaoSpider", "/", false),
        ],
    ),
    (
        "www.flot.com-robots.txt",
        &[
            ("any", "/admin/", false),
            ("any", "/administrator", true),
            ("any", "/img/a.png", false),
        ],
    ),
];

#[test]
fn verdicts_follow_from_the_rfc() {
    let Some(folder) = folder() else { return };
    let mut wrong = Vec::new();
    for (file, verdicts) in VERDICTS {
        for (agent, path, allowed) in *verdicts {
            if read(&folder, file, agent).allows(path) != *allowed {
                wrong.push((
                    file,
                    agent,
                    path,
                    if *allowed {
                        "should be allowed"
                    } else {
                        "should not be allowed"
                    },
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_file_has_verdicts() {
    let Some(folder) = folder() else { return };
    let names = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = names.collect();
    let judged: BTreeSet<String> = VERDICTS
        .iter()
        .map(|(file, _)| (*file).to_owned())
        .collect();
    assert_eq!(files, judged);
}

#[test]
fn crawl_delays_belong_to_the_agents_named_before_them() {
    let Some(folder) = folder() else { return };
    for (file, agent, delay_s) in [
        ("astore.amazon.com-robots.txt", "any", Some(5)),
        ("crawl-delay-group-merging.txt", "mybot", Some(10)),
        ("crawl-delay-group-merging.txt", "yourbot", None),
        ("crawl-delay-group-merging.txt", "other", Some(30)),
        ("dos-line-endings.txt", "any", Some(1)),
        ("twitter.com-robots.txt", "Googlebot", None),
        ("twitter.com-robots.txt", "Slurp", Some(1)),
        ("twitter.com-robots.txt", "msnbot", Some(10)),
        ("twitter.com-robots.txt", "other", None),
    ] {
        let delay = read(&folder, file, agent).crawl_delay();
        assert_eq!(delay, delay_s.map(Duration::from_secs), "{file} {agent}");
    }
}

#[test]
fn sitemaps_are_found_anywhere_once_and_as_written() {
    let Some(folder) = folder() else { return };
    for (file, sitemaps) in [
        ("extension-robots.txt", &["/sitemap.xml"][..]),
        ("format-errors-robots.txt", &["/sitemap.xml"]),
        ("relative-sitemap-robots.txt", &["/sitemap.xml"]),
        (
            "robots-with-utf16be-bom.txt",
            &["http://www.newsweek.com/sitemap_index.xml"],
        ),
        (
            "robots-with-utf16le-bom.txt",
            &["http://www.newsweek.com/sitemap_index.xml"],
        ),
        (
            "robots-with-utf8-bom.txt",
            &["http://www.newsweek.com/sitemap_index.xml"],
        ),
        (
            "sitemap-robots-dedup.txt",
            &["http://example.org/sitemap.xml"],
        ),
        (
            "sitemap-robots.txt",
            &[
                "http://domain.com/sitemap.xml",
                "http://domain.com/dir/MixedCased-sitemap.xml",
            ],
        ),
        (
            "www.flot.com-robots.txt",
            &["http://flot.com/sitemap_index.xml"],
        ),
    ] {
        assert_eq!(read(&folder, file, "any").sitemaps(), sitemaps, "{file}");
    }
    assert_eq!(read(&folder, "wildcards.txt", "any").sitemaps().len(), 8);
}
