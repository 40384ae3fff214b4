//! What is expected of the copies: how many are current, and how many changes visits should find.
//!
//! In: known pages, as they are looked at one after the other, and visits that tell whether their
//! page has changed. Out: the numbers that say how fresh the copies are, and whether to believe it.
//!
//! Invariant: numbers of pages are those of one look at all of them, never of half a look.

use crate::known::record::Record;
use crate::visits::Posterior;
use rhumb_stage::Count;
use rhumb_wire::message::PageState;

/// What is expected of the copies of all known pages.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    looking: Look,
    last: Look,
    /// Changes that visits should have found, and those that they found.
    changes: f64,
    changes_found: u64,
}

/// Sums over the pages of one look at all of them.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    pages: u64,
    /// Those of them whose copy is current, in the mean.
    fresh: f64,
    /// Seconds since their last visits.
    age_s: f64,
}

/// A visit that tells whether its page has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    /// How likely a change was before it, from 0 to 1.
    pub(crate) expected: f64,
    pub(crate) is_changed: bool,
}

impl Expected {
    /// Counts a page. One that is gone, or was never there, has no copy.
    pub(crate) fn look_at(&mut self, page: &Record, posterior: &Posterior, now_ms: u64) {
        if !matches!(page.state, PageState::Page | PageState::Moved) {
            return;
        }
        let age_s = now_ms.saturating_sub(page.answered_ms) as f64 / 1e3;
        self.looking.pages += 1;
        self.looking.fresh += posterior.unchanged(age_s);
        self.looking.age_s += age_s;
    }

    /// All pages were looked at.
    pub(crate) fn end_look(&mut self) {
        self.last = std::mem::take(&mut self.looking);
    }

    /// Compares visits with what was expected of them.
    pub(crate) fn check(&mut self, visits: impl IntoIterator<Item = Option<Seen>>) {
        for seen in visits.into_iter().flatten() {
            self.changes += seen.expected;
            self.changes_found += u64::from(seen.is_changed);
        }
    }

    /// All numbers.
    pub(crate) fn counts(&self) -> [Count; 5] {
        [
            ("pages_compared", self.last.pages),
            ("pages_fresh_expected", self.last.fresh.round() as u64),
            ("pages_age_seconds", self.last.age_s.round() as u64),
            ("changes_expected_total", self.changes.round() as u64),
            ("changes_found_total", self.changes_found),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(state: PageState, answered_ms: u64) -> Record {
        Record {
            state,
            answered_ms,
            ..Record::default()
        }
    }

    #[test]
    fn copies_of_pages_that_are_there_count_when_all_were_looked_at() {
        let posterior = Posterior::known(1e-3);
        let mut expected = Expected::default();
        for _ in 0..100 {
            expected.look_at(&page(PageState::Page, 0), &posterior, 1_000_000);
            expected.look_at(&page(PageState::Moved, 1_000_000), &posterior, 1_000_000);
            expected.look_at(&page(PageState::Gone, 0), &posterior, 1_000_000);
        }
        assert_eq!(expected.counts()[0].1, 0, "the look is not over");
        expected.end_look();
        let counts = expected.counts().map(|(_, value)| value);
        // After 1000 s 37 of 100 such pages have not changed.
        assert_eq!(counts, [200, 137, 100_000, 0, 0]);
        expected.end_look();
        assert_eq!(expected.counts()[0].1, 0, "all pages were forgotten");
    }

    #[test]
    fn visits_are_compared_with_what_was_expected() {
        let mut expected = Expected::default();
        for number in 0..10 {
            let seen = Seen {
                expected: 0.25,
                is_changed: number < 3,
            };
            expected.check([Some(seen), None]);
        }
        let counts = expected.counts();
        assert_eq!(counts[3], ("changes_expected_total", 3));
        assert_eq!(counts[4], ("changes_found_total", 3));
    }
}
