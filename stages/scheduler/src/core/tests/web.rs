//! The web that tests crawl: what its servers and name servers answer.

use rhumb_url::time::Timestamp;
use rhumb_wire::message::{
    FailureKind, Origin, Quality, RequestEnd, Resolution, ResponseSummary, RobotsResponse,
};

pub(crate) fn origin() -> Origin {
    Origin {
        page: "http://seed.test/".into(),
        topic: "default".into(),
        depth: 1,
        ..Origin::default()
    }
}

pub(crate) fn addresses() -> Resolution {
    Resolution::Addresses {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        ttl_s: 86_400,
    }
}

pub(crate) fn response(status: u16) -> RequestEnd {
    RequestEnd::Response(ResponseSummary {
        status,
        bytes: 100,
        elapsed_us: 20_000,
        ..ResponseSummary::default()
    })
}

pub(crate) fn robots(status: u16, body: &str) -> Result<RobotsResponse, FailureKind> {
    Ok(RobotsResponse {
        status,
        body: body.as_bytes().to_vec(),
        ..RobotsResponse::default()
    })
}

pub(crate) fn redirect(location: &str) -> Result<RobotsResponse, FailureKind> {
    Ok(RobotsResponse {
        status: 301,
        location: Some(location.to_owned()),
        ..RobotsResponse::default()
    })
}

/// What the web answers; the default is a web where all is well.
pub(crate) trait Web {
    fn page(&mut self, _now: Timestamp, _url: &str) -> RequestEnd {
        response(200)
    }
    fn robots(&mut self, _now: Timestamp, _url: &str) -> Result<RobotsResponse, FailureKind> {
        robots(404, "")
    }
    fn resolve(&mut self, _server: &str) -> Option<Resolution> {
        Some(addresses())
    }
    /// Requests that a connection to it serves.
    fn requests_per_connection(&self) -> usize {
        usize::MAX
    }
}

/// All is well.
pub(crate) struct Fine;
impl Web for Fine {}

/// A web whose answers are closures.
pub(crate) struct With<P, R> {
    page: P,
    robots: R,
}

impl<P, R> Web for With<P, R>
where
    P: FnMut(Timestamp, &str) -> RequestEnd,
    R: FnMut(Timestamp, &str) -> Result<RobotsResponse, FailureKind>,
{
    fn page(&mut self, now: Timestamp, url: &str) -> RequestEnd {
        (self.page)(now, url)
    }
    fn robots(&mut self, now: Timestamp, url: &str) -> Result<RobotsResponse, FailureKind> {
        (self.robots)(now, url)
    }
}

/// A web with these pages, without robots.txt.
pub(crate) fn pages(page: impl FnMut(Timestamp, &str) -> RequestEnd) -> impl Web {
    With {
        page,
        robots: |_, _: &str| robots(404, ""),
    }
}

/// A web with these pages and this robots.txt.
pub(crate) fn pages_with_robots(
    page: impl FnMut(Timestamp, &str) -> RequestEnd,
    text: &'static str,
) -> impl Web {
    With {
        page,
        robots: move |_, _: &str| robots(200, text),
    }
}

/// A web with this robots.txt, where all pages are fine.
pub(crate) fn robots_txt(
    robots: impl FnMut(Timestamp, &str) -> Result<RobotsResponse, FailureKind>,
) -> impl Web {
    With {
        page: |_, _: &str| response(200),
        robots,
    }
}

/// A quality that is drawn for a URL, always the same.
pub(super) fn drawn(fingerprint: u64) -> Quality {
    Quality::SEED.shared_among(1 + (fingerprint % 1_000_000) as usize)
}
