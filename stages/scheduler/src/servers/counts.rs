//! What a partition's scheduler has counted, kept in the same commit as what it counts (P3).

use crate::store::codec::{Reader, Writer};
use rhumb_wire::message::{Change, Outcome};

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
    /// URLs that ended refused because a challenge stood in the place of the page.
    pub(crate) walls: u64,
    /// Pages that became known.
    pub(crate) known: u64,
    /// Visits of known pages that were planned.
    pub(crate) planned: u64,
    /// Those of them that ended, by [`Change::ALL`].
    pub(crate) visits: [u64; Change::ALL.len()],
    /// Those of them that ended without a request.
    pub(crate) withdrawn: u64,
    /// Known pages that were forgotten.
    pub(crate) forgotten: u64,
    /// Known pages that came to rest, which have no next time, …
    pub(crate) rested: u64,
    /// … and that have one again.
    pub(crate) woken: u64,
    /// New URLs whose pages were given as known: they have no outcome, …
    pub(crate) given: u64,
    /// … and those of them whose pages stayed as they were.
    pub(crate) given_again: u64,
    /// Visits that found another body with another text, …
    pub(crate) texts_changed: u64,
    /// … and with the same text.
    pub(crate) texts_unchanged: u64,
}

impl Counts {
    /// URLs that ended.
    pub(crate) fn ended(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Visits that are planned and have not ended.
    pub(crate) fn visits_out(&self) -> u64 {
        let ended: u64 = self.visits.iter().sum();
        self.planned.saturating_sub(ended + self.withdrawn)
    }

    /// URLs that have left the frontier, or never were in it.
    pub(crate) fn left(&self) -> u64 {
        self.ended() + self.given
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
        self.walls += other.walls;
        self.known += other.known;
        self.planned += other.planned;
        self.withdrawn += other.withdrawn;
        self.forgotten += other.forgotten;
        self.rested += other.rested;
        self.woken += other.woken;
        self.given += other.given;
        self.given_again += other.given_again;
        self.texts_changed += other.texts_changed;
        self.texts_unchanged += other.texts_unchanged;
        for (mine, theirs) in self.visits.iter_mut().zip(other.visits) {
            *mine += theirs;
        }
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
        let later = [
            self.malformed,
            self.foreign,
            self.sitemaps_left_out,
            self.walls,
        ];
        for number in self.fields().into_iter().chain(self.outcomes).chain(later) {
            row.number(number);
        }
        // Rows of crawls that visit no page again end here.
        let of_visits = [self.known, self.planned, self.withdrawn];
        let of_rest = [self.rested, self.woken, self.forgotten];
        let of_given = [self.given, self.given_again];
        let all = of_visits.into_iter().chain(self.visits).chain(of_rest);
        let of_texts = [self.texts_changed, self.texts_unchanged];
        let all = all.chain(of_given).chain(of_texts);
        if all.clone().any(|number| number > 0) {
            all.for_each(|number| row.number(number));
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
        counts.walls = row.number().unwrap_or(0);
        counts.known = row.number().unwrap_or(0);
        counts.planned = row.number().unwrap_or(0);
        counts.withdrawn = row.number().unwrap_or(0);
        for visits in &mut counts.visits {
            *visits = row.number().unwrap_or(0);
        }
        counts.rested = row.number().unwrap_or(0);
        counts.woken = row.number().unwrap_or(0);
        counts.forgotten = row.number().unwrap_or(0);
        counts.given = row.number().unwrap_or(0);
        counts.given_again = row.number().unwrap_or(0);
        counts.texts_changed = row.number().unwrap_or(0);
        counts.texts_unchanged = row.number().unwrap_or(0);
        Some(counts)
    }
}

/// The metric of the visits that found a change.
pub(crate) const fn visits_metric(change: Change) -> &'static str {
    match change {
        Change::None => "visits_none_total",
        Change::New => "visits_new_total",
        Change::Changed => "visits_changed_total",
        Change::Unchanged => "visits_unchanged_total",
        Change::Gone => "visits_gone_total",
        Change::Back => "visits_back_total",
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
        counts.walls = 6;
        let mut row = Writer::with_capacity(0);
        counts.write(&mut row);
        let row = row.finish();
        let with_visits = Counts {
            known: 9,
            planned: 8,
            visits: [1, 0, 2, 0, 0, 1],
            withdrawn: 3,
            rested: 5,
            woken: 2,
            forgotten: 4,
            given: 7,
            given_again: 6,
            texts_changed: 2,
            texts_unchanged: 1,
            ..counts.clone()
        };
        let mut longer = Writer::with_capacity(0);
        with_visits.write(&mut longer);
        let longer = longer.finish();
        let read = Counts::read(&mut Reader::new(&longer).unwrap()).unwrap();
        assert_eq!((&read, read.visits_out()), (&with_visits, 1));
        assert_eq!(
            Counts::read(&mut Reader::new(&row).unwrap()),
            Some(counts.clone())
        );
        let before = Counts {
            walls: 0,
            ..counts.clone()
        };
        assert_eq!(
            Counts::read(&mut Reader::new(&row[..row.len() - 1]).unwrap()),
            Some(before.clone())
        );
        let long_before = Counts {
            malformed: 0,
            foreign: 0,
            sitemaps_left_out: 0,
            ..before
        };
        assert_eq!(
            Counts::read(&mut Reader::new(&row[..row.len() - 4]).unwrap()),
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

    #[test]
    fn a_half_of_a_partition_keeps_what_its_pages_do() {
        let of_half = Counts {
            rested: 1,
            ..Counts::default()
        };
        let mut half = Writer::with_capacity(0);
        of_half.write(&mut half);
        let half = half.finish();
        assert_eq!(
            Counts::read(&mut Reader::new(&half).unwrap()),
            Some(of_half)
        );
    }
}
