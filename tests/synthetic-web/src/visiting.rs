//! Visiting: how fresh a copy is, in expectation, by how often its pages are visited.
//!
//! In: pages with rate and importance, and the visits a second that all have together. Out: the
//! share of time in which the copy of a page is the current one, weighted by importance, under
//! plans that follow from a formula. The best plan visits each page when the value of its visit
//! reaches a threshold, which is the same for all (a Lagrange multiplier); it is found by
//! bisection, so that the visits are as many as allowed.
//!
//! Sources: Cho and Garcia-Molina 2000, sections 4 and 5; Azar, Horvitz, Lubetzky, Peres and Shahaf
//! 2018.

/// Points of a table of cycles, and between which distances they lie.
const POINTS: usize = 1_000;
const NEAREST: f64 = 1e-6;
const FARTHEST: f64 = 15.0;
const BISECTIONS: u32 = 60;

/// A page that changes as a Poisson process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Changes a second, at least 0.
    pub rate: f64,
    /// Relative to other pages, above 0.
    pub importance: f64,
}

/// Visits of a page that changes once a second: what they bring at each threshold.
#[derive(Clone, Debug)]
pub struct Cycles {
    /// Value, visits a second and freshness, by rising value.
    points: Vec<[f64; 3]>,
}

impl Cycles {
    /// `of` gives value, visits a second and freshness of visits at this distance: the number of
    /// changes to be expected since the visit before. Values rise with it.
    pub fn new(of: impl Fn(f64) -> [f64; 3]) -> Self {
        let ratio = (FARTHEST / NEAREST).ln() / (POINTS - 1) as f64;
        let point = |number: usize| of(NEAREST * (ratio * number as f64).exp());
        Self {
            points: (0..POINTS).map(point).collect(),
        }
    }

    /// Of visits at regular intervals.
    pub fn regular() -> Self {
        Self::new(|distance| {
            let unchanged = (-distance).exp();
            let changed = -(-distance).exp_m1();
            [
                changed - distance * unchanged,
                1.0 / distance,
                changed / distance,
            ]
        })
    }

    /// Visits a second and freshness of a page that is visited at this threshold.
    fn of(&self, page: &Pace, threshold: f64) -> [f64; 2] {
        if page.rate == 0.0 {
            return [0.0, 1.0];
        }
        let value = threshold * page.rate / page.importance;
        let after = self.points.partition_point(|point| point[0] < value);
        match (after.checked_sub(1), self.points.get(after)) {
            // It is visited all the time.
            (None, Some(first)) => [page.rate * first[1], first[2]],
            (Some(before), Some(after)) => {
                let before = self.points[before];
                let part = (value - before[0]) / (after[0] - before[0]).max(f64::MIN_POSITIVE);
                let between =
                    |number: usize| before[number] + part * (after[number] - before[number]);
                [page.rate * between(1), between(2)]
            }
            // Never.
            (_, None) => [0.0, 0.0],
        }
    }
}

/// The freshness of the best plan.
pub fn optimum(pages: &[Pace], visits_per_s: f64, cycles: &Cycles) -> f64 {
    let at = |log: f64| {
        let mut sums = [0.0; 2];
        for page in pages {
            let [visits, freshness] = cycles.of(page, log.exp());
            sums[0] += visits;
            sums[1] += page.importance * freshness;
        }
        sums
    };
    let mut low: f64 = -40.0;
    let mut high: f64 = 60.0;
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if at(middle)[0] > visits_per_s {
            low = middle;
        } else {
            high = middle;
        }
    }
    // Where pages are visited at each signal or never, the budget lies within a jump.
    let few = at(high);
    let many = at(low);
    let part = (visits_per_s - few[0]) / (many[0] - few[0]).max(f64::MIN_POSITIVE);
    (few[1] + part.clamp(0.0, 1.0) * (many[1] - few[1])) / importance(pages)
}

/// The freshness of visits at these intervals, in seconds.
pub fn at_intervals(pages: &[Pace], interval_s: impl Fn(&Pace) -> f64) -> f64 {
    let of = |page: &Pace| page.importance * freshness(page.rate, interval_s(page));
    pages.iter().map(of).sum::<f64>() / importance(pages)
}

/// The freshness of all pages visited alike.
pub fn uniform(pages: &[Pace], visits_per_s: f64) -> f64 {
    at_intervals(pages, |_| pages.len() as f64 / visits_per_s)
}

/// The freshness of each page visited as often as it is important.
pub fn weighted(pages: &[Pace], visits_per_s: f64) -> f64 {
    let importance = importance(pages);
    at_intervals(pages, |page| importance / (page.importance * visits_per_s))
}

/// The share of time in which the copy of a page is current that is visited at this interval.
fn freshness(rate: f64, interval_s: f64) -> f64 {
    if rate == 0.0 {
        return 1.0;
    }
    let changes = rate * interval_s;
    if changes > 0.0 {
        -(-changes).exp_m1() / changes
    } else {
        1.0
    }
}

/// The sum of all importance.
fn importance(pages: &[Pace]) -> f64 {
    pages.iter().map(|page| page.importance).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: f64, importance: f64) -> Pace {
        Pace { rate, importance }
    }

    #[test]
    fn uniform_and_weighted_visits_are_as_fresh_as_the_formula_says() {
        let pages = [pace(1.0, 3.0), pace(0.0, 1.0)];
        // Two visits a second: each page once a second.
        let once = 1.0 - (-1.0f64).exp();
        assert!((uniform(&pages, 2.0) - (3.0 * once + 1.0) / 4.0).abs() < 1e-12);
        // The first page has three visits of four: an interval of 2/3 s.
        let often = (1.0 - (-2.0f64 / 3.0).exp()) * 1.5;
        assert!((weighted(&pages, 2.0) - (3.0 * often + 1.0) / 4.0).abs() < 1e-12);
        // Without visits only what never changes is fresh.
        assert_eq!(uniform(&pages, 0.0), 0.25);
    }

    #[test]
    fn the_optimum_of_equal_pages_is_uniform_and_of_pages_that_never_change_it_is_one() {
        let equal = [pace(0.5, 1.0); 10];
        let cycles = Cycles::regular();
        let difference = optimum(&equal, 7.0, &cycles) - uniform(&equal, 7.0);
        assert!(difference.abs() < 1e-4, "{difference}");
        assert_eq!(optimum(&[pace(0.0, 2.0); 3], 1.0, &cycles), 1.0);
    }

    #[test]
    fn the_best_split_of_visits_between_two_pages_is_the_optimum() {
        let pages = [pace(0.2, 1.0), pace(3.0, 2.0)];
        let split = |share: f64| {
            at_intervals(&pages, |page| match page.rate {
                0.2 => 1.0 / share,
                _ => 1.0 / (1.0 - share),
            })
        };
        let best = (1..10_000)
            .map(|share| split(f64::from(share) / 10_000.0))
            .fold(0.0, f64::max);
        let by_threshold = optimum(&pages, 1.0, &Cycles::regular());
        assert!((best - by_threshold).abs() < 1e-4, "{best} {by_threshold}");
        assert!(best > uniform(&pages, 1.0) + 1e-3);
    }
}
