//! Prior: how many pages change at which rate, before a page itself has told anything.
//!
//! It is the mean of the posteriors of all pages, taken anew now and then
//! ([`Census`](super::Census)). It learns by itself that many pages never change. A server has its
//! own from some hundred pages on.

use super::rates::RATES;

/// The probability of each rate for a page of which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior(pub(super) [f64; RATES]);

impl Default for Prior {
    /// All rates are alike.
    fn default() -> Self {
        Prior([1.0 / RATES as f64; RATES])
    }
}
