//! Messages of which an earlier version is read as well: that version, and how it becomes the present one.

use super::envelope::{Before, EdgeMessage};
use super::fetch::{HttpVersion, JobId, Page, Report, RequestResult, RobotsResponse};
use super::text::UrlList;
use super::urls::{Anchor, Boost, Boosts, FoundUrls, Origin};
use crate::topology::Edge;
use rkyv::{Archive, Deserialize, Serialize};
use std::net::IpAddr;

impl EdgeMessage for Report {
    const EDGE: Edge = Edge::FetchReports;
    const VERSION: u8 = 4;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Report3>());
}

/// A report before there were replays: no request of it failed as not archived.
#[derive(Archive, Serialize, Deserialize)]
pub struct Report3 {
    job: JobId,
    fetcher: String,
    partition: u16,
    server: String,
    sequence: u32,
    last: bool,
    results: Vec<RequestResult>,
    connect_us: Option<u32>,
    requests: u32,
    busy_us: u64,
    elapsed_us: u64,
    closed_by_server: bool,
    robots: Option<RobotsResponse>,
}

impl EdgeMessage for Report3 {
    const EDGE: Edge = Edge::FetchReports;
    const VERSION: u8 = 3;
}

impl From<Report3> for Report {
    fn from(before: Report3) -> Report {
        Report {
            job: before.job,
            fetcher: before.fetcher,
            partition: before.partition,
            server: before.server,
            sequence: before.sequence,
            last: before.last,
            results: before.results,
            connect_us: before.connect_us,
            requests: before.requests,
            busy_us: before.busy_us,
            elapsed_us: before.elapsed_us,
            closed_by_server: before.closed_by_server,
            robots: before.robots,
        }
    }
}

impl EdgeMessage for Page {
    const EDGE: Edge = Edge::Pages;
    const VERSION: u8 = 5;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Page4>());

    fn bytes_about(&self) -> usize {
        let headers = self.headers.iter().chain(&self.request_headers);
        // A header has two lengths and two places beside its bytes, all of them aligned.
        let headers: usize = headers.map(|(name, value)| name.len() + value.len() + 24).sum();
        512 + self.url.len() + self.origin.page.len() + headers + self.body.len()
    }
}

/// A page when responses to requests for robots.txt were none.
#[derive(Archive, Serialize, Deserialize)]
pub struct Page4 {
    url: String,
    origin: Origin,
    status: u16,
    fetched_at_ms: u64,
    elapsed_us: u32,
    address: Option<IpAddr>,
    http_version: HttpVersion,
    request_headers: Vec<(String, Vec<u8>)>,
    headers: Vec<(String, Vec<u8>)>,
    truncated: bool,
    body: Vec<u8>,
}

impl EdgeMessage for Page4 {
    const EDGE: Edge = Edge::Pages;
    const VERSION: u8 = 4;
}

impl From<Page4> for Page {
    fn from(before: Page4) -> Page {
        Page {
            url: before.url,
            origin: before.origin,
            status: before.status,
            fetched_at_ms: before.fetched_at_ms,
            elapsed_us: before.elapsed_us,
            address: before.address,
            http_version: before.http_version,
            request_headers: before.request_headers,
            headers: before.headers,
            truncated: before.truncated,
            body: before.body,
            is_robots: false,
        }
    }
}

impl EdgeMessage for FoundUrls {
    const EDGE: Edge = Edge::UrlsFound;
    const VERSION: u8 = 5;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<FoundUrls4>());

    fn bytes_about(&self) -> usize {
        256 + self.origin.page.len() + self.urls.bytes() + 4 * self.urls.len()
    }
}

/// Found URLs before there were sketches.
#[derive(Archive, Serialize, Deserialize)]
pub struct FoundUrls4 {
    origin: Origin,
    urls: UrlList,
    anchors: Vec<Anchor>,
}

impl EdgeMessage for FoundUrls4 {
    const EDGE: Edge = Edge::UrlsFound;
    const VERSION: u8 = 4;
}

impl From<FoundUrls4> for FoundUrls {
    fn from(FoundUrls4 { origin, urls, anchors }: FoundUrls4) -> FoundUrls {
        FoundUrls { origin, urls, anchors, sketch: None }
    }
}

impl EdgeMessage for Boosts {
    const EDGE: Edge = Edge::UrlsBoosts;
    const VERSION: u8 = 2;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Boosts1>());
}

/// Boosts before there were sketches.
#[derive(Archive, Serialize, Deserialize)]
pub struct Boosts1 {
    partition: u16,
    boosts: Vec<Boost>,
}

impl EdgeMessage for Boosts1 {
    const EDGE: Edge = Edge::UrlsBoosts;
    const VERSION: u8 = 1;
}

impl From<Boosts1> for Boosts {
    fn from(Boosts1 { partition, boosts }: Boosts1) -> Boosts {
        Boosts { partition, boosts, sketches: Vec::new() }
    }
}
