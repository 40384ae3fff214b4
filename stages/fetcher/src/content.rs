//! What a response is passed on as: a page, or the rules of a robots.txt.

use crate::effect::Response;
use shared::content_coding::{self, Completeness, Decoded};
use shared::message::{FailureKind, JobId, Origin, Page, RobotsResponse};

/// A robots.txt is read up to 500 KiB (RFC 9309, section 2.5).
pub(crate) const ROBOTS_BYTES_MAX: usize = 500 << 10;

/// The rules of a robots.txt, decoded.
///
/// # Errors
/// The rules are not complete. They may not be used: what is missing would count as allowed (RFC 9309, section 2.3.1.4).
pub(crate) fn robots_response(response: &Response) -> Result<RobotsResponse, FailureKind> {
    let has_rules = (200..300).contains(&response.status);
    if has_rules && response.truncated && response.body.len() < ROBOTS_BYTES_MAX {
        return Err(FailureKind::Reset);
    }
    let codings = response.headers.iter().filter(|(name, _)| name == "content-encoding");
    let values = codings.map(|(_, value)| value.as_slice());
    let Decoded { body, completeness } = content_coding::decode(values, &response.body, ROBOTS_BYTES_MAX);
    let is_cut = response.truncated || response.body.len() >= ROBOTS_BYTES_MAX;
    if has_rules && completeness == Completeness::Broken && !is_cut {
        return Err(FailureKind::Protocol);
    }
    let location = response.header("location").map(str::to_owned);
    Ok(RobotsResponse { status: response.status, location, body: body.into_owned() })
}

/// The page of a response to a request of a job.
pub(crate) fn page(job: JobId, url: String, origin: Origin, response: Response) -> Page {
    let page = Page {
        url,
        origin,
        status: response.status,
        fetched_at_ms: response.fetched_at_ms,
        elapsed_us: response.elapsed_us,
        address: response.address,
        http_version: response.http_version,
        request_headers: response.request_headers,
        headers: response.headers,
        truncated: response.truncated,
        body: response.body,
    };
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
