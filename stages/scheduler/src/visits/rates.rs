//! Rates: the twelve rates of change between which an estimate tells.

/// How many rates there are.
pub const RATES: usize = 12;

/// Each rate is so many times the one before.
const STEP: f64 = 3.6;

/// One change in twenty years.
const SLOWEST: f64 = 1.0 / (20.0 * 365.25 * 86_400.0);

/// Rates of change, in changes a second, from the slowest on. Estimates that are stored were made
/// with the same ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates(pub(super) [f64; RATES]);

impl Default for Rates {
    /// From a change in twenty years to one in eight minutes.
    fn default() -> Self {
        Rates::from_slowest(SLOWEST)
    }
}

impl Rates {
    /// The default rates, each so many steps faster: by a factor of 3.6.
    pub fn faster(steps: u8) -> Self {
        Rates::from_slowest(SLOWEST * STEP.powi(steps.into()))
    }

    /// The steps by which the rates have to be faster for a change in each of these intervals to be
    /// among them.
    pub fn steps_for(interval_s: f64) -> u8 {
        const DEFAULT_S: f64 = 3_600.0;
        let steps = (DEFAULT_S / interval_s.max(1e-3)).ln() / STEP.ln();
        // A number below 0 becomes 0.
        steps.ceil() as u8
    }

    /// The rates from this one on, in changes a second: the fastest is 1.3 million times as fast.
    pub fn from_slowest(slowest: f64) -> Self {
        Rates(std::array::from_fn(|number| {
            slowest * STEP.powi(number as i32)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_go_from_twenty_years_to_eight_minutes() {
        let Rates(rates) = Rates::default();
        assert!((1.0 / rates[0] / (365.25 * 86_400.0) - 20.0).abs() < 1e-9);
        assert!((7.0..9.0).contains(&(1.0 / rates[11] / 60.0)));
        assert!(rates.is_sorted());
    }

    #[test]
    fn short_intervals_have_faster_rates() {
        assert_eq!([3_600.0, 86_400.0].map(Rates::steps_for), [0, 0]);
        assert_eq!([3_599.0, 1.0].map(Rates::steps_for), [1, 7]);
        assert_eq!(Rates::faster(0), Rates::default());
        assert_eq!(Rates::faster(2).0[0], Rates::default().0[2]);
    }
}
