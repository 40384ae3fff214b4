//! Random numbers of the experiments, all drawn from a seed.

use rand::RngExt as _;
use rand::rngs::Xoshiro256PlusPlus;
use std::f64::consts::TAU;

/// A number of the standard normal distribution (Box and Muller 1958).
pub(crate) fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (TAU * random.random::<f64>()).cos()
}
