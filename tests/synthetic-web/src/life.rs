//! Life: when one page comes, when it changes, and when it is away.
//!
//! Changes are a Poisson process that is older than the web: the last change before the start lies
//! as far back as the next one lies ahead. Where the page of a new page links to it, that is a
//! change, too.
//!
//! Invariant: what a life says of a time depends on nothing that it was asked before. It steps from
//! change to change, so a time that is not far ahead is cheap.

use std::ops::Range;

use super::change::Change;
use super::dice::{Dice, Purpose};

/// One version of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Version {
    /// Changes between the start of the web and this version; 0 for the first.
    pub(crate) number: u64,
    /// Its beginning, in seconds since the start of the web: before 0 for the first, without end
    /// if the page never changed.
    pub(crate) since_s: f64,
    /// Its end.
    pub(crate) until_s: f64,
}

/// One page.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    /// Changes a second.
    pub(crate) rate: f64,
    pub(crate) born_s: f64,
    /// When it answers 404; empty if never.
    pub(crate) gone_s: Range<f64>,
    /// When links to new pages come, in order.
    additions_s: Vec<f64>,
    /// Before the first change.
    origin: Dice,
    /// At the present version.
    dice: Dice,
    /// The version that was asked for last; links that came are not counted.
    at: Version,
}

impl Life {
    /// A page that is there from the start on, always, and links to no new one.
    pub(crate) fn new(change: &Change, seed: u64, host: u32, page: u32) -> Self {
        let origin = Dice::new(seed, Purpose::Changes, host, page);
        let rate = change.rate(seed, host, page);
        let mut dice = origin.clone();
        let at = first(rate, &mut dice);
        Self {
            rate,
            born_s: 0.0,
            gone_s: 0.0..0.0,
            additions_s: Vec::new(),
            origin,
            dice,
            at,
        }
    }

    /// The same, of a page that comes and goes.
    #[must_use]
    pub(crate) fn between(self, born_s: f64, gone_s: Range<f64>) -> Self {
        Self {
            born_s,
            gone_s: born_s + gone_s.start..born_s + gone_s.end,
            ..self
        }
    }

    /// The same, of a page to which links come at these times.
    #[must_use]
    pub(crate) fn with_additions(mut self, mut additions_s: Vec<f64>) -> Self {
        additions_s.sort_by(f64::total_cmp);
        self.additions_s = additions_s;
        self
    }

    /// Returns whether the page is there.
    pub(crate) fn is_there(&self, at_s: f64) -> bool {
        at_s >= self.born_s && !self.gone_s.contains(&at_s)
    }

    /// The version of that time.
    pub(crate) fn version_at(&mut self, at_s: f64) -> Version {
        if at_s < self.at.since_s {
            self.dice = self.origin.clone();
            self.at = first(self.rate, &mut self.dice);
        }
        while at_s >= self.at.until_s {
            self.at = Version {
                number: self.at.number + 1,
                since_s: self.at.until_s,
                until_s: self.at.until_s + gap(self.rate, &mut self.dice),
            };
        }
        let added = self
            .additions_s
            .partition_point(|addition| *addition <= at_s);
        let last = added.checked_sub(1).map(|last| self.additions_s[last]);
        let next = self.additions_s.get(added).copied();
        // A new page has no version that is older than itself.
        let oldest = if self.born_s > 0.0 {
            self.born_s
        } else {
            f64::NEG_INFINITY
        };
        Version {
            number: self.at.number + added as u64,
            since_s: self.at.since_s.max(last.unwrap_or(oldest)).max(oldest),
            until_s: self.at.until_s.min(next.unwrap_or(f64::INFINITY)),
        }
    }
}

/// The version at the start of the web: seen from there, past and future are alike.
fn first(rate: f64, dice: &mut Dice) -> Version {
    Version {
        number: 0,
        since_s: -gap(rate, dice),
        until_s: gap(rate, dice),
    }
}

/// Seconds from one change to the next.
fn gap(rate: f64, dice: &mut Dice) -> f64 {
    if rate > 0.0 {
        dice.exponential(1.0 / rate)
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A change of all pages at one rate.
    fn steady(interval: Duration) -> Change {
        Change {
            sigma: 0.0,
            never: 0.0,
            ..Change::new(interval)
        }
    }

    #[test]
    fn versions_rise_and_each_begins_where_the_one_before_ends() {
        let change = steady(Duration::from_secs(1));
        let mut life = Life::new(&change, 1, 2, 3);
        let mut before = life.version_at(0.0);
        assert!(before.number == 0 && before.since_s < 0.0 && before.until_s > 0.0);
        for number in 1..100 {
            let version = life.version_at(before.until_s);
            assert_eq!((version.number, version.since_s), (number, before.until_s));
            before = version;
        }
    }

    #[test]
    fn a_time_has_one_version_whatever_was_asked_before() {
        let change = Change::new(Duration::from_millis(300));
        let times: Vec<f64> = (0..200).map(|step| f64::from(step) * 0.37).collect();
        for page in 0..20 {
            let mut onward = Life::new(&change, 7, 0, page);
            let in_order: Vec<Version> = times.iter().map(|at| onward.version_at(*at)).collect();
            let mut backward = onward;
            for (at, version) in times.iter().zip(&in_order).rev() {
                assert_eq!(backward.version_at(*at), *version);
                assert_eq!(Life::new(&change, 7, 0, page).version_at(*at), *version);
                assert!(version.since_s <= *at && *at < version.until_s);
            }
        }
    }

    #[test]
    fn pages_change_as_often_as_their_rate_says() {
        let change = Change {
            never: 0.0,
            sigma: 1.0,
            ..Change::new(Duration::from_millis(500))
        };
        let mut changes = 0;
        let mut expected = 0.0;
        let mut ages = 0.0;
        for page in 0..1_000 {
            let mut life = Life::new(&change, 1, 0, page);
            ages -= life.version_at(0.0).since_s * life.rate;
            changes += life.version_at(60.0).number;
            expected += life.rate * 60.0;
        }
        // The deviation of a count is the root of its mean.
        let deviation = (changes as f64 - expected) / f64::sqrt(expected);
        assert!(deviation.abs() < 4.0, "{changes} of {expected}");
        // Times between changes are exponential, before the start, too.
        assert!((0.9..1.1).contains(&(ages / 1_000.0)), "{ages}");
    }

    #[test]
    fn a_page_that_never_changes_has_one_version() {
        let change = Change {
            never: 1.0,
            ..Change::new(Duration::from_millis(1))
        };
        let version = Life::new(&change, 1, 0, 0).version_at(1e9);
        let for_ever = (f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!((version.number, version.since_s), (0, for_ever.0));
        assert_eq!(version.until_s, for_ever.1);
    }

    #[test]
    fn a_link_that_comes_is_a_change_and_a_new_page_is_not_older_than_itself() {
        let change = Change {
            never: 1.0,
            ..Change::new(Duration::from_secs(1))
        };
        let mut life = Life::new(&change, 1, 0, 0).with_additions(vec![8.0, 5.0]);
        let seen: Vec<(u64, f64)> = [4.0, 5.0, 7.0, 9.0]
            .map(|at| life.version_at(at))
            .iter()
            .map(|version| (version.number, version.until_s))
            .collect();
        assert_eq!(seen, [(0, 5.0), (1, 8.0), (1, 8.0), (2, f64::INFINITY)]);
        let mut new = Life::new(&change, 1, 0, 0).between(3.0, 2.0..4.0);
        assert_eq!(new.version_at(4.0).since_s, 3.0);
        let there = [1.0, 3.0, 4.9, 5.0, 6.9, 7.0].map(|at| new.is_there(at));
        assert_eq!(there, [false, true, true, false, false, true]);
    }

    #[test]
    fn no_page_changes_more_than_a_thousand_times_a_second() {
        let change = steady(Duration::from_nanos(1));
        let number = Life::new(&change, 1, 0, 0).version_at(150.0).number;
        assert!((148_000..152_000).contains(&number), "{number}");
    }
}
