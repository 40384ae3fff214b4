//! Challenges: answers that are a wall in front of a page, and not the page.
//!
//! In: a response. Out: the rule that says it is a challenge, if one does.
//!
//! A challenge is observed, never guessed: by a header that its vendor sets on challenges alone; or
//! by a header that only says who stands before the server, and then by what stands in the body of
//! that vendor's challenge. What only a body could show is no challenge here: an article about
//! challenges has the same words. Nothing is done to pass one.
//!
//! Invariant: a body is unpacked only behind a header that suspects it, and
//! [`BODY_BYTES_MAX`] of it at most.

use memchr::memmem;
use rhumb_warc::content_coding;
use std::ops::RangeInclusive;

const ANY_STATUS: RangeInclusive<u16> = 100..=999;

/// Bytes of a suspected body that are unpacked and searched.
const BODY_BYTES_MAX: usize = 64 << 10;

/// What tells a challenge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Whose challenge it is.
    pub(crate) vendor: &'static str,
    /// The header that has to be there, in lower case.
    header: &'static str,
    /// What its value has to be.
    value: Value,
    /// Its status: what an origin that is down answers is no challenge, whoever says so for it.
    statuses: RangeInclusive<u16>,
    /// What has to stand in the body, all of it, in lower case; nothing: the header says it.
    body: &'static [&'static str],
}

#[derive(Debug, PartialEq, Eq)]
enum Value {
    /// One of these, without case.
    Is(&'static [&'static str]),
    /// It begins so.
    Begins(&'static str),
    /// Anything.
    Any,
}

impl Value {
    fn matches(&self, value: &[u8]) -> bool {
        match self {
            Value::Is(known) => known
                .iter()
                .any(|known| value.trim_ascii().eq_ignore_ascii_case(known.as_bytes())),
            Value::Begins(start) => value.starts_with(start.as_bytes()),
            Value::Any => true,
        }
    }
}

/// All rules.
///
/// Documented by their vendors: Cloudflare, "Detect a Challenge Page response"; AWS WAF, "CAPTCHA
/// and Challenge action behavior"; Vercel, "Response headers". Of the others the header names the
/// vendor, and the body is the one that its challenge is made of: tags that stand in an article
/// about challenges as text alone.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        vendor: "cloudflare",
        header: "cf-mitigated",
        value: Value::Is(&["challenge"]),
        statuses: ANY_STATUS,
        body: &[],
    },
    Rule {
        vendor: "aws-waf",
        header: "x-amzn-waf-action",
        value: Value::Is(&["challenge", "captcha"]),
        statuses: ANY_STATUS,
        body: &[],
    },
    Rule {
        vendor: "vercel",
        header: "x-vercel-mitigated",
        value: Value::Is(&["challenge"]),
        statuses: ANY_STATUS,
        body: &[],
    },
    Rule {
        vendor: "datadome",
        header: "x-datadome",
        value: Value::Any,
        statuses: ANY_STATUS,
        body: &["<p id=\"cmsg\">", "var dd={", "captcha-delivery.com"],
    },
    Rule {
        vendor: "imperva",
        header: "x-iinfo",
        value: Value::Any,
        statuses: 100..=499,
        body: &["<iframe id=\"main-iframe\" src=\"/_incapsula_resource?"],
    },
    Rule {
        vendor: "sucuri",
        header: "x-sucuri-id",
        value: Value::Any,
        statuses: ANY_STATUS,
        body: &[
            "<title>you are being redirected...</title>",
            "sucuri_cloudproxy_js='',s='",
        ],
    },
    Rule {
        vendor: "ddos-guard",
        header: "server",
        value: Value::Is(&["ddos-guard"]),
        statuses: ANY_STATUS,
        body: &["<title>ddos-guard</title>", "/.well-known/ddos-guard/"],
    },
    Rule {
        vendor: "anubis",
        header: "set-cookie",
        value: Value::Begins("techaro.lol-anubis"),
        statuses: ANY_STATUS,
        body: &["<script id=\"anubis_challenge\""],
    },
];

/// The rule by which a response with this status, these headers, names in lower case, and this body
/// is a challenge.
pub(crate) fn of(status: u16, headers: &[(String, Vec<u8>)], body: &[u8]) -> Option<&'static Rule> {
    let values = |name: &'static str| {
        headers
            .iter()
            .filter(move |(other, _)| other == name)
            .map(|(_, value)| value.as_slice())
    };
    let suspected = RULES
        .iter()
        .filter(|rule| values(rule.header).any(|value| rule.value.matches(value)))
        .filter(|rule| rule.statuses.contains(&status));
    let mut unpacked = None;
    for rule in suspected {
        if rule.body.is_empty() {
            return Some(rule);
        }
        let codings = values("content-encoding");
        let unpacked = unpacked.get_or_insert_with(|| {
            content_coding::decode(codings, body, BODY_BYTES_MAX)
                .body
                .to_ascii_lowercase()
        });
        if has_all(unpacked, rule.body) {
            return Some(rule);
        }
    }
    None
}

fn has_all(body: &[u8], wanted: &[&str]) -> bool {
    wanted
        .iter()
        .all(|text| memmem::find(body, text.as_bytes()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    const DATADOME: &str = "<html><body><p id=\"cmsg\">Please enable JS</p><script>var dd={'rt':'c',\
                            'cid':'x','host':'geo.captcha-delivery.com'}</script></body></html>";
    const IMPERVA: &str = "<html><head><META NAME=\"ROBOTS\" CONTENT=\"NOINDEX, NOFOLLOW\"></head><body>\
                           <iframe id=\"main-iframe\" src=\"/_Incapsula_Resource?SWUDNSAI=31&incident_id=1\">\
                           Request unsuccessful.</iframe></body></html>";
    const SUCURI: &str = "<html><title>You are being redirected...</title>\
                          <script>var s={},u,c,w,sucuri_cloudproxy_js='',S='YQ==';</script></html>";
    const DDOS_GUARD: &str = "<!doctype html><title>DDoS-Guard</title>\
                              <script src=\"/.well-known/ddos-guard/js-challenge/index.js\"></script>";
    const ANUBIS: &str = "<!doctype html><title>Making sure you're not a bot!</title>\
                          <script id=\"anubis_challenge\" type=\"application/json\">{}</script>";

    fn vendor_of(headers: &[(&str, &str)], body: &[u8]) -> Option<&'static str> {
        vendor_with(403, headers, body)
    }

    fn vendor_with(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Option<&'static str> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        of(status, &headers, body).map(|rule| rule.vendor)
    }

    fn vendor(headers: &[(&str, &str)], body: &str) -> Option<&'static str> {
        vendor_of(headers, body.as_bytes())
    }

    #[test]
    fn each_vendor_is_told_by_its_challenge() {
        for (expected, headers, body) in [
            ("cloudflare", ("cf-mitigated", "challenge"), ""),
            ("aws-waf", ("x-amzn-waf-action", "challenge"), ""),
            ("aws-waf", ("x-amzn-waf-action", "captcha"), ""),
            ("vercel", ("x-vercel-mitigated", "challenge"), ""),
            ("datadome", ("x-datadome", "protected"), DATADOME),
            ("imperva", ("x-iinfo", "1-2-3 NNNN"), IMPERVA),
            ("sucuri", ("x-sucuri-id", "15016"), SUCURI),
            ("ddos-guard", ("server", "ddos-guard"), DDOS_GUARD),
            (
                "anubis",
                (
                    "set-cookie",
                    "techaro.lol-anubis-cookie-verification=1; Path=/",
                ),
                ANUBIS,
            ),
        ] {
            assert_eq!(vendor(&[headers], body), Some(expected), "{expected}");
        }
        let tested = [
            "cloudflare",
            "aws-waf",
            "vercel",
            "datadome",
            "imperva",
            "sucuri",
        ];
        let known: Vec<_> = RULES.iter().map(|rule| rule.vendor).collect();
        assert_eq!(known, [&tested[..], &["ddos-guard", "anubis"]].concat());
    }

    #[test]
    fn who_stands_before_a_server_alone_is_no_challenge() {
        for header in [
            ("server", "cloudflare"),
            ("cf-ray", "8e0"),
            ("cf-mitigated", "block"),
            ("x-amzn-waf-action", ""),
            ("x-vercel-mitigated", "deny"),
            ("x-datadome", "protected"),
            ("x-iinfo", "1-2-3"),
            ("x-sucuri-id", "15016"),
            ("server", "ddos-guard"),
            ("set-cookie", "techaro.lol-anubis-auth=1"),
        ] {
            assert_eq!(vendor(&[header], "<p>a page</p>"), None, "{header:?}");
        }
    }

    #[test]
    fn the_words_of_a_challenge_without_its_header_are_an_article_about_it() {
        for body in [DATADOME, IMPERVA, SUCURI, DDOS_GUARD, ANUBIS] {
            let plain = [("content-type", "text/html"), ("server", "cloudflare")];
            assert_eq!(vendor(&plain, body), None);
        }
        // Nor is it one behind the vendor's own header: its tags are text.
        for (header, challenge) in [
            (("x-datadome", "protected"), DATADOME),
            (("x-iinfo", "1"), IMPERVA),
            (("x-sucuri-id", "15016"), SUCURI),
            (("server", "ddos-guard"), DDOS_GUARD),
            (("set-cookie", "techaro.lol-anubis-auth=1"), ANUBIS),
        ] {
            assert!(vendor(&[header], challenge).is_some());
            let quoted = challenge.replace('<', "&lt;");
            assert_eq!(vendor(&[header], &quoted), None, "{header:?}");
        }
        // Another vendor's header does not help.
        assert_eq!(vendor(&[("x-iinfo", "1")], DATADOME), None);
    }

    #[test]
    fn what_is_said_for_an_origin_that_is_down_is_no_challenge() {
        let headers = [("x-iinfo", "1")];
        let body = IMPERVA.as_bytes();
        assert_eq!(vendor_with(503, &headers, body), None);
        assert_eq!(vendor_with(200, &headers, body), Some("imperva"));
        let headers = [("cf-mitigated", "challenge")];
        assert_eq!(vendor_with(503, &headers, b""), Some("cloudflare"));
    }

    #[test]
    fn a_packed_body_is_unpacked_up_to_its_bound() {
        let pack = |body: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(body.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let headers = [("x-iinfo", "1"), ("content-encoding", "gzip")];
        assert_eq!(vendor_of(&headers, &pack(IMPERVA)), Some("imperva"));
        let far = format!("{}{IMPERVA}", " ".repeat(BODY_BYTES_MAX));
        assert_eq!(vendor_of(&headers, &pack(&far)), None);
        assert_eq!(vendor_of(&headers, b"\x1f\x8b\x08broken"), None);
    }
}
