//! Graph: the pages of a web and how they link, for judging the order in which they were fetched.
//!
//! Invariant: it is what a crawl finds. A page that redirects links to its target, a disallowed one
//! to nothing. Links that do not lead to pages are left out.

use std::collections::BTreeSet;

use super::plan::{Link, Plan};
use super::profile::Profile;
use super::resource::Resource;

/// The pages of a web. They are numbered host after host, the first page of a host (its `/`) first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Number of hosts.
    pub hosts: u32,
    /// All pages; those that redirect and those that are disallowed, too.
    pub pages: Vec<GraphPage>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphPage {
    /// Its host.
    pub host: u32,
    /// The pages that it links to in order, each one once.
    pub links: Vec<usize>,
}

impl Graph {
    /// The graph of the web that a profile makes; nothing is started.
    ///
    /// # Errors
    /// If the profile is out of range.
    pub fn new(profile: Profile) -> anyhow::Result<Self> {
        profile.validate()?;
        Ok(Self::of(&Plan::new(profile, 80)))
    }

    pub(crate) fn of(plan: &Plan) -> Self {
        let starts = starts(plan);
        let number = |link: Link| match link.resource {
            Resource::Page(page) if plan.gives_pages(link.host) => {
                Some(starts[link.host as usize] + page as usize)
            }
            _ => None,
        };
        let page = |host: u32, page: u32| {
            let mut met = BTreeSet::new();
            let links = plan.leads_to(host, page).into_iter().filter_map(number);
            GraphPage {
                host,
                links: links.filter(|link| met.insert(*link)).collect(),
            }
        };
        let hosts = plan.profile.hosts;
        let pages = (0..hosts)
            .flat_map(|host| (0..pages_of(plan, host)).map(move |number| page(host, number)))
            .collect();
        Self { hosts, pages }
    }

    /// The first page of each host that has pages.
    pub fn front_doors(&self) -> Vec<usize> {
        let is_first = |number: &usize| {
            number
                .checked_sub(1)
                .is_none_or(|before| self.host(before) != self.host(*number))
        };
        (0..self.pages.len()).filter(is_first).collect()
    }

    fn host(&self, page: usize) -> u32 {
        self.pages[page].host
    }
}

/// The number of the first page of each host.
pub(crate) fn starts(plan: &Plan) -> Vec<usize> {
    let mut next = 0;
    let start = |host| {
        let start = next;
        next += pages_of(plan, host) as usize;
        start
    };
    (0..plan.profile.hosts).map(start).collect()
}

fn pages_of(plan: &Plan, host: u32) -> u32 {
    if plan.gives_pages(host) {
        plan.site(host).pages
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::PagesPerHost;

    #[test]
    fn all_pages_can_be_reached_from_the_first_and_no_link_is_there_twice() {
        let profile = Profile {
            hosts: 9,
            pages_per_host: PagesPerHost::HeavyTail { mean: 30 },
            ..Profile::mixed()
        };
        let plan = Plan::new(profile.clone(), 8080);
        let graph = Graph::new(profile).unwrap();
        let pages: u32 = (0..9).map(|host| plan.site(host).pages).sum();
        assert_eq!((graph.hosts, graph.pages.len()), (9, pages as usize));
        assert_eq!(graph.front_doors(), starts(&plan));
        let mut seen = BTreeSet::new();
        let mut ahead = vec![0];
        while let Some(page) = ahead.pop() {
            if seen.insert(page) {
                let links = &graph.pages[page].links;
                assert_eq!(links.iter().collect::<BTreeSet<_>>().len(), links.len());
                ahead.extend(links);
            }
        }
        assert_eq!(seen.len(), graph.pages.len());
    }
}
