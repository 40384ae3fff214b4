//! What a response is passed on as: a page, or the rules of a robots.txt.

use crate::effect::Response;
use crate::freshness;
use crate::settings::Settings;
use rhumb_url::{body_fingerprint, redirect};
use rhumb_usage::{Said, Signals};
use rhumb_warc::content_coding::{self, Completeness, Decoded};
use rhumb_wire::message::{
    FailureKind, Job, JobKind, Lack, Page, Request, RequestEnd, ResponseSummary, RobotsResponse,
    Truncation,
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

/// The longest price that is passed on, in bytes.
const PRICE_BYTES_MAX: usize = 64;

/// What is reported of a request that brought this response. `wall`: whose challenge it is; empty
/// when it is none.
pub(crate) fn end_of(
    request: &Request,
    response: &Response,
    wall: &str,
    settings: &Settings,
) -> RequestEnd {
    let product_token = &settings.product_token;
    // Where no page is visited again, nobody compares bodies.
    let is_compared = settings.recrawls || request.visit > 1;
    RequestEnd::Response(ResponseSummary {
        status: response.status,
        bytes: response.body.len() as u64,
        truncated: response.truncated.is_some(),
        elapsed_us: response.elapsed_us,
        retry_after_s: response.retry_after_s(),
        fetched_at_ms: response.fetched_at_ms,
        media_type: response.media_type(),
        validators: response.validators(),
        lacks: lack_of(&request.url, response),
        wall: wall.to_owned(),
        price: price_of(response),
        says_usage: wall.is_empty() && says_usage(&request.usage, response, product_token),
        body: if is_compared { body_of(response) } else { 0 },
        fresh_s: if is_compared {
            freshness::lifetime_s(response)
        } else {
            0
        },
    })
}

/// Fingerprint of the body as sent, or of the target of a redirect; 0 when there is none, or not all
/// of it.
fn body_of(response: &Response) -> u64 {
    if matches!(response.status, 300..=399) {
        let target = redirect::reference(response.values("location"));
        return target.map_or(0, |target| body_fingerprint(target.as_bytes()));
    }
    if response.body.is_empty() || response.truncated.is_some() {
        return 0;
    }
    // The one body whose fingerprint is 0 counts as one that nobody knows.
    body_fingerprint(&response.body)
}

/// What a page would cost whose server wants to be paid (Cloudflare, "Pay Per Crawl").
fn price_of(response: &Response) -> String {
    if response.status != 402 {
        return String::new();
    }
    let price = response.header("crawler-price").unwrap_or_default().trim();
    let is_sensible = price.len() <= PRICE_BYTES_MAX && !price.contains(char::is_control);
    String::from(if is_sensible { price } else { "" })
}

/// Returns whether robots.txt or the headers of a page say something of its use.
fn says_usage(robots: &Signals, response: &Response, product_token: &str) -> bool {
    let headers = response.headers.iter();
    let said = Said {
        robots,
        headers: headers.map(|(name, value)| (name.as_str(), value.as_slice())),
        metas: std::iter::empty(),
    };
    let fetched_s = response.fetched_at_ms / 1000;
    !Signals::read(said, product_token, fetched_s.cast_signed()).are_silent()
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
pub(crate) fn page(job: &mut Job, index: usize, response: Response, wall: &str) -> Page {
    let request = &mut job.requests[index];
    let is_page = wall.is_empty() && matches!(response.status, 200..=299);
    let is_unchanged = is_page && request.body != 0 && request.body == body_of(&response);
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
        wall: wall.to_owned(),
        usage: std::mem::take(&mut request.usage),
        visit: request.visit,
        is_unchanged,
        text: request.text.take().map(|text| *text),
        visited_ms: request.visited_ms,
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
