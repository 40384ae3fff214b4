//! Whether, and how often, pages are visited again that were fetched before.

use super::defaults::default_section;
use super::keys::{choice, section};
use serde::Serialize;
use std::time::Duration;

section! {
    /// Whether known pages are visited again.
    #[derive(Copy)]
    pub struct Recrawl {
        /// Which known page is visited next. With another rule than none a crawl never ends by
        /// itself. Pages that ended while the rule was none are not known.
        #[key(default = "none", live(Scheduler, Fetcher, Archiver))]
        pub policy: RecrawlPolicy,
        /// Visits of known pages in a second, over all schedulers, but for pages of topics that say
        /// this themselves.
        #[key(default = "1", range = "0..1000000", live(Scheduler))]
        pub requests_per_second: u64,
        /// Of the requests of a connection so many in a hundred may be for known pages, while URLs
        /// that are new wait at its server.
        #[key(default = "50", range = "1..100", live(Scheduler))]
        pub connections_percent: u8,
        /// No page is visited again sooner, unless a signal that is believed says that it changed.
        /// What is known of how often pages change begins anew where this becomes much shorter or
        /// longer.
        #[key(default = "1h", range = "1s..8760h", live(Scheduler))]
        pub interval_min: Duration,
        /// A page that was not visited for so long goes before all others; 0s: none does.
        #[key(default = "0s", range = "0s..87600h", live(Scheduler))]
        pub interval_max: Duration,
        /// No page is visited again while it says that it is fresh (RFC 9111), for so long at most,
        /// unless a signal that is believed says that it changed.
        #[key(default = "1h", range = "0s..8760h", live(Scheduler))]
        pub cache_lifetime_max: Duration,
        /// A page that is gone is visited no more once it has been gone for so long, and is known
        /// no more: it comes back with rhumb inject --again alone. 0s: it is never forgotten.
        #[key(default = "0s", range = "0s..87600h", live(Scheduler))]
        pub forget_after: Duration,
        /// A page has no more visits, the first included; 0: it has them without end.
        #[key(default = "0", range = "0..1000000", live(Scheduler))]
        pub visits_max: u32,
    }
}

section! {
    /// What differs from `recrawl`; what is left out is as there.
    #[derive(Copy, Default)]
    pub struct TopicRecrawl {
        /// As recrawl.policy, for the pages of this topic; with none they are not visited again.
        #[key(default = "null", live(Scheduler, Fetcher, Archiver))]
        pub policy: Option<RecrawlPolicy>,
        /// A budget of its own: visits of its pages in a second, over all schedulers. Without one
        /// its pages share that of recrawl.requests_per_second.
        #[key(default = "null", range = "0..1000000", live(Scheduler))]
        pub requests_per_second: Option<u64>,
        /// As recrawl.interval_min.
        #[key(default = "null", range = "1s..8760h", live(Scheduler))]
        pub interval_min: Option<Duration>,
        /// As recrawl.interval_max.
        #[key(default = "null", range = "0s..87600h", live(Scheduler))]
        pub interval_max: Option<Duration>,
        /// As recrawl.cache_lifetime_max.
        #[key(default = "null", range = "0s..8760h", live(Scheduler))]
        pub cache_lifetime_max: Option<Duration>,
        /// As recrawl.forget_after.
        #[key(default = "null", range = "0s..87600h", live(Scheduler))]
        pub forget_after: Option<Duration>,
        /// As recrawl.visits_max.
        #[key(default = "null", range = "0..1000000", live(Scheduler))]
        pub visits_max: Option<u32>,
    }
}

impl TopicRecrawl {
    /// The whole section.
    pub fn over(&self, recrawl: &Recrawl) -> Recrawl {
        Recrawl {
            policy: self.policy.unwrap_or(recrawl.policy),
            requests_per_second: self
                .requests_per_second
                .unwrap_or(recrawl.requests_per_second),
            // It is of connections, which belong to servers.
            connections_percent: recrawl.connections_percent,
            interval_min: self.interval_min.unwrap_or(recrawl.interval_min),
            interval_max: self.interval_max.unwrap_or(recrawl.interval_max),
            cache_lifetime_max: self
                .cache_lifetime_max
                .unwrap_or(recrawl.cache_lifetime_max),
            forget_after: self.forget_after.unwrap_or(recrawl.forget_after),
            visits_max: self.visits_max.unwrap_or(recrawl.visits_max),
        }
    }
}

choice! {
    /// Which known page is visited next.
    #[derive(PartialOrd, Ord, Serialize)]
    pub enum RecrawlPolicy {
        /// None: each page is fetched once.
        #[serde(rename = "none")]
        None,
        /// The one for which a visit makes the copy current for the longest time, by how often its
        /// page was seen to change.
        #[serde(rename = "fresh")]
        Fresh,
        /// The one that is latest by its interval, which each change makes shorter and each visit
        /// without one longer, as Nutch and StormCrawler do it.
        #[serde(rename = "interval")]
        Interval,
        /// The one that was visited longest ago.
        #[serde(rename = "uniform")]
        Uniform,
    }
}

impl Default for Recrawl {
    fn default() -> Self {
        default_section()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pipeline;
    use super::super::load::Layers;
    use super::*;
    use crate::orders::{Author, Setting};
    use serde_json::json;

    fn pipeline(set: &[&str]) -> Result<Pipeline, String> {
        // It is of no public web.
        let set = [&["network.allow_private_addresses=true"], set].concat();
        let layers = Layers {
            set: set.iter().map(|text| (*text).to_owned()).collect(),
            ..Layers::default()
        };
        let pipeline = layers.load_with(std::iter::empty());
        pipeline.map_err(|error| error.to_string())
    }

    fn setting(key: &str, value: serde_json::Value) -> Setting {
        Setting {
            key: key.to_owned(),
            value,
            author: Author::default(),
        }
    }

    #[test]
    fn a_topic_says_what_differs() {
        let pipeline = pipeline(&[
            "recrawl={policy: uniform, interval_min: 2h, forget_after: 9h}",
            "topics.news.recrawl={policy: fresh, requests_per_second: 5, interval_min: 10s, \
             interval_max: 1h, cache_lifetime_max: 1m, visits_max: 7}",
            "topics.docs.recrawl.policy=none",
            "topics.shop.priority=1",
        ])
        .unwrap();
        let policies =
            ["news", "docs", "shop", "other"].map(|name| pipeline.recrawl_of(name).policy);
        let [news, docs] = ["news", "docs"].map(|name| pipeline.recrawl_of(name));
        assert_eq!(
            policies,
            [
                RecrawlPolicy::Fresh,
                RecrawlPolicy::None,
                RecrawlPolicy::Uniform,
                RecrawlPolicy::Uniform
            ]
        );
        let spans = |of: &Recrawl| {
            [
                of.interval_min,
                of.interval_max,
                of.cache_lifetime_max,
                of.forget_after,
            ]
            .map(|span| span.as_secs())
        };
        assert_eq!(spans(&news), [10, 3_600, 60, 9 * 3_600]);
        assert_eq!(spans(&docs), [2 * 3_600, 0, 3_600, 9 * 3_600]);
        assert_eq!((news.requests_per_second, news.visits_max), (5, 7));
        assert_eq!((docs.requests_per_second, docs.visits_max), (1, 0));
    }

    #[test]
    fn pages_are_visited_again_where_the_crawl_or_a_topic_has_a_policy() {
        let visits_again = |set: &[&str]| pipeline(set).unwrap().visits_again();
        assert!(!visits_again(&[]));
        assert!(!visits_again(&["topics.a.recrawl.policy=none"]));
        assert!(visits_again(&["topics.a.recrawl.policy=interval"]));
        assert!(visits_again(&[
            "recrawl.policy=fresh",
            "topics.a.recrawl.policy=none"
        ]));
    }

    #[test]
    fn what_is_checked_of_the_crawl_is_checked_of_each_topic_in_the_name_of_its_keys() {
        for (set, key, accepted) in [
            (
                &["topics.a.recrawl.interval_min=0s"][..],
                "topics.a.recrawl.interval_min",
                "1s",
            ),
            (
                &["topics.a.recrawl.requests_per_second=1000001"],
                "topics.a.recrawl.requests_per_second",
                "1000000",
            ),
            (
                &["topics.a.recrawl.policy=often"],
                "topics.a.recrawl.policy",
                "uniform",
            ),
            (
                &["topics.a.recrawl.connections_percent=5"],
                "topics.a.recrawl.connections_percent",
                "interval_max",
            ),
            (
                &[
                    "recrawl={policy: uniform, visits_max: 3}",
                    "topics.a.recrawl.policy=fresh",
                ],
                "topics.a.recrawl.visits_max = 3",
                "topics.a.recrawl.interval_max",
            ),
            (
                &[
                    "recrawl={policy: fresh, visits_max: 3, interval_max: 9h}",
                    "topics.a.recrawl.interval_max=0s",
                ],
                "topics.a.recrawl.visits_max = 3",
                "topics.a.recrawl.interval_max",
            ),
        ] {
            let error = pipeline(set).unwrap_err();
            assert!(error.contains(key) && error.contains(accepted), "{error}");
        }
        let of_crawl = [
            "recrawl={policy: fresh, visits_max: 3}",
            "topics.a.recrawl.forget_after=9h",
        ];
        let error = pipeline(&of_crawl).unwrap_err();
        assert!(
            !error.contains("topics.a"),
            "it has that of the crawl: {error}"
        );
    }

    #[test]
    fn a_file_that_says_false_as_the_key_was_once_reserved_is_read_as_before() {
        let before = pipeline(&["topics.a={recrawl: false, priority: 3}"]).unwrap();
        assert_eq!(before.recrawl_of("a").policy, RecrawlPolicy::None);
        assert_eq!(before.topics["a"].priority, 3);
        let set = [setting("topics.a.recrawl.policy", json!("uniform"))];
        let set = before.with(&set).unwrap();
        assert_eq!(set.recrawl_of("a").policy, RecrawlPolicy::Uniform);
        let error = pipeline(&["topics.a.recrawl=true"]).unwrap_err();
        for part in ["topics.a.recrawl", "true", "a section of keys"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_topic_is_given_its_own_while_the_crawl_runs_and_goes_back_to_the_crawls() {
        let configured = pipeline(&["recrawl={policy: uniform, visits_max: 2}"]).unwrap();
        let own = [
            setting("topics.a.recrawl.requests_per_second", json!(7)),
            setting("topics.a.recrawl.interval_min", json!("5s")),
        ];
        let of = |pipeline: &Pipeline| {
            let of = pipeline.recrawl_of("a");
            (of.requests_per_second, of.interval_min.as_secs())
        };
        let set = configured.with(&own).unwrap();
        assert_eq!(
            (of(&set), of(&set.with(&[]).unwrap())),
            ((7, 5), (1, 3_600))
        );
        let refused = setting("topics.a.recrawl.policy", json!("fresh"));
        let error = configured.with(&[refused]).unwrap_err().to_string();
        assert!(error.contains("topics.a.recrawl.visits_max = 2"), "{error}");
        let section = setting("topics.a.recrawl", json!({"policy": "uniform"}));
        assert!(
            configured.with(&[section]).is_err(),
            "keys are set one by one"
        );
    }
}
