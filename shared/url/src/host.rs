//! Hosts: which names are accepted, which are addresses, and which domain they belong to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// RFC 1035 2.3.4, without the root's dot.
const NAME_BYTES_MAX: usize = 253;
/// RFC 1035 2.3.4.
const LABEL_BYTES_MAX: usize = 63;

/// Returns whether the host is a registered name that a name server could know: lower-case letters,
/// digits, hyphens and underscores in labels of 1 to 63 bytes. WHATWG parsing lets more through
/// (`!`, `,`, `)`, empty labels); nothing answers under such names, and the separators of a SURT
/// must not occur in one.
pub fn is_name(host: &str) -> bool {
    if host.is_empty() || host.len() > NAME_BYTES_MAX {
        return false;
    }
    let mut label_bytes = 0;
    for byte in host.bytes() {
        match byte {
            b'.' if label_bytes == 0 => return false,
            b'.' => label_bytes = 0,
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => label_bytes += 1,
            _ => return false,
        }
        if label_bytes > LABEL_BYTES_MAX {
            return false;
        }
    }
    label_bytes > 0
}

/// Returns whether the name is its own canonical form beyond doubt: no label in Punycode, which
/// would have to be validated, and a last label that starts with a letter and so cannot make the
/// host an IPv4 address.
pub(super) fn is_plain_name(host: &str) -> bool {
    let last_label = host.rsplit('.').next().unwrap_or_default();
    is_name(host)
        && last_label.starts_with(|c: char| c.is_ascii_lowercase())
        && !host.contains("xn--")
}

/// The address a host stands for, if it is an address literal: `127.0.0.1`, `[::1]`.
pub fn address_literal(host: &str) -> Option<IpAddr> {
    if let Some(inner) = host.strip_prefix('[') {
        return inner
            .strip_suffix(']')?
            .parse::<Ipv6Addr>()
            .ok()
            .map(IpAddr::V6);
    }
    // names rarely start with a digit: the common case ends here
    if !host.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    host.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

/// The domain a host's owner registered, by the public suffix list: `example.co.uk` for
/// `www.example.co.uk`.
///
/// Address literals, single labels and public suffixes themselves have none and give themselves.
pub fn registered_domain(host: &str) -> &str {
    if address_literal(host).is_some() {
        return host;
    }
    psl::domain_str(host).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_labels_of_letters_digits_hyphens_and_underscores() {
        for good in [
            "a",
            "example.com",
            "xn--bcher-kva.de",
            "_dmarc.a-b.c",
            "1.example",
        ] {
            assert!(is_name(good), "{good}");
        }
        assert!(is_name(&"a".repeat(63)));
        for bad in [
            "", ".", "a.", ".a", "a..b", "a,b", "a)b", "A.com", "a b", "[::1]",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_name(&"a".repeat(64)));
        assert!(!is_name(&"a.".repeat(130)));
    }

    #[test]
    fn names_that_may_be_numbers_or_punycode_are_not_plain() {
        assert!(is_plain_name("www.example.com"));
        for doubtful in [
            "1.2.3.4",
            "example.0x7f",
            "example.1",
            "xn--90ax2c.xn--p1ai",
            "a.",
        ] {
            assert!(!is_plain_name(doubtful), "{doubtful}");
        }
    }

    #[test]
    fn address_literals_are_dotted_quads_and_bracketed_ipv6() {
        assert_eq!(
            address_literal("127.0.0.1"),
            Some("127.0.0.1".parse().unwrap())
        );
        assert_eq!(address_literal("[::1]"), Some("::1".parse().unwrap()));
        for name in [
            "example.com",
            "1.2.3",
            "1.2.3.4.example",
            "::1",
            "[::1",
            "[1.2.3.4]",
            "",
        ] {
            assert_eq!(address_literal(name), None, "{name}");
        }
    }

    #[test]
    fn registered_domains_follow_the_public_suffix_list() {
        for (host, domain) in [
            ("www.example.com", "example.com"),
            ("a.b.example.co.uk", "example.co.uk"),
            ("example.com", "example.com"),
            ("co.uk", "co.uk"),
            ("me.github.io", "me.github.io"),
            ("localhost", "localhost"),
            ("site-7.test", "site-7.test"),
            ("www.site-7.test", "site-7.test"),
            ("127.0.0.1", "127.0.0.1"),
            ("[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(registered_domain(host), domain, "{host}");
        }
    }

    proptest! {
        #[test]
        fn no_host_panics(host in ".{0,40}") {
            let _ = (registered_domain(&host), address_literal(&host), is_plain_name(&host));
        }
    }
}
