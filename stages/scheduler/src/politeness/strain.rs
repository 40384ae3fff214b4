//! Strain: a server that answers, but not always, is asked less often instead of being set aside.
//!
//! In: troubles and answers of a server. Out: whether its trouble is general, and how much longer
//! its gap is. Each trouble doubles the gap; [`CALM`] answers in a row halve it again. It is kept
//! in memory alone: of a server of which nothing is known the first trouble is general.

use std::time::Duration;

/// With so many troubles in a row, without an answer in between, trouble is general.
const GENERAL: u8 = 3;
/// So many answers in a row halve the gap. While it is longer, a job has no more requests: the next
/// one has a shorter gap.
pub(crate) const CALM: u8 = 10;
/// A server without a gap gets this one, before it doubles further.
const GAP_MIN: Duration = Duration::from_millis(100);
/// The gap doubles so often, at most.
const DOUBLINGS_MAX: u8 = 8;

/// How a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strain {
    /// Troubles since the last answer; [`GENERAL`] before the first.
    in_a_row: u8,
    doublings: u8,
    /// Answers since the last trouble, or since the gap was halved.
    calm: u8,
}

impl Default for Strain {
    /// Nothing is known.
    fn default() -> Self {
        Strain {
            in_a_row: GENERAL,
            doublings: 0,
            calm: 0,
        }
    }
}

impl Strain {
    /// A page was answered.
    pub(crate) fn answered(&mut self) {
        self.in_a_row = 0;
        self.calm += 1;
        if self.calm >= CALM {
            self.calm = 0;
            self.doublings = self.doublings.saturating_sub(1);
        }
    }

    /// The job at hand has brought an answer, whatever of it was heard before.
    pub(crate) fn has_served(&mut self) {
        self.in_a_row = 0;
    }

    /// A request was refused or not answered. Returns whether that is general.
    pub(crate) fn troubled(&mut self) -> bool {
        self.calm = 0;
        self.in_a_row = self.in_a_row.saturating_add(1);
        let is_general = self.in_a_row >= GENERAL;
        // Whoever is set aside is left alone for long enough.
        self.doublings = if is_general {
            0
        } else {
            (self.doublings + 1).min(DOUBLINGS_MAX)
        };
        is_general
    }

    /// Returns whether the gap is longer than it would be.
    pub(crate) fn is_felt(&self) -> bool {
        self.doublings > 0
    }

    /// What a gap becomes, at most `longest` unless it was longer before.
    pub(crate) fn stretched(&self, gap: Duration, longest: Duration) -> Duration {
        if !self.is_felt() {
            return gap;
        }
        let stretched = gap.max(GAP_MIN / 2).saturating_mul(1 << self.doublings);
        stretched.min(longest.max(gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_doubles_with_each_trouble_and_shrinks_with_answers() {
        let mut strain = Strain::default();
        let ms = |strain: &Strain, gap| {
            strain
                .stretched(Duration::from_millis(gap), Duration::from_secs(30))
                .as_millis()
        };
        strain.answered();
        assert_eq!((ms(&strain, 0), ms(&strain, 1000)), (0, 1000));
        assert!(!strain.troubled() && !strain.troubled());
        assert_eq!(
            (ms(&strain, 0), ms(&strain, 1000), ms(&strain, 60_000)),
            (200, 4000, 60_000)
        );
        (0..CALM).for_each(|_| strain.answered());
        assert_eq!((ms(&strain, 0), ms(&strain, 1000)), (100, 2000));
        (0..CALM).for_each(|_| strain.answered());
        assert!(!strain.is_felt());
        for _ in 0..20 {
            strain.answered();
            strain.troubled();
        }
        assert_eq!(ms(&strain, 1000), 30_000);
    }

    #[test]
    fn trouble_is_general_three_times_in_a_row_or_where_nothing_was_answered() {
        let mut strain = Strain::default();
        assert!(strain.troubled());
        strain.answered();
        assert_eq!(
            [(); 4].map(|()| strain.troubled()),
            [false, false, true, true]
        );
        assert!(!strain.is_felt());
    }
}
