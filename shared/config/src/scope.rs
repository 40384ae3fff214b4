//! The scope: which hosts are followed, and which of their URLs pass.

use super::keys::{choice, section};
use super::patterns::Patterns;
use serde::Serialize;

section! {
    /// The scope of a crawl, or of a topic.
    #[derive(Serialize)]
    pub struct Scope {
        /// Which hosts are followed.
        #[key(default = "host")]
        pub follow: Follow,
        /// Links away from a seed; 0: the seeds alone.
        #[key(default = "65535", range = "0..65535", live(HostSplitter, Scheduler))]
        pub max_depth: u16,
        /// If any: only URLs whose SURT form begins with one, such as
        /// `https://(org,example,)/docs/`.
        #[key(default = "[]", live(HostSplitter))]
        pub prefixes: Vec<String>,
        /// If any: only URLs that match one of these regular expressions.
        #[key(default = "[]", live(HostSplitter))]
        pub accept: Patterns,
        /// No URLs that match one of these regular expressions.
        #[key(default = "[]", live(HostSplitter))]
        pub reject: Patterns,
    }
}

choice! {
    /// Which hosts a topic follows.
    #[derive(Serialize)]
    pub enum Follow {
        /// Hosts of the seeds.
        #[serde(rename = "host")]
        Host,
        /// Their registered domains.
        #[serde(rename = "domain")]
        Domain,
        /// All.
        #[serde(rename = "any")]
        Any,
    }
}
