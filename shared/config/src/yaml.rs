//! YAML as a tree: without the lenient conversions of the crate that reads it.

use super::tree::Tree;
use config::{FileFormat, Value, ValueKind};

/// What is no YAML.
#[derive(Debug, thiserror::Error)]
#[error("{origin} is not valid YAML: {error}")]
pub struct BadYaml {
    /// Where it stands.
    origin: String,
    /// Why.
    error: String,
}

/// Reads a document; `origin` names it in errors.
pub(super) fn parse_yaml(origin: &str, text: &str) -> Result<Tree, BadYaml> {
    let syntax = |error: String| BadYaml {
        origin: origin.to_owned(),
        error,
    };
    let document = config::Config::builder()
        .add_source(config::File::from_str(text, FileFormat::Yaml))
        .build()
        .map_err(|error| syntax(error.to_string()))?;
    Ok(tree(document.cache))
}

/// Reads a value, as `--set`, the environment and the fields of sections give it.
pub(super) fn parse_value(origin: &str, text: &str) -> Result<Tree, BadYaml> {
    if text.is_empty() {
        return Ok(Tree::String(String::new()));
    }
    let mut document = parse_yaml(origin, &format!("value: {text}"))?;
    Ok(document["value"].take())
}

fn tree(value: Value) -> Tree {
    match value.kind {
        ValueKind::Nil => Tree::Null,
        ValueKind::Boolean(yes) => yes.into(),
        ValueKind::I64(number) => number.into(),
        ValueKind::I128(number) => Tree::String(number.to_string()),
        ValueKind::U64(number) => number.into(),
        ValueKind::U128(number) => Tree::String(number.to_string()),
        ValueKind::Float(number) => number.into(),
        ValueKind::String(text) => text.into(),
        ValueKind::Table(table) => Tree::Object(
            table
                .into_iter()
                .map(|(key, value)| (key, tree(value)))
                .collect(),
        ),
        ValueKind::Array(values) => values.into_iter().map(tree).collect(),
    }
}
