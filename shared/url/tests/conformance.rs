//! Goal: canonical URLs agree with public test vectors, and every difference is one we meant.
//! Method: the vectors of crawler-commons (normaliser, resolver) and of the web-platform-tests are
//! read from the folder of conformance data; where that is absent the tests say so and check
//! nothing else. Each deliberate difference is listed with its reason, and one that no longer
//! differs fails the test.

use rhumb_url::{Rules, canonical};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use url::Url;

/// The vectors, if this checkout has them beside it.
fn vectors(file: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    if !folder.exists() {
        // Not by the macro, whose output a test that passes does not show.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no conformance vectors in {} ({file})",
            folder.display()
        );
        return None;
    }
    // with the folder there, a missing file is a failure
    Some(
        std::fs::read_to_string(folder.join(file))
            .unwrap_or_else(|error| panic!("{file}: {error}")),
    )
}

/// Fields of a line: separated by commas, white space behind a comma skipped, quotes as in RFC
/// 4180.
fn fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let mut field = String::new();
        rest = rest.trim_start_matches([' ', '\t']);
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted;
            while let Some((text, behind)) = rest.split_once('"') {
                field.push_str(text);
                rest = behind;
                match rest.strip_prefix('"') {
                    Some(behind) => {
                        field.push('"');
                        rest = behind;
                    }
                    None => break,
                }
            }
        }
        let end = rest.find(',').unwrap_or(rest.len());
        field.push_str(&rest[..end]);
        fields.push(field);
        match rest.get(end + 1..) {
            Some(behind) => rest = behind,
            None => return fields,
        }
    }
}

/// Lines that hold vectors. Only line feeds separate them: other control characters are part of the
/// vectors.
fn rows(text: &str) -> impl Iterator<Item = Vec<String>> {
    text.split('\n')
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(fields)
}

/// What the table says of one input: what we give instead (`None`: not crawlable).
type Difference = (&'static str, Option<&'static str>);

/// Fails on every difference that is not listed, and on every listed one that does not differ as
/// listed.
fn check(differing: Vec<(String, Option<String>)>, reasons: &[(&str, &[Difference])]) {
    let listed: BTreeSet<(String, Option<String>)> = reasons
        .iter()
        .flat_map(|(_, differences)| differences.iter())
        .map(|(input, ours)| ((*input).to_owned(), ours.map(str::to_owned)))
        .collect();
    let differing: BTreeSet<_> = differing.into_iter().collect();
    let surprising: Vec<_> = differing.difference(&listed).collect();
    let stale: Vec<_> = listed.difference(&differing).collect();
    assert!(
        surprising.is_empty(),
        "differ without being listed (input, ours): {surprising:#?}"
    );
    assert!(
        stale.is_empty(),
        "listed, but do not differ so (input, ours): {stale:#?}"
    );
}

const UNSORTED: &[Difference] = &[
    (
        "http://example.com/?b=1&a=1",
        Some("http://example.com/?b=1&a=1"),
    ),
    (
        "http://foo.com/foo.html?b=1&a=1",
        Some("http://foo.com/foo.html?b=1&a=1"),
    ),
    (
        "http://foo.com/index?b&a=1",
        Some("http://foo.com/index?b&a=1"),
    ),
    (
        "http://foo.com/index?b=2&a=1",
        Some("http://foo.com/index?b=2&a=1"),
    ),
    (
        "http://foo.com/index?b=2&a=1#c",
        Some("http://foo.com/index?b=2&a=1"),
    ),
];

const NORMALIZER: &[(&str, &[Difference])] = &[
    (
        "only http and https are crawled",
        &[
            ("file:///foo/bar.txt", None),
            ("file:/path/index.html", None),
            ("file:/var/www/html/////./bar/index.html", None),
            ("file:/var/www/html/foo/../bar/index.html", None),
            ("ftp:/", None),
            ("ftp://foo.com/index.html", None),
        ],
    ),
    ("no host", &[("http:////", None), ("http:///////", None)]),
    (
        "in a page this is a relative reference: no scheme is guessed",
        &[("foo.com/index.html", None)],
    ),
    (
        "collapsing slashes can change the resource",
        &[
            (
                "http://foo.com////aa////bb////foo.html",
                Some("http://foo.com////aa////bb////foo.html"),
            ),
            (
                "http://foo.com////aa////bb//foo.html",
                Some("http://foo.com////aa////bb//foo.html"),
            ),
            (
                "http://foo.com//aa//bb//foo.html",
                Some("http://foo.com//aa//bb//foo.html"),
            ),
            (
                "http://foo.com//aa/bb/foo.html",
                Some("http://foo.com//aa/bb/foo.html"),
            ),
            (
                "http://foo.com/aa//bb/foo.html",
                Some("http://foo.com/aa//bb/foo.html"),
            ),
            (
                "http://foo.com/aa/bb//foo.html",
                Some("http://foo.com/aa/bb//foo.html"),
            ),
        ],
    ),
    (
        "the order of parameters may matter: they are sorted by `url.sort_query` alone",
        UNSORTED,
    ),
    (
        "empty parameters, names and values may matter",
        &[
            (
                "http://foo.com/index?&=1&a=1",
                Some("http://foo.com/index?&=1&a=1"),
            ),
            (
                "http://foo.com/index?&b=1&a=1",
                Some("http://foo.com/index?&b=1&a=1"),
            ),
            (
                "http://foo.com/index?=1&b=1&a=1",
                Some("http://foo.com/index?=1&b=1&a=1"),
            ),
            (
                "http://foo.com/index?a=1&b=",
                Some("http://foo.com/index?a=1&b="),
            ),
            (
                "http://foo.com/index?b=&a=1",
                Some("http://foo.com/index?b=&a=1"),
            ),
            (
                "http://foo.com/index?b=1&a=1&",
                Some("http://foo.com/index?b=1&a=1&"),
            ),
        ],
    ),
];

#[test]
fn urls_are_normalised_as_in_the_normaliser_vectors() {
    let Some(text) = vectors("normalizer/weirdToNormalizedUrls.csv") else {
        return;
    };
    let mut differing = Vec::new();
    let mut n = 0;
    for row in rows(&text) {
        let [input, expected] = &row[..] else {
            panic!("not two fields: {row:?}")
        };
        let ours = canonical(input, None, None).ok();
        n += 1;
        if UNSORTED.iter().any(|(unsorted, _)| unsorted == input) {
            let sorted = ours.as_deref().map(|ours| {
                Rules {
                    sort_query: true,
                    ..Rules::default()
                }
                .rewrite(ours)
            });
            assert_eq!(sorted.as_ref(), Some(expected), "{input}");
        }
        if ours.as_ref() != Some(expected) {
            differing.push((input.clone(), ours));
        }
    }
    assert!(n > 100, "only {n} vectors were read");
    check(differing, NORMALIZER);
}

#[test]
fn invalid_urls_of_the_normaliser_vectors_are_not_crawlable() {
    let Some(text) = vectors("normalizer/invalidUrls.csv") else {
        return;
    };
    let invalid: Vec<_> = rows(&text).flatten().collect();
    assert!(!invalid.is_empty());
    for url in invalid {
        assert!(canonical(&url, None, None).is_err(), "{url}");
    }
}

const RESOLVER: &[(&str, &[Difference])] = &[
    (
        "escapes are in upper case",
        &[
            ("/a%2fc", Some("http://example.org/a%2Fc")),
            ("/a/%2f/c", Some("http://example.org/a/%2F/c")),
        ],
    ),
    (
        "user information is never sent",
        &[("http://user:pass@foo:21/bar;par?b#c", None)],
    ),
    (
        "only http and https are crawled",
        &[("//server/file", None)],
    ),
];

#[test]
fn references_are_resolved_as_in_the_resolver_vectors() {
    let Some(text) = vectors("url-utils/url-resolve.csv") else {
        return;
    };
    let mut differing = Vec::new();
    let mut n = 0;
    for row in rows(&text) {
        let [href, base, expected] = &row[..] else {
            panic!("not three fields: {row:?}")
        };
        let base = (!base.is_empty()).then(|| Url::parse(base).unwrap());
        let ours = canonical(href, base.as_ref(), None).ok();
        n += 1;
        if ours.as_deref() != expected.split('#').next() {
            differing.push((href.clone(), ours));
        }
    }
    assert!(n >= 20, "only {n} vectors were read");
    check(differing, RESOLVER);
}

/// Inputs of the web-platform-tests in which the URL library itself departs from the standard, or
/// we from both.
const WHATWG: &[(&str, &[Difference])] = &[
    (
        "no name that could be registered: empty labels, other characters than letters, digits, - \
         and _",
        &[
            ("http://!\"$&'()*+,-.;=_`{}~/", None),
            ("http://../", None),
            ("http://./", None),
            ("http://foo.09..", None),
        ],
    ),
    (
        "the library validates Punycode",
        &[
            ("http://10.0.0.XN--pokxncvks", None),
            ("http://10.0.0.xN--pokxncvks", None),
            ("http://10.0.0.xn--pokxncvks", None),
            ("http://a.b.c.XN--pokxncvks", None),
            ("http://a.b.c.Xn--pokxncvks", None),
            ("http://a.b.c.xn--pokxncvks", None),
            ("https://xn--/", None),
        ],
    ),
];

/// A WHATWG serialisation in our form, as far as that differs by rule: no fragment, no empty query,
/// no user information, no root's dot. Where escapes may differ, [`canonical`] of the serialisation
/// is compared.
fn expected_of(test: &serde_json::Value) -> Option<String> {
    let text = |key: &str| test[key].as_str().unwrap_or_default();
    let is_web = matches!(text("protocol"), "http:" | "https:");
    if test["failure"].as_bool() == Some(true)
        || !is_web
        || !text("username").is_empty()
        || !text("password").is_empty()
    {
        return None;
    }
    let href = text("href").split('#').next().unwrap_or_default();
    let plain = !href.bytes().any(|byte| b"%[]|^{}`".contains(&byte))
        && !href.ends_with('?')
        && !text("hostname").ends_with('.');
    if plain {
        Some(href.to_owned())
    } else {
        canonical(href, None, None).ok().or(Some(href.to_owned()))
    }
}

#[test]
fn parsing_agrees_with_the_web_platform_tests() {
    let Some(text) = vectors("url-utils/wpt-urltestdata.json") else {
        return;
    };
    let tests: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let mut differing = Vec::new();
    let mut n = 0;
    for test in tests.iter().filter(|test| test.is_object()) {
        let Some(input) = test["input"].as_str() else {
            continue;
        };
        let base = match test["base"].as_str() {
            Some(base) => match Url::parse(base) {
                Ok(base) => Some(base),
                // the base is what the vector tests
                Err(_) => continue,
            },
            None => None,
        };
        let ours = canonical(input, base.as_ref(), None).ok();
        n += 1;
        if ours != expected_of(test) {
            differing.push((input.to_owned(), ours));
        }
    }
    assert!(n > 500, "only {n} vectors were read");
    check(differing, WHATWG);
}
