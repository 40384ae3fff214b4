//! Goal: whatever a server sends, its links are canonical, each comes once, and all limits are kept
//! (P9): HTML in any charset, headers, sitemaps, feeds, and all of that packed.
//!
//! Input: a byte that says how it is served, then lines of headers (`name: value`) up to an empty
//! one, then the body.

use parser::news::News;
use parser::options::Options;
use parser::page::{Limits, Links, Response, links_by};
use rhumb_config::Nofollow;
use rhumb_url::canonical;
use std::collections::HashSet;

const LIMITS: Limits = Limits {
    decoded_bytes_max: 64 << 10,
    sitemap_bytes_max: 128 << 10,
    links_per_page_max: 20,
    links_per_sitemap_max: 30,
    url_bytes_max: 300,
};

/// Takes one input.
pub fn run(data: &[u8]) {
    let Some((&how, mut rest)) = data.split_first() else {
        return;
    };
    let mut headers = Vec::new();
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, behind) = rest.split_at(end);
        rest = &behind[1..];
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            break;
        };
        let Ok(name) = std::str::from_utf8(&line[..colon]) else {
            break;
        };
        headers.push((name, line[colon + 1..].trim_ascii()));
    }
    let url = if how & 1 == 0 {
        "http://h.example/dir/page"
    } else {
        "https://h.example/sitemap.txt"
    };
    let status = if how & 2 == 0 { 200 } else { 301 };
    let on = how & 4 != 0;
    let nofollow = if how & 8 == 0 {
        Nofollow::Obey
    } else {
        Nofollow::Ignore
    };
    let is_named_sitemap = how & 16 != 0;
    let options = Options {
        embedded: on,
        forms: on,
        amphtml: on,
        anchors: on,
        sketch: on,
        is_named_sitemap,
        news: on.then_some(News {
            after_ms: 0,
            until_ms: u64::MAX,
        }),
        nofollow,
    };
    let response = Response {
        url,
        status,
        headers: &headers,
        body: rest,
    };
    let found = links_by(&response, &LIMITS, &options, "rhumb");
    check(&found, &options);
    assert_eq!(found, links_by(&response, &LIMITS, &options, "rhumb"));
}

fn check(found: &Links, options: &Options) {
    assert!(found.urls.len() <= LIMITS.links_per_sitemap_max);
    assert_eq!(found.sources.len(), found.urls.len());
    assert!(found.news.len() <= found.urls.len());
    let mut seen = HashSet::new();
    for url in &found.urls {
        assert!(
            url.len() <= LIMITS.url_bytes_max && seen.insert(url),
            "{url}"
        );
        assert_eq!(canonical(url, None, None).as_ref(), Ok(url));
    }
    if !found.redirect {
        assert_eq!(
            found.anchors.len(),
            if options.anchors { found.urls.len() } else { 0 }
        );
    }
    for anchor in &found.anchors {
        assert!(
            anchor.text.len() <= 128 && anchor.context.len() <= 256,
            "{anchor:?}"
        );
    }
    assert!(
        found.title.len() <= 256 && found.language.len() <= 35,
        "{} {}",
        found.title,
        found.language
    );
}
