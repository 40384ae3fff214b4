//! Changes: the configuration with other values of keys that may change while the crawl runs.
//!
//! In: the configuration as a process read it, settings of operators. Out: the configuration from
//! now on. Invariant: a key whose field does not say `live` keeps its value.

use super::Pipeline;
use super::error::ConfigError;
use super::key_table::field;
use super::keys::{Change, Value as _};
use crate::orders::Setting;

/// How a key is changed that may not change while the crawl runs.
pub fn how_to_change(key: &str) -> String {
    let is_fixed = field(key).is_some_and(|field| field.change == Change::Fixed);
    let stage = key
        .strip_prefix("stages.")
        .and_then(|rest| rest.strip_suffix(".replicas"));
    match stage {
        Some(stage) => format!("`rhumb scale {stage}=N` changes it"),
        None if key == "limits.max_pages" => {
            "stop the crawl, and go on with `rhumb crawl --resume --max-pages N`".to_owned()
        }
        None if is_fixed => "it is fixed for the life of the crawl".to_owned(),
        None => format!("stop the crawl, and go on with `rhumb crawl --resume --set {key}=VALUE`"),
    }
}

impl Pipeline {
    /// The configuration with these settings in the place of what was configured. Those of earlier
    /// calls count no more.
    ///
    /// # Errors
    /// A key does not exist or may not change, or a value is not accepted.
    pub fn with(&self, settings: &[Setting]) -> Result<Pipeline, ConfigError> {
        let may_not = |key: &str| field(key).is_none_or(|field| field.live().is_empty());
        if let Some(Setting { key, .. }) = settings.iter().find(|setting| may_not(&setting.key)) {
            let error = match self.given.value(key) {
                Some(value) if !value.is_object() => {
                    format!(
                        "it may not change while the crawl runs; {}",
                        how_to_change(key)
                    )
                }
                Some(_) => "this is a section; name one of its keys".to_owned(),
                None => "there is no such key".to_owned(),
            };
            return Err(ConfigError::Type {
                key: key.clone(),
                value: None,
                error,
            });
        }
        let mut pipeline = self.clone();
        pipeline.take(&self.given.with(settings)?, false);
        Ok(pipeline)
    }

    /// The same with what is set already, which this configuration may not go with: it may be
    /// another one than that of the run in which it was set.
    ///
    /// # Errors
    /// It does not: with what, who set it, and the way out.
    pub fn with_earlier(&self, settings: &[Setting]) -> Result<Pipeline, ConfigError> {
        let problem = match self.with(settings) {
            Ok(pipeline) => return Ok(pipeline),
            Err(error) => error.to_string(),
        };
        let goes_without = |one: &&Setting| {
            let others: Vec<Setting> = settings
                .iter()
                .filter(|other| other.key != one.key)
                .cloned()
                .collect();
            self.with(&others).is_ok()
        };
        let mut set: Vec<Setting> = settings.iter().filter(goes_without).cloned().collect();
        if set.is_empty() {
            set = settings.to_vec();
        }
        Err(ConfigError::Set { problem, set })
    }

    /// The value of a key as it was configured, before any setting; none when there is no such key.
    pub fn configured(&self, key: &str) -> Option<&serde_json::Value> {
        self.given.value(key)
    }
}

/// The keys whose values differ between two lists of settings.
pub fn changed<'a>(before: &'a [Setting], after: &'a [Setting]) -> impl Iterator<Item = &'a str> {
    let value = |of: &'a [Setting], key: &str| {
        of.iter()
            .find(|setting| setting.key == key)
            .map(|setting| &setting.value)
    };
    let gone = before
        .iter()
        .filter(move |setting| value(after, &setting.key).is_none());
    let other = after
        .iter()
        .filter(move |setting| value(before, &setting.key) != Some(&setting.value));
    gone.chain(other).map(|setting| setting.key.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::key_table::{Key, live_keys};
    use super::super::load::{Layers, shipped};
    use super::*;
    use crate::orders::Author;
    use serde_json::json;
    use std::time::Duration;

    fn setting(key: &str, value: serde_json::Value) -> Setting {
        Setting {
            key: key.to_owned(),
            value,
            author: Author::default(),
        }
    }

    #[test]
    fn a_setting_takes_the_place_of_what_was_configured_until_it_is_taken_back() {
        let pipeline = Pipeline {
            partitions: 8,
            ..shipped().1
        };
        let slower = pipeline
            .with(&[setting("politeness.delay", json!("7s"))])
            .unwrap();
        assert_eq!(
            (slower.politeness.delay, slower.partitions),
            (Duration::from_secs(7), 8)
        );
        let other = slower
            .with(&[setting("scope.reject", json!(["/cal/"]))])
            .unwrap();
        assert!(other.scope.reject.matches("http://a.test/cal/1"));
        assert_eq!(
            other.politeness.delay, pipeline.politeness.delay,
            "the earlier one counts no more"
        );
        assert_eq!(
            other.with(&[]).unwrap().scope.reject.is_empty(),
            pipeline.scope.reject.is_empty()
        );
    }

    #[test]
    fn every_key_of_the_table_exists_and_others_name_the_way() {
        let pipeline = shipped().1;
        for Key { path, .. } in live_keys().filter(|key| !key.path.contains('*')) {
            let value = pipeline
                .configured(&path)
                .unwrap_or_else(|| panic!("{path} is no key"));
            pipeline.with(&[setting(&path, value.clone())]).unwrap();
        }
        let refusal = |key: &str, value| {
            pipeline
                .with(&[setting(key, value)])
                .unwrap_err()
                .to_string()
        };
        for (key, words) in [
            ("partitions", "it is fixed for the life of the crawl"),
            ("url.sort_query", "it is fixed for the life of the crawl"),
            (
                "stages.fetcher.replicas",
                "`rhumb scale fetcher=N` changes it",
            ),
            ("limits.max_pages", "`rhumb crawl --resume --max-pages N`"),
            (
                "broker.replicas",
                "`rhumb crawl --resume --set broker.replicas=VALUE`",
            ),
            ("scope", "name one of its keys"),
            ("scope.rejects", "there is no such key"),
        ] {
            let refused = refusal(key, json!(1));
            assert!(refused.contains(words), "{refused}");
        }
        assert!(refusal("politeness.delay", json!("-1s")).contains("politeness.delay"));
        assert!(refusal("scope.accept", json!(["("])).contains("not a regular expression"));
        assert!(refusal("limits.redirects", json!(51)).contains("limits.redirects"));
    }

    #[test]
    fn keys_of_a_topic_may_change_whether_it_was_configured_or_not() {
        let pipeline = shipped().1;
        let set = [
            setting("topics.news.scope.max_depth", json!(2)),
            setting("topics.news.scope.follow", json!("any")),
        ];
        let news = pipeline.with(&set).unwrap().scope_of("news");
        assert_eq!(
            (news.follow, news.max_depth),
            (super::super::Follow::Any, 2)
        );
        for (key, words) in [
            ("topics.news.scope.depth", "there is no such key"),
            ("topics.a.b.scope.max_depth", "there is no such key"),
            (
                "topics.n ews.scope.max_depth",
                "topics = 'n ews': accepted are 1 to 64 letters",
            ),
        ] {
            let refused = pipeline
                .with(&[setting(key, json!(2))])
                .unwrap_err()
                .to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn what_is_set_and_does_not_go_with_another_configuration_is_named_with_the_way_out() {
        let author = Author {
            by: "anna@desk".into(),
            since_s: 1_700_000_000,
            note: "a slow site".into(),
        };
        let set = setting("stages.scheduler.retry_wait", json!("10m"));
        let other = setting("limits.redirects", json!(7));
        let earlier = [other, Setting { author, ..set }];
        let configured = |wait_max: &str| {
            let set = [
                "network.allow_private_addresses=true".to_owned(),
                format!("stages.scheduler.retry_wait_max={wait_max}"),
            ];
            Layers {
                set: set.into(),
                ..Layers::default()
            }
            .load_with(std::iter::empty())
            .unwrap()
        };
        assert_eq!(
            configured("10m")
                .with_earlier(&earlier)
                .unwrap()
                .limits
                .redirects,
            7
        );
        let refused = configured("1m")
            .with_earlier(&earlier)
            .unwrap_err()
            .to_string();
        for words in [
            "stages.scheduler.retry_wait_max = 1m: accepted are 10m to ",
            "does not go with it: stages.scheduler.retry_wait = \"10m\" by anna@desk since \
             2023-11-14T22:13:20Z: a slow site. Start",
            "`rhumb set --unset stages.scheduler.retry_wait` takes it back",
        ] {
            assert!(refused.contains(words), "{refused}");
        }
        assert!(!refused.contains("limits.redirects"), "{refused}");
    }

    #[test]
    fn what_changed_is_named() {
        let a = [setting("a", json!(1)), setting("b", json!(2))];
        let b = [setting("b", json!(3)), setting("c", json!(4))];
        assert_eq!(changed(&a, &b).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(changed(&a, &a).count(), 0);
    }
}
