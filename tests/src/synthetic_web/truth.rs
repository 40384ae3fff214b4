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
}

impl Truth {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut truth = Self::default();
        for host in 0..plan.profile.hosts {
            for page in 0..plan.site(host).pages {
                truth.place(plan, host, Resource::Page(page));
            }
            for number in &plan.gone()[host as usize] {
                truth.place(plan, host, Resource::Gone(*number));
            }
        }
        truth
    }

    fn place(&mut self, plan: &Plan, host: u32, resource: Resource) {
        let list = match resource {
            Resource::Page(page) if plan.shape(host, page).is_disallowed() => &mut self.disallowed,
            _ => match Behaviour::of(plan, host, resource).ending() {
                Ending::Fetched => &mut self.pages,
                Ending::Redirected => &mut self.redirects,
                Ending::NotFound => &mut self.not_found,
                Ending::Rules => return,
            },
        };
        list.push(plan.url(host, resource));
    }
}
