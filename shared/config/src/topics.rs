//! The rules of the topics: which hosts each follows, and which of their URLs pass.
//!
//! In: the configuration. Out: the rules of a topic, by its name. A topic that is not configured
//! goes by the crawl's scope.

use crate::filters::Filters;
use crate::{Follow, Pipeline};
use rhumb_wire::message::{FilterReason, Origin};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rules of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Which hosts it follows.
    pub follow: Follow,
    /// Which URLs of such hosts pass.
    pub filters: Filters,
    /// It follows no link any more.
    pub is_removed: bool,
}

impl Rules {
    /// Why no URL may pass that was found so; nothing when one may.
    pub fn rejection_of_all(&self, origin: &Origin) -> Option<FilterReason> {
        if self.is_removed {
            Some(FilterReason::Scope)
        } else {
            self.filters.rejection_of_all(origin)
        }
    }
}

/// The rules of all topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    others: Rules,
    configured: BTreeMap<String, Rules>,
}

impl From<&Pipeline> for Topics {
    fn from(pipeline: &Pipeline) -> Self {
        let rules = |name: &str, is_removed| {
            let scope = pipeline.scope_of(name);
            Rules {
                follow: scope.follow,
                filters: Filters::new(&scope, &pipeline.limits),
                is_removed,
            }
        };
        let configured = pipeline.topics.iter();
        Topics {
            others: Rules {
                follow: pipeline.scope.follow,
                filters: Filters::new(&pipeline.scope, &pipeline.limits),
                is_removed: false,
            },
            configured: configured
                .map(|(name, topic)| (name.clone(), rules(name, topic.removed)))
                .collect(),
        }
    }
}

impl Topics {
    /// The rules of a topic.
    pub fn of(&self, topic: &str) -> &Rules {
        self.configured.get(topic).unwrap_or(&self.others)
    }

    /// Returns whether a topic is configured.
    pub fn has(&self, topic: &str) -> bool {
        self.configured.contains_key(topic)
    }

    /// Those of topics that are not configured, which have no name, then those of the others.
    pub fn all(&self) -> impl Iterator<Item = (Option<&str>, &Rules)> {
        let configured = self
            .configured
            .iter()
            .map(|(name, rules)| (Some(name.as_str()), rules));
        std::iter::once((None, &self.others)).chain(configured)
    }

    /// The filters alone.
    pub fn filters(&self) -> TopicFilters {
        let of = self
            .configured
            .iter()
            .map(|(name, rules)| (name.clone(), rules.filters.clone()));
        TopicFilters {
            others: self.others.filters.clone(),
            topics: of.collect(),
        }
    }
}

/// The filters of all topics, as orders at the broker have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicFilters {
    /// Those of topics that are not configured.
    #[serde(flatten)]
    pub others: Filters,
    /// Those of the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topics: BTreeMap<String, Filters>,
}

impl TopicFilters {
    /// The filters of a topic.
    pub fn of(&self, topic: &str) -> &Filters {
        self.topics.get(topic).unwrap_or(&self.others)
    }
}

/// How many links away from a seed each topic goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depths {
    others: u16,
    topics: BTreeMap<String, u16>,
}

impl Depths {
    /// The same for all topics.
    pub fn all(max: u16) -> Self {
        Depths {
            others: max,
            topics: BTreeMap::new(),
        }
    }

    /// How many links a topic goes away from a seed, at most.
    pub fn of(&self, topic: &str) -> u16 {
        self.topics.get(topic).copied().unwrap_or(self.others)
    }
}

impl From<&Pipeline> for Depths {
    fn from(pipeline: &Pipeline) -> Self {
        let of = pipeline
            .topics
            .keys()
            .map(|name| (name.clone(), pipeline.scope_of(name).max_depth));
        Depths {
            others: pipeline.scope.max_depth,
            topics: of.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layers;

    fn topics(set: &[&str]) -> Topics {
        let set = set
            .iter()
            .map(|&text| text.to_owned())
            .chain(["network.allow_private_addresses=true".to_owned()]);
        Topics::from(
            &Layers {
                file: None,
                set: set.collect(),
            }
            .load_with(std::iter::empty())
            .unwrap(),
        )
    }

    #[test]
    fn a_topic_goes_by_its_own_scope_and_by_that_of_the_crawl_in_what_it_leaves_out() {
        let topics = topics(&[
            "scope.max_depth=3",
            "topics.news={scope: {follow: any, reject: ['/old/']}}",
            "topics.shop.scope.max_depth=1",
            "topics.shop.removed=true",
        ]);
        let news = topics.of("news");
        let shop = topics.of("shop");
        let other = topics.of("other");
        assert_eq!(
            [news, shop, other].map(|rules| rules.follow),
            [Follow::Any, Follow::Host, Follow::Host]
        );
        assert_eq!(
            [news, shop, other].map(|rules| rules.filters.max_depth),
            [3, 1, 3]
        );
        let old = |rules: &Rules| rules.filters.rejection("http://a.test/old/1", false);
        assert_eq!(
            [news, shop, other].map(old),
            [Some(FilterReason::Pattern), None, None]
        );
        let seeds = |rules: &Rules| rules.rejection_of_all(&Origin::seed("any"));
        assert_eq!(
            [news, shop, other].map(seeds),
            [None, Some(FilterReason::Scope), None]
        );
        assert_eq!(topics.all().count(), 3);
    }

    #[test]
    fn filters_are_read_as_they_were_written_also_by_a_version_without_topics() {
        let filters = topics(&["topics.news.scope.max_depth=7"]).filters();
        let text = serde_json::to_string(&filters).unwrap();
        assert_eq!(
            serde_json::from_str::<TopicFilters>(&text).unwrap(),
            filters
        );
        let before: TopicFilters =
            serde_json::from_str(&serde_json::to_string(&filters.others).unwrap()).unwrap();
        assert_eq!((&before.others, before.topics.len()), (&filters.others, 0));
        assert_eq!(
            (filters.of("news").max_depth, filters.of("x").max_depth),
            (7, filters.others.max_depth)
        );
    }
}
