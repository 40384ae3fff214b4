//! Share: how several schedulers divide the budget of visits.
//!
//! The optimum has one threshold everywhere. A scheduler's share follows its known pages, and how
//! much its best page is worth beside those of the others. What is worth more is visited sooner, so
//! that the best pages come to be worth nearly the same.
//!
//! The best page's value answers a share only as fast as pages grow old, so a share that followed
//! it at once would swing, and each swing would be paid for by the next. It goes a part of its way
//! in each round.
//!
//! Invariants: shares sum to 1; none is below a hundredth of its part of the pages.

use serde::{Deserialize, Serialize};

/// The power of a value. Where one scheduler should visit its pages ten times as often as another,
/// their best pages differ by a factor of 3.
const POWER: f64 = 2.0;
/// The smallest share, in parts of that by pages alone.
const LEAST: f64 = 0.01;
/// The part of its way to where it should be that a share goes in a round.
const STEP: f64 = 0.3;

/// A scheduler among others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stake {
    /// Known pages.
    pub pages: u64,
    /// What its best page is worth: 0 where it has none.
    pub value: f64,
}

/// What a share is in the next round that is this one now, and should be that.
pub fn nearer(now: f64, should: f64) -> f64 {
    now + STEP * (should - now)
}

/// What the share of each scheduler in the budget should be.
pub fn shares(stakes: &[Stake]) -> Vec<f64> {
    let best = stakes.iter().map(|stake| stake.value).fold(0.0, f64::max);
    let weight = |stake: &Stake| {
        let relative = if best > 0.0 { stake.value / best } else { 1.0 };
        stake.pages as f64 * relative.max(0.0).powf(POWER).max(LEAST)
    };
    let weights: Vec<f64> = stakes.iter().map(weight).collect();
    let sum: f64 = weights.iter().sum();
    let even = 1.0 / stakes.len().max(1) as f64;
    let share = |weight: &f64| if sum > 0.0 { weight / sum } else { even };
    weights.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stakes: &[(u64, f64)]) -> Vec<f64> {
        let stake = |&(pages, value): &(u64, f64)| Stake { pages, value };
        shares(&stakes.iter().map(stake).collect::<Vec<_>>())
    }

    #[test]
    fn equal_values_are_shared_by_pages_and_larger_ones_have_more() {
        assert_eq!(of(&[(300, 2.0), (100, 2.0)]), [0.75, 0.25]);
        assert_eq!(of(&[(0, 0.0), (0, 0.0)]), [0.5, 0.5]);
        let more = of(&[(100, 2.0), (100, 1.0)]);
        assert!((more[0] / more[1] - 4.0).abs() < 1e-9, "{more:?}");
    }

    #[test]
    fn who_has_nothing_worth_a_visit_keeps_a_little() {
        let shares = of(&[(100, 1.0), (100, 0.0)]);
        assert!((shares[1] - 0.01 / 1.01).abs() < 1e-9, "{shares:?}");
    }

    /// Goal: shares settle, and do not swing. Method: the value of each scheduler's best page rises
    /// with time and falls with visits, as a store of pages that wait does; one has pages that
    /// are worth a visit ten times as often.
    #[test]
    fn shares_settle() {
        let needed = [10.0 / 11.0, 1.0 / 11.0];
        let mut logs = [0.0f64; 2];
        let mut found = vec![0.5; 2];
        for _ in 0..400 {
            let stakes = logs.map(|log| Stake {
                pages: 1_000,
                value: log.exp(),
            });
            let should = shares(&stakes);
            let both = found.iter().zip(should);
            found = both.map(|(now, should)| nearer(*now, should)).collect();
            for (log, (share, needed)) in logs.iter_mut().zip(found.iter().zip(needed)) {
                *log += 0.05 * (1.0 - share / needed);
            }
        }
        let far = found
            .iter()
            .zip(needed)
            .map(|(share, needed)| (share / needed - 1.0).abs());
        assert!(far.fold(0.0, f64::max) < 0.02, "{found:?}");
    }
}
