//! Sitemaps of hosts with pages that nothing else leads to (sitemaps.org protocol 0.9).
//!
//! robots.txt names an index, and the index names three maps: XML, packed XML, plain text. They are
//! the host's first byways; the pages in them are the next ones.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::plan::Plan;
use super::resource::Resource;

/// The index and the maps that it names.
const PATHS: [&str; 4] = [
    "/sitemap.xml",
    "/maps/1.xml",
    "/maps/2.xml.gz",
    "/maps/sitemap-3.txt",
];
/// Number of the index and the maps together.
pub(crate) const MAPS: u32 = PATHS.len() as u32;
/// Pages in the maps.
pub(crate) const MAPPED: u32 = 9;
const XML: &str = "application/xml";

pub(crate) fn path(number: u32) -> Option<&'static str> {
    PATHS.get(number as usize).copied()
}

pub(crate) fn number(path: &str) -> Option<u32> {
    Some(PATHS.iter().position(|known| *known == path)? as u32)
}

/// The lines of robots.txt that name them.
pub(crate) fn robots_line(plan: &Plan, host: u32) -> String {
    format!("Sitemap: {}\n", plan.url(host, Resource::Byway(0)))
}

/// Type and content of a map.
pub(crate) fn render(plan: &Plan, host: u32, number: u32) -> io::Result<(&'static str, Vec<u8>)> {
    let url = |number| plan.url(host, Resource::Byway(number));
    let wrapped = |element: &str, urls: Vec<String>| -> String {
        urls.iter()
            .map(|url| format!("<{element}><loc>{url}</loc></{element}>\n"))
            .collect()
    };
    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    const XMLNS: &str = "xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"";
    // Each map has every third page.
    let pages = (MAPS..MAPS + MAPPED)
        .filter(|page| page % (MAPS - 1) == number % (MAPS - 1))
        .map(url)
        .collect();
    let map = |pages| {
        format!(
            "{HEAD}<urlset {XMLNS}>\n{}</urlset>\n",
            wrapped("url", pages)
        )
    };
    Ok(match number {
        0 => {
            let maps = wrapped("sitemap", (1..MAPS).map(url).collect());
            (
                XML,
                format!("{HEAD}<sitemapindex {XMLNS}>\n{maps}</sitemapindex>\n").into_bytes(),
            )
        }
        1 => (XML, map(pages).into_bytes()),
        2 => {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(map(pages).as_bytes())?;
            ("application/gzip", packed.finish()?)
        }
        _ => ("text/plain", (pages.join("\n") + "\n").into_bytes()),
    })
}
