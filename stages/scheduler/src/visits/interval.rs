//! Interval: the rule of Nutch and StormCrawler, for comparison.
//!
//! Each page has an interval between visits. A change makes it shorter, none makes it longer, by
//! constant factors, between bounds. It knows no budget: where the intervals ask for more visits
//! than there are, the page that is latest by its interval goes first.
//!
//! Source: `AdaptiveFetchSchedule` of Apache Nutch, with its defaults.

const AFTER_CHANGE: f64 = 1.0 - 0.2;
const AFTER_NONE: f64 = 1.0 + 0.4;
const SHORTEST_S: f64 = 60.0;
const LONGEST_S: f64 = 365.0 * 86_400.0;

/// The time between two visits of a page, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Interval(f64);

impl Interval {
    /// From a number of seconds.
    pub fn from_secs(seconds: f64) -> Self {
        Interval(seconds.clamp(SHORTEST_S, LONGEST_S))
    }

    /// The seconds.
    pub fn as_secs(self) -> f64 {
        self.0
    }

    /// After a visit that found a change, or none.
    #[must_use]
    pub fn after(self, is_changed: bool) -> Self {
        let factor = if is_changed { AFTER_CHANGE } else { AFTER_NONE };
        Interval::from_secs(factor * self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_makes_it_shorter_and_none_longer_between_bounds() {
        let day = Interval::from_secs(86_400.0);
        assert!((day.after(true).as_secs() - 69_120.0).abs() < 1e-6);
        assert!((day.after(false).as_secs() - 120_960.0).abs() < 1e-6);
        let run = |is_changed| (0..100).fold(day, |interval, _| interval.after(is_changed));
        assert_eq!(
            [run(true).as_secs(), run(false).as_secs()],
            [SHORTEST_S, LONGEST_S]
        );
    }
}
