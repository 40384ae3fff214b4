//! What is wrong with a configuration, in the words of an operator.

use super::yaml::BadYaml;
use crate::orders::Setting;
use std::path::PathBuf;

/// A configuration that cannot be used; the message names key, value and what is accepted.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("cannot read configuration file {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file, or a value of `--set` or of the environment, that is no YAML.
    #[error(transparent)]
    Syntax(#[from] BadYaml),
    /// `--set` without `key=value`.
    #[error("--set takes key.path=VALUE, got '{0}'")]
    SetForm(String),
    /// A key that does not exist, or a value of the wrong type.
    #[error("configuration key {key}{}: {error}", .value.as_deref().map(|v| format!(" = {v}")).unwrap_or_default())]
    Type {
        /// Dotted path.
        key: String,
        /// The value, if there is one.
        value: Option<String>,
        /// What is wrong and what is accepted.
        error: String,
    },
    /// The configuration does not go with what operators have set while the crawl ran.
    #[error(
        "{problem}. While the crawl ran, this was set, which does not go with it: {}. Start with a \
         configuration that it goes with; when the crawl runs, `rhumb set{}` takes it back",
        .set.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        .set.iter().map(|setting| format!(" --unset {}", setting.key)).collect::<String>()
    )]
    Set {
        /// What is not accepted.
        problem: String,
        /// What was set.
        set: Vec<Setting>,
    },
    /// Values out of range, one a line.
    #[error("{}", .0.join("\n"))]
    Range(Vec<String>),
}
