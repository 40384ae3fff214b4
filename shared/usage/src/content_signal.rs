//! Content Signals: `search=yes, ai-train=no` in robots.txt and in a response header.
//!
//! Source: contentsignals.org (24 September 2025): three signals, each `yes` or `no`, separated by
//! commas; a signal that is absent grants nothing and restricts nothing. A key that is not among
//! the three, and any other value, says nothing.

use crate::{Purpose, Stance, Stances};

/// What a value of `Content-Signal` says.
pub fn read(value: &[u8]) -> Stances {
    let mut stances = Stances::default();
    for part in value.split(|&byte| byte == b',') {
        let Some(at) = memchr::memchr(b'=', part) else {
            continue;
        };
        let key = part[..at].trim_ascii();
        let stance = match part[at + 1..].trim_ascii() {
            yes if yes.eq_ignore_ascii_case(b"yes") => Stance::Allowed,
            no if no.eq_ignore_ascii_case(b"no") => Stance::Refused,
            _ => continue,
        };
        let purposes = [Purpose::Search, Purpose::AiInput, Purpose::AiTrain];
        let named = purposes
            .into_iter()
            .find(|purpose| key.eq_ignore_ascii_case(purpose.name().as_bytes()));
        if let Some(purpose) = named {
            stances.say(purpose, stance);
        }
    }
    stances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::purpose::tests::said;
    use Purpose::{AiInput, AiTrain, Search};
    use Stance::{Allowed, Refused};

    /// contentsignals.org, and the managed robots.txt of Cloudflare.
    #[test]
    fn each_signal_is_read_with_each_value() {
        assert_eq!(
            said(read(b"search=yes, ai-train=no")),
            [(Search, Allowed), (AiTrain, Refused)]
        );
        assert_eq!(
            said(read(b"search=yes,ai-train=no")),
            said(read(b"search=yes, ai-train=no"))
        );
        assert_eq!(
            said(read(b"search=no, ai-input=no, ai-train=no")),
            [(Search, Refused), (AiInput, Refused), (AiTrain, Refused)]
        );
        assert_eq!(
            said(read(b"ai-train=yes, search=yes, ai-input=yes")),
            [(Search, Allowed), (AiInput, Allowed), (AiTrain, Allowed)]
        );
        assert_eq!(said(read(b"AI-Train = No")), [(AiTrain, Refused)]);
    }

    #[test]
    fn what_is_no_signal_says_nothing_and_harms_no_neighbour() {
        assert_eq!(said(read(b"search=yes,ai-train=no,use=reference")).len(), 2);
        for nothing in [
            "",
            ",",
            "=",
            "search",
            "search=",
            "search=maybe",
            "ai=no",
            "\0=no",
        ] {
            assert_eq!(said(read(nothing.as_bytes())), [], "{nothing}");
        }
    }

    #[test]
    fn a_signal_that_contradicts_itself_is_refused() {
        assert_eq!(said(read(b"search=no, search=yes")), [(Search, Refused)]);
    }
}
