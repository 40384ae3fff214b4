//! Messages of which an earlier version is read as well: that version, and how it becomes the
//! present one.

use super::content::{Document, Documents};
use super::envelope::{Before, EdgeMessage};
use super::fetch::{
    Errand, FailureKind, HttpVersion, JobId, Page, Report, RequestEnd, RequestResult,
    RobotsResponse, Truncation, Validators,
};
use super::urls::Origin;
use crate::topology::Edge;
use rkyv::{Archive, Deserialize, Serialize};
use std::net::IpAddr;

impl EdgeMessage for Report {
    const EDGE: Edge = Edge::FetchReports;
    const VERSION: u8 = 5;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Report4>());
}

/// A report when no response was said to lack anything.
#[derive(Archive, Serialize, Deserialize)]
pub struct Report4 {
    job: JobId,
    fetcher: String,
    partition: u16,
    server: String,
    sequence: u32,
    last: bool,
    results: Vec<RequestResult4>,
    connect_us: Option<u32>,
    requests: u32,
    busy_us: u64,
    elapsed_us: u64,
    closed_by_server: bool,
    robots: Option<RobotsResponse>,
}

#[derive(Archive, Serialize, Deserialize)]
pub struct RequestResult4 {
    slot: u64,
    end: RequestEnd4,
}

#[derive(Archive, Serialize, Deserialize)]
pub enum RequestEnd4 {
    Response {
        status: u16,
        bytes: u64,
        truncated: bool,
        elapsed_us: u32,
        retry_after_s: Option<u32>,
        fetched_at_ms: u64,
        media_type: String,
        validators: Validators,
    },
    Failure(FailureKind),
    Untried,
}

impl EdgeMessage for Report4 {
    const EDGE: Edge = Edge::FetchReports;
    const VERSION: u8 = 4;
}

impl From<Report4> for Report {
    fn from(before: Report4) -> Report {
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

impl From<RequestResult4> for RequestResult {
    fn from(RequestResult4 { slot, end }: RequestResult4) -> RequestResult {
        let end = match end {
            RequestEnd4::Response {
                status,
                bytes,
                truncated,
                elapsed_us,
                retry_after_s,
                fetched_at_ms,
                media_type,
                validators,
            } => RequestEnd::Response {
                status,
                bytes,
                truncated,
                elapsed_us,
                retry_after_s,
                fetched_at_ms,
                media_type,
                validators,
                lacks: None,
            },
            RequestEnd4::Failure(kind) => RequestEnd::Failure(kind),
            RequestEnd4::Untried => RequestEnd::Untried,
        };
        RequestResult { slot, end }
    }
}

impl EdgeMessage for Page {
    const EDGE: Edge = Edge::Pages;
    const VERSION: u8 = 6;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Page5>());

    fn bytes_about(&self) -> usize {
        let headers = self.headers.iter().chain(&self.request_headers);
        // A header has two lengths and two places beside its bytes, all of them aligned.
        let headers: usize = headers
            .map(|(name, value)| name.len() + value.len() + 24)
            .sum();
        512 + self.url.len() + self.origin.page.len() + headers + self.body.len()
    }
}

/// A page before it said why its body is not whole.
#[derive(Archive, Serialize, Deserialize)]
pub struct Page5 {
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
    is_robots: bool,
}

impl EdgeMessage for Page5 {
    const EDGE: Edge = Edge::Pages;
    const VERSION: u8 = 5;
}

impl From<Page5> for Page {
    fn from(before: Page5) -> Page {
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
            truncated: before.truncated.then_some(Truncation::Unspecified),
            body: before.body,
            is_robots: before.is_robots,
        }
    }
}

impl EdgeMessage for Documents {
    const EDGE: Edge = Edge::Documents;
    const VERSION: u8 = 2;
    const BEFORE: Option<Before<Self>> = Some(Before::of::<Documents1>());
}

/// What documents say of themselves before it was said what a limit left out.
#[derive(Archive, Serialize, Deserialize)]
pub struct Documents1 {
    entries: Vec<Document1>,
}

/// One of them.
#[derive(Archive, Serialize, Deserialize)]
pub struct Document1 {
    url: String,
    fetched_at_ms: u64,
    title: String,
    language: String,
    links: u32,
}

impl EdgeMessage for Documents1 {
    const EDGE: Edge = Edge::Documents;
    const VERSION: u8 = 1;
}

impl From<Documents1> for Documents {
    fn from(Documents1 { entries }: Documents1) -> Documents {
        Documents {
            entries: entries.into_iter().map(Document::from).collect(),
        }
    }
}

impl From<Document1> for Document {
    fn from(
        Document1 {
            url,
            fetched_at_ms,
            title,
            language,
            links,
        }: Document1,
    ) -> Document {
        Document {
            url,
            fetched_at_ms,
            title,
            language,
            links,
            cut: None,
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
