//! Shares: what this scheduler has of each budget of visits.
//!
//! In: what is at stake here, and the answers of ledgers. Out: claims, and the visits in a second
//! that may be planned here.
//!
//! Several schedulers divide a budget by its ledger ([`crate::quota`]), in thousandths of a visit a
//! second. Every [`ROUND`] each enters what it has at stake: how many pages it knows, and what the
//! best of them is worth. It takes the share to which that comes beside the others, by and by, as
//! far as they leave it. So a topic all of whose pages lie at one scheduler has its whole budget.
//!
//! Invariant: all schedulers together hold no more of a budget than it has. A share counts for
//! [`VALID_FOR`] after it was entered, and its owner enters it again in time. Others take out an
//! entry that has not changed for longer.

use crate::core::recrawl::Recrawl;
use crate::core::recrawl::budgets::Budgets;
use crate::core::work::Work;
use crate::keys::topic::TopicIndex;
use crate::quota::Quota;
use crate::quota::ledger::{Claim, ClaimAnswer, Holder, Holding, Takes};
use crate::quota::requests::Requests;
use crate::servers::in_play::Servers;
use crate::settings::Settings;
use crate::step::staged::Staged;
use crate::visits::Stake;
use foldhash::HashMap;
use rhumb_url::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Wait between two stakes.
const ROUND: Duration = Duration::from_secs(5);
/// How long a share counts after it was asked for.
const VALID_FOR: Duration = Duration::from_secs(15);
/// A scheduler is gone that has not entered its stake for so long.
const GONE_AFTER: Duration = Duration::from_secs(30);
/// No page is worth more: 30 years, in seconds.
const VALUE_MAX: f64 = 1e9;
/// A second of a value has so many parts.
const VALUE_PARTS: f64 = 1e6;
/// Tokens of a visit a second.
const TOKENS: u64 = 1_000;

/// What this scheduler holds of a budget.
#[derive(Debug, Default)]
struct State {
    tokens: u64,
    /// When they were asked for; none before the first answer.
    entered: Option<Timestamp>,
    /// Entries of others, and since when they have not changed.
    others: HashMap<Holder, (Holding, Timestamp)>,
}

/// What this scheduler holds of all budgets, beside others.
#[derive(Debug)]
pub(super) struct Shares {
    pub(super) requests: Requests<TopicIndex>,
    states: BTreeMap<TopicIndex, State>,
}

impl Shares {
    /// Nothing is held yet. None: the scheduler is alone, for the rest of its life, and has all.
    pub(super) fn open(
        settings: &Settings,
        (instance, epoch): (u16, u64),
        budgets: &Budgets,
        now: Timestamp,
    ) -> Option<Self> {
        let schedulers = settings.schedulers.clone();
        if schedulers.count < 2 {
            return None;
        }
        let mut requests = Requests::new(schedulers, Holder { instance, birth: 0 }, epoch);
        for (budget, _) in budgets.all() {
            requests.look(budget, now);
        }
        Some(Shares {
            requests,
            states: BTreeMap::new(),
        })
    }

    /// Visits in a second that are held of a budget.
    pub(super) fn rate(&self, budget: TopicIndex, now: Timestamp) -> f64 {
        let state = self.states.get(&budget);
        let is_valid = |state: &&State| {
            state
                .entered
                .is_some_and(|entered| now < entered + VALID_FOR)
        };
        let tokens = state.filter(is_valid).map_or(0, |state| state.tokens);
        tokens as f64 / TOKENS as f64
    }

    /// Asks for the share of a budget of so many visits in a second to which a stake comes.
    fn enter(
        &mut self,
        (budget, per_second): (TopicIndex, u64),
        stake: Stake,
        staged: &mut Staged<'_>,
    ) {
        let now = staged.now;
        let mut names = staged.settings.topics.names();
        let name = names.find(|(index, _)| *index == budget);
        let name = name.map_or("", |(_, name)| name);
        let quota = Quota::Visits(name.to_owned());
        let others = self.states.entry(budget).or_default().others.iter();
        let gone = others
            .filter(|(_, (_, since))| now.since(*since) >= GONE_AFTER)
            .map(|(holder, (holding, _))| (*holder, *holding))
            .collect();
        staged.messages.claim(Claim {
            max: per_second.saturating_mul(TOKENS),
            takes: Takes::Share(stake),
            may_change: true,
            gone,
            ..self.requests.claim(budget, quota, now)
        });
    }

    fn answered(&mut self, budget: TopicIndex, answer: &ClaimAnswer, now: Timestamp) {
        let asked = self.requests.answered(budget, answer.ledger.is_some(), now);
        let (Some(ledger), Some(asked)) = (&answer.ledger, asked) else {
            return;
        };
        let holder = answer.claim.holder;
        let state = self.states.entry(budget).or_default();
        // What a later life of this scheduler holds is not for this one.
        if ledger.has(&answer.claim) {
            state.tokens = ledger.held(holder);
            state.entered = Some(asked);
        }
        let before = std::mem::take(&mut state.others);
        state
            .others
            .extend(ledger.others(holder).map(|(other, holding)| {
                let known = before.get(&other).filter(|(known, _)| *known == holding);
                (other, (holding, known.map_or(now, |known| known.1)))
            }));
        self.requests.look(budget, asked + ROUND);
    }
}

impl Recrawl {
    /// Shares are claimed under this epoch from now on.
    pub(crate) fn owned_since(&mut self, epoch: u64) {
        if let Some(shares) = &mut self.shares {
            shares.requests.epoch = epoch;
        }
    }

    /// Enters what is at stake in the budgets whose time it is.
    pub(crate) fn enter_stakes(&mut self, work: &mut Work<'_>) {
        let now = work.staged.now;
        let now_ms = work.staged.settings.unix_ms(now);
        let Some(shares) = &mut self.shares else {
            return;
        };
        while let Some(budget) = shares.requests.next(now) {
            let Some((_, per_second)) = self.budgets.all().find(|(of, _)| *of == budget) else {
                continue;
            };
            let best = |pool| self.pages.next(pool, now_ms);
            let best = self.budgets.pools_of(budget).filter_map(best);
            let value = best.map(|(.., value)| value).fold(0.0, f64::max);
            let part = self.learned.part_of(budget, self.budgets.all().count());
            // One at least: pages that were not looked at yet have no other way to come to a visit.
            let pages = (known(work.servers) as f64 * part).round() as u64;
            let stake = Stake {
                pages: pages.max(1),
                value: written(value),
            };
            shares.enter((budget, per_second), stake, &mut work.staged);
        }
    }

    /// The ledger of a budget has answered.
    pub(crate) fn answered(&mut self, answer: &ClaimAnswer, staged: &Staged<'_>) {
        let (Some(shares), Quota::Visits(topic)) = (&mut self.shares, &answer.claim.quota) else {
            return;
        };
        let budget = staged.settings.topics.of_name(topic);
        shares.answered(budget, answer, staged.now);
    }
}

/// A value with so few digits that a ledger gives it back as it is.
fn written(value: f64) -> f64 {
    match value.is_finite() {
        true => (value.clamp(0.0, VALUE_MAX) * VALUE_PARTS).round() / VALUE_PARTS,
        false => 0.0,
    }
}

/// Pages that are known here, and do not rest.
fn known(servers: &Servers) -> u64 {
    let of_partitions = servers.partitions().map(|(_, partition)| {
        let counts = &partition.counts;
        let resting = counts.rested.saturating_sub(counts.woken);
        let left = counts.known.saturating_sub(counts.forgotten);
        left.saturating_sub(resting)
    });
    of_partitions.sum()
}
