//! Dice: seeded randomness that needs no state between pages.
//!
//! Every decision about the web (how a page is spelled, where its links lead) is drawn from dice
//! made from the web's seed and the decision's own coordinates. So a page can be rendered at any
//! time, in any order, and is always the same.
//!
//! Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"
//! (SplitMix64).

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The purpose of dice. Decisions about the same page are independent of each other, because their
/// purposes differ.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Filler = 1,
    PageCount,
    Parent,
    HostParent,
    Shape,
    Links,
    Spelling,
    Size,
    Redirect,
    Latency,
    Noise,
    Rate,
    Changes,
    Importance,
    Birth,
    Absence,
    Version,
}

/// A stream of random numbers. The same coordinates always give the same stream.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64, purpose: Purpose, host: u32, item: u32) -> Self {
        let place = (u64::from(host) << 32) | u64::from(item);
        let state = mix(seed ^ mix(purpose as u64)) ^ mix(place.wrapping_add(GOLDEN));
        Self { state }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in 0..`n`; 0 when `n` is 0.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        let high = self.next() >> 32;
        u32::try_from((high * u64::from(n)) >> 32).unwrap_or(0)
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// In 0..`n`, small numbers more often, so that a few targets are popular and most are not.
    pub(crate) fn skewed(&mut self, n: u32) -> u32 {
        let unit = self.unit();
        ((unit * unit * f64::from(n)) as u32).min(n.saturating_sub(1))
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    pub(crate) fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.unit()).cos();
        median * (sigma * normal).exp()
    }
}

/// Where a host stands among all hosts, in [0, 1). Multiples of the golden ratio, and of others that
/// are as irrational, spread evenly: shares hold for few hosts, too, and those of different ratios
/// are independent of each other.
pub(crate) fn spread(seed: u64, host: u32, ratio: f64) -> f64 {
    (f64::from(host) * ratio + (seed % 1_000) as f64 / 1_000.0).fract()
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_coordinates_give_equal_streams_and_others_do_not() {
        let draw = |seed, purpose, host, item| Dice::new(seed, purpose, host, item).next();
        assert_eq!(draw(7, Purpose::Links, 3, 5), draw(7, Purpose::Links, 3, 5));
        assert_ne!(draw(7, Purpose::Links, 3, 5), draw(8, Purpose::Links, 3, 5));
        assert_ne!(draw(7, Purpose::Links, 3, 5), draw(7, Purpose::Size, 3, 5));
        assert_ne!(draw(7, Purpose::Links, 3, 5), draw(7, Purpose::Links, 5, 3));
    }

    #[test]
    fn a_lognormal_has_the_median_and_mean_asked_for() {
        let mut dice = Dice::new(1, Purpose::Size, 0, 0);
        let mut drawn: Vec<f64> = (0..20_001)
            .map(|_| dice.lognormal(12_000.0, 0.835))
            .collect();
        drawn.sort_by(f64::total_cmp);
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!(
            (11_500.0..12_500.0).contains(&drawn[10_000]),
            "median {}",
            drawn[10_000]
        );
        assert!((16_500.0..17_500.0).contains(&mean), "mean {mean}");
    }
}
