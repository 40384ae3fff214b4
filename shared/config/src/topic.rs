//! Topics: crawl goals that several teams have on one fleet, each with a scope and a share of its
//! own.

use super::defaults::default_section;
use super::error::ConfigError;
use super::keys::section;
use super::patterns::Patterns;
use super::recrawl::TopicRecrawl;
use super::scope::{Follow, Scope};
use super::stages::QualityProvider;
use super::tree::Tree;
use super::units::Bytes;
use super::usage::TopicUsage;
use std::time::Duration;

/// The topic of URLs without another. It is not configured.
pub const DEFAULT_TOPIC: &str = "default";
/// Topics that may be configured, at most: a scheduler numbers them in eight bits.
pub(super) const TOPICS_MAX: usize = 200;

section! {
    /// What is configured of a topic.
    pub struct Topic {
        /// What differs from `scope`, such as `{follow: domain, reject: ['/archive/']}`.
        pub scope: TopicScope,
        /// What differs from `usage`, such as `{purposes: [ai-train]}`.
        pub usage: TopicUsage,
        /// What differs from `recrawl`, such as `{policy: fresh, requests_per_second: 5}`.
        pub recrawl: TopicRecrawl,
        /// Its URLs go before those of topics of a lower one.
        #[key(default = "0", range = "0..9", live(HostSplitter, Scheduler, Parser))]
        pub priority: u8,
        /// Connection time of its turns among topics of its priority; as stages.scheduler.slice if
        /// it is left out.
        #[key(default = "null", range = "10ms..1h", live(HostSplitter, Scheduler, Parser))]
        pub slice: Option<Duration>,
        /// While it brings so many pages a minute, over all schedulers, its turns become shorter;
        /// 0: never.
        #[key(default = "0", range = "0..1000000000", live(HostSplitter, Scheduler, Parser))]
        pub pages_min: u64,
        /// Pages that it requests in a second at most, over all schedulers; 0: no limit.
        #[key(default = "0", range = "0..1000000", live(HostSplitter, Scheduler, Parser))]
        pub pages_per_second: u64,
        /// Bytes of bodies that it takes in a second at most, over all schedulers; 0: no limit.
        #[key(default = "0", range = "0..1TiB", live(HostSplitter, Scheduler, Parser))]
        pub bytes_per_second: Bytes,
        /// The most of all connections that it has, in per cent.
        #[key(default = "100", range = "1..100", live(HostSplitter, Scheduler, Parser))]
        pub connections_percent: u8,
        /// Pages with outcome fetched, over all schedulers; its other URLs wait for a larger
        /// budget, also if limits.over_budget is end, and a crawl ends without them. Not with
        /// limits.pages_per_domain, nor with limits.pages_per_host if limits.over_budget is wait;
        /// 0: no limit.
        #[key(default = "0", range = "0..1000000000000", live(HostSplitter, Scheduler, Parser))]
        pub pages_max: u64,
        /// Where the quality of its URLs comes from; as stages.scheduler.quality if it is left out.
        #[key(default = "null", live(HostSplitter, Scheduler, Parser))]
        pub quality: Option<QualityProvider>,
        /// Links to its URLs are followed no more.
        #[key(default = "false", live(HostSplitter, Scheduler, Parser))]
        pub removed: bool,
    }
}

impl Default for Topic {
    fn default() -> Self {
        default_section()
    }
}

section! {
    /// What differs from `scope`; what is left out is as there.
    pub struct TopicScope {
        /// Which hosts are followed; as scope.follow if it is left out.
        #[key(default = "null", live(HostSplitter, Scheduler, Parser))]
        pub follow: Option<Follow>,
        /// Links away from a seed; as scope.max_depth if it is left out.
        #[key(default = "null", range = "0..65535", live(HostSplitter, Scheduler, Parser))]
        pub max_depth: Option<u16>,
        /// As scope.prefixes, and in its place.
        #[key(default = "null", live(HostSplitter, Scheduler, Parser))]
        pub prefixes: Option<Vec<String>>,
        /// As scope.accept, and in its place.
        #[key(default = "null", live(HostSplitter, Scheduler, Parser))]
        pub accept: Option<Patterns>,
        /// As scope.reject, and in its place.
        #[key(default = "null", live(HostSplitter, Scheduler, Parser))]
        pub reject: Option<Patterns>,
    }
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

/// `topics.*.recrawl` was reserved once: false alone, which says nothing. Takes it out.
///
/// # Errors
/// It is true, which was never accepted.
pub(super) fn take_out_reserved(tree: &mut Tree) -> Result<(), ConfigError> {
    let Some(Tree::Object(topics)) = tree.get_mut("topics") else {
        return Ok(());
    };
    for (name, topic) in topics {
        let Some(said) = topic.get("recrawl").and_then(Tree::as_bool) else {
            continue;
        };
        if said {
            return Err(ConfigError::Type {
                key: format!("topics.{name}.recrawl"),
                value: Some(said.to_string()),
                error: "accepted is a section of keys, such as {policy: fresh}".to_owned(),
            });
        }
        if let Tree::Object(fields) = topic {
            fields.remove("recrawl");
        }
    }
    Ok(())
}
