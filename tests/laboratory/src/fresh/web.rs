//! Web: pages that change, each at a rate of its own, and the signals of their changes.
//!
//! Rates are log-normal, with a share of pages that never change; importance is equal or
//! log-normal. A share of each page's changes is signalled at once, and false signals come with
//! the page's rate, at a rate that all pages share, or both. `Last-Modified` is true at some of the
//! servers and missing at the others.
//!
//! Invariant: the shape and the seed decide every number.

use crate::random::normal;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use scheduler::visits::Signals;
use synthetic_web::visiting::Pace;

/// The uniform interval: that of a plan which visits all pages alike. A day.
pub(super) const INTERVAL_S: f64 = 86_400.0;
/// The share of pages that never change.
const NEVER: f64 = 0.3;

/// What a web is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) pages: usize,
    pub(super) servers: usize,
    /// Changes of the median page that changes, in a uniform interval.
    pub(super) speed: f64,
    /// Deviation of the logarithm of rates.
    pub(super) spread: f64,
    /// Deviation of the logarithm of importance: 0 when all are equal.
    pub(super) importance: f64,
    /// The share of the servers whose `Last-Modified` is there, and true.
    pub(super) ages: f64,
    /// How often pages of the first fifth of the servers change, beside others.
    pub(super) first_fifth: f64,
    pub(super) signals: Signalling,
}

/// The signals of a web.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Signalling {
    /// The share of the changes that are signalled.
    pub(super) recall: f64,
    /// False signals for each change of the page.
    pub(super) false_per_change: f64,
    /// False signals of any page in a uniform interval.
    pub(super) false_per_interval: f64,
}

impl Signalling {
    /// Signals of which this share is true.
    pub(super) fn of_precision(recall: f64, precision: f64) -> Self {
        Signalling {
            recall,
            false_per_change: recall * (1.0 - precision) / precision,
            false_per_interval: 0.0,
        }
    }

    /// What a scheduler that knows them believes.
    pub(super) fn known(self) -> Signals {
        let all = self.recall + self.false_per_change;
        Signals::new(self.recall, if all > 0.0 { self.recall / all } else { 0.0 })
    }

    /// Signals a second of a page of this rate, true and false.
    pub(super) fn rate(self, rate: f64) -> f64 {
        self.recall * rate + self.false_rate(rate)
    }

    fn false_rate(self, rate: f64) -> f64 {
        self.false_per_change * rate + self.false_per_interval / INTERVAL_S
    }

    /// The probability that a signal of such a page is false.
    pub(super) fn false_share(self, rate: f64) -> f64 {
        let all = self.rate(rate);
        if all > 0.0 {
            self.false_rate(rate) / all
        } else {
            1.0
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Page {
    /// Changes a second.
    pub(super) rate: f64,
    /// Relative to other pages.
    pub(super) importance: f64,
    pub(super) server: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Web {
    pub(super) shape: Shape,
    pub(super) pages: Vec<Page>,
}

impl Web {
    pub(super) fn new(shape: Shape, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let page = |number: usize| {
            let server = number % shape.servers;
            let speed = if server < shape.servers / 5 {
                shape.speed * shape.first_fifth
            } else {
                shape.speed
            };
            let rate = speed / INTERVAL_S * (shape.spread * normal(&mut random)).exp();
            let changes = random.random::<f64>() >= NEVER;
            Page {
                rate: if changes { rate } else { 0.0 },
                importance: (shape.importance * normal(&mut random)).exp(),
                server: server as u32,
            }
        };
        Web {
            shape,
            pages: (0..shape.pages).map(page).collect(),
        }
    }

    /// Returns whether the `Last-Modified` of a server is there, and true.
    pub(super) fn has_ages(&self, server: u32) -> bool {
        f64::from(server) < self.shape.ages * self.shape.servers as f64
    }

    /// Rates and importance of all pages.
    pub(super) fn paces(&self) -> Vec<Pace> {
        let pace = |page: &Page| Pace {
            rate: page.rate,
            importance: page.importance,
        };
        self.pages.iter().map(pace).collect()
    }

    /// The sum of all importance.
    pub(super) fn importance(&self) -> f64 {
        self.pages.iter().map(|page| page.importance).sum()
    }
}
