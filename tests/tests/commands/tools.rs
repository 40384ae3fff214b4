//! Tools: `canonical`, `robots` and `links`, which need no crawl.

use rhumb_node::exit_codes::{CRAWL, ROWS, STAGE, help, help_of_all, table};
use rhumb_tests::harness::{binaries, rhumb};
use rhumb_wire::topology::STAGES;
use serde_json::Value;
use std::process::Command;

#[test]
fn canonical_gives_the_one_spelling_of_a_url() {
    let said = rhumb(&[
        "canonical",
        "--json",
        "HTTP://Example.ORG:80/a/../b?y=2#part",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let told: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(told["canonical"], "http://example.org/b?y=2");
    assert!(
        told["surt"]
            .as_str()
            .is_some_and(|surt| surt.contains("org,example")),
        "{told}"
    );
    assert!(told["partition"].as_u64() < Some(64), "{told}");
    let again = rhumb(&["canonical", "--json", "http://example.org/b?y=2"]);
    assert_eq!(again.out, said.out);

    let refused = rhumb(&["canonical", "mailto:a@example.org"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert!(refused.err.contains("not crawlable"), "{}", refused.err);
    assert_eq!(rhumb(&["canonical"]).code, 2);
}

#[test]
fn robots_tells_by_its_exit_code_whether_a_url_is_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("robots.txt");
    std::fs::write(
        &path,
        "User-agent: *\nDisallow: /private/\nAllow: /private/open\n\nUser-agent: other\nDisallow: \
         /\n",
    )
    .expect("a file");
    let file = path.display().to_string();
    let ask = |url: &str, agent: &str| rhumb(&["robots", &file, url, "--agent", agent]).code;
    assert_eq!(ask("http://a.test/", "rhumb"), 0);
    assert_eq!(ask("http://a.test/private/x", "rhumb"), 1);
    assert_eq!(ask("http://a.test/private/open/x", "rhumb"), 0);
    assert_eq!(ask("http://a.test/", "other"), 1);
    assert_eq!(ask("nonsense", "rhumb"), 2);
    assert_eq!(
        rhumb(&["robots", "/nowhere/robots.txt", "http://a.test/"]).code,
        2
    );
}

#[test]
fn links_lists_the_links_of_a_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.html");
    std::fs::write(
        &path,
        "<base href='/dir/'><a href='x#top'>x</a> <a href='//other.test/?a=1&amp;b=2'>o</a>",
    )
    .expect("a file");
    let file = path.display().to_string();
    let said = rhumb(&["links", &file, "--base", "http://a.test/page"]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "http://a.test/dir/x\nhttp://other.test/?a=1&b=2\n"),
        "{}",
        said.err
    );
    std::fs::write(&path, "no document: <a href='x'>").expect("a file");
    let plain = rhumb(&[
        "links",
        &file,
        "--base",
        "http://a.test/page",
        "--content-type",
        "text/plain",
    ]);
    assert_eq!((plain.code, plain.out.as_str()), (0, ""), "{}", plain.err);
    assert_eq!(rhumb(&["links", &file, "--base", "nonsense"]).code, 2);
    assert_eq!(
        rhumb(&[
            "links",
            &file,
            "--base",
            "http://a.test/",
            "--header",
            "nonsense"
        ])
        .code,
        2
    );
    assert_eq!(
        rhumb(&[
            "links",
            &file,
            "--base",
            "http://a.test/",
            "--set",
            "stages.parser.nofollow=no"
        ])
        .code,
        2
    );
}

/// Documents, each with more arguments and with the sources and URLs that are found.
const SOURCES: &[(&str, &[&str], &[&str])] = &[
    ("<a href=/x>", &[], &["a http://a.test/x"]),
    ("<area href=/x>", &[], &["area http://a.test/x"]),
    (
        "<link rel=next href=/x><link rel=canonical href=/y>",
        &[],
        &["link http://a.test/x", "canonical http://a.test/y"],
    ),
    (
        "<iframe src=/x></iframe><frame src=/y>",
        &[],
        &["frame http://a.test/x", "frame http://a.test/y"],
    ),
    (
        "<meta http-equiv=refresh content='0;url=/x'>",
        &[],
        &["meta-refresh http://a.test/x"],
    ),
    ("<form action=/x>", &[], &[]),
    (
        "<form action=/x>",
        &["--set", "stages.parser.forms=true"],
        &["form http://a.test/x"],
    ),
    (
        "<link rel=amphtml href=/x>",
        &["--set", "stages.parser.amphtml=true"],
        &["link http://a.test/x"],
    ),
    ("<img src=/x srcset='/y 2x'>", &[], &[]),
    (
        "<img src=/x srcset='/y 2x'>",
        &["--set", "stages.parser.embedded=true"],
        &["image http://a.test/x", "srcset http://a.test/y"],
    ),
    (
        "<script src=/x></script><video poster=/y>",
        &["--set", "stages.parser.embedded=true"],
        &["script http://a.test/x", "media http://a.test/y"],
    ),
    (
        "<a rel=nofollow href=/x>",
        &["--set", "stages.parser.nofollow=ignore"],
        &["a http://a.test/x"],
    ),
    ("<a href=/x>", &["--header", "X-Robots-Tag: nofollow"], &[]),
    (
        "",
        &["--header", "Link: </x>; rel=next"],
        &["link-header http://a.test/x"],
    ),
    (
        "",
        &["--header", "Refresh: 0; url=/x"],
        &["refresh-header http://a.test/x"],
    ),
    (
        "",
        &["--header", "Content-Location: /x"],
        &["content-location http://a.test/x"],
    ),
    (
        "",
        &["--header", "Location: /x", "--status", "302"],
        &["location http://a.test/x"],
    ),
    (
        "<urlset><url><loc>http://a.test/x</loc></url></urlset>",
        &["--content-type", "text/xml"],
        &["sitemap http://a.test/x"],
    ),
    (
        "<rss><channel><item><link>/x</link></item></channel></rss>",
        &[],
        &["feed http://a.test/x"],
    ),
    (
        "<feed><entry><link href='/x'/></entry></feed>",
        &[],
        &["feed http://a.test/x"],
    ),
    (
        "http://a.test/x\n",
        &["--content-type", "text/plain"],
        &["text http://a.test/x"],
    ),
];

#[test]
fn links_finds_every_source_of_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("document");
    let file = path.display().to_string();
    for (document, more, expected) in SOURCES {
        std::fs::write(&path, document).expect("a file");
        let said = rhumb(
            &[
                [
                    "links",
                    &file,
                    "--base",
                    "http://a.test/sitemap.txt",
                    "--json",
                ]
                .as_slice(),
                *more,
            ]
            .concat(),
        );
        assert_eq!(said.code, 0, "{document} {more:?}: {}", said.err);
        let found: Value = serde_json::from_str(&said.out).expect("JSON");
        let links: Vec<String> = found["links"]
            .as_array()
            .expect("links")
            .iter()
            .map(source_and_url)
            .collect();
        assert_eq!(links, *expected, "{document} {more:?}");
    }
}

#[test]
fn links_tells_what_the_parser_knows_of_a_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("document");
    let file = path.display().to_string();
    std::fs::write(
        &path,
        "<html lang=de><title>A &amp; B</title>see <a href=/x>the page</a>",
    )
    .expect("a file");
    let said = rhumb(&[
        "links",
        &file,
        "--base",
        "http://a.test/",
        "--json",
        "--set",
        "stages.parser.anchors=true",
    ]);
    let found: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(
        (&found["title"], &found["language"]),
        (&"A & B".into(), &"de".into()),
        "{found}"
    );
    assert_eq!(
        (&found["charset"], &found["nofollow"]),
        (&"UTF-8".into(), &false.into()),
        "{found}"
    );
    let anchor = &found["links"][0]["anchor"];
    assert_eq!(
        (&anchor["text"], &anchor["context"]),
        (&"the page".into(), &"see the page".into()),
        "{found}"
    );
}

fn source_and_url(link: &Value) -> String {
    format!(
        "{} {}",
        link["source"].as_str().unwrap_or("?"),
        link["url"].as_str().unwrap_or("?")
    )
}

/// Help breaks its lines by the width of the terminal.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn exit_codes_are_the_same_in_help_and_in_the_documentation() {
    let documented = include_str!("../../../docs/operating.md");
    assert!(
        documented.contains(&table()),
        "docs/operating.md lacks this table:\n{}",
        table()
    );
    let said = words(&rhumb(&["--help"]).out);
    assert!(
        said.contains(&words(&help_of_all())) && ROWS.contains(&CRAWL),
        "{said}"
    );
    let said = words(&rhumb(&["crawl", "--help"]).out);
    assert!(said.contains(&words(&help(&CRAWL))), "{said}");
    for stage in STAGES.iter().filter(|row| !row.is_optional) {
        let said = Command::new(binaries().join(stage.name))
            .arg("--help")
            .output()
            .expect("a stage can be started");
        let said = words(&String::from_utf8_lossy(&said.stdout));
        assert!(
            said.contains(&words(&help(&STAGE))),
            "{}: {said}",
            stage.name
        );
    }
}
