//! Settings: keys of the configuration that operators have changed while the crawl runs.

use super::Author;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An order that a key of the configuration has another value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Dotted path, as in `pipeline.yaml`.
    pub key: String,
    /// Its value from now on.
    pub value: serde_json::Value,
    /// Who asked for it, when and why.
    #[serde(flatten)]
    pub author: Author,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { key, value, author } = self;
        write!(f, "{key} = {value} {author}")
    }
}
