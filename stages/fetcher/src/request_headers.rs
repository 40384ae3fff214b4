//! The headers of a request, as they are sent and kept for the archive: all but Host, which the
//! client makes of the URL.

use crate::connection::Connection;
use crate::effect::Request;
use reqwest::cookie::CookieStore as _;
use reqwest::header::{
    ACCEPT_ENCODING, COOKIE, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
};
use rhumb_wire::message::Validators;

/// What is sent with a request: what is sent with all, and what is of this one alone. That is a
/// page only when it is another than that which was fetched before (RFC 9110, section 13.1), a
/// robots.txt as it is, and the cookies of the connection, unless the operator sends others.
pub(crate) fn of(
    request: &Request,
    of_all: &HeaderMap,
    connection: &Connection,
    url: &reqwest::Url,
) -> HeaderMap {
    let mut headers = of_all.clone();
    if !request.is_page {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    let Validators {
        etag,
        last_modified,
    } = &request.validators;
    for (name, value) in [(IF_NONE_MATCH, etag), (IF_MODIFIED_SINCE, last_modified)] {
        if let Some(value) = HeaderValue::from_str(value)
            .ok()
            .filter(|value| !value.is_empty())
        {
            headers.insert(name, value);
        }
    }
    if let Some(cookies) = &connection.cookies
        && !headers.contains_key(COOKIE)
        && let Some(cookies) = cookies.cookies(url)
    {
        headers.insert(COOKIE, cookies);
    }
    headers
}
