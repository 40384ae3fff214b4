//! What the pages of each topic are for.
//!
//! In: the configuration. Out: the section `usage` as it holds for a topic, by its name.

use super::pipeline::Pipeline;
use super::usage::Usage;
use std::collections::BTreeMap;

/// What the pages of each topic are for.
#[derive(Clone, Debug, Default)]
pub struct Usages {
    others: Usage,
    topics: BTreeMap<String, Usage>,
}

/// The same for every topic.
impl From<Usage> for Usages {
    fn from(others: Usage) -> Self {
        Usages {
            others,
            ..Usages::default()
        }
    }
}

impl From<&Pipeline> for Usages {
    fn from(pipeline: &Pipeline) -> Self {
        let topics = pipeline.topics.iter();
        Usages {
            others: pipeline.usage.clone(),
            topics: topics
                .map(|(name, topic)| (name.clone(), topic.usage.over(&pipeline.usage)))
                .collect(),
        }
    }
}

impl Usages {
    /// What the pages of a topic are for. One that is not configured goes by the crawl's.
    pub fn of(&self, topic: &str) -> &Usage {
        self.topics.get(topic).unwrap_or(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::Layers;
    use super::*;
    use rhumb_usage::{Purpose, Stance, Stances};

    fn usages(set: &[&str]) -> Result<Usages, String> {
        // It is of no public web.
        let set = [&["network.allow_private_addresses=true"], set].concat();
        let layers = Layers {
            set: set.iter().map(|text| (*text).to_owned()).collect(),
            ..Layers::default()
        };
        let pipeline = layers.load_with(std::iter::empty());
        let pipeline = pipeline.map_err(|error| error.to_string())?;
        Ok(Usages::from(&pipeline))
    }

    #[test]
    fn a_topic_says_what_differs() {
        let usages = usages(&[
            "usage.purposes=[ai-train]",
            "usage.unwanted=withhold",
            "topics.a.usage.unwanted=mark",
            "topics.b.usage.purposes=[]",
            "topics.c.priority=1",
        ])
        .unwrap();
        let mut refused = Stances::default();
        refused.say(Purpose::AiTrain, Stance::Refused);
        let name = |topic: &str| usages.of(topic).verdict(refused).name();
        let names = ["", "a", "b", "c", "other"].map(name);
        assert_eq!(
            names,
            ["withheld", "marked", "kept", "withheld", "withheld"]
        );
    }

    #[test]
    fn a_word_that_is_no_purpose_is_refused_with_those_that_are() {
        for (key, value, accepted) in [
            ("usage.purposes", "[training]", "ai-train"),
            ("topics.a.usage.purposes", "[x]", "ai-train"),
            ("usage.unwanted", "drop", "withhold"),
        ] {
            let error = usages(&[&format!("{key}={value}")]).unwrap_err();
            assert!(error.contains(key) && error.contains(accepted), "{error}");
        }
    }
}
