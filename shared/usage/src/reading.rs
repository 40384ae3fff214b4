//! Reading: what is said of one page in robots.txt, headers and metas becomes its signals.

use crate::robots_tag::{self, Directive};
use crate::signals::VERSION;
use crate::tdm;
use crate::{Place, STATEMENTS_MAX, Signals, Stances, Statement, VALUE_BYTES_MAX};
use crate::{content_signal, content_usage};

/// Bytes of the address of a policy; a longer one is left out.
const POLICY_BYTES_MAX: usize = 2048;

/// What there is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a, Headers, Metas> {
    /// All that robots.txt says of it.
    pub robots: &'a Signals,
    /// Names and values of the response's headers, in their order.
    pub headers: Headers,
    /// Names and contents of the page's metas, in their order.
    pub metas: Metas,
}

impl Signals {
    /// Reads the lines of robots.txt that apply to a page, each `record: value` and a line feed.
    pub fn of_robots_txt(lines: &str) -> Signals {
        let mut signals = Signals::default();
        for line in lines.lines() {
            if let Some((record, value)) = line.split_once(": ") {
                signals.robots_txt(record, value);
            }
        }
        signals
    }

    /// Reads all that is said to the crawler with this product token. `now_s`: seconds since 1970 at
    /// which the page was fetched, against which dates are held.
    pub fn read<'a>(
        said: Said<
            'a,
            impl Iterator<Item = (&'a str, &'a [u8])>,
            impl Iterator<Item = (&'a [u8], &'a [u8])>,
        >,
        product_token: &str,
        now_s: i64,
    ) -> Signals {
        let mut signals = said.robots.clone();
        signals.headers(said.headers, product_token, now_s);
        for (name, content) in said.metas {
            signals.meta(name, content, product_token, now_s);
        }
        signals
    }

    fn robots_txt(&mut self, record: &str, value: &str) {
        let stances = match record {
            "content-signal" => content_signal::read(value.as_bytes()),
            "content-usage" => content_usage::read(value.as_bytes()),
            _ => return,
        };
        self.keep(Place::RobotsTxt, record, value.as_bytes(), stances);
    }

    fn headers<'a>(
        &mut self,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
        product_token: &str,
        now_s: i64,
    ) {
        // The lines of one dictionary are one value (RFC 9110, section 5.3).
        let mut usage: Option<Vec<u8>> = None;
        let mut tags = Vec::new();
        let mut is_image = false;
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("content-type") {
                is_image = value
                    .get(..6)
                    .is_some_and(|kind| kind.eq_ignore_ascii_case(b"image/"));
            } else if name.eq_ignore_ascii_case("x-robots-tag") {
                tags.push(value);
            } else if name.eq_ignore_ascii_case("content-usage") {
                if value.trim_ascii().is_empty() {
                    continue;
                }
                let usage = usage.get_or_insert_default();
                if !usage.is_empty() {
                    usage.extend(b", ");
                }
                usage.extend(value);
            } else if name.eq_ignore_ascii_case("content-signal") {
                let stances = content_signal::read(value);
                self.keep(Place::Header, "content-signal", value, stances);
            } else {
                self.tdm(Place::Header, name.as_bytes(), value);
            }
        }
        if let Some(usage) = usage {
            let stances = content_usage::read(&usage);
            self.keep(Place::Header, "content-usage", &usage, stances);
        }
        for value in tags {
            let mut heard = Heard::new(now_s, is_image);
            robots_tag::of_header(value, product_token, |directive| heard.hear(directive));
            if heard.any {
                self.keep(Place::Header, "x-robots-tag", value, heard.stances);
            }
        }
    }

    fn meta(&mut self, name: &[u8], content: &[u8], product_token: &str, now_s: i64) {
        if !robots_tag::addresses(name, product_token) {
            self.tdm(Place::Meta, name, content);
            return;
        }
        let mut heard = Heard::new(now_s, false);
        robots_tag::of_meta(content, |directive| heard.hear(directive));
        if heard.any {
            let name = String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase();
            self.keep(Place::Meta, &name, content, heard.stances);
        }
    }

    fn tdm(&mut self, place: Place, name: &[u8], value: &[u8]) {
        let name = name.trim_ascii();
        if name.eq_ignore_ascii_case(tdm::RESERVATION.as_bytes()) {
            self.keep(place, tdm::RESERVATION, value, tdm::read(value));
        } else if name.eq_ignore_ascii_case(tdm::POLICY.as_bytes()) {
            self.keep(place, tdm::POLICY, value, Stances::default());
            let policy = value.trim_ascii();
            if self.tdm_policy.is_none() && (1..=POLICY_BYTES_MAX).contains(&policy.len()) {
                self.tdm_policy = Some(String::from_utf8_lossy(policy).into_owned());
            }
        }
    }

    fn keep(&mut self, place: Place, name: &str, value: &[u8], stances: Stances) {
        self.version = VERSION;
        self.stances.join(stances);
        if self.statements.len() >= STATEMENTS_MAX {
            self.left_out += 1;
            return;
        }
        let value = value.trim_ascii();
        let kept = &value[..value.len().min(VALUE_BYTES_MAX)];
        self.statements.push(Statement {
            place,
            name: name.to_owned(),
            value: String::from_utf8_lossy(kept).replace(char::is_control, " "),
        });
    }
}

/// Returns whether a meta of this name may say something to the crawler with this product token.
pub fn is_of_meta(name: &[u8], product_token: &str) -> bool {
    let is = |known: &str| name.trim_ascii().eq_ignore_ascii_case(known.as_bytes());
    robots_tag::addresses(name, product_token) || is(tdm::RESERVATION) || is(tdm::POLICY)
}

/// What directives for us say of use. Those that say nothing of it are no statement.
struct Heard {
    now_s: i64,
    is_image: bool,
    stances: Stances,
    any: bool,
}

impl Heard {
    fn new(now_s: i64, is_image: bool) -> Heard {
        Heard {
            now_s,
            is_image,
            stances: Stances::default(),
            any: false,
        }
    }

    fn hear(&mut self, directive: Directive<'_>) {
        let stances = directive.stances(self.now_s, self.is_image);
        self.stances.join(stances);
        self.any |= !stances.are_unsaid() || directive.is_of_use();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Stance};
    use proptest::prelude::*;

    fn read(robots: &str, headers: &[(&str, &str)], metas: &[(&str, &str)]) -> Signals {
        let said = Said {
            robots: &Signals::of_robots_txt(robots),
            headers: headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes())),
            metas: metas
                .iter()
                .map(|(name, content)| (name.as_bytes(), content.as_bytes())),
        };
        Signals::read(said, "rhumb", 1_277_478_000)
    }

    fn stances(signals: &Signals) -> Vec<&'static str> {
        signals
            .stances
            .each()
            .map(|(_, stance)| stance.name())
            .collect()
    }

    #[test]
    fn silence_is_neither_consent_nor_refusal() {
        let headers = [("content-type", "text/html"), ("server", "x")];
        let signals = read(
            "",
            &headers,
            &[("viewport", "width=1"), ("robots", "nofollow")],
        );
        assert!(signals.are_silent() && signals.stances.are_unsaid());
        assert_eq!(stances(&signals), ["unsaid"; 4]);
    }

    #[test]
    fn all_places_are_read_and_the_stricter_statement_counts() {
        let signals = read(
            "content-signal: search=yes, ai-train=yes\ncontent-usage: ai-use=y\n",
            &[
                ("X-Robots-Tag", "noarchive, otherbot: noindex"),
                ("Content-Usage", "train-ai=n"),
                ("content-signal", "ai-input=yes"),
                ("TDM-Reservation", "1"),
                ("tdm-policy", "https://example.org/policy.json"),
            ],
            &[
                ("Robots", "noindex, nofollow"),
                ("rhumb", "noai"),
                ("otherbot", "none"),
                ("tdm-reservation", "0"),
            ],
        );
        assert_eq!(stances(&signals), ["refused"; 4]);
        assert_eq!(
            signals.tdm_policy.as_deref(),
            Some("https://example.org/policy.json")
        );
        let written: Vec<_> = signals
            .statements
            .iter()
            .map(Statement::to_string)
            .collect();
        assert_eq!(
            written,
            [
                "robots.txt content-signal: search=yes, ai-train=yes",
                "robots.txt content-usage: ai-use=y",
                "header content-signal: ai-input=yes",
                "header tdm-reservation: 1",
                "header tdm-policy: https://example.org/policy.json",
                "header content-usage: train-ai=n",
                "header x-robots-tag: noarchive, otherbot: noindex",
                "meta robots: noindex, nofollow",
                "meta rhumb: noai",
                "meta tdm-reservation: 0",
            ]
        );
    }

    /// draft-ietf-aipref-attach, "HTTP Content-Usage Header Field": a dictionary, which may be
    /// written in several lines.
    #[test]
    fn lines_of_content_usage_are_one_dictionary() {
        let signals = read(
            "",
            &[
                ("content-usage", "train-ai=n"),
                ("content-usage", "train-ai=y, search=n"),
            ],
            &[],
        );
        assert_eq!(
            stances(&signals),
            ["refused", "unsaid", "allowed", "unsaid"]
        );
        assert_eq!(signals.statements.len(), 1);
    }

    #[test]
    fn what_was_said_is_told_in_json_and_a_statement_is_one_line() {
        let signals = read("", &[], &[("robots", "noai,\r\n\tnoindex")]);
        let json = serde_json::to_string(&signals).unwrap();
        assert_eq!(
            json,
            r#"{"version":1,"stances":{"search":"refused","ai-input":"refused","ai-train":"refused","archive":"unsaid"},"statements":[{"place":"meta","name":"robots","value":"noai,   noindex"}],"tdm_policy":null,"left_out":0}"#
        );
    }

    #[test]
    fn metas_that_may_say_something_are_known_by_their_names() {
        for name in [
            "robots",
            " ROBOTS ",
            "Rhumb",
            "tdm-reservation",
            "TDM-Policy",
        ] {
            assert!(is_of_meta(name.as_bytes(), "rhumb"), "{name}");
        }
        for name in ["", "viewport", "rhumbline", "googlebot", "tdm"] {
            assert!(!is_of_meta(name.as_bytes(), "rhumb"), "{name}");
        }
    }

    #[test]
    fn a_statement_whose_time_has_not_come_is_kept() {
        let future = "unavailable_after: 1 Jan 3000 00:00:00 GMT";
        let signals = read("", &[("x-robots-tag", future)], &[]);
        assert_eq!(signals.statements.len(), 1);
        assert!(signals.stances.are_unsaid());
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_left_out_still_counts() {
        let robots = "content-signal: search=yes\n".repeat(10_000);
        let long = format!("{}noindex", "x, ".repeat(3_000));
        let signals = read(&robots, &[("x-robots-tag", &long)], &[("robots", "noai")]);
        assert_eq!(signals.statements.len(), STATEMENTS_MAX);
        assert_eq!(signals.left_out, 10_002 - 32);
        assert_eq!(
            stances(&signals),
            ["refused", "refused", "refused", "unsaid"]
        );
        let signals = read("", &[("x-robots-tag", &long)], &[]);
        assert_eq!(signals.statements[0].value.len(), VALUE_BYTES_MAX);
        assert_eq!(signals.stances.on(Purpose::Search), Stance::Refused);
    }

    proptest! {
        #[test]
        fn nothing_panics_and_the_same_is_read_twice(
            robots in "(content-(signal|usage): [a-z=, /\"?()-]{0,30}\n){0,4}",
            tag in "[a-z:, _0-9-]{0,40}",
            meta in "[a-z:, _0-9-]{0,40}",
        ) {
            let headers = [("x-robots-tag", tag.as_str()), ("content-usage", tag.as_str())];
            let first = read(&robots, &headers, &[("robots", &meta)]);
            let second = read(&robots, &headers, &[("robots", &meta)]);
            prop_assert_eq!(first, second);
        }
    }
}
