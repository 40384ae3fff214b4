//! Truth: what a perfect crawl of the whole web, from the first host's `/` or from every host's,
//! does to each URL.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::behaviour::{Behaviour, Outcome};
use super::plan::Plan;
use super::resource::Resource;

/// URLs by how they end, each list without repetition. `/robots.txt` is in none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// Answer 200 and are allowed.
    pub pages: Vec<String>,
    /// Answer 301 and are allowed.
    pub redirects: Vec<String>,
    /// Are linked from a page and answer 404 or 410.
    pub not_found: Vec<String>,
    /// Are linked or redirected to and must not be requested.
    pub disallowed: Vec<String>,
    /// Are answered by a hostile host with 429, if they are requested at all.
    pub refused: Vec<String>,
    /// Get no answer that can be used from a hostile host, if they are requested at all.
    pub failed: Vec<String>,
    /// Are on a host whose name has no address.
    pub unresolvable: Vec<String>,
    /// Are found when so many pages of their host were fetched that these are not.
    pub over_budget: Vec<String>,
    /// How many URLs end how, by the names that a crawl's summary has for it; 0 where none does.
    pub outcomes: BTreeMap<String, u64>,
}

impl Truth {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut truth = Self::default();
        for host in 0..plan.profile.hosts {
            for resource in plan.found(host) {
                truth.place(plan, host, resource);
            }
        }
        truth.counted()
    }

    fn place(&mut self, plan: &Plan, host: u32, resource: Resource) {
        let list = match Behaviour::of(plan, host, resource).outcome() {
            _ if plan.is_disallowed(host, resource) => &mut self.disallowed,
            Outcome::Fetched => &mut self.pages,
            Outcome::Redirected => &mut self.redirects,
            Outcome::NotFound => &mut self.not_found,
            Outcome::Refused => &mut self.refused,
            Outcome::Failed => &mut self.failed,
            Outcome::Unresolvable => &mut self.unresolvable,
            Outcome::OverBudget => &mut self.over_budget,
            Outcome::Rules => return,
        };
        list.push(plan.url(host, resource));
    }

    /// With the lengths of the lists in `outcomes`.
    pub(crate) fn counted(mut self) -> Self {
        let lists = [
            ("fetched", self.pages.len()),
            ("not-modified", 0),
            ("redirected", self.redirects.len()),
            ("gone", self.not_found.len()),
            ("refused", self.refused.len()),
            ("failed", self.failed.len()),
            ("disallowed", self.disallowed.len()),
            ("unresolvable", self.unresolvable.len()),
            ("over-budget", self.over_budget.len()),
            ("trapped", 0),
            ("dropped", 0),
        ];
        self.outcomes = lists.into_iter().map(|(name, urls)| (name.to_owned(), urls as u64)).collect();
        self
    }
}
