//! Share: what a scheduler has of one budget that all schedulers share.
//!
//! Invariant: no URL is granted while pages fetched and URLs in flight have taken all tokens that
//! are held.

use crate::keys::budget::Budget;
use crate::quota::Quota;

/// Tokens of a budget that has no limit.
pub(crate) const NO_LIMIT: u64 = u64::MAX;

/// What this scheduler has of one budget.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) budget: Quota,
    pub(crate) max: u64,
    /// Tokens held, counted from the beginning of the crawl.
    pub(crate) tokens: u64,
    pub(crate) fetched: u64,
    pub(crate) in_flight: u64,
    pub(crate) waiting: u64,
    /// Pages that the other schedulers have fetched, as far as is known.
    pub(crate) elsewhere: u64,
    /// The domain has a row: without one nobody would know of its tokens when the partitions are
    /// gone.
    pub(crate) has_row: bool,
}

impl Share {
    /// What a scheduler has of a budget before it asks.
    pub(crate) fn new(budget: Quota, max: u64, fetched: u64) -> Self {
        Share {
            budget,
            max,
            tokens: 0,
            fetched,
            in_flight: 0,
            waiting: 0,
            elsewhere: 0,
            has_row: fetched > 0,
        }
    }

    pub(crate) fn spent(&self) -> u64 {
        self.fetched + self.in_flight
    }

    pub(crate) fn budget(&self) -> Budget {
        if self.max == NO_LIMIT {
            return Budget::UNLIMITED;
        }
        if self.fetched + self.elsewhere >= self.max {
            return Budget::UsedUp;
        }
        match self.tokens.min(self.max).saturating_sub(self.spent()) {
            0 => Budget::Reserved,
            left => Budget::Left(left),
        }
    }

    /// Returns whether URLs wait for tokens that others may have, or are in flight without: they
    /// came with a partition.
    pub(crate) fn is_short(&self) -> bool {
        let needs = self.waiting > 0 || self.spent() > self.tokens;
        needs && self.tokens < self.max && self.budget() == Budget::Reserved
    }
}
