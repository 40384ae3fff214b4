//! The cookies of a connection (`network.cookies`): what the server set on it goes back with its
//! later requests.
//!
//! They live and die with the connection, so nothing is shared between jobs, and memory is bounded:
//! what a server sets beyond [`COOKIES_MAX`], or in more than [`COOKIE_BYTES_MAX`], is not kept
//! (RFC 6265, section 6.1, has as many).

use reqwest::cookie::{CookieStore, Jar};
use reqwest::header::HeaderValue;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cookies set on a connection, those that replace others included.
const COOKIES_MAX: usize = 50;
/// Bytes of one, with its attributes.
const COOKIE_BYTES_MAX: usize = 4096;

/// The cookies of one connection.
#[derive(Default)]
pub(crate) struct Cookies {
    jar: Jar,
    set: AtomicUsize,
}

impl CookieStore for Cookies {
    fn set_cookies(&self, headers: &mut dyn Iterator<Item = &HeaderValue>, url: &reqwest::Url) {
        let mut kept = headers
            .filter(|cookie| cookie.len() <= COOKIE_BYTES_MAX)
            .take_while(|_| self.set.fetch_add(1, Ordering::Relaxed) < COOKIES_MAX);
        self.jar.set_cookies(&mut kept, url);
    }

    fn cookies(&self, url: &reqwest::Url) -> Option<HeaderValue> {
        self.jar.cookies(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_can_make_a_connection_keep_so_much_and_no_more() {
        let url = reqwest::Url::parse("http://a.test/").unwrap();
        let cookies = Cookies::default();
        let large =
            HeaderValue::from_str(&format!("large={}", "x".repeat(COOKIE_BYTES_MAX))).unwrap();
        cookies.set_cookies(&mut [large].iter(), &url);
        assert_eq!(cookies.cookies(&url), None);
        for n in 0..1000 {
            let cookie =
                HeaderValue::from_str(&format!("c{n}={}; Path=/", "y".repeat(100))).unwrap();
            cookies.set_cookies(&mut [cookie].iter(), &url);
        }
        let sent = cookies.cookies(&url).unwrap();
        assert_eq!(sent.to_str().unwrap().split("; ").count(), COOKIES_MAX);
        assert_eq!(
            cookies.cookies(&reqwest::Url::parse("http://b.test/").unwrap()),
            None
        );
    }
}
