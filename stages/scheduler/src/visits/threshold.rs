//! Threshold: the value that a request of the budget buys.
//!
//! It is told, never set: a running mean over the pages that were chosen. Classes are made with it.

/// What one choice weighs in the mean.
const WEIGHT: f64 = 0.005;

/// The running mean of the logarithms of values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Threshold {
    log: Option<f64>,
}

impl Threshold {
    /// A page of this value was chosen. One that is worth nothing says nothing of the threshold.
    pub fn learn(&mut self, value: f64) {
        if value > 0.0 {
            let log = value.ln();
            let before = self.log.unwrap_or(log);
            self.log = Some(before + WEIGHT * (log - before));
        }
    }

    /// The value, once a page was chosen.
    pub fn get(&self) -> Option<f64> {
        self.log.map(f64::exp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_is_chosen() {
        let mut threshold = Threshold::default();
        threshold.learn(0.0);
        assert_eq!(threshold.get(), None);
        threshold.learn(8.0);
        assert!((threshold.get().unwrap() - 8.0).abs() < 1e-9);
        (0..2_000).for_each(|_| threshold.learn(2.0));
        assert!((threshold.get().unwrap() - 2.0).abs() < 0.001);
    }
}
