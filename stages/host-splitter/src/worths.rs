//! What a link is worth to the URL that it leads to, by the topic of its page.
//!
//! Source: Cho, Garcia-Molina and Page 1998 (links counted); Abiteboul, Preda and Cobena 2003
//! (OPIC: a page's cash).

use rhumb_config::{Pipeline, Policy, QualityProvider};
use rhumb_url::{fingerprint, host_of, registered_domain};
use rhumb_wire::message::{FoundUrls, Quality};
use std::collections::BTreeMap;

/// How links are valued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// One each, less for further links from one registered domain.
    One,
    /// The cash that the page gives each of its links. There is no more of it however many pages a
    /// domain has.
    Cash,
}

/// How the links of each topic are valued; nothing where later links do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worths {
    others: Option<Worth>,
    topics: BTreeMap<String, Option<Worth>>,
}

/// What each of the links of a page is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkWorth {
    pub(crate) worth: Quality,
    /// The registered domain of the page, where further links from it are worth less.
    pub(crate) damped_for: Option<u64>,
}

impl From<&Pipeline> for Worths {
    fn from(pipeline: &Pipeline) -> Self {
        let scheduler = &pipeline.stages.scheduler;
        let is_by_quality = matches!(scheduler.policy, Policy::Quality | Policy::Capacity);
        let worth = |quality| match quality {
            QualityProvider::Links if is_by_quality => Some(Worth::One),
            QualityProvider::Opic if is_by_quality => Some(Worth::Cash),
            _ => None,
        };
        let topics = pipeline
            .topics
            .iter()
            .filter_map(|(name, topic)| Some((name.clone(), worth(topic.quality?))));
        Worths {
            others: worth(scheduler.quality),
            topics: topics.collect(),
        }
    }
}

impl Worths {
    /// Returns whether later links count for no topic.
    pub(crate) fn is_none(&self) -> bool {
        self.others.is_none() && self.topics.values().all(Option::is_none)
    }

    /// What each link of a page is worth; nothing when later links do not count, or nobody linked,
    /// or the page has been visited before.
    pub(crate) fn of(&self, found: &FoundUrls) -> Option<LinkWorth> {
        let origin = &found.origin;
        match self
            .topics
            .get(&origin.topic)
            .copied()
            .unwrap_or(self.others)?
        {
            _ if origin.found_on().is_empty() || found.are_of_later_visit() => None,
            Worth::Cash => Some(LinkWorth {
                worth: origin.flow,
                damped_for: None,
            }),
            Worth::One => {
                let domain = fingerprint(registered_domain(host_of(&origin.page)));
                Some(LinkWorth {
                    worth: Quality::SEED,
                    damped_for: Some(domain),
                })
            }
        }
    }
}
