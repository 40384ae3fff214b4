//! What a scheduler tells of a known page: what its visits found, and when the next one comes.

use rhumb_wire::message::{PageState, SignalKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A known page.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct KnownTold {
    /// Visits that ended.
    pub visits: u32,
    /// Seconds since the last one.
    pub age_s: f64,
    /// What was last told of the page.
    pub state: PageState,
    /// What the last visit that brought it found beside the one before.
    #[serde(default)]
    pub difference: Difference,
    /// The expected time between two of its changes, in seconds.
    pub change_s: f64,
    /// What a visit is worth now, in seconds, and …
    pub worth_s: f64,
    /// … what the last planned visits were worth of pages that it is compared with; none before the
    /// first.
    pub threshold_s: Option<f64>,
    /// Whether the next visit is planned, or why not.
    pub next: NextVisit,
    /// Seconds until that reason is over, as far as it can be told.
    pub next_in_s: Option<u64>,
    /// Signals of a change since the last visit, of the kind that is believed most.
    #[serde(default)]
    pub signals: u32,
    /// What is believed of them; none where the page never had any.
    #[serde(default)]
    pub believed: Option<Believed>,
}

/// What is believed of the signals of a server and kind: 0 and 0 where they tell nothing, as far as
/// it is known.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct Believed {
    /// Their kind.
    pub kind: SignalKind,
    /// The share of the changes that they tell.
    pub recall: f64,
    /// The share of them that tell a change.
    pub precision: f64,
}

/// What a visit of a page found beside the one before.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// Nothing is told: it was the first visit, or it found no page.
    #[default]
    Untold,
    /// The same body, or its server says so.
    SameBody,
    /// Another body. Of its text nothing is told.
    OtherBody,
    /// Another body with the same text.
    SameText,
    /// Another text.
    OtherText,
}

/// Whether the next visit of a page is planned, or why not.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum NextVisit {
    /// It waits at its server, or is in flight.
    Planned,
    /// A token of the budget may go to it now.
    Due,
    /// No page of its topic is visited again.
    PolicyNone,
    /// It has had as many visits as it may have.
    VisitsMax,
    /// The scheduler has no budget of visits for it.
    BudgetNone,
    /// The budget of pages of the crawl is used up.
    PagesUsedUp,
    /// An operator has paused its server, or the crawl.
    Paused,
    /// Its server does not answer, or its robots.txt cannot be had.
    ServerAway,
    /// Its server has as many planned visits as it may have.
    ServerFull,
    /// The shortest interval is not over.
    IntervalMin,
    /// It says that it is fresh.
    Fresh,
    /// A visit is worth less than the threshold.
    Threshold,
}

impl fmt::Display for NextVisit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NextVisit::Planned => "planned",
            NextVisit::Due => "due",
            NextVisit::PolicyNone => "none, its recrawl.policy is none",
            NextVisit::VisitsMax => "none, it has had its recrawl.visits_max",
            NextVisit::BudgetNone => "waits, its recrawl.requests_per_second leaves none",
            NextVisit::PagesUsedUp => "waits, the crawl's budget of pages is used up",
            NextVisit::Paused => "waits, it is paused",
            NextVisit::ServerAway => "waits, its server is away",
            NextVisit::ServerFull => "waits for planned visits of its server",
            NextVisit::IntervalMin => "waits for its recrawl.interval_min",
            NextVisit::Fresh => "waits, it says that it is fresh",
            NextVisit::Threshold => "waits, it is worth less than the threshold",
        })
    }
}
