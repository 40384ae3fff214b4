//! What of a configuration differs from the defaults, for those who read about a crawl.
//!
//! In: a configuration as text, and what operators have set. Out: keys with their values, without
//! what may hold secrets and without places on a machine.

use super::defaults::defaults;
use super::edge_keys;
use super::error::ConfigError;
use super::key_table::all_fields;
use super::load::{PRIVATE, files};
use super::tree::{merge, set};
use super::yaml::parse_yaml;
use crate::orders::Setting;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A key whose value is not its default.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Difference {
    /// Dotted path.
    pub key: String,
    /// Its value, as JSON.
    pub value: Value,
    /// Its default; null where there is none.
    pub default: Value,
}

/// Compares a configuration, with these settings in the place of what it has, with the defaults;
/// in the order of its keys.
///
/// # Errors
/// It is no YAML.
pub fn differences(text: &str, settings: &[Setting]) -> Result<Vec<Difference>, ConfigError> {
    let mut given = parse_yaml("the crawl's configuration", text)?;
    edge_keys::take_out_fixed(&mut given)?;
    let shipped = shipped_beside(&given)?;
    settings
        .iter()
        .for_each(|Setting { key, value, .. }| set(&mut given, key, value.clone()));
    let mut found = Vec::new();
    compare("", &given, &shipped, &mut found);
    found.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}

/// The defaults. That of a stream is what it has if it says nothing: what this configuration says of
/// all streams, or its own.
fn shipped_beside(given: &Value) -> Result<Value, ConfigError> {
    const OF_ALL: &str = "/edges/defaults";
    let mut shipped = defaults(all_fields());
    let of_all = shipped.pointer(OF_ALL).cloned().unwrap_or_default();
    let is_section = |section: &&Value| section.is_object();
    let own = given.pointer(OF_ALL).filter(is_section);
    if let (Some(section), Some(own)) = (shipped.pointer_mut(OF_ALL), own) {
        merge(section, own.clone());
    }
    edge_keys::fill_in(&mut shipped)?;
    if let Some(section) = shipped.pointer_mut(OF_ALL) {
        *section = of_all;
    }
    Ok(shipped)
}

fn compare(path: &str, given: &Value, shipped: &Value, found: &mut Vec<Difference>) {
    if given == shipped || is_private(path) {
        return;
    }
    match given {
        // An empty section that is shipped as none says the same.
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                compare(
                    &path,
                    value,
                    shipped.get(name).unwrap_or(&Value::Null),
                    found,
                );
            }
        }
        _ => found.push(Difference {
            key: path.to_owned(),
            value: given.clone(),
            default: shipped.clone(),
        }),
    }
}

fn is_private(path: &str) -> bool {
    let pointer = format!("/{}", path.replace('.', "/"));
    files().any(|file| file == pointer)
        || PRIVATE
            .iter()
            .any(|(parent, key)| format!("{parent}/{key}") == pointer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layers;
    use crate::orders::Author;
    use serde_json::json;

    fn keys(set: &[&str]) -> Vec<(String, Value)> {
        let set = set.iter().map(|set| (*set).to_owned()).collect();
        let text = Layers {
            set,
            file: Some("/dev/null".into()),
        }
        .text()
        .unwrap();
        differences(&text, &[])
            .unwrap()
            .into_iter()
            .map(|of| (of.key, of.value))
            .collect()
    }

    #[test]
    fn what_is_as_it_was_shipped_does_not_differ() {
        assert_eq!(keys(&["politeness.delay=1s"]), []);
        assert_eq!(differences("{}", &[]).unwrap(), []);
    }

    #[test]
    fn keys_that_differ_are_named_with_both_values() {
        let found = keys(&[
            "topics.news.priority=9",
            "politeness.delay=2s",
            "stages.fetcher.connections=7",
        ]);
        let expected = [
            ("politeness.delay", json!("2s")),
            ("stages.fetcher.connections", json!(7)),
            ("topics.news.priority", json!(9)),
        ];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value)));
        let text = Layers {
            set: vec!["politeness.delay=2s".into()],
            file: Some("/dev/null".into()),
        }
        .text()
        .unwrap();
        assert_eq!(differences(&text, &[]).unwrap()[0].default, json!("1s"));
    }

    #[test]
    fn what_operators_have_set_takes_the_place_of_what_was_configured() {
        let setting = |key: &str, value| Setting {
            key: key.into(),
            value,
            author: Author::default(),
        };
        let set = [
            setting("politeness.delay", json!("3s")),
            setting("topics.a.priority", json!(2)),
        ];
        let found: Vec<_> = differences("{}", &set)
            .unwrap()
            .into_iter()
            .map(|of| (of.key, of.default))
            .collect();
        assert_eq!(
            found,
            [
                ("politeness.delay".into(), json!("1s")),
                ("topics.a.priority".into(), Value::Null)
            ]
        );
        assert_eq!(
            differences("{}", &[setting("politeness.delay", json!("1s"))]).unwrap(),
            []
        );
    }

    #[test]
    fn an_exception_that_is_as_the_default_was_shipped_differs_from_the_default_that_is_set() {
        let found = keys(&["edges.defaults.ack_wait=7s", "edges.outcomes.ack_wait=30s"]);
        let expected = [
            ("edges.defaults.ack_wait", json!("7s")),
            ("edges.outcomes.ack_wait", json!("30s")),
        ];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value)));
    }

    #[test]
    fn secrets_and_places_on_a_machine_are_left_out() {
        let found = keys(&[
            "broker.url=nats://u:geheim@h:1",
            "network.proxy=socks5://u:geheim@h:1",
            "network.headers={Authorization: geheim}",
            "data=/home/geheim",
            "stages.archiver.dir=/home/geheim",
        ]);
        assert_eq!(found, []);
    }
}
