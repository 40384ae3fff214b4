//! From responses to links: a case for each source of links and each way to leave some out.

mod documents;
mod nofollow;
mod redirects;
mod sources;
mod urls;

use parser::options::Options;
use parser::page::{Limits, Links, Response, links, links_by};
use parser::source::Source;
use rhumb_config::Nofollow;

const LIMITS: Limits = Limits {
    decoded_bytes_max: 1 << 20,
    sitemap_bytes_max: 1 << 20,
    links_per_page_max: 100,
    links_per_sitemap_max: 100,
    url_bytes_max: 2048,
};
const PAGE: &str = "http://h.example/dir/page";

fn fetched(status: u16, headers: &[(&str, &[u8])], body: &[u8]) -> Links {
    links(
        &Response {
            url: PAGE,
            status,
            headers,
            body,
        },
        &LIMITS,
        "rhumb",
    )
}

fn html(body: &str) -> Links {
    fetched(
        200,
        &[("content-type", b"text/html; charset=utf-8")],
        body.as_bytes(),
    )
}

const HTML: (&str, &[u8]) = ("content-type", b"text/html; charset=utf-8");
const DEFAULT: Options = Options {
    embedded: false,
    forms: false,
    amphtml: false,
    anchors: false,
    sketch: false,
    is_named_sitemap: false,
    news: None,
    nofollow: Nofollow::Obey,
};

fn found_by(options: &Options, headers: &[(&str, &[u8])], body: &str) -> Links {
    let response = Response {
        url: PAGE,
        status: 200,
        headers,
        body: body.as_bytes(),
    };
    let found = links_by(&response, &LIMITS, options, "rhumb");
    assert_eq!(found.urls.len(), found.sources.len());
    found
}

/// What was found, as `SOURCE PATH`.
fn paths(found: &Links) -> Vec<String> {
    let path = |(source, url): (&Source, &String)| {
        format!(
            "{} {}",
            source.name(),
            url.strip_prefix("http://h.example").unwrap_or(url)
        )
    };
    found.sources.iter().zip(&found.urls).map(path).collect()
}
