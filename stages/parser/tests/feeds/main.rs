//! Sitemaps and feeds: recognised by what they are, whatever the server calls them.

mod kinds;
mod markup;
mod news;
mod sitemaps;

use flate2::Compression;
use flate2::write::GzEncoder;
use parser::options::Options;
use parser::page::{Limits, Links, Response, links_by};
use std::io::Write as _;

const LIMITS: Limits = Limits {
    decoded_bytes_max: 1 << 20,
    sitemap_bytes_max: 2 << 20,
    links_per_page_max: 1000,
    links_per_sitemap_max: 3000,
    url_bytes_max: 2048,
};

fn read(url: &str, headers: &[(&str, &[u8])], body: &[u8], options: &Options) -> Links {
    links_by(
        &Response {
            url,
            status: 200,
            headers,
            body,
        },
        &LIMITS,
        options,
        "rhumb",
    )
}

fn found(body: &str) -> Links {
    read(
        "http://h.example/dir/feed",
        &[],
        body.as_bytes(),
        &Options::default(),
    )
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(plain)
        .expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}
