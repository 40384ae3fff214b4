//! Freshness: for how long a response says that it is fresh.
//!
//! In: the headers of a response. Out: seconds from when it came.
//!
//! Source: RFC 9111, section 4.2, as a private cache reads it. Its age is what Age says. What a
//! response does not say is not guessed.

use crate::effect::Response;
use std::time::{Duration, SystemTime};

/// For how many seconds a response says that it is fresh, from when it came; 0 when it does not say
/// so.
pub(crate) fn lifetime_s(response: &Response) -> u32 {
    let lifetime = match max_age(response) {
        MaxAge::Said(seconds) => seconds,
        MaxAge::Never => 0,
        MaxAge::Unsaid => until_expiry(response),
    };
    let age = response.header("age").and_then(seconds).unwrap_or(0);
    lifetime.saturating_sub(age)
}

/// What Cache-Control says.
enum MaxAge {
    Said(u32),
    /// It may not be used without a question.
    Never,
    Unsaid,
}

fn max_age(response: &Response) -> MaxAge {
    let mut said = MaxAge::Unsaid;
    for value in response.values("cache-control") {
        let Ok(value) = std::str::from_utf8(value) else {
            continue;
        };
        for directive in value.split(',') {
            let (name, argument) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-cache" | "no-store" => return MaxAge::Never,
                // The first one counts.
                "max-age" if matches!(said, MaxAge::Unsaid) => {
                    let argument = argument.trim().trim_matches('"');
                    // What is no number is not fresh (section 4.2.1).
                    said = MaxAge::Said(seconds(argument).unwrap_or(0));
                }
                _ => {}
            }
        }
    }
    said
}

/// By Expires and Date, or when it came. A date that is none is over (section 5.3).
fn until_expiry(response: &Response) -> u32 {
    let date = |name: &str| {
        let value = response.header(name)?;
        httpdate::parse_http_date(value.trim()).ok()
    };
    let came = SystemTime::UNIX_EPOCH + Duration::from_millis(response.fetched_at_ms);
    let from = date("date").unwrap_or(came);
    let left = date("expires").and_then(|expires| expires.duration_since(from).ok());
    let left = left.unwrap_or(Duration::ZERO).as_secs();
    u32::try_from(left).unwrap_or(u32::MAX)
}

/// Delta-seconds; what is too large for them is the largest number (section 1.2.2).
fn seconds(value: &str) -> Option<u32> {
    let digits = value.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::message::HttpVersion;
    use std::sync::Arc;

    fn fresh_for(headers: &[(&str, &str)]) -> u32 {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        lifetime_s(&Response {
            status: 200,
            headers: headers.collect(),
            body: Vec::new(),
            truncated: None,
            keeps_open: true,
            http_version: HttpVersion::Http11,
            request_headers: Vec::new(),
            // A minute before LATER.
            fetched_at_ms: 1_796_018_400_000,
            elapsed_us: 0,
            address: None,
            lacks_length: false,
            leads_back: false,
            room: Arc::default(),
        })
    }

    #[test]
    fn max_age_less_age_goes_before_expires() {
        const DATE: (&str, &str) = ("date", "Mon, 30 Nov 2026 06:00:00 GMT");
        const LATER: (&str, &str) = ("expires", "Mon, 30 Nov 2026 06:01:00 GMT");
        let said = |value| ("cache-control", value);
        assert_eq!(fresh_for(&[]), 0);
        assert_eq!(fresh_for(&[said("public, Max-Age=\"60\"")]), 60);
        assert_eq!(fresh_for(&[said("max-age=60"), ("age", "45")]), 15);
        assert_eq!(fresh_for(&[said("max-age=60"), ("age", "90")]), 0);
        assert_eq!(fresh_for(&[said("max-age=99999999999")]), u32::MAX);
        assert_eq!(fresh_for(&[said("max-age=soon"), DATE, LATER]), 0);
        assert_eq!(fresh_for(&[said("max-age=60, no-cache")]), 0);
        assert_eq!(fresh_for(&[said("s-maxage=60")]), 0);
        assert_eq!(fresh_for(&[said("max-age=5"), DATE, LATER]), 5);
        assert_eq!(fresh_for(&[DATE, LATER]), 60);
        assert_eq!(fresh_for(&[DATE, ("expires", "0")]), 0);
        assert_eq!(fresh_for(&[LATER]), 60);
        assert_eq!(fresh_for(&[said("max-age=5"), said("max-age=9")]), 5);
    }
}
