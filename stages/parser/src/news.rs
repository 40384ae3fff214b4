//! News: which dates of a sitemap or feed tell that a page changed since the visit before.
//!
//! In: a date as its author wrote it. Out: when that was, if it is news. A date without a time
//! tells of any time of its day: it is news on the day of that visit, too, and counts as the first
//! moment of its day. So the same date is always the same moment. A date of the future is none
//! yet, and one of before the web is none: 1970 is that of clocks that were never set.

use rhumb_url::time::WEB_BEGAN_S;
use rhumb_usage::date;

const DAY_MS: u64 = 86_400_000;

/// The time between two visits of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// The visit before, …
    pub after_ms: u64,
    /// … and this one, in milliseconds of Unix time.
    pub until_ms: u64,
}

impl News {
    /// When a page changed that has this date, in milliseconds of Unix time; none where that is no
    /// news, or no date.
    pub fn at_ms(&self, date: &str) -> Option<u64> {
        let at_ms = date::milliseconds(date)?;
        let ends_ms = match date.contains(':') {
            true => at_ms,
            false => at_ms + DAY_MS - 1,
        };
        let is_news = ends_ms > self.after_ms && at_ms <= self.until_ms;
        (is_news && at_ms >= 1_000 * WEB_BEGAN_S).then_some(at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 25 June 2010, 15:00 in UTC.
    const AT_MS: u64 = 1_277_478_000_000;
    const HOUR_MS: u64 = 3_600_000;

    /// Between 14:00 and 16:00.
    const NEWS: News = News {
        after_ms: AT_MS - HOUR_MS,
        until_ms: AT_MS + HOUR_MS,
    };

    #[test]
    fn what_is_later_than_the_visit_before_is_news() {
        for (date, at_ms) in [
            ("2010-06-25T15:00:00Z", Some(AT_MS)),
            ("Fri, 25 Jun 2010 15:00:00 GMT", Some(AT_MS)),
            ("Fri, 25 Jun 10 17:00 +0200", Some(AT_MS)),
            ("2010-06-25T14:00:00Z", None),
            ("2010-06-25T14:00:00.001Z", Some(AT_MS - HOUR_MS + 1)),
            ("2010-06-25T16:00:00Z", Some(AT_MS + HOUR_MS)),
            ("2010-06-25T16:00:01Z", None),
            ("1970-01-01", None),
            ("now", None),
            ("", None),
        ] {
            assert_eq!(NEWS.at_ms(date), at_ms, "{date}");
        }
    }

    #[test]
    fn a_day_is_news_while_the_visit_before_was_on_it_or_earlier() {
        let day = Some(AT_MS - 15 * HOUR_MS);
        assert_eq!(NEWS.at_ms("2010-06-25"), day);
        assert_eq!(NEWS.at_ms("25 Jun 2010"), day);
        assert_eq!(NEWS.at_ms("2010-06-24"), None);
        assert_eq!(NEWS.at_ms("2010-06-26"), None);
    }

    #[test]
    fn a_date_of_1970_is_none_even_if_there_was_no_visit_since() {
        let all = News {
            after_ms: 0,
            ..NEWS
        };
        assert_eq!(all.at_ms("1970-01-02"), None);
        assert_eq!(all.at_ms("1991-08-06"), Some(681_436_800_000));
    }
}
