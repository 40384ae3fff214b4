//! SURT, the sort-friendly spelling of a URL: what belongs to one domain shares a prefix.

use super::host::address_literal;
use super::server::{authority_start, host_of, path_of, server_of};

/// The long form of a canonical URL's SURT: `http://(com,example,www,:8080)/path?query`.
///
/// The labels of the host are reversed, each followed by a comma, so that the prefix
/// `http://(com,example,` covers a domain with all its subdomains and never `example2.com`. Address
/// literals stand as they are: `http://(127.0.0.1:8080)/`. The result is in lower case, paths too,
/// as in the archives' tools: a key for prefix scopes and sorting, not an identity, since two URLs
/// can share it. Build prefixes with this function too.
///
/// Source: Heritrix's SURT, the `surt` package.
pub fn surt(canonical: &str) -> String {
    let (scheme, authority) = server_of(canonical).split_at(authority_start(canonical));
    let host = host_of(canonical);
    let port = &authority[host.len()..];
    let mut surt = String::with_capacity(canonical.len() + 4);
    surt.push_str(scheme);
    surt.push('(');
    if address_literal(host).is_some() {
        surt.push_str(host);
    } else {
        for label in host.rsplit('.') {
            surt.push_str(label);
            surt.push(',');
        }
    }
    surt.push_str(port);
    surt.push(')');
    surt.push_str(path_of(canonical));
    surt.make_ascii_lowercase();
    surt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_reversed_with_a_trailing_comma_and_addresses_are_not() {
        for (url, expected) in [
            (
                "http://www.example.com/path?query",
                "http://(com,example,www,)/path?query",
            ),
            ("https://example.com/", "https://(com,example,)/"),
            (
                "http://www.example.com:8080/a",
                "http://(com,example,www,:8080)/a",
            ),
            ("http://localhost/", "http://(localhost,)/"),
            ("http://127.0.0.1/", "http://(127.0.0.1)/"),
            ("http://127.0.0.1:8080/x", "http://(127.0.0.1:8080)/x"),
            ("http://[2001:db8::1]:81/", "http://([2001:db8::1]:81)/"),
            (
                "http://example.com/A?B=%2F",
                "http://(com,example,)/a?b=%2f",
            ),
            ("http://http/http", "http://(http,)/http"),
            ("http://p/", "http://(p,)/"),
        ] {
            assert_eq!(surt(url), expected);
        }
    }

    #[test]
    fn a_domain_is_a_prefix_of_its_subdomains_and_of_nothing_else() {
        let prefix = "http://(com,example,";
        assert!(surt("http://example.com/").starts_with(prefix));
        assert!(surt("http://a.b.example.com/").starts_with(prefix));
        assert!(!surt("http://example2.com/").starts_with(prefix));
        assert!(!surt("http://com.example/").starts_with(prefix));
    }
}
