//! What is left of budgets: pages of a host, of its registered domain, of a topic, of the crawl.

/// What is left of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// This many more URLs may be in flight, at least one.
    Left(u64),
    /// Nothing until a URL in flight ends, or another scheduler gives tokens back.
    Reserved,
    /// Nothing: the budget is used up by pages fetched.
    UsedUp,
}

impl Budget {
    pub(crate) const UNLIMITED: Budget = Budget::Left(u64::MAX);

    /// URLs that a job may carry.
    pub(crate) const fn left(self) -> u64 {
        match self {
            Budget::Left(urls) => urls,
            Budget::Reserved | Budget::UsedUp => 0,
        }
    }
}

/// The budgets that the pages of a server count for, beside the crawl's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budgets {
    pub(crate) host: Budget,
    pub(crate) domain: Budget,
    /// All its URLs that wait are of topics whose budget is used up.
    pub(crate) topics_are_used_up: bool,
}

impl Budgets {
    /// URLs that a job may carry.
    pub(crate) fn left(self) -> u64 {
        self.host.left().min(self.domain.left())
    }

    /// The name of the budget that is used up, as outcomes give it.
    pub(crate) fn used_up(self) -> Option<&'static str> {
        match (self.host, self.domain) {
            (Budget::UsedUp, _) => Some("pages per host"),
            (_, Budget::UsedUp) => Some("pages per domain"),
            _ => None,
        }
    }
}
