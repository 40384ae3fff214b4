//! The numbers of recrawl, as `rhumb status` and the metrics have them.
//!
//! Invariant: without a policy each of them is 0, but what the configuration says.

use super::Recrawl;
use super::budgets::Pool;
use crate::keys::topic::TopicIndex;
use crate::servers::in_play::Servers;
use crate::settings::Settings;
use rhumb_config::{DEFAULT_TOPIC, RecrawlPolicy};
use rhumb_stage::{Count, LabelledCount};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

impl Recrawl {
    /// All of them.
    pub(crate) fn counts(&self, settings: &Settings, servers: &Servers) -> Vec<Count> {
        let budget = self.budgets.rate_of_all() * HOUR.as_secs_f64();
        let overdue = self.overdue(settings, servers);
        let mut counts = vec![
            ("visits_on", (!self.budgets.is_empty()).into()),
            ("visits_max", visits_max(settings).into()),
            ("visits_budget_per_hour", budget.round() as u64),
            ("visits_threshold_seconds", self.threshold_s("", settings)),
            ("visits_overdue_seconds", overdue.as_secs()),
        ];
        counts.extend(self.learned.expected.counts());
        counts.extend(self.heard.counts());
        counts
    }

    /// Those of each kind of signal, and of each topic.
    pub(crate) fn labelled_counts(&self, settings: &Settings) -> Vec<LabelledCount> {
        let mut counts = self.of_topics(settings);
        counts.extend(self.heard.labelled_counts());
        counts
    }

    /// Those of each topic; none where there is one topic alone. Of the default one they are those
    /// of the crawl's budget.
    fn of_topics(&self, settings: &Settings) -> Vec<LabelledCount> {
        let topics = &settings.topics;
        if topics.is_one() {
            return Vec::new();
        }
        let of = |(index, name): (TopicIndex, &str)| {
            let budget = self.budgets.rate(index) * HOUR.as_secs_f64();
            let label_value = match index {
                TopicIndex::OTHERS => DEFAULT_TOPIC,
                _ => name,
            };
            let threshold_s = self.threshold_s(name, settings);
            let numbers = [
                ("topic_visits_budget_per_hour", budget.round() as u64),
                ("topic_visits_threshold_seconds", threshold_s),
            ];
            numbers.map(|(count, value)| LabelledCount {
                count,
                label: "topic",
                label_value: label_value.to_owned(),
                value,
            })
        };
        topics.names().flat_map(of).collect()
    }

    /// What the last planned visits were worth of the pool of a topic.
    fn threshold_s(&self, topic: &str, settings: &Settings) -> u64 {
        let threshold = self.learned.threshold(Pool::of(topic, settings));
        threshold.unwrap_or(0.0).round() as u64
    }

    /// By how much a page is older than its longest interval, as of the last step, at most. Pages
    /// that are planned do not count, nor those that may not be visited.
    fn overdue(&self, settings: &Settings, servers: &Servers) -> Duration {
        if self.budgets.is_empty() || servers.paused().has_all() {
            return Duration::ZERO;
        }
        let now_ms = settings.unix_ms(self.budgets.counted);
        let late_ms = self.pages.late_from_ms();
        let late_ms = late_ms.map_or(0, |from_ms| now_ms.saturating_sub(from_ms));
        Duration::from_millis(late_ms)
    }
}

/// Visits that a page has at most, by the rules that allow most of those by which pages are visited
/// again; 0: some have them without end.
fn visits_max(settings: &Settings) -> u32 {
    let on = settings.recrawls();
    let on = on.filter(|recrawl| recrawl.policy != RecrawlPolicy::None);
    let most = on.map(|recrawl| recrawl.visits_max).reduce(|one, other| {
        let is_endless = one == 0 || other == 0;
        if is_endless { 0 } else { one.max(other) }
    });
    most.unwrap_or(settings.recrawl.visits_max)
}
