//! How long does the parser take for a page? `cargo run --release -p parser --example timing`
//!
//! A generated page of about 17 kB with 51 links, as the crawl's synthetic web serves on average,
//! plain and gzipped. Prints the best of several rounds, which is what the code costs when the
//! machine does nothing else.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement"
)]

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use parser::page::{Limits, Response, links};

const LIMITS: Limits = Limits {
    decoded_bytes_max: 4 << 20,
    sitemap_bytes_max: 4 << 20,
    links_per_page_max: 5000,
    links_per_sitemap_max: 5000,
    url_bytes_max: 2048,
};
const ROUNDS: usize = 30;
const PAGES_PER_ROUND: u32 = 200;

fn main() {
    let page = generated_page(17_000);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(page.as_bytes())
        .expect("writing to memory succeeds");
    let gzipped = encoder.finish().expect("writing to memory succeeds");

    report(
        "plain",
        page.as_bytes(),
        page.len(),
        &[("content-type", b"text/html; charset=utf-8")],
    );
    report(
        "no charset",
        page.as_bytes(),
        page.len(),
        &[("content-type", b"text/html")],
    );
    report(
        "gzip",
        &gzipped,
        page.len(),
        &[
            ("content-type", b"text/html; charset=utf-8"),
            ("content-encoding", b"gzip"),
        ],
    );
}

fn report(name: &str, body: &[u8], plain_bytes: usize, headers: &[(&str, &[u8])]) {
    let response = Response {
        url: "http://site.example/section/page.html",
        status: 200,
        headers,
        body,
    };
    let n_links = links(&response, &LIMITS, "rhumb").urls.len();
    let best_ms = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..PAGES_PER_ROUND {
                black_box(links(black_box(&response), &LIMITS, "rhumb"));
            }
            start.elapsed().as_secs_f64() * 1e3 / f64::from(PAGES_PER_ROUND)
        })
        .fold(f64::INFINITY, f64::min);
    let mb_per_s = plain_bytes as f64 / best_ms / 1e3;
    println!(
        "{name}: {plain_bytes} bytes, {n_links} links, {best_ms:.4} ms/page, {mb_per_s:.0} MB/s"
    );
}

/// Paragraphs of text with inline markup, one link each, until the page has the size.
fn generated_page(bytes: usize) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><title>A page</title><link rel=\"stylesheet\" \
         href=\"/style.css\"><script>var links = \"<a href='/no'>\";</script></head>\n<body>\n",
    );
    for number in 0..51 {
        let href = match number % 5 {
            0 => format!("/section/{number}/page-{number}.html"),
            1 => format!("page-{number}.html?id={number}&amp;sort=asc"),
            2 => format!("http://other-{number}.example/"),
            3 => format!("../up/{number}/#part"),
            _ => format!("https://site.example/a/b/c/{number}"),
        };
        page.push_str(&format!(
            "<div class=\"item\" id=\"i{number}\"><p>Some <b>words</b> of text <a class=\"link\" \
             href=\"{href}\">number {number}</a> and more of \
             it.</p><ul><li>one</li><li>two</li></ul></div>\n"
        ));
    }
    while page.len() < bytes {
        page.push_str(
            "<p>Plain text goes on for a while, as it does on most pages, with little \
             <i>markup</i>.</p>\n",
        );
    }
    page.push_str("</body></html>\n");
    page
}
