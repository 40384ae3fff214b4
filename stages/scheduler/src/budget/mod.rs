//! Budgets of pages: of a host, of a registered domain, of a topic, of the crawl.

pub(crate) mod hosts;
pub(crate) mod share;
pub(crate) mod shares;
