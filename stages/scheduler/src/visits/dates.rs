//! Dates: whether `Last-Modified` is believed at a server, and how long ago a page changed by it.
//!
//! A date that is true says more of a page than whether it has changed. But dates are set by
//! programs: some say now at each look, some never change, some lie behind by a deployment. So a
//! server is believed after a few changes with dates that fit what the bodies say, and no longer
//! when they do not fit. False until shown.
//!
//! Source: Cho and Garcia-Molina 2003, section 5 (the time of the last change).

use rhumb_url::time::WEB_BEGAN_S;

/// Dates that fitted, before any is believed.
const FITTED_MIN: u8 = 3;
/// One date that did not fit takes so many that did.
const FITTED_PER_BROKEN: u8 = 10;
/// What is known of a server fades when it has told so much.
const TOLD_MAX: u8 = 200;
/// Dates are in whole seconds, and clocks of servers are not exact.
const TOLERANCE_S: f64 = 2.0;
/// A change that is so much younger than the wait before it is a date of now.
const YOUNGEST_SHARE: f64 = 1e-2;
/// So near to the wait between two visits is what a date moves on by that is of now at each of
/// them.
const GOES_WITH_TIME_S: f64 = 1.0;
/// A date is cut to the second: its change came half of one later, in the mean.
const HALF_S: f64 = 0.5;

/// What two visits in a row were told of the last change of their page: seconds of Unix time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dates {
    /// By the visit before; none where it said nothing.
    pub before_s: Option<u64>,
    /// By this one.
    pub now_s: Option<u64>,
}

/// What a visit with dates found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dated {
    /// What was said of the last change.
    pub dates: Dates,
    /// When it was, in seconds of Unix time.
    pub at_s: f64,
    /// Time since the visit before, in seconds.
    pub wait_s: f64,
    /// The body is another one.
    pub is_changed: bool,
}

impl Dated {
    /// How long before the visit the page changed, by its date.
    fn age_s(&self) -> Option<f64> {
        self.dates.now_s.map(|date| self.at_s - date as f64)
    }

    /// Returns whether the date fits what the body says; none where that cannot be seen.
    fn fits(&self) -> Option<bool> {
        let Dates { before_s, now_s } = self.dates;
        if !self.is_changed {
            // That a date stays says nothing: some never change.
            return (now_s? != before_s?).then_some(false);
        }
        let age_s = self.age_s()?;
        let is_later = now_s > before_s;
        let is_between = (-TOLERANCE_S..=self.wait_s + TOLERANCE_S).contains(&age_s);
        // Whether it is true, or any date would be of now, cannot be seen; nor, by the date before,
        // whether a clock that is wrong says now.
        let of_now = -TOLERANCE_S..TOLERANCE_S.min(YOUNGEST_SHARE * self.wait_s);
        let moved_s = before_s.map(|before| now_s.unwrap_or(before) as f64 - before as f64);
        let goes_with_time = moved_s.is_some_and(|by| (by - self.wait_s).abs() <= GOES_WITH_TIME_S);
        let says_nothing = of_now.contains(&age_s) || goes_with_time;
        (!says_nothing).then_some(is_later && is_between)
    }
}

/// What is known of the dates of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DateTrust {
    fitted: u8,
    broken: u8,
}

impl DateTrust {
    /// From the bytes of a row.
    pub fn from_bytes([fitted, broken]: [u8; 2]) -> Self {
        DateTrust { fitted, broken }
    }

    /// The bytes for a row.
    pub fn to_bytes(self) -> [u8; 2] {
        [self.fitted, self.broken]
    }

    /// Learns from a visit.
    pub fn learn(&mut self, dated: &Dated) {
        match dated.fits() {
            Some(true) => self.fitted = self.fitted.saturating_add(1),
            Some(false) => self.broken = self.broken.saturating_add(1),
            None => {}
        }
        if self.fitted.max(self.broken) >= TOLD_MAX {
            self.fitted /= 2;
            self.broken /= 2;
        }
    }

    fn is_given(self) -> bool {
        let taken = self.broken.saturating_mul(FITTED_PER_BROKEN);
        self.fitted >= FITTED_MIN && self.fitted > taken
    }

    /// How long before the visit the page changed, in seconds, at most the wait; none where its
    /// date is not believed.
    pub fn age_s(self, dated: &Dated) -> Option<f64> {
        let is_believed = self.is_given() && dated.is_changed && dated.fits() == Some(true);
        let age_s = dated.age_s().filter(|_| is_believed)?;
        Some((age_s - HALF_S).clamp(0.0, dated.wait_s))
    }

    /// How long before its first visit a page changed, in seconds; none where its date is not
    /// believed, or is later than the visit.
    pub fn first_age_s(self, date_s: Option<u64>, at_s: f64) -> Option<f64> {
        let date_s = date_s.filter(|date| self.is_given() && *date >= WEB_BEGAN_S)?;
        let age_s = at_s - date_s as f64;
        (age_s >= -TOLERANCE_S).then(|| (age_s - HALF_S).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_S: u64 = 1_700_000_000;

    /// A visit an hour after the one before; dates are so many seconds before it.
    fn dated(before: u64, now: u64, is_changed: bool) -> Dated {
        Dated {
            dates: Dates {
                before_s: Some(AT_S - before),
                now_s: Some(AT_S - now),
            },
            at_s: AT_S as f64,
            wait_s: 3_600.0,
            is_changed,
        }
    }

    fn learned(visits: &[Dated]) -> DateTrust {
        let mut trust = DateTrust::default();
        for visit in visits {
            trust.learn(visit);
        }
        trust
    }

    #[test]
    fn dates_are_believed_once_three_changes_fitted() {
        let changed = dated(9_000, 600, true);
        assert_eq!(learned(&[changed; 2]).age_s(&changed), None);
        let trust = learned(&[changed; 3]);
        assert_eq!(trust.age_s(&changed), Some(599.5));
        assert_eq!(trust.first_age_s(Some(AT_S - 50), AT_S as f64), Some(49.5));
        assert_eq!(DateTrust::from_bytes(trust.to_bytes()), trust);
    }

    #[test]
    fn dates_that_do_not_fit_are_not_believed() {
        let fits = dated(9_000, 600, true);
        for broken in [
            // It changed, and the date is that of before, or of an earlier change.
            dated(9_000, 9_000, true),
            dated(9_000, 8_000, true),
            // It did not change, and the date did.
            dated(9_000, 600, false),
        ] {
            let trust = learned(&[fits, fits, fits, broken]);
            assert_eq!(trust.age_s(&fits), None, "{broken:?}");
        }
        let mut future = fits;
        future.dates.now_s = Some(AT_S + 60);
        assert_eq!(learned(&[fits, fits, fits, future]).age_s(&fits), None);
    }

    #[test]
    fn a_server_is_believed_again_when_its_dates_fit_for_long() {
        let fits = dated(9_000, 600, true);
        let mut trust = learned(&[dated(9_000, 9_000, true)]);
        for _ in 0..10 {
            trust.learn(&fits);
            assert_eq!(trust.age_s(&fits), None);
        }
        trust.learn(&fits);
        assert!(trust.age_s(&fits).is_some());
    }

    #[test]
    fn a_date_that_stays_or_goes_with_time_says_nothing() {
        let stays = dated(9_000, 9_000, false);
        let of_now = dated(3_600, 0, true);
        // By a clock that is ten minutes behind.
        let of_its_now = dated(3_600 + 600, 600, true);
        for visit in [stays, of_now, of_its_now] {
            assert_eq!(learned(&[visit; 50]), DateTrust::default());
            let trust = learned(&[dated(9_000, 600, true); 5]);
            assert_eq!(trust.age_s(&visit), None);
        }
    }

    #[test]
    fn a_page_without_dates_has_no_age() {
        let trust = learned(&[dated(9_000, 600, true); 9]);
        let mut without = dated(9_000, 600, true);
        without.dates = Dates::default();
        assert_eq!(trust.age_s(&without), None);
        assert_eq!(trust.first_age_s(None, AT_S as f64), None);
        assert_eq!(trust.first_age_s(Some(AT_S + 10), AT_S as f64), None);
        assert_eq!(trust.first_age_s(Some(0), AT_S as f64), None);
    }

    #[test]
    fn counts_stay_within_a_byte() {
        let trust = learned(&[dated(9_000, 600, true); 10_000]);
        assert!(trust.age_s(&dated(9_000, 600, true)).is_some());
    }
}
