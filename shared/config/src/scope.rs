//! The scope: which hosts are followed, and which of their URLs pass.

use super::patterns::Patterns;
use serde::{Deserialize, Serialize};

/// The scope of a crawl, or of a topic; `pipeline.yaml` documents every key.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Scope {
    pub follow: Follow,
    pub max_depth: u16,
    pub prefixes: Vec<String>,
    pub accept: Patterns,
    pub reject: Patterns,
}

/// Which hosts a topic follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Follow {
    /// Those of its seeds.
    Host,
    /// Those under the registered domains of its seeds.
    Domain,
    /// All.
    Any,
}
