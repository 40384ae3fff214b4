//! Topics: crawl goals that several teams have on one fleet, each with a scope of its own.

use super::patterns::Patterns;
use super::scope::{Follow, Scope};
use serde::Deserialize;

/// What is configured of a topic; `pipeline.yaml` documents every key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Topic {
    /// What differs from `scope`.
    pub scope: TopicScope,
    /// Links to its URLs are followed no more.
    pub removed: bool,
}

/// What differs from `scope`; what is none is as there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct TopicScope {
    pub follow: Option<Follow>,
    pub max_depth: Option<u16>,
    pub prefixes: Option<Vec<String>>,
    pub accept: Option<Patterns>,
    pub reject: Option<Patterns>,
}

impl TopicScope {
    /// The whole scope.
    pub(super) fn over(&self, scope: &Scope) -> Scope {
        Scope {
            follow: self.follow.unwrap_or(scope.follow),
            max_depth: self.max_depth.unwrap_or(scope.max_depth),
            prefixes: self.prefixes.as_ref().unwrap_or(&scope.prefixes).clone(),
            accept: self.accept.as_ref().unwrap_or(&scope.accept).clone(),
            reject: self.reject.as_ref().unwrap_or(&scope.reject).clone(),
        }
    }
}
