//! What a partition's scheduler has counted, kept in the same commit as what it counts (P3).

use crate::store::codec::{Reader, Writer};
use rhumb_wire::message::Outcome;

/// Totals of one partition since the crawl began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// New URLs taken on.
    pub(crate) new: u64,
    /// URLs that ended, by [`Outcome::ALL`].
    pub(crate) outcomes: [u64; Outcome::ALL.len()],
    /// URLs that a failure sent back to wait.
    pub(crate) retried: u64,
    /// URLs of expired leases, which may be fetched twice.
    pub(crate) refetched: u64,
    /// Connection jobs granted.
    pub(crate) jobs: u64,
    /// Requests that reached a server, or may have.
    pub(crate) contacts: u64,
    /// Leases that ran out.
    pub(crate) leases_expired: u64,
    /// Body bytes of fetched pages.
    pub(crate) bytes: u64,
    /// New URLs that came again.
    pub(crate) repeated: u64,
    /// Answers to requests for robots.txt.
    pub(crate) robots: u64,
    /// New URLs that make no sense, and were dropped.
    pub(crate) malformed: u64,
    /// New URLs of partitions of other instances, which were dropped.
    pub(crate) foreign: u64,
    /// Sitemaps in robots.txt that a limit left out, each time that such a file came.
    pub(crate) sitemaps_left_out: u64,
}

impl Counts {
    /// URLs that ended.
    pub(crate) fn ended(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Adds another partition's.
    pub(crate) fn add(&mut self, other: &Counts) {
        for (mine, theirs) in self.fields_mut().into_iter().zip(other.fields()) {
            *mine += theirs;
        }
        for (mine, theirs) in self.outcomes.iter_mut().zip(other.outcomes) {
            *mine += theirs;
        }
        self.malformed += other.malformed;
        self.foreign += other.foreign;
        self.sitemaps_left_out += other.sitemaps_left_out;
    }

    fn fields(&self) -> [u64; 9] {
        let c = self;
        [
            c.new,
            c.retried,
            c.refetched,
            c.jobs,
            c.contacts,
            c.leases_expired,
            c.bytes,
            c.repeated,
            c.robots,
        ]
    }

    fn fields_mut(&mut self) -> [&mut u64; 9] {
        let c = self;
        [
            &mut c.new,
            &mut c.retried,
            &mut c.refetched,
            &mut c.jobs,
            &mut c.contacts,
            &mut c.leases_expired,
            &mut c.bytes,
            &mut c.repeated,
            &mut c.robots,
        ]
    }

    pub(crate) fn write(&self, row: &mut Writer) {
        let later = [self.malformed, self.foreign, self.sitemaps_left_out];
        for number in self.fields().into_iter().chain(self.outcomes).chain(later) {
            row.number(number);
        }
    }

    pub(crate) fn read(row: &mut Reader<'_>) -> Option<Counts> {
        let mut counts = Counts::default();
        for field in counts.fields_mut() {
            *field = row.number()?;
        }
        for outcome in &mut counts.outcomes {
            *outcome = row.number()?;
        }
        // Rows end before these where a crawl began before they were counted.
        counts.malformed = row.number().unwrap_or(0);
        counts.foreign = row.number().unwrap_or(0);
        counts.sitemaps_left_out = row.number().unwrap_or(0);
        Some(counts)
    }
}

/// The metric of an outcome.
pub(crate) const fn outcome_metric(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Fetched => "outcome_fetched_total",
        Outcome::NotModified => "outcome_not_modified_total",
        Outcome::Redirected => "outcome_redirected_total",
        Outcome::Gone => "outcome_gone_total",
        Outcome::Refused => "outcome_refused_total",
        Outcome::Failed => "outcome_failed_total",
        Outcome::Disallowed => "outcome_disallowed_total",
        Outcome::Unresolvable => "outcome_unresolvable_total",
        Outcome::OverBudget => "outcome_over_budget_total",
        Outcome::Trapped => "outcome_trapped_total",
        Outcome::Dropped => "outcome_dropped_total",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_after_the_outcomes() {
        for outcome in Outcome::ALL {
            assert_eq!(
                outcome_metric(outcome),
                format!("outcome_{}_total", outcome.name().replace('-', "_"))
            );
        }
    }

    #[test]
    fn counts_come_back_as_they_were_and_add_up() {
        let mut counts = Counts {
            new: 7,
            refetched: 300,
            robots: u64::MAX / 2,
            ..Counts::default()
        };
        counts.outcomes[10] = 5;
        counts.malformed = 3;
        counts.foreign = 4;
        counts.sitemaps_left_out = 5;
        let mut row = Writer::with_capacity(0);
        counts.write(&mut row);
        let row = row.finish();
        assert_eq!(
            Counts::read(&mut Reader::new(&row).unwrap()),
            Some(counts.clone())
        );
        let before = Counts {
            sitemaps_left_out: 0,
            ..counts.clone()
        };
        assert_eq!(
            Counts::read(&mut Reader::new(&row[..row.len() - 1]).unwrap()),
            Some(before.clone())
        );
        let long_before = Counts {
            malformed: 0,
            foreign: 0,
            ..before
        };
        assert_eq!(
            Counts::read(&mut Reader::new(&row[..row.len() - 3]).unwrap()),
            Some(long_before)
        );
        counts.add(&counts.clone());
        assert_eq!(
            (counts.new, counts.refetched, counts.ended()),
            (14, 600, 10)
        );
        assert_eq!(
            (counts.malformed, counts.foreign, counts.sitemaps_left_out),
            (6, 8, 10)
        );
    }
}
