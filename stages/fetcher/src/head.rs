//! The head of a response: what its fields take, and what it says of body and connection.
//!
//! The client reads the heads of HTTP/1 as browsers do. A fold becomes a space, and a space before
//! a colon is dropped (RFC 9112, sections 5.1 and 5.2). A line that is no field is left out:
//! without a colon, with a name that is none, or a fold with nothing before it. So is a field with
//! a control character in its value, DEL included, and with all its folds (RFC 9110, section 5.5,
//! lets a recipient reject them): what such a field said is lost. Only a NUL, a CR without its LF,
//! a control character in the reason, and a version other than 1.0 and 1.1 make the whole answer
//! none.

use reqwest::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use reqwest::{StatusCode, Version};

/// Bytes of the headers as they stand in a message of HTTP/1.1, at least what they take in ours.
pub(crate) fn head_bytes(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| field_bytes(name.as_str(), value.as_bytes()))
        .sum()
}

pub(crate) fn field_bytes(name: &str, value: &[u8]) -> usize {
    const BESIDE: usize = 16;
    name.len() + value.len() + BESIDE
}

/// Fields as messages have them: names in lower case.
pub(crate) fn headers(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let owned = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), value.as_bytes().to_vec())
    };
    headers.iter().map(owned).collect()
}

/// Returns whether a head tells where its body ends; otherwise the close of the connection does
/// (RFC 9112, section 6.3).
pub(crate) fn gives_length(response: &reqwest::Response) -> bool {
    let status = response.status();
    let headers = response.headers();
    response.version() == Version::HTTP_2
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || headers.contains_key(CONTENT_LENGTH)
        || headers.contains_key(TRANSFER_ENCODING)
}

/// Returns whether a server that sent this whole response keeps the connection (RFC 9112, sections
/// 6.3 and 9.3).
pub(crate) fn keeps_open(response: &reqwest::Response) -> bool {
    let headers = response.headers();
    let says = |wanted: &str| {
        let values = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    match response.version() {
        Version::HTTP_2 => true,
        Version::HTTP_11 => {
            gives_length(response)
                && !says("close")
                && response.status() != StatusCode::SWITCHING_PROTOCOLS
        }
        _ => gives_length(response) && says("keep-alive"),
    }
}
