//! The topics as they take turns: how urgent each is, and how long its turn is.
//!
//! In: the configuration. Out: an index for each topic, and for the preparation of servers:
//! robots.txt belongs to servers, so its connections are no topic's. With one topic alone there is
//! nothing to share, and preparation has no turn of its own.
//!
//! Source: Fan and Li 2015 (PQ-MCSA): priorities, time slices and the preparation queue.

use crate::keys::topic::TopicIndex;
use rhumb_config::Pipeline;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a topic may have at most, over all schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicLimits {
    /// Pages requested; 0: no limit.
    pub pages_per_second: u64,
    /// Bytes of bodies; 0: no limit.
    pub bytes_per_second: u64,
    /// Of all connections, in per cent.
    pub connections_percent: u8,
    /// Pages fetched in all; 0: no limit.
    pub pages_max: u64,
}

impl Default for TopicLimits {
    fn default() -> Self {
        TopicLimits {
            pages_per_second: 0,
            bytes_per_second: 0,
            connections_percent: 100,
            pages_max: 0,
        }
    }
}

/// A topic, or the preparation of servers, as it takes turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRules {
    /// Its name; none of the topics that are not configured together, and of preparations.
    pub name: Option<String>,
    /// 0 to 9. The highest goes first, whatever waits of lower ones.
    pub priority: u8,
    /// Connection time of a turn.
    pub slice: Duration,
    /// Pages in a minute, over all schedulers, from which on its turns become shorter; 0: they
    /// never do.
    pub pages_min: u64,
    /// What it may have.
    pub limits: TopicLimits,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Topics {
    /// Of the topics that are not configured, of those that are, and of the preparations.
    rules: Arc<[TurnRules]>,
    by_name: Arc<BTreeMap<String, TopicIndex>>,
    preparations: Arc<BTreeMap<u8, TopicIndex>>,
    /// By how much a turn becomes shorter, or longer again.
    pub(crate) quantum: Duration,
    /// The shortest turn.
    pub(crate) slice_min: Duration,
}

impl From<&Pipeline> for Topics {
    fn from(pipeline: &Pipeline) -> Self {
        let scheduler = &pipeline.stages.scheduler;
        let rules = |(name, topic): (&String, &rhumb_config::Topic)| TurnRules {
            name: Some(name.clone()),
            priority: topic.priority,
            slice: topic.slice.unwrap_or(scheduler.slice),
            pages_min: topic.pages_min,
            limits: TopicLimits {
                pages_per_second: topic.pages_per_second,
                bytes_per_second: topic.bytes_per_second.0,
                connections_percent: topic.connections_percent,
                pages_max: topic.pages_max,
            },
        };
        let topics = Topics::new(pipeline.topics.iter().map(rules), scheduler.slice);
        Topics {
            quantum: scheduler.slice_quantum,
            slice_min: scheduler.slice_min,
            ..topics
        }
    }
}

fn index(place: usize) -> TopicIndex {
    TopicIndex(u16::try_from(place).unwrap_or_default())
}

impl Topics {
    /// Topics of these rules, beside those that are not configured and the preparations, whose
    /// turns last for `slice`. None becomes shorter.
    pub fn new(topics: impl IntoIterator<Item = TurnRules>, slice: Duration) -> Self {
        let of = |name, priority| TurnRules {
            name,
            priority,
            slice,
            pages_min: 0,
            limits: TopicLimits::default(),
        };
        let mut rules = vec![of(None, 0)];
        rules.extend(topics);
        let names = rules
            .iter()
            .enumerate()
            .filter_map(|(place, rules)| Some((rules.name.clone()?, index(place))));
        let by_name: BTreeMap<_, _> = names.collect();
        let mut preparations = BTreeMap::new();
        if !by_name.is_empty() {
            for priority in rules.iter().map(|rules| rules.priority).collect::<Vec<_>>() {
                preparations.entry(priority).or_insert_with(|| {
                    rules.push(of(None, priority));
                    index(rules.len() - 1)
                });
            }
        }
        Topics {
            rules: rules.into(),
            by_name: by_name.into(),
            preparations: preparations.into(),
            quantum: Duration::ZERO,
            slice_min: Duration::ZERO,
        }
    }

    /// Those that take turns, in the order of their indices.
    pub(crate) fn rules(&self) -> &[TurnRules] {
        &self.rules
    }

    /// The topic of that name; that of the others when it is not configured.
    pub(crate) fn of_name(&self, name: &str) -> TopicIndex {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    /// The topics, by name; those that are not configured have none.
    pub(crate) fn names(&self) -> impl Iterator<Item = (TopicIndex, &str)> {
        let configured = self
            .by_name
            .iter()
            .map(|(name, index)| (*index, name.as_str()));
        std::iter::once((TopicIndex::OTHERS, "")).chain(configured)
    }

    /// Returns whether a topic of that name is configured.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The priority of one.
    pub(crate) fn priority(&self, of: TopicIndex) -> u8 {
        self.rules
            .get(usize::from(of.0))
            .map_or(0, |rules| rules.priority)
    }

    /// Pages of one that are fetched at most; 0: no limit.
    pub(crate) fn pages_max(&self, of: TopicIndex) -> u64 {
        self.rules
            .get(usize::from(of.0))
            .map_or(0, |rules| rules.limits.pages_max)
    }

    /// The preparation of servers for URLs of that priority.
    pub(crate) fn preparation(&self, priority: u8) -> TopicIndex {
        self.preparations
            .get(&priority)
            .copied()
            .unwrap_or_default()
    }

    /// The preparation of servers that goes before all others.
    pub(crate) fn first_preparation(&self) -> TopicIndex {
        self.preparations
            .last_key_value()
            .map(|(_, index)| *index)
            .unwrap_or_default()
    }

    /// Returns whether there is one topic alone.
    pub(crate) fn is_one(&self) -> bool {
        self.by_name.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rhumb_config::Layers;

    /// Topics `t1`, `t2`, … of these priorities, with slices of so many milliseconds.
    pub(crate) fn topics(rules: &[(u8, u64)]) -> Topics {
        let set = |(index, (priority, slice_ms)): (usize, &(u8, u64))| {
            format!(
                "topics.t{}={{priority: {priority}, slice: {slice_ms}ms}}",
                index + 1
            )
        };
        let set = rules.iter().enumerate().map(set).chain([
            "network.allow_private_addresses=true".to_owned(),
            "stages.scheduler.slice_min=200ms".to_owned(),
            "stages.scheduler.slice_quantum=100ms".to_owned(),
        ]);
        let pipeline = Layers {
            file: None,
            set: set.collect(),
        }
        .load_with(std::iter::empty())
        .unwrap();
        Topics::from(&pipeline)
    }

    /// One topic with these limits.
    pub(crate) fn limited(limits: TopicLimits) -> Topics {
        let name = Some("t1".to_owned());
        let slice = Duration::from_secs(1);
        Topics::new(
            [TurnRules {
                name,
                priority: 0,
                slice,
                pages_min: 0,
                limits,
            }],
            slice,
        )
    }

    #[test]
    fn each_priority_has_a_preparation_of_its_own_unless_there_is_one_topic_alone() {
        let one = topics(&[]);
        assert!(one.is_one());
        assert_eq!(
            (one.rules().len(), one.preparation(0), one.of_name("t1")),
            (1, TopicIndex(0), TopicIndex(0))
        );
        let several = topics(&[(9, 500), (0, 1000), (9, 1000)]);
        assert_eq!(several.rules().len(), 4 + 2);
        let [low, high] = [0, 9].map(|priority| several.preparation(priority));
        assert_eq!((several.priority(low), several.priority(high)), (0, 9));
        assert_eq!(
            (
                several.first_preparation(),
                several.of_name("t3"),
                several.of_name("other")
            ),
            (high, TopicIndex(3), TopicIndex(0))
        );
        assert_eq!(several.rules()[1].slice, Duration::from_millis(500));
        assert!(several.has("t2") && !several.has("other"));
    }
}
