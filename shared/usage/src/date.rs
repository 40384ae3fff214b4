//! Dates as authors write them: behind `unavailable_after`, in sitemaps and in feeds.
//!
//! In: a text. Out: milliseconds since 1970, or none. Google's specification names RFC 822, RFC 850 and
//! ISO 8601, its examples leave weekdays out and name zones of the United States; authors leave out
//! zone and time, too. A date without zone is taken for UTC, one without time for its first second.

use time::format_description::well_known::{Iso8601, Rfc2822, Rfc3339};
use time::{Date, OffsetDateTime, PrimitiveDateTime};

/// Seconds since 1970 of a date in one of the forms.
pub(crate) fn seconds(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    moment(text).map(OffsetDateTime::unix_timestamp)
}

/// Milliseconds since 1970 of a date in one of the forms; none before 1970.
pub fn milliseconds(text: &str) -> Option<u64> {
    let at = moment(text)?.unix_timestamp_nanos() / 1_000_000;
    u64::try_from(at).ok()
}

fn moment(text: &str) -> Option<OffsetDateTime> {
    let text = text.trim();
    iso(text).or_else(|| mail(text))
}

/// `2010-06-25`, `2010-06-25T15:00:00+02:00`, `2010-06-25 15:00:00`.
fn iso(text: &str) -> Option<OffsetDateTime> {
    let whole = text.replacen(' ', "T", 1);
    OffsetDateTime::parse(&whole, &Rfc3339)
        .or_else(|_| OffsetDateTime::parse(&whole, &Iso8601::PARSING))
        .or_else(|_| {
            PrimitiveDateTime::parse(&whole, &Iso8601::PARSING).map(PrimitiveDateTime::assume_utc)
        })
        .or_else(|_| Date::parse(text, &Iso8601::DATE).map(|date| date.midnight().assume_utc()))
        .ok()
}

/// `Fri, 25 Jun 2010 15:00:00 GMT`, `Friday, 25-Jun-10 15:00:00 EST`, `25 June 2010`,
/// `Fri Jun 25 15:00:00 UTC 2010`, `2010-06-25 15:00:00 +0200`: brought into the form of RFC 2822.
fn mail(text: &str) -> Option<OffsetDateTime> {
    let mut words: Vec<&str> = text
        .split(|letter: char| letter == ',' || letter.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .collect();
    if is_weekday(words.first()?.as_bytes()) {
        words.remove(0);
    }
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_year = |word: &str| word.len() == 4 && is_number(word);
    let (day, month, year, rest): (&str, &str, &str, Vec<&str>) = match words.as_slice() {
        [date, rest @ ..] if date.contains('-') => {
            let parts: Vec<&str> = date.split('-').collect();
            match parts.as_slice() {
                [year, month, day] if is_year(year) => (*day, *month, *year, rest.to_vec()),
                [day, month, year] => (*day, *month, *year, rest.to_vec()),
                _ => return None,
            }
        }
        [day, month, year, rest @ ..] if is_number(day) => (*day, *month, *year, rest.to_vec()),
        [month, day, year, rest @ ..] if is_year(year) => (*day, *month, *year, rest.to_vec()),
        [month, day, rest @ .., year] if is_year(year) => (*day, *month, *year, rest.to_vec()),
        _ => return None,
    };
    let month = month_name(month)?;
    let (time, zone) = match rest.as_slice() {
        [] => ("00:00:00", "GMT".to_owned()),
        [time] => (*time, "GMT".to_owned()),
        [time, zone, ..] => (*time, zone.replace(':', "")),
    };
    let in_zone = |zone: &str| {
        OffsetDateTime::parse(&format!("{day} {month} {year} {time} {zone}"), &Rfc2822)
    };
    // A zone that nobody knows is none.
    in_zone(&zone).or_else(|_| in_zone("GMT")).ok()
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The name in RFC 2822 of a month that is written whole, short, or as a number.
fn month_name(word: &str) -> Option<&'static str> {
    if let Ok(number) = word.parse::<usize>() {
        return MONTHS.get(number.checked_sub(1)?).copied();
    }
    let start = word.get(..3)?;
    let is_same = |month: &&&str| month.eq_ignore_ascii_case(start);
    MONTHS.iter().find(is_same).copied()
}

/// Returns whether a text is the name of a weekday, whole or short.
pub(crate) fn is_weekday(text: &[u8]) -> bool {
    const DAYS: [&[u8]; 7] = [b"mon", b"tue", b"wed", b"thu", b"fri", b"sat", b"sun"];
    let is_word = text.iter().all(u8::is_ascii_alphabetic);
    let start = text.get(..3).filter(|_| is_word);
    start.is_some_and(|start| DAYS.iter().any(|day| start.eq_ignore_ascii_case(day)))
}

#[cfg(test)]
mod tests {
    use super::{milliseconds, seconds};
    use proptest::prelude::*;

    /// 25 June 2010, 15:00 in UTC.
    const AT: i64 = 1_277_478_000;
    const HOUR: i64 = 3_600;

    #[test]
    fn dates_are_read_in_each_form() {
        for (text, at) in [
            ("Fri, 25 Jun 2010 15:00:00 GMT", AT),
            ("25 Jun 2010 15:00:00 PST", AT + 8 * HOUR),
            ("25 Jun 2010 15:00:00 +0200", AT - 2 * HOUR),
            ("Friday, 25-Jun-10 15:00:00 EST", AT + 5 * HOUR),
            ("25-Jun-2010 15:00:00 EST", AT + 5 * HOUR),
            ("25-Jun-2010 15:00:00", AT),
            ("25 Jun 2010 15:00 UTC", AT),
            ("25 Jun 2010", AT - 15 * HOUR),
            ("Fri Jun 25 15:00:00 2010", AT),
            ("25 June 2010 15:00:00 GMT", AT),
            ("25 Jun 2010 15:00:00 CET", AT),
            ("25 Jun 2010 15:00:00 +02:00", AT - 2 * HOUR),
            ("Friday 25-Jun-10 15:00:00 EST", AT + 5 * HOUR),
            ("Fri Jun 25 15:00:00 UTC 2010", AT),
            ("June 25, 2010 15:00:00 PST", AT + 8 * HOUR),
            ("2010-06-25 15:00:00 UTC", AT),
            ("2010-06-25 15:00:00 +0200", AT - 2 * HOUR),
            ("2010-06-25", AT - 15 * HOUR),
            ("2010-06-25T15:00:00Z", AT),
            ("2010-06-25T15:00:00+02:00", AT - 2 * HOUR),
            ("2010-06-25T15:00:00", AT),
            ("2010-06-25 15:00:00", AT),
            ("  2010-06-25T15:00:00.500Z ", AT),
            ("1 Jan 3000 00:00:00 GMT", 32_503_680_000),
        ] {
            assert_eq!(seconds(text.as_bytes()), Some(at), "{text}");
        }
    }

    #[test]
    fn parts_of_a_second_count() {
        let at_ms = AT as u64 * 1000;
        assert_eq!(milliseconds("2010-06-25T15:00:00.045Z"), Some(at_ms + 45));
        assert_eq!(milliseconds("25 Jun 2010 15:00 GMT"), Some(at_ms));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "soon",
            "32 Jun 2010",
            "25 Jun",
            "2010-13-01",
            "99:99",
            "-",
            ", ,",
        ] {
            assert_eq!(seconds(text.as_bytes()), None, "{text}");
        }
        assert_eq!(seconds(b"25 Jun 2010 \xff"), None);
        assert_eq!(milliseconds("1969-12-31"), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[0-9A-Za-z:, +-]{0,40}") {
            seconds(text.as_bytes());
        }
    }
}
