//! The keys below `edges`, before they are read.
//!
//! In: the tree of a configuration. Out: the same, in which every stream says all of its settings,
//! and none says what is fixed. What a stream does not say itself stands in `edges.defaults`. A
//! file of an earlier version may name subjects and retention as they are, and gets a warning.

use super::error::ConfigError;
use super::tree::{Tree, merge};
use rhumb_wire::topology::{DEAD, Edge, MOVES, PARKED, Retention};

/// Says of each stream what `edges.defaults` says where the tree says nothing of it.
///
/// # Errors
/// The defaults are no section.
pub(super) fn fill_in(tree: &mut Tree) -> Result<(), ConfigError> {
    let Some(defaults) = tree.pointer(&pointer("defaults")).cloned() else {
        return Ok(());
    };
    if !defaults.is_object() {
        let error = "accepted is a section of keys".to_owned();
        return Err(ConfigError::Type {
            key: "edges.defaults".to_owned(),
            value: Some(defaults.to_string()),
            error,
        });
    }
    for key in keys().filter(|key| is_stream(key)) {
        let Some(given) = tree.pointer_mut(&pointer(key)) else {
            continue;
        };
        let mut filled = defaults.clone();
        merge(&mut filled, given.take());
        *given = filled;
    }
    Ok(())
}

/// Takes out what earlier versions of `pipeline.yaml` had though nobody could change it. Returns a
/// warning, if there was any.
///
/// # Errors
/// It has another value than it had there.
pub(super) fn take_out_fixed(tree: &mut Tree) -> Result<Vec<String>, ConfigError> {
    let mut taken = Vec::new();
    for key in keys() {
        let Some(Tree::Object(fields)) = tree.pointer_mut(&pointer(key)) else {
            continue;
        };
        for (field, fixed) in fixed(key) {
            let Some(value) = fields.remove(field) else {
                continue;
            };
            let path = format!("edges.{key}.{field}");
            if value != fixed {
                let error = format!(
                    "accepted is '{fixed}' alone, and nobody has to say it: leave the key out"
                );
                return Err(ConfigError::Type {
                    key: path,
                    value: Some(value.to_string()),
                    error,
                });
            }
            taken.push(path);
        }
    }
    for key in keys().filter(|key| !is_stream(key)) {
        take_out_empty(tree, key);
    }
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![format!(
        "these keys say what always holds, and are no keys any more; leave them out: {}",
        taken.join(", ")
    )])
}

/// Takes out a section that says nothing, and the section around it if that says nothing then.
fn take_out_empty(tree: &mut Tree, key: &str) {
    let group = key.split_once('.').map(|(group, _)| group);
    for section in [Some(key), group].into_iter().flatten() {
        let says_nothing = |value: &Tree| {
            value
                .as_object()
                .map_or(value.is_null(), serde_json::Map::is_empty)
        };
        if !tree.pointer(&pointer(section)).is_some_and(says_nothing) {
            continue;
        }
        let path = pointer(section);
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        if let Some(Tree::Object(fields)) = tree.pointer_mut(parent) {
            fields.remove(name);
        }
    }
}

/// The keys of all edges below `edges`, and of the streams beside them.
fn keys() -> impl Iterator<Item = &'static str> {
    Edge::ALL
        .into_iter()
        .map(Edge::name)
        .chain([DEAD, PARKED, MOVES])
}

fn is_stream(key: &str) -> bool {
    Edge::from_name(key).is_none_or(|edge| edge.retention().is_some())
}

fn pointer(key: &str) -> String {
    format!("/edges/{}", key.replace('.', "/"))
}

/// What earlier versions had of an edge.
fn fixed(key: &str) -> Vec<(&'static str, String)> {
    let edge = Edge::from_name(key);
    let subject = edge.map_or_else(|| format!("{key}.{{stage}}"), Edge::template);
    let retention = edge.map_or(Some(Retention::Limits), Edge::retention);
    let retention = retention.map(|retention| ("retention", retention.name().to_owned()));
    [("subject", subject)]
        .into_iter()
        .chain(retention)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layers;
    use crate::differences;
    use crate::load::shipped;
    use std::time::Duration;

    /// The section as it was before there were defaults.
    const EARLIER: &str = include_str!("edge_keys/earlier.yaml");

    fn load(set: &[&str]) -> Result<crate::Pipeline, ConfigError> {
        let local = ["network.allow_private_addresses=true"];
        let set = local.iter().chain(set);
        let set = set.map(|&assignment| assignment.to_owned()).collect();
        Layers { file: None, set }.load_with(std::iter::empty())
    }

    #[test]
    fn every_stream_of_the_table_has_settings_under_its_name() {
        let (tree, pipeline) = shipped();
        for edge in Edge::ALL {
            let is_stream = edge.retention().is_some();
            assert_eq!(
                tree.pointer(&pointer(edge.name())).is_some(),
                is_stream,
                "{}",
                edge.name()
            );
            assert_eq!(
                pipeline.edges.stream(edge).is_some(),
                is_stream,
                "{}",
                edge.name()
            );
        }
        let streams: Vec<&str> = pipeline
            .edges
            .streams()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert!(streams.ends_with(&[DEAD, PARKED, MOVES]), "{streams:?}");
    }

    #[test]
    fn a_further_edge_is_kept_as_the_documents_are_under_its_own_subject() {
        let (_, pipeline) = shipped();
        let further = Edge::further(128, "titles");
        let kept = pipeline.edges.stream(further).unwrap();
        assert!(std::ptr::eq(kept, &raw const pipeline.edges.documents));
        assert!(
            pipeline
                .edges
                .streams()
                .iter()
                .all(|(key, _)| *key != further.name())
        );
        assert_eq!(pipeline.subjects().all(further), ["rhumb.default.titles"]);
    }

    #[test]
    fn a_stream_is_kept_as_the_defaults_say_where_it_says_nothing() {
        let edges = load(&["edges.defaults.ack_wait=7s", "edges.urls.new.ack_wait=9s"])
            .unwrap()
            .edges;
        assert_eq!(edges.outcomes.ack_wait, Duration::from_secs(7));
        assert_eq!(edges.urls.new.ack_wait, Duration::from_secs(9));
        // The shipped file says it itself.
        assert_eq!(edges.pages.stream.ack_wait, Duration::from_secs(60));
        assert_eq!(
            edges.pages.stream.duplicate_window,
            edges.defaults.duplicate_window
        );
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read_with_one_warning() {
        let (_, pipeline) = shipped();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pipeline.yaml");
        std::fs::write(&file, EARLIER).unwrap();
        let set = vec!["network.allow_private_addresses=true".to_owned()];
        let layers = Layers {
            file: Some(file),
            set,
        };
        let earlier = layers.load_with(std::iter::empty()).unwrap();
        let [warning] = earlier.warnings.as_slice() else {
            panic!("{:?}", earlier.warnings)
        };
        assert!(warning.contains("edges.pages.retention"), "{warning}");
        assert!(warning.contains("edges.dns.refresh.subject"), "{warning}");
        assert_eq!(
            format!("{:?}", earlier.edges),
            format!("{:?}", pipeline.edges)
        );
        assert!(
            load(&["edges.pages.ack_wait=7s"])
                .unwrap()
                .warnings
                .is_empty()
        );
    }

    #[test]
    fn a_crawl_that_an_earlier_version_began_is_read_as_it_was() {
        assert_eq!(differences(EARLIER, &[]).unwrap(), []);
        let set = vec!["network.allow_private_addresses=true".to_owned()];
        let over = Layers { file: None, set }.load_over(EARLIER).unwrap();
        assert_eq!(over.edges.pages.stream.ack_wait, Duration::from_secs(60));
        let text = Layers::default().text().unwrap();
        assert!(!text.contains("subject") && !text.contains("retention"));
    }

    #[test]
    fn sections_of_edges_that_say_nothing_are_none() {
        for nothing in [
            "dns: {}",
            "urls: {filtered: null}",
            "content: {asks: {}}",
            "errands: {}",
        ] {
            let set = format!("edges={{{nothing}}}");
            assert!(load(&[&set]).is_ok(), "{nothing}");
        }
        assert!(load(&["edges.dns.refresh.ack_wait=5s"]).is_err());
    }

    #[test]
    fn a_bad_default_is_named_once_and_where_it_stands() {
        for bad in [
            "edges.defaults.bytes_max=1MiB",
            "edges.defaults.ack_wait=0s",
            "edges.defaults.ack_wait=5",
            "edges.defaults.ack_weight=5s",
        ] {
            let error = load(&[bad]).expect_err(bad).to_string();
            assert_eq!(error.matches("edges.").count(), 1, "{bad}: {error}");
            assert!(
                error.contains(bad.split_once('=').unwrap().0),
                "{bad}: {error}"
            );
        }
        assert!(
            load(&["edges.defaults=5"])
                .unwrap_err()
                .to_string()
                .contains("edges.defaults")
        );
    }
}
