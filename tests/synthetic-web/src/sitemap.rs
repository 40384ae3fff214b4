//! Sitemaps: of hosts with pages that nothing else leads to, and of hosts whose pages change
//! (sitemaps.org protocol 0.9).
//!
//! On the first, robots.txt names an index, and the index names three maps: XML, packed XML, plain
//! text. They are the host's first byways; the pages in them are the next ones. On the others it
//! names one map of the pages that are there now, with dates of their changes.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::change::Lastmod;
use super::plan::Plan;
use super::record::Recorder;
use super::resource::Resource;
use super::validators::date;

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
pub(crate) const XML: &str = "application/xml";

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
const XMLNS: &str = "xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"";

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

/// The line of robots.txt that names the sitemap of a host whose pages change; empty without one.
pub(crate) fn line_of_host(plan: &Plan, host: u32) -> String {
    if plan.site(host).has_sitemap() {
        format!("Sitemap: {}\n", plan.url(host, Resource::Sitemap))
    } else {
        String::new()
    }
}

/// The sitemap of a host whose pages change, as it is now: the pages that are there, redirects and
/// disallowed ones apart.
pub(crate) fn of_host(plan: &Plan, recorder: &Recorder, host: u32) -> String {
    let lastmod = plan.site(host).manners.and_then(|manners| manners.sitemap);
    let now_s = recorder.now().as_secs_f64();
    let mut map = format!("{HEAD}<urlset {XMLNS}>\n");
    for page in (0..plan.site(host).pages).filter(|page| plan.shape(host, *page).is_open()) {
        let moment = plan.moment(host, page, now_s);
        let Some(moment) = moment.filter(|moment| moment.is_there) else {
            continue;
        };
        let at_s = match lastmod {
            Some(Lastmod::Right) => Some(moment.version.since_s),
            Some(Lastmod::Wrong) => Some(now_s),
            Some(Lastmod::Missing) | None => None,
        };
        let date = at_s.map(|at_s| date(recorder.began_at(), at_s));
        let date = date.map(humantime::format_rfc3339_millis);
        let lastmod = date.map(|date| format!("<lastmod>{date}</lastmod>"));
        let url = plan.url(host, Resource::Page(page)).replace('&', "&amp;");
        let lastmod = lastmod.unwrap_or_default();
        map.push_str(&format!("<url><loc>{url}</loc>{lastmod}</url>\n"));
    }
    map + "</urlset>\n"
}

/// Type and content of a map.
pub(crate) fn render(plan: &Plan, host: u32, number: u32) -> io::Result<(&'static str, Vec<u8>)> {
    let url = |number| plan.url(host, Resource::Byway(number));
    let wrapped = |element: &str, urls: Vec<String>| -> String {
        urls.iter()
            .map(|url| format!("<{element}><loc>{url}</loc></{element}>\n"))
            .collect()
    };
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
