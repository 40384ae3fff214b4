//! The parts of a canonical URL, and the server: scheme + host + port, what one connection reaches.

use super::host::{address_literal, is_name};
use std::{fmt, str::FromStr};

/// The server of a canonical URL exactly as it stands there: `https://example.com`,
/// `http://[::1]:8080`. The unit of politeness and of ranking.
pub fn server_of(canonical: &str) -> &str {
    &canonical[..server_end(canonical)]
}

/// The host of a canonical URL: a lower-case name, or an address literal (IPv6 in its brackets).
pub fn host_of(canonical: &str) -> &str {
    host_and_port(&canonical[authority_start(canonical)..server_end(canonical)]).0
}

/// The path and query of a canonical URL, from the slash behind the authority on: what a request
/// asks for and what robots.txt rules are matched against.
pub fn path_of(canonical: &str) -> &str {
    &canonical[server_end(canonical)..]
}

/// Where the authority starts: behind `scheme://`.
pub(super) fn authority_start(canonical: &str) -> usize {
    canonical.find("://").map_or(0, |at| at + 3)
}

fn server_end(canonical: &str) -> usize {
    let start = authority_start(canonical);
    canonical[start..]
        .find('/')
        .map_or(canonical.len(), |at| start + at)
}

fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        // a colon inside brackets belongs to the IPv6 address
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// The schemes that are crawled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// `http`, port 80 unless the URL says otherwise.
    Http,
    /// `https`, port 443 unless the URL says otherwise.
    Https,
}

impl Scheme {
    /// As in a URL: `http` or `https`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that canonical URLs leave out.
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A server, taken apart. Displays as [`server_of`] gives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// http or https.
    pub scheme: Scheme,
    /// Lower-case name, or address literal (IPv6 in its brackets).
    pub host: String,
    /// The port, the scheme's default included.
    pub port: u16,
}

/// The text is not a server as [`server_of`] gives it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a server of the form scheme://host or scheme://host:port: {0:?}")]
pub struct NotAServer(pub String);

impl FromStr for Server {
    type Err = NotAServer;

    /// Strict: only the canonical spelling, so that a server has one text and one value.
    fn from_str(text: &str) -> Result<Self, NotAServer> {
        let server = take_apart(text).ok_or_else(|| NotAServer(text.to_owned()))?;
        if server.to_string() == text {
            Ok(server)
        } else {
            Err(NotAServer(text.to_owned()))
        }
    }
}

fn take_apart(text: &str) -> Option<Server> {
    let (scheme, authority) = match text.split_once("://")? {
        ("http", authority) => (Scheme::Http, authority),
        ("https", authority) => (Scheme::Https, authority),
        _ => return None,
    };
    let (host, port) = host_and_port(authority);
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => scheme.default_port(),
    };
    let known = is_name(host) || address_literal(host).is_some();
    known.then(|| Server {
        scheme,
        host: host.to_owned(),
        port,
    })
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_url_falls_into_server_and_path_and_the_server_holds_the_host() {
        for (url, server, host, path) in [
            (
                "http://example.com/",
                "http://example.com",
                "example.com",
                "/",
            ),
            (
                "https://a.example:8443/p?q=http://x/",
                "https://a.example:8443",
                "a.example",
                "/p?q=http://x/",
            ),
            ("http://[::1]:8080/x", "http://[::1]:8080", "[::1]", "/x"),
            ("http://[::1]/", "http://[::1]", "[::1]", "/"),
            (
                "http://127.0.0.1:81/",
                "http://127.0.0.1:81",
                "127.0.0.1",
                "/",
            ),
        ] {
            assert_eq!(
                (server_of(url), host_of(url), path_of(url)),
                (server, host, path)
            );
            assert_eq!(format!("{}{}", server_of(url), path_of(url)), url);
        }
    }

    #[test]
    fn the_host_of_a_server_is_the_host_of_its_urls() {
        assert_eq!(host_of("https://a.example:8443"), "a.example");
        assert_eq!(host_of("http://[::1]"), "[::1]");
    }

    #[test]
    fn a_server_is_parsed_and_displayed_in_its_canonical_form_only() {
        for (text, scheme, host, port) in [
            ("http://example.com", Scheme::Http, "example.com", 80),
            ("https://example.com", Scheme::Https, "example.com", 443),
            ("https://example.com:80", Scheme::Https, "example.com", 80),
            (
                "http://[2001:db8::1]:8080",
                Scheme::Http,
                "[2001:db8::1]",
                8080,
            ),
            ("http://10.0.0.1", Scheme::Http, "10.0.0.1", 80),
        ] {
            let server: Server = text.parse().unwrap();
            assert_eq!(
                server,
                Server {
                    scheme,
                    host: host.to_owned(),
                    port
                }
            );
            assert_eq!(server.to_string(), text);
        }
        for bad in [
            "",
            "http://",
            "ftp://a",
            "example.com",
            "http://a/",
            "http://a:80",
            "http://a:",
            "http://a:080",
            "http://a:+81",
            "http://a:65536",
            "http://A",
            "http://u@a",
            "http://a b",
            "http://[::1",
            "http://a.",
        ] {
            assert_eq!(bad.parse::<Server>(), Err(NotAServer(bad.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn slicing_any_text_never_panics_and_loses_nothing(text in ".{0,60}") {
            prop_assert_eq!(format!("{}{}", server_of(&text), path_of(&text)), text.clone());
            prop_assert!(server_of(&text).contains(host_of(&text)));
            let _ = (super::super::surt(&text), text.parse::<Server>());
        }
    }
}
