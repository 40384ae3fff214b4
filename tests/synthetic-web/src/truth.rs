//! Truth: what becomes of each URL in a perfect crawl of the whole web, from the first host's `/`
//! or from every host's.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::behaviour::{Behaviour, Outcome};
use super::plan::Plan;
use super::resource::Resource;

/// URLs by how they end, each list without repetition. `/robots.txt` is in none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// URLs that answer 200 and are allowed.
    pub pages: Vec<String>,
    /// URLs that answer 301 and are allowed.
    pub redirects: Vec<String>,
    /// URLs that a page links to and that answer 404 or 410.
    pub not_found: Vec<String>,
    /// URLs that are linked or redirected to and must not be requested.
    pub disallowed: Vec<String>,
    /// URLs that a hostile host answers with 429, if they are requested at all.
    pub refused: Vec<String>,
    /// URLs that get no answer that can be used from a hostile host, if they are requested at all.
    pub failed: Vec<String>,
    /// URLs on a host whose name has no address.
    pub unresolvable: Vec<String>,
    /// URLs that are over budget: enough other pages of their host were fetched.
    pub over_budget: Vec<String>,
    /// How many URLs end in each way, by the names in a crawl's summary; 0 for a way in which none
    /// ends.
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

    /// Fills `outcomes` with the lengths of the lists.
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
        self.outcomes = lists
            .into_iter()
            .map(|(name, urls)| (name.to_owned(), urls as u64))
            .collect();
        self
    }
}

/// What a perfect crawl finds of other hosts by way of this one's pages alone.
pub(crate) fn found_only_through(plan: &Plan, host: u32) -> BTreeSet<(u32, Resource)> {
    let mut seen = BTreeSet::new();
    let mut ahead = vec![(0, Resource::Page(0))];
    while let Some((at, resource)) = ahead.pop() {
        let is_new = seen.insert((at, resource));
        match resource {
            Resource::Page(page) if is_new && at != host && plan.gives_pages(at) => {
                ahead.extend(
                    plan.leads_to(at, page)
                        .into_iter()
                        .map(|link| (link.host, link.resource)),
                );
            }
            _ => {}
        }
    }
    // A host's own pages lead to its byways.
    let is_seen = |at, resource| match resource {
        Resource::Byway(_) => seen.contains(&(at, Resource::Page(0))),
        _ => seen.contains(&(at, resource)),
    };
    let others = (0..plan.profile.hosts).filter(|other| *other != host);
    let found = others.flat_map(|other| plan.found(other).map(move |resource| (other, resource)));
    found
        .filter(|&(other, resource)| !is_seen(other, resource))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn what_is_found_through_the_first_host_alone_is_all_and_through_another_it_is_little() {
        let plan = Plan::new(
            Profile {
                hosts: 12,
                not_found: 0.1,
                ..Profile::mixed()
            },
            8080,
        );
        let all: usize = (1..12).map(|host| plan.found(host).count()).sum();
        assert_eq!(found_only_through(&plan, 0).len(), all);
        for host in 1..12 {
            let through = found_only_through(&plan, host);
            assert!(
                through.len() < all / 2 && through.iter().all(|(of, _)| *of != host),
                "{host}: {}",
                through.len()
            );
        }
    }
}
