//! Messages of which an earlier version is read as well: that version, and how it becomes the
//! present one.

use super::content::{Cut, Document, Documents};
use super::envelope::{Before, EdgeMessage};
use super::fetch::{
    Errand, FailureKind, HttpVersion, Job, JobId, JobKind, Lack, Page, Report, Request, RequestEnd,
    RequestResult, ResponseSummary, RobotsResponse, ToFetcher, Truncation, Validators,
};
use super::outcomes::{Outcome, OutcomeEntry, Outcomes};
use super::signals::{PageSignal, PageSignals};
use super::text::UrlList;
use super::urls::{Anchor, Boost, Boosts, FoundUrls, Origin};
use crate::topology::Edge;
use rkyv::{Archive, Deserialize, Serialize};
use std::net::IpAddr;

impl EdgeMessage for FoundUrls {
    const EDGE: Edge = Edge::UrlsFound;
    const VERSION: u8 = 6;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<FoundUrls5>());

    fn bytes_about(&self) -> usize {
        256 + self.origin.page.len() + self.urls.bytes() + 4 * self.urls.len()
    }
}

/// Found URLs when they carried the sketch of their page. It is not looked at: who reads these
/// messages cannot put it on `pages.signals`, and what a rolling update leaves out of an estimate
/// comes again with the next pages.
#[derive(Archive, Serialize, Deserialize)]
pub struct FoundUrls5 {
    origin: Origin,
    urls: UrlList,
    anchors: Vec<Anchor>,
    sketch: Option<u64>,
}

impl EdgeMessage for FoundUrls5 {
    const EDGE: Edge = Edge::UrlsFound;
    const VERSION: u8 = 5;
}

impl From<FoundUrls5> for FoundUrls {
    fn from(before: FoundUrls5) -> FoundUrls {
        FoundUrls {
            origin: before.origin,
            urls: before.urls,
            anchors: before.anchors,
            visit: 0,
        }
    }
}

impl EdgeMessage for Boosts {
    const EDGE: Edge = Edge::UrlsBoosts;
    const VERSION: u8 = 3;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Boosts2>());
}

/// Boosts when they carried the sketches of pages, too. These are not looked at, as those of
/// [`FoundUrls5`].
#[derive(Archive, Serialize, Deserialize)]
pub struct Boosts2 {
    partition: u16,
    boosts: Vec<Boost>,
    sketches: Vec<Sketched2>,
}

#[derive(Archive, Serialize, Deserialize)]
pub struct Sketched2 {
    shape: u64,
    sketch: u64,
}

impl EdgeMessage for Boosts2 {
    const EDGE: Edge = Edge::UrlsBoosts;
    const VERSION: u8 = 2;
}

impl From<Boosts2> for Boosts {
    fn from(before: Boosts2) -> Boosts {
        Boosts {
            partition: before.partition,
            boosts: before.boosts,
        }
    }
}

impl EdgeMessage for ToFetcher {
    const EDGE: Edge = Edge::FetchJobs;
    const VERSION: u8 = 6;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<ToFetcher5>());
}

/// What a fetcher was told when no request said what robots.txt says of use.
#[derive(Archive, Serialize, Deserialize)]
pub enum ToFetcher5 {
    Job(Job5),
    Renewed { job: JobId, sequence: u32 },
    Revoked { job: JobId },
}

#[derive(Archive, Serialize, Deserialize)]
pub struct Job5 {
    id: JobId,
    life: u64,
    ask: u64,
    partition: u16,
    lease_ms: u64,
    kind: JobKind,
    server: String,
    addresses: Vec<IpAddr>,
    gap_ms: u64,
    first_answer_ms: Option<u64>,
    requests: Vec<Request5>,
}

#[derive(Archive, Serialize, Deserialize)]
pub struct Request5 {
    slot: u64,
    url: String,
    origin: Origin,
    attempts: u8,
    validators: Validators,
}

impl EdgeMessage for ToFetcher5 {
    const EDGE: Edge = Edge::FetchJobs;
    const VERSION: u8 = 5;
}

impl From<ToFetcher5> for ToFetcher {
    fn from(before: ToFetcher5) -> ToFetcher {
        match before {
            ToFetcher5::Job(job) => ToFetcher::Job(Job::from(job)),
            ToFetcher5::Renewed { job, sequence } => ToFetcher::Renewed { job, sequence },
            ToFetcher5::Revoked { job } => ToFetcher::Revoked { job },
        }
    }
}

impl From<Job5> for Job {
    fn from(before: Job5) -> Job {
        Job {
            id: before.id,
            life: before.life,
            ask: before.ask,
            partition: before.partition,
            lease_ms: before.lease_ms,
            kind: before.kind,
            server: before.server,
            addresses: before.addresses,
            gap_ms: before.gap_ms,
            first_answer_ms: before.first_answer_ms,
            requests: before.requests.into_iter().map(Request::from).collect(),
        }
    }
}

impl From<Request5> for Request {
    fn from(before: Request5) -> Request {
        Request {
            slot: before.slot,
            url: before.url,
            origin: before.origin,
            attempts: before.attempts,
            validators: before.validators,
            visit: 1,
            ..Request::default()
        }
    }
}

impl EdgeMessage for Report {
    const EDGE: Edge = Edge::FetchReports;
    const VERSION: u8 = 6;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Report5>());
}

/// A report when no response was said to be a wall, or to say something of use.
#[derive(Archive, Serialize, Deserialize)]
pub struct Report5 {
    job: JobId,
    fetcher: String,
    partition: u16,
    server: String,
    sequence: u32,
    last: bool,
    results: Vec<RequestResult5>,
    connect_us: Option<u32>,
    requests: u32,
    busy_us: u64,
    elapsed_us: u64,
    closed_by_server: bool,
    robots: Option<RobotsResponse>,
}

#[derive(Archive, Serialize, Deserialize)]
pub struct RequestResult5 {
    slot: u64,
    end: RequestEnd5,
}

#[derive(Archive, Serialize, Deserialize)]
pub enum RequestEnd5 {
    Response {
        status: u16,
        bytes: u64,
        truncated: bool,
        elapsed_us: u32,
        retry_after_s: Option<u32>,
        fetched_at_ms: u64,
        media_type: String,
        validators: Validators,
        lacks: Option<Lack>,
    },
    Failure(FailureKind),
    Untried,
}

impl EdgeMessage for Report5 {
    const EDGE: Edge = Edge::FetchReports;
    const VERSION: u8 = 5;
}

impl From<Report5> for Report {
    fn from(before: Report5) -> Report {
        Report {
            job: before.job,
            fetcher: before.fetcher,
            partition: before.partition,
            server: before.server,
            sequence: before.sequence,
            last: before.last,
            results: before
                .results
                .into_iter()
                .map(RequestResult::from)
                .collect(),
            connect_us: before.connect_us,
            requests: before.requests,
            busy_us: before.busy_us,
            elapsed_us: before.elapsed_us,
            closed_by_server: before.closed_by_server,
            robots: before.robots,
        }
    }
}

impl From<RequestResult5> for RequestResult {
    fn from(RequestResult5 { slot, end }: RequestResult5) -> RequestResult {
        let end = match end {
            RequestEnd5::Response {
                status,
                bytes,
                truncated,
                elapsed_us,
                retry_after_s,
                fetched_at_ms,
                media_type,
                validators,
                lacks,
            } => RequestEnd::Response(ResponseSummary {
                status,
                bytes,
                truncated,
                elapsed_us,
                retry_after_s,
                fetched_at_ms,
                media_type,
                validators,
                lacks,
                ..ResponseSummary::default()
            }),
            RequestEnd5::Failure(kind) => RequestEnd::Failure(kind),
            RequestEnd5::Untried => RequestEnd::Untried,
        };
        RequestResult { slot, end }
    }
}

impl EdgeMessage for Page {
    const EDGE: Edge = Edge::Pages;
    const VERSION: u8 = 7;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Page6>());

    fn bytes_about(&self) -> usize {
        let headers = self.headers.iter().chain(&self.request_headers);
        // A header has two lengths and two places beside its bytes, all of them aligned.
        let headers: usize = headers
            .map(|(name, value)| name.len() + value.len() + 24)
            .sum();
        let texts = self.url.len() + self.origin.page.len() + self.usage.bytes();
        512 + texts + headers + self.body.len()
    }
}

/// A page when none was said to be a wall, nor what robots.txt says of its use.
#[derive(Archive, Serialize, Deserialize)]
pub struct Page6 {
    url: String,
    origin: Origin,
    status: u16,
    fetched_at_ms: u64,
    elapsed_us: u32,
    address: Option<IpAddr>,
    http_version: HttpVersion,
    request_headers: Vec<(String, Vec<u8>)>,
    headers: Vec<(String, Vec<u8>)>,
    truncated: Option<Truncation>,
    body: Vec<u8>,
    is_robots: bool,
}

impl EdgeMessage for Page6 {
    const EDGE: Edge = Edge::Pages;
    const VERSION: u8 = 6;
}

impl From<Page6> for Page {
    fn from(before: Page6) -> Page {
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
            is_robots: before.is_robots,
            visit: 1,
            ..Page::default()
        }
    }
}

impl EdgeMessage for Outcomes {
    const EDGE: Edge = Edge::Outcomes;
    const VERSION: u8 = 5;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Outcomes4>());
}

/// Outcomes when none told of a wall, a price, or use.
#[derive(Archive, Serialize, Deserialize)]
pub struct Outcomes4 {
    entries: Vec<OutcomeEntry4>,
}

/// One of them.
#[derive(Archive, Serialize, Deserialize)]
pub struct OutcomeEntry4 {
    url: String,
    serial: u64,
    origin: Origin,
    outcome: Outcome,
    status: u16,
    fetched_at_ms: u64,
    media_type: String,
    bytes: u64,
    truncated: bool,
    elapsed_us: u32,
    attempts: u8,
    reason: String,
}

impl EdgeMessage for Outcomes4 {
    const EDGE: Edge = Edge::Outcomes;
    const VERSION: u8 = 4;
}

impl From<Outcomes4> for Outcomes {
    fn from(Outcomes4 { entries }: Outcomes4) -> Outcomes {
        Outcomes {
            entries: entries.into_iter().map(OutcomeEntry::from).collect(),
        }
    }
}

impl From<OutcomeEntry4> for OutcomeEntry {
    fn from(before: OutcomeEntry4) -> OutcomeEntry {
        OutcomeEntry {
            url: before.url,
            serial: before.serial,
            origin: before.origin,
            outcome: before.outcome,
            status: before.status,
            fetched_at_ms: before.fetched_at_ms,
            media_type: before.media_type,
            bytes: before.bytes,
            truncated: before.truncated,
            elapsed_us: before.elapsed_us,
            attempts: before.attempts,
            reason: before.reason,
            visit: 1,
            is_final: true,
            ..OutcomeEntry::default()
        }
    }
}

impl EdgeMessage for Documents {
    const EDGE: Edge = Edge::Documents;
    const VERSION: u8 = 3;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Documents2>());
}

/// What documents say of themselves when they did not tell what their owners say of use.
#[derive(Archive, Serialize, Deserialize)]
pub struct Documents2 {
    entries: Vec<Document2>,
}

/// One of them.
#[derive(Archive, Serialize, Deserialize)]
pub struct Document2 {
    url: String,
    fetched_at_ms: u64,
    title: String,
    language: String,
    links: u32,
    cut: Option<Cut>,
}

impl EdgeMessage for Documents2 {
    const EDGE: Edge = Edge::Documents;
    const VERSION: u8 = 2;
}

impl From<Documents2> for Documents {
    fn from(Documents2 { entries }: Documents2) -> Documents {
        Documents {
            entries: entries.into_iter().map(Document::from).collect(),
        }
    }
}

impl From<Document2> for Document {
    fn from(before: Document2) -> Document {
        Document {
            url: before.url,
            fetched_at_ms: before.fetched_at_ms,
            title: before.title,
            language: before.language,
            links: before.links,
            cut: before.cut,
            ..Document::default()
        }
    }
}

impl EdgeMessage for Errand {
    const EDGE: Edge = Edge::Errands;
    const VERSION: u8 = 3;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Errand2>());
}

/// An errand when each kind of quota had a call of its own.
#[derive(Archive, Serialize, Deserialize)]
pub enum Errand2 {
    Wanted {
        url: String,
        server: String,
    },
    Found {
        server: String,
        response: Option<RobotsResponse>,
    },
    Tokens {
        domain: Option<String>,
    },
    Rights {
        circle: String,
    },
    TopicTokens {
        topic: String,
    },
}

impl EdgeMessage for Errand2 {
    const EDGE: Edge = Edge::Errands;
    const VERSION: u8 = 2;
}

impl From<Errand2> for Errand {
    fn from(before: Errand2) -> Errand {
        let key = match before {
            Errand2::Wanted { url, server } => return Errand::Wanted { url, server },
            Errand2::Found { server, response } => return Errand::Found { server, response },
            Errand2::Tokens { domain: None } => "crawl".to_owned(),
            Errand2::Tokens {
                domain: Some(domain),
            } => format!(
                "domain.{}",
                domain.replace(['[', ']'], "").replace(':', "=")
            ),
            Errand2::Rights { circle } => circle,
            Errand2::TopicTokens { topic } => format!("topic.{topic}"),
        };
        Errand::Quota { key }
    }
}

impl EdgeMessage for PageSignals {
    const EDGE: Edge = Edge::PagesSignals;
    const VERSION: u8 = 3;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<PageSignals2>());
}

/// Signals when each had a sketch, and that alone.
#[derive(Archive, Serialize, Deserialize)]
pub struct PageSignals2 {
    partition: u16,
    pages: Vec<PageSignal2>,
}

#[derive(Archive, Serialize, Deserialize)]
pub struct PageSignal2 {
    url: u64,
    host: u64,
    shape: u64,
    sketch: u64,
}

impl EdgeMessage for PageSignals2 {
    const EDGE: Edge = Edge::PagesSignals;
    const VERSION: u8 = 2;
}

impl From<PageSignals2> for PageSignals {
    fn from(before: PageSignals2) -> PageSignals {
        let pages = before.pages.into_iter();
        PageSignals {
            partition: before.partition,
            pages: pages.map(PageSignal::from).collect(),
            dated: Vec::new(),
        }
    }
}

impl From<PageSignal2> for PageSignal {
    fn from(before: PageSignal2) -> PageSignal {
        PageSignal {
            url: before.url,
            host: before.host,
            shape: before.shape,
            sketch: Some(before.sketch),
            ..PageSignal::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_for_each_kind_of_quota_names_the_key_of_its_ledger() {
        let domain = |domain: &str| Errand2::Tokens {
            domain: Some(domain.into()),
        };
        for (before, key) in [
            (Errand2::Tokens { domain: None }, "crawl"),
            (domain("example.co.uk"), "domain.example.co.uk"),
            (domain("[2001:db8::1]"), "domain.2001=db8==1"),
            (
                Errand2::TopicTokens {
                    topic: "news".into(),
                },
                "topic.news",
            ),
            (
                Errand2::Rights {
                    circle: "group.1.00".into(),
                },
                "group.1.00",
            ),
        ] {
            assert_eq!(Errand::from(before), Errand::Quota { key: key.into() });
        }
    }
}
