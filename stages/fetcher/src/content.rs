//! What a response is passed on as: a page, or the rules of a robots.txt.

use crate::effect::Response;
use rhumb_url::redirect;
use rhumb_warc::content_coding::{self, Completeness, Decoded};
use rhumb_wire::message::{
    FailureKind, Job, JobKind, Lack, Page, RequestEnd, RobotsResponse, Truncation,
};

/// A robots.txt is read up to 500 KiB (RFC 9309, section 2.5).
pub(crate) const ROBOTS_BYTES_MAX: usize = 500 << 10;

/// What is reported of a robots.txt that an archive does not have: all is allowed, since archives
/// of others have none.
pub(crate) const NO_ROBOTS: RobotsResponse = RobotsResponse {
    status: 404,
    location: None,
    body: Vec::new(),
};

/// What is reported of a request for `url` that brought this response.
pub(crate) fn end_of(url: &str, response: &Response) -> RequestEnd {
    RequestEnd::Response {
        status: response.status,
        bytes: response.body.len() as u64,
        truncated: response.truncated.is_some(),
        elapsed_us: response.elapsed_us,
        retry_after_s: response.retry_after_s(),
        fetched_at_ms: response.fetched_at_ms,
        media_type: response.media_type(),
        validators: response.validators(),
        lacks: lack_of(url, response),
    }
}

fn lack_of(url: &str, response: &Response) -> Option<Lack> {
    let redirects = (300..400).contains(&response.status) && response.status != 304;
    if redirects && !has_target(url, response) {
        return Some(Lack::Target);
    }
    response.lacks_length.then_some(Lack::Length)
}

fn has_target(url: &str, response: &Response) -> bool {
    let Ok(page) = reqwest::Url::parse(url) else {
        return true;
    };
    redirect::target(response.status, response.values("location"), &page).is_some()
}

/// The rules of a robots.txt, decoded.
///
/// # Errors
/// The rules are not complete. They may not be used: what is missing would count as allowed (RFC
/// 9309, section 2.3.1.4).
pub(crate) fn robots_response(response: &Response) -> Result<RobotsResponse, FailureKind> {
    let has_rules = (200..300).contains(&response.status);
    let is_long = response.body.len() >= ROBOTS_BYTES_MAX;
    match response.truncated.filter(|_| has_rules && !is_long) {
        Some(Truncation::Time) => return Err(FailureKind::Timeout),
        Some(_) => return Err(FailureKind::Reset),
        None => {}
    }
    let codings = response
        .headers
        .iter()
        .filter(|(name, _)| name == "content-encoding");
    let values = codings.map(|(_, value)| value.as_slice());
    let Decoded { body, completeness } =
        content_coding::decode(values, &response.body, ROBOTS_BYTES_MAX);
    if has_rules && completeness == Completeness::Broken && !is_long && response.truncated.is_none()
    {
        return Err(FailureKind::Protocol);
    }
    let location = redirect::reference(response.values("location"));
    Ok(RobotsResponse {
        status: response.status,
        location,
        body: body.into_owned(),
    })
}

/// The page of a response to a request of a job, which gives its URL away.
pub(crate) fn page(job: &mut Job, index: usize, response: Response) -> Page {
    let request = &mut job.requests[index];
    let page = Page {
        url: std::mem::take(&mut request.url),
        origin: request.origin.clone(),
        status: response.status,
        fetched_at_ms: response.fetched_at_ms,
        elapsed_us: response.elapsed_us,
        address: response.address,
        http_version: response.http_version,
        request_headers: response.request_headers,
        headers: response.headers,
        truncated: response.truncated,
        body: response.body,
        is_robots: job.kind == JobKind::Robots,
    };
    let job = job.id;
    tracing::debug!(
        trace = %page.trace(),
        url = page.url,
        status = page.status,
        body_bytes = page.body.len(),
        elapsed_us = page.elapsed_us,
        %job,
        "a page is fetched"
    );
    page
}
