//! What is made of the fields of the configuration: `pipeline.yaml`, the chart's schema and
//! `docs/keys.md` say what they say.
//!
//! `tests/generate` writes all of them.

mod file;
mod page;
mod schema;

use rhumb_config::{Pipeline, keys};
use std::path::{Path, PathBuf};

/// Set it to have files written instead of compared.
const WRITE: &str = "RHUMB_WRITE_DOCS";

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn kept(path: &str) -> String {
    std::fs::read_to_string(in_repository(path)).unwrap_or_default()
}

/// Compares a file with what was made, or writes it.
fn compare(path: &str, made: &str) {
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(in_repository(path), made).expect("the file can be written");
    }
    let kept = kept(path);
    let mut lines = kept.lines().zip(made.lines());
    let other = lines.find(|(kept, made)| kept != made);
    assert!(
        kept == made,
        "{path} is not what the fields of the configuration say: run tests/generate; first: \
         {other:?}"
    );
}

#[test]
fn pipeline_yaml_says_what_the_fields_say() {
    compare("pipeline.yaml", &file::text());
}

#[test]
fn the_schema_of_the_chart_says_what_the_fields_say() {
    let path = "deploy/kubernetes/rhumb/values.schema.json";
    compare(path, &schema::within(&kept(path)));
}

#[test]
fn the_page_of_keys_says_what_the_fields_say() {
    compare("docs/keys.md", &page::text());
}

#[test]
fn pipeline_yaml_changes_nothing() {
    let layers = rhumb_config::Layers {
        file: Some(in_repository("pipeline.yaml")),
        set: vec!["network.user_agent=t (a@b)".to_owned()],
    };
    let mut read = layers.load_with(std::iter::empty()).expect("it is read");
    read.network.user_agent.clear();
    let default = Pipeline::default();
    assert_eq!(format!("{read:?}"), format!("{default:?}"));
}

#[test]
fn every_key_says_what_it_means() {
    for key in keys() {
        let meaning = key.field.meaning();
        assert!(
            meaning.len() > 5 && meaning.ends_with('.'),
            "{}: '{meaning}' is no sentence",
            key.path
        );
    }
}
