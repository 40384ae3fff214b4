//! Budgets of visits: how many may be planned now, and pages of which pool are next.
//!
//! In: settings, and the passing of time. Out: tokens, of which a planned visit takes one, and the
//! order of the pools.
//!
//! The crawl has a budget, and so has each topic that says its own. Pages are compared with those
//! of their pool alone: of the same budget, and under the same policy, since what a visit is worth
//! by one policy says nothing by another. Pools take turns.
//!
//! Invariants: a budget is here exactly while a policy draws on it; what is spent of one is no
//! other's; tokens gather for a quarter of a second at most.

use crate::keys::topic::TopicIndex;
use crate::settings::Settings;
use rhumb_config::RecrawlPolicy;
use rhumb_url::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Tokens gather for no longer than this: so steady is the rate.
const GATHERED_MAX: Duration = Duration::from_millis(250);
/// Time between two steps that plan, at least. A token may wait so long for its step.
pub(crate) const PLAN_EVERY: Duration = Duration::from_millis(20);

/// Pages that are compared with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pool {
    /// The topic that has the budget for itself; that of the others for the crawl's.
    pub(crate) budget: TopicIndex,
    pub(crate) policy: RecrawlPolicy,
}

impl Pool {
    /// That of the pages of a topic.
    pub(crate) fn of(topic: &str, settings: &Settings) -> Self {
        let own = settings.topic_recrawls.get(topic);
        let has_budget = own.is_some_and(|own| own.requests_per_second.is_some());
        Pool {
            budget: match has_budget {
                true => settings.topics.of_name(topic),
                false => TopicIndex::OTHERS,
            },
            policy: settings.recrawl_of(topic).policy,
        }
    }
}

/// A budget of visits.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// Visits in a second, over all schedulers.
    per_second: u64,
    /// Those of this scheduler.
    rate: f64,
    /// Visits that may be planned now; less than one is kept for the next step.
    tokens: f64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    budgets: BTreeMap<TopicIndex, Budget>,
    /// In the order of their turns.
    pools: VecDeque<Pool>,
    /// Until when tokens were counted.
    pub(crate) counted: Timestamp,
}

impl Budgets {
    /// Those of the configuration, without tokens.
    pub(crate) fn new(settings: &Settings, now: Timestamp) -> Self {
        let mut this = Budgets {
            counted: now,
            ..Budgets::default()
        };
        // No topic has an empty name: it is of those that say nothing.
        let topics = settings.topic_recrawls.keys().map(String::as_str);
        for topic in std::iter::once("").chain(topics) {
            let pool = Pool::of(topic, settings);
            if pool.policy == RecrawlPolicy::None {
                continue;
            }
            this.budgets.entry(pool.budget).or_insert(Budget {
                per_second: settings.recrawl_of(topic).requests_per_second,
                ..Budget::default()
            });
            if !this.pools.contains(&pool) {
                this.pools.push_back(pool);
            }
        }
        this
    }

    /// Returns whether no page is visited again.
    pub(crate) fn is_empty(&self) -> bool {
        self.budgets.is_empty()
    }

    /// The budgets, with their visits in a second over all schedulers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (TopicIndex, u64)> {
        let all = self.budgets.iter();
        all.map(|(topic, budget)| (*topic, budget.per_second))
    }

    /// Time has passed. `rate`: visits in a second that this scheduler has of a budget.
    pub(crate) fn count(&mut self, now: Timestamp, rate: impl Fn(TopicIndex, u64) -> f64) {
        let passed_s = now.since(self.counted).as_secs_f64();
        for (topic, budget) in &mut self.budgets {
            let rate = rate(*topic, budget.per_second);
            let one = 1.0 + rate * PLAN_EVERY.as_secs_f64();
            let most = (rate * GATHERED_MAX.as_secs_f64()).max(one);
            budget.rate = rate;
            budget.tokens = (budget.tokens + rate * passed_s).min(most);
        }
        self.counted = now;
    }

    /// The pools of a budget.
    pub(crate) fn pools_of(&self, budget: TopicIndex) -> impl Iterator<Item = Pool> {
        let pools = self.pools.iter().copied();
        pools.filter(move |pool| pool.budget == budget)
    }

    /// The pools of which a visit may be planned now, in the order of their turns.
    pub(crate) fn ready(&self) -> impl Iterator<Item = Pool> {
        let has_token = |pool: &&Pool| {
            let budget = self.budgets.get(&pool.budget);
            budget.is_some_and(|budget| budget.tokens >= 1.0)
        };
        self.pools.iter().filter(has_token).copied()
    }

    /// A pool has had its turn: all others go before it.
    pub(crate) fn take_turn(&mut self, of: Pool) {
        self.pools.retain(|pool| *pool != of);
        self.pools.push_back(of);
    }

    /// A visit of a page of this pool was planned.
    pub(crate) fn spend(&mut self, of: Pool) {
        if let Some(budget) = self.budgets.get_mut(&of.budget) {
            budget.tokens -= 1.0;
        }
    }

    /// Visits in a second that this scheduler may plan of a budget; 0 of one that no policy draws
    /// on.
    pub(crate) fn rate(&self, budget: TopicIndex) -> f64 {
        let budget = self.budgets.get(&budget);
        budget.map_or(0.0, |budget| budget.rate)
    }

    /// The same of all budgets together.
    pub(crate) fn rate_of_all(&self) -> f64 {
        self.budgets.values().map(|budget| budget.rate).sum()
    }

    /// Returns whether no scheduler may plan a visit of a budget.
    pub(crate) fn has_none(&self, budget: TopicIndex) -> bool {
        let budget = self.budgets.get(&budget);
        budget.is_none_or(|budget| budget.per_second == 0)
    }

    /// The budgets that give visits, each with the time until it has a token; none if it has one.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (TopicIndex, Option<Duration>)> {
        let waits = move |(&topic, budget): (&TopicIndex, &Budget)| {
            let rate = budget.rate;
            let missing_s = (1.0 - budget.tokens) / rate;
            let wait = (missing_s > 0.0)
                .then(|| Duration::try_from_secs_f64(missing_s).unwrap_or(Duration::MAX));
            (rate > 0.0).then_some((topic, wait))
        };
        self.budgets.iter().filter_map(waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::topics::tests::topics;
    use crate::settings::tests::with;
    use rhumb_config::TopicRecrawl;

    fn own(policy: RecrawlPolicy, requests_per_second: Option<u64>) -> TopicRecrawl {
        TopicRecrawl {
            policy: Some(policy),
            requests_per_second,
            ..TopicRecrawl::default()
        }
    }

    /// Topics `t1`, `t2` and `t3` that say this, beside a crawl of ten visits a second.
    fn settings(policy: RecrawlPolicy, of_topics: [TopicRecrawl; 3]) -> Settings {
        with(|settings| {
            settings.topics = topics(&[(0, 1000); 3]);
            settings.recrawl.policy = policy;
            settings.recrawl.requests_per_second = 10;
            let names = ["t1", "t2", "t3"].map(str::to_owned);
            settings.topic_recrawls = names.into_iter().zip(of_topics).collect();
        })
    }

    #[test]
    fn each_budget_has_its_own_tokens_and_policies_of_one_take_turns() {
        let settings = settings(
            RecrawlPolicy::Fresh,
            [
                own(RecrawlPolicy::Uniform, Some(40)),
                own(RecrawlPolicy::Interval, None),
                own(RecrawlPolicy::None, Some(50)),
            ],
        );
        let mut budgets = Budgets::new(&settings, Timestamp::ZERO);
        assert_eq!(budgets.ready().count(), 0);
        let half = |_, per_second: u64| per_second as f64 / 2.0;
        budgets.count(Timestamp::ZERO + Duration::from_secs(9), half);
        assert_eq!(budgets.rate_of_all(), 25.0);
        let mut planned = BTreeMap::new();
        let next = |budgets: &Budgets| budgets.ready().next();
        while let Some(pool) = next(&budgets) {
            budgets.take_turn(pool);
            budgets.spend(pool);
            *planned.entry((pool.budget.0, pool.policy)).or_insert(0) += 1;
        }
        let expected = [
            ((0, RecrawlPolicy::Fresh), 1),
            ((1, RecrawlPolicy::Uniform), 5),
        ];
        assert_eq!(planned, expected.into());
        budgets.count(Timestamp::ZERO + Duration::from_secs(10), half);
        let first = next(&budgets).map(|pool| pool.policy);
        assert_eq!(first, Some(RecrawlPolicy::Interval), "it had no turn yet");
        let of_others = Pool::of("", &settings);
        assert_eq!(of_others, Pool::of("elsewhere", &settings));
    }

    #[test]
    fn a_budget_on_which_no_policy_draws_gives_nothing() {
        let none = own(RecrawlPolicy::None, Some(50));
        let settings = settings(RecrawlPolicy::None, [none; 3]);
        let budgets = Budgets::new(&settings, Timestamp::ZERO);
        assert!(budgets.is_empty() && budgets.has_none(TopicIndex::OTHERS));
    }
}
