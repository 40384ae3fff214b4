//! Within: how long something takes, on a machine where others work as well.
//!
//! Invariant: a bound is never widened. A measurement that is beyond it is made again: the work of
//! others makes one of them long, a fault of the product makes all of them long.

use std::time::Duration;

/// Measurements that are made at most.
const MEASUREMENTS_MAX: usize = 5;

/// Measures until a measurement is at most `bound`.
///
/// # Panics
/// When none of five is.
pub fn within(bound: Duration, mut measure: impl FnMut() -> Duration) {
    let mut beyond = Vec::new();
    while beyond.len() < MEASUREMENTS_MAX {
        let took = measure();
        if took <= bound {
            return;
        }
        println!("it took {took:?} where {bound:?} are allowed: measured again");
        beyond.push(took);
    }
    panic!("took {beyond:?} where {bound:?} are allowed");
}
