//! Known pages: what visits of them found, and how fresh the copies are.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Known pages, and what visits of them found after the first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Recrawled {
    /// Pages that were visited, or given as known.
    pub known: u64,
    /// URLs whose pages were given as known (`rhumb inject --known`): they are new, and have no
    /// outcome.
    #[serde(default)]
    pub given: u64,
    /// Those of them that changed nothing.
    #[serde(default)]
    pub given_again: u64,
    /// Pages that were known, and are no more: they were gone for too long.
    #[serde(default)]
    pub forgotten: u64,
    /// Those of the known pages that have no next visit: they have had `recrawl.visits_max` of
    /// them, or the last one was withdrawn.
    #[serde(default)]
    pub resting: u64,
    /// Visits that were planned: those that ended, those withdrawn and those that are out.
    pub planned: u64,
    /// Planned visits that ended without a request.
    pub withdrawn: u64,
    /// Planned visits that wait or are in flight.
    pub out: u64,
    /// Visits that ended, by what they found.
    pub visits: BTreeMap<String, u64>,
    /// Those of them that found another body with another text, …
    #[serde(default)]
    pub texts_changed: u64,
    /// … and with the same text.
    #[serde(default)]
    pub texts_unchanged: u64,
    /// Signals that pages have changed, by what became of them; none before the first.
    #[serde(default)]
    pub signals: Option<SignalsHeard>,
    /// How fresh the copies are; none before all known pages were looked at once.
    #[serde(default)]
    pub copies: Option<Copies>,
    /// No URL waits or is in flight for its first visit, but for a larger budget or in traps.
    pub first_visits_done: bool,
}

impl Recrawled {
    /// Whether no page has a visit to come.
    pub(crate) fn has_all_visits(&self) -> bool {
        self.first_visits_done && self.resting == self.known
    }
}

/// Dates of sitemaps and feeds by which pages have changed, since the schedulers began.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct SignalsHeard {
    /// Of known pages, later than their last visits.
    pub counted: u64,
    /// Heard before, or of pages that were visited since.
    pub old: u64,
    /// Of pages that are not known.
    pub unknown: u64,
    /// Of pages that are visited again by a policy that heeds none, or not at all.
    pub unheeded: u64,
}

/// In a line, for a person.
impl fmt::Display for SignalsHeard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SignalsHeard {
            counted,
            old,
            unknown,
            unheeded,
        } = self;
        write!(
            f,
            "counted {counted}  old {old}  unknown {unknown}  unheeded {unheeded}"
        )
    }
}

/// How fresh the copies of known pages are, by what is learned of how often each page changes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Copies {
    /// Known pages that are there.
    pub pages: u64,
    /// Those of them whose copy is the current one, in the mean.
    pub fresh_expected: u64,
    /// The mean time since their last visits, in seconds.
    pub age_s: u64,
    /// Changes that visits should have found since the schedulers began: near `changes_found` where
    /// `fresh_expected` can be believed.
    pub changes_expected: u64,
    /// Changes that these visits found.
    pub changes_found: u64,
}

/// In a line, for a person.
impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Copies {
            pages,
            fresh_expected,
            age_s,
            changes_expected,
            changes_found,
        } = self;
        let share = 100.0 * *fresh_expected as f64 / (*pages).max(1) as f64;
        let age = humantime::format_duration(Duration::from_secs(*age_s));
        write!(
            f,
            "{share:.1} % of {pages} should be current, {age} old in the mean; visits found \
             {changes_found} changes where {changes_expected} were expected"
        )
    }
}

/// In a line, for a person.
impl fmt::Display for Recrawled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "known {}  resting {}  planned {}  withdrawn {}  out {}",
            self.known, self.resting, self.planned, self.withdrawn, self.out
        )?;
        if self.given > 0 {
            write!(f, "  given {} (again {})", self.given, self.given_again)?;
        }
        let found = self.visits.iter().filter(|(_, visits)| **visits > 0);
        for (change, visits) in found {
            write!(f, "  {change} {visits}")?;
        }
        if self.texts_changed + self.texts_unchanged > 0 {
            let changed = self.texts_changed;
            let unchanged = self.texts_unchanged;
            write!(f, "  text changed {changed} (unchanged {unchanged})")?;
        }
        Ok(())
    }
}
