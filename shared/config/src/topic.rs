//! Topics: crawl goals that several teams have on one fleet, each with a scope and a share of its
//! own.

use super::patterns::Patterns;
use super::scope::{Follow, Scope};
use super::stages::QualityProvider;
use super::units::{Bytes, optional_duration};
use serde::Deserialize;
use std::time::Duration;

/// The topic of URLs without another. It is not configured.
pub const DEFAULT_TOPIC: &str = "default";
/// Topics that may be configured, at most: a scheduler numbers them in eight bits.
pub(super) const TOPICS_MAX: usize = 200;

/// What is configured of a topic; `pipeline.yaml` documents every key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Topic {
    /// What differs from `scope`.
    pub scope: TopicScope,
    /// The highest goes first; 0 to 9.
    pub priority: u8,
    /// Connection time of its turns; as of the others when there is none.
    #[serde(deserialize_with = "optional_duration")]
    pub slice: Option<Duration>,
    /// Pages a minute from which on its turns become shorter; 0: they never do.
    pub pages_min: u64,
    /// Pages that it requests in a second, over all schedulers; 0: no limit.
    pub pages_per_second: u64,
    /// Bytes of bodies that it takes in a second, over all schedulers; 0: no limit.
    pub bytes_per_second: Bytes,
    /// Of all connections, in per cent.
    pub connections_percent: u8,
    /// Pages with outcome fetched, over all schedulers; 0: no limit.
    pub pages_max: u64,
    /// Where the quality of its URLs comes from; as of the others when there is none.
    pub quality: Option<QualityProvider>,
    /// Reserved.
    pub recrawl: bool,
    /// Links to its URLs are followed no more.
    pub removed: bool,
}

impl Default for Topic {
    fn default() -> Self {
        Topic {
            scope: TopicScope::default(),
            priority: 0,
            slice: None,
            pages_min: 0,
            pages_per_second: 0,
            bytes_per_second: Bytes(0),
            connections_percent: 100,
            pages_max: 0,
            quality: None,
            recrawl: false,
            removed: false,
        }
    }
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
