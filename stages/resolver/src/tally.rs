//! What the resolver counts.

use rhumb_stage::Count;
use rhumb_telemetry::metrics::Histogram;

/// Totals of one life.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) queries: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Queries made ahead of time.
    pub(crate) ahead: u64,
    pub(crate) snapshots: u64,
    /// Answers by kind.
    pub(crate) addresses: u64,
    pub(crate) no_address: u64,
    pub(crate) private: u64,
    pub(crate) temporary: u64,
    /// How long queries took.
    pub(crate) query_times: Histogram,
}

impl Tally {
    pub(crate) fn counts(&self) -> [Count; 9] {
        [
            ("queries_total", self.queries),
            ("cache_hits_total", self.hits),
            ("cache_misses_total", self.misses),
            ("answers_addresses_total", self.addresses),
            ("answers_no_address_total", self.no_address),
            ("answers_private_total", self.private),
            ("answers_temporary_total", self.temporary),
            ("queries_ahead_total", self.ahead),
            ("snapshots_total", self.snapshots),
        ]
    }
}
