//! Truth: what a perfect crawl of the whole web, from the first host's `/` or from every host's,
//! does to each URL.

use serde::{Deserialize, Serialize};

use super::behaviour::{Behaviour, Ending};
use super::plan::Plan;
use super::resource::Resource;

/// URLs by how they end, each list without repetition. `/robots.txt` is in none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// Answer 200 and are allowed.
    pub pages: Vec<String>,
    /// Answer 301 and are allowed.
    pub redirects: Vec<String>,
    /// Are linked from a page and answer 404.
    pub not_found: Vec<String>,
    /// Are linked or redirected to and must not be requested.
    pub disallowed: Vec<String>,
    /// Are answered by a hostile host with 429, if they are requested at all.
    pub refused: Vec<String>,
    /// Get no answer from a hostile host, if they are requested at all.
    pub failed: Vec<String>,
    /// Are on a host whose name has no address.
    pub unresolvable: Vec<String>,
}

impl Truth {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut truth = Self::default();
        for host in 0..plan.profile.hosts {
            for resource in plan.found(host) {
                truth.place(plan, host, resource);
            }
        }
        truth
    }

    fn place(&mut self, plan: &Plan, host: u32, resource: Resource) {
        let list = match Behaviour::of(plan, host, resource).ending() {
            _ if plan.is_disallowed(host, resource) => &mut self.disallowed,
            Ending::Fetched => &mut self.pages,
            Ending::Redirected => &mut self.redirects,
            Ending::NotFound => &mut self.not_found,
            Ending::Refused => &mut self.refused,
            Ending::Failed => &mut self.failed,
            Ending::Unresolvable => &mut self.unresolvable,
            Ending::Rules => return,
        };
        list.push(plan.url(host, resource));
    }
}
