//! What known pages cost a scheduler, and how fast it plans their visits, with millions of them.
//!
//! The core is driven (`driven.rs`) by one thread. Its pages are given to it, then it is opened
//! anew: memory and disk are those of pages that wait for their next visit. Visits are planned
//! until each server has as many as a connection takes.

use super::driven::{Driven, PARTITIONS, disk_bytes, unix_ms};
use super::process::{Progress, cpu_s, main_thread_cpu_s, measured_apart, resident};
use anyhow::ensure;
use rhumb_config::{Layers, Pipeline};
use rhumb_stage::Event;
use rhumb_url::partition;
use rhumb_wire::message::{
    Edge, LastVisit, Origin, PageState, ReadyUrls, Resolution, ServerResolution, encode,
};
use scheduler::quality::Qualities;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Known pages of a server.
const PAGES_OF_SERVER: usize = 1000;
/// A batch has so many pages of one server.
const PAGES_OF_BATCH: usize = 250;
/// How long ago pages were visited: each at a time of its own, within so many days.
const VISITED_WITHIN_DAYS: u64 = 30;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// How long visits are planned, at most.
const PLANS_FOR: Duration = Duration::from_secs(60);

/// The scheduler with so many known pages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Known pages.
    pub pages: u64,
    /// Pages a second of CPU time made known, that of the store's threads counted.
    pub given_per_s: f64,
    /// Seconds to open the state again.
    pub open_s: f64,
    /// Resident memory in bytes once the state is open, with the caches of the store.
    pub resident: u64,
    /// All files, in bytes per page, without the URLs themselves.
    pub disk_per_page: f64,
    /// Visits a second of CPU time planned.
    pub planned_per_s: f64,
}

/// What the columns of a line are.
pub fn head() -> String {
    format!(
        "{:>10} {:>9} {:>7} {:>11} {:>10} {:>10}",
        "pages", "given/s", "open s", "resident MB", "disk/page", "planned/s"
    )
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>10} {:>9.0} {:>7.2} {:>11.1} {:>10.1} {:>10.0}",
            self.pages,
            self.given_per_s,
            self.open_s,
            self.resident as f64 / 1e6,
            self.disk_per_page,
            self.planned_per_s
        )
    }
}

/// Measures a scheduler with so many known pages in a process of its own, in a new folder below
/// `dir`.
///
/// # Errors
/// The program cannot be run, or fails.
pub fn measure_apart(pages: u64, dir: &Path) -> anyhow::Result<Measured> {
    measured_apart(&["--known-pages", &pages.to_string()], dir)
}

/// Measures a scheduler with so many known pages, in a new folder below `dir`.
///
/// # Errors
/// The folder cannot be written, or the scheduler does not do what it should.
pub fn measure(pages: u64, dir: &Path) -> anyhow::Result<Measured> {
    let folder = tempfile::Builder::new()
        .prefix("known-pages-")
        .tempdir_in(dir)?;
    // Without a budget no visit is planned while pages come.
    let resting = pipeline(0)?;
    let qualities = Qualities::open(&resting)?;
    let mut driven = Driven::open(&resting, &qualities, folder.path())?;
    let began = cpu_s()?;
    let url_bytes = give(&mut driven, pages)?;
    let given_per_s = pages as f64 / (cpu_s()? - began);
    let known = driven.count("pages_known_total");
    ensure!(known == pages, "{known} of {pages} pages are known");
    drop(driven);
    let disk_per_page = (disk_bytes(folder.path())? - url_bytes) as f64 / pages as f64;

    let planning = pipeline(1_000_000)?;
    let started = Instant::now();
    let mut driven = Driven::open(&planning, &qualities, folder.path())?;
    let open_s = started.elapsed().as_secs_f64();
    let resident = resident()?;
    let planned_per_s = plan(&mut driven, pages)?;
    Ok(Measured {
        pages,
        given_per_s,
        open_s,
        resident,
        disk_per_page,
        planned_per_s,
    })
}

fn pipeline(requests_per_second: u64) -> anyhow::Result<Pipeline> {
    let set = vec![
        format!("partitions={PARTITIONS}"),
        "recrawl.policy=fresh".to_owned(),
        format!("recrawl.requests_per_second={requests_per_second}"),
        "politeness.delay=0s".to_owned(),
        "politeness.respect_robots=false".to_owned(),
        "network.user_agent='rhumb/0 (+https://example.org/bench)'".to_owned(),
    ];
    Ok(Layers { file: None, set }.load_with(std::iter::empty())?)
}

/// Makes so many pages known, as a crawl log would. Returns the bytes of their URLs.
fn give(driven: &mut Driven, pages: u64) -> anyhow::Result<u64> {
    let now_ms = unix_ms()?;
    let mut progress = Progress::new("making pages known", pages);
    let mut url_bytes = 0;
    let mut serial = 0;
    while serial < pages {
        let host = format!("www{}.example.test", serial / PAGES_OF_SERVER as u64);
        let mut ready = ReadyUrls {
            partition: partition(&host, PARTITIONS),
            ..ReadyUrls::default()
        };
        let addresses = vec![std::net::IpAddr::from([192, 0, 2, 1])];
        ready.servers.push(ServerResolution {
            server: format!("http://{host}"),
            resolution: Some(Resolution::Addresses {
                addresses,
                ttl_s: 86_400,
            }),
        });
        for place in 0..PAGES_OF_BATCH.min(usize::try_from(pages - serial)?) {
            serial += 1;
            let url = format!("http://{host}/section/page-{serial}.html");
            url_bytes += url.len() as u64;
            let ago_ms = serial * 7919 % VISITED_WITHIN_DAYS * DAY_MS + serial % DAY_MS;
            let last = LastVisit {
                at_ms: now_ms - ago_ms - DAY_MS,
                number: 1,
                state: PageState::Page,
            };
            ready.urls.push(&url);
            ready.origins.push(Origin::known("default", 3, last));
            ready.origin_of.push(u32::try_from(place)?);
            ready.server_of.push(0);
            ready.serials.push(serial);
        }
        driven.message(Edge::UrlsReady, &encode(&ready))?;
        progress.tell(serial);
    }
    Ok(url_bytes)
}

/// Visits a second of CPU time planned, until no server may have more.
fn plan(driven: &mut Driven, pages: u64) -> anyhow::Result<f64> {
    let mut progress = Progress::new("planning visits", pages);
    let started = Instant::now();
    let began = main_thread_cpu_s()?;
    let mut before = 0;
    loop {
        driven.event(Event::Wake)?;
        let now = driven.count("visits_planned_total");
        progress.tell(now);
        if now == before && now > 0 || started.elapsed() > PLANS_FOR {
            break;
        }
        before = now;
    }
    ensure!(before > 0, "no visit was planned");
    Ok(before as f64 / (main_thread_cpu_s()? - began))
}
