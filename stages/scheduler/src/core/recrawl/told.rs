//! What is told of a known page: its visits, and when the next one comes, by the decisions that
//! plan visits.
//!
//! Invariant: a question changes nothing, and brings no server into memory.

use super::budgets::Pool;
use super::limits::{is_done, is_full, stands_back_until};
use super::{Recrawl, heeded};
use crate::budget::shares::Pages;
use crate::keys::budget::Budget;
use crate::keys::server_key::ServerKey;
use crate::known::record::{self, Record};
use crate::servers::in_play::Servers;
use crate::settings::Settings;
use crate::store::rows::Rows;
use crate::visits::KnownPage;
use rhumb_config::{Recrawl as Rules, RecrawlPolicy};
use rhumb_stage::store::StoreError;
use rhumb_stage::{Believed, KnownTold, NextVisit};
use rhumb_url::time::{Timestamp, millis};
use rhumb_url::{fingerprint, server_of};

/// Nobody waits for longer: 30 years, in seconds.
const WAIT_MAX_S: u64 = 1_000_000_000;

/// A question about known pages, and the parts that know the answer.
pub(crate) struct Question<'a> {
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a Settings,
    pub(crate) servers: &'a Servers,
}

impl Recrawl {
    /// What is known of the page of a URL; none when it is not known, or elsewhere.
    ///
    /// # Errors
    /// The store cannot be read, or the record is not understood.
    pub(crate) fn told(
        &self,
        question: &Question<'_>,
        url: &str,
    ) -> Result<Option<KnownTold>, StoreError> {
        let Question {
            now,
            settings,
            servers,
        } = *question;
        let key = servers.key_of(server_of(url));
        let Some(key) = key.filter(|key| servers.owns(key.partition)) else {
            return Ok(None);
        };
        let rows = Rows::new(servers.store().as_ref());
        let Some(record) = record::read(&rows, key, fingerprint(url))? else {
            return Ok(None);
        };
        let now_ms = settings.unix_ms(now);
        let topic = &record.origin.topic;
        let threshold_s = self.learned.threshold(Pool::of(topic, settings));
        let heeded = heeded(servers, key, &record)?;
        let wait = Wait {
            rules: settings.recrawl_of(topic),
            page: self.learned.page(&record, &heeded, settings),
            clock_ms: record.place().key.clock_ms,
            threshold_s,
        };
        let next = self.next(question, key, &record, &wait)?;
        let page = &wait.page;
        Ok(Some(KnownTold {
            visits: record.visits,
            age_s: now_ms.saturating_sub(record.asked_ms) as f64 / 1e3,
            state: record.state,
            difference: record.text.difference,
            change_s: self.learned.of(topic, settings).between_changes_s(&record),
            worth_s: page.value(now_ms).max(0.0),
            threshold_s,
            next,
            next_in_s: wait.next_in_s(next, now_ms),
            signals: heeded.count,
            believed: heeded.kind.map(|kind| Believed {
                kind,
                recall: heeded.signals.recall(),
                precision: 1.0 - heeded.signals.false_share(),
            }),
        }))
    }

    fn next(
        &self,
        question: &Question<'_>,
        key: ServerKey,
        record: &Record,
        wait: &Wait,
    ) -> Result<NextVisit, StoreError> {
        let Question {
            now,
            settings,
            servers,
        } = *question;
        if record.is_planned {
            return Ok(NextVisit::Planned);
        }
        if wait.rules.policy == RecrawlPolicy::None {
            return Ok(NextVisit::PolicyNone);
        }
        if is_done(record, settings) {
            return Ok(NextVisit::VisitsMax);
        }
        if servers.paused().order(server_of(&record.url)).is_some() || servers.paused().has_all() {
            return Ok(NextVisit::Paused);
        }
        let budget = Pool::of(&record.origin.topic, settings).budget;
        if self.budgets.has_none(budget) {
            return Ok(NextVisit::BudgetNone);
        }
        if servers.shares().budget(Pages::Crawl) == Budget::UsedUp {
            return Ok(NextVisit::PagesUsedUp);
        }
        if let Some(server) = servers.look_up(key)? {
            if stands_back_until(&server, now, settings).is_some() {
                return Ok(NextVisit::ServerAway);
            }
            if is_full(&server, settings) {
                return Ok(NextVisit::ServerFull);
            }
        }
        let now_ms = settings.unix_ms(now);
        let age_ms = now_ms.saturating_sub(record.asked_ms);
        let shortest_ms = millis(wait.rules.interval_min);
        // Signals may have ended it before its time.
        let is_early = now_ms.saturating_sub(wait.clock_ms) < shortest_ms;
        match age_ms < shortest_ms {
            true if is_early => return Ok(NextVisit::IntervalMin),
            false if is_early => return Ok(NextVisit::Fresh),
            _ => {}
        }
        let longest_ms = millis(wait.rules.interval_max);
        let is_late = longest_ms > 0 && age_ms >= longest_ms;
        Ok(match is_late || wait.is_worth_it(now_ms) {
            true => NextVisit::Due,
            false => NextVisit::Threshold,
        })
    }
}

/// A page that waits for its next visit.
struct Wait {
    /// By which it is visited again.
    rules: Rules,
    page: KnownPage,
    /// When it counts as visited, in milliseconds of Unix time.
    clock_ms: u64,
    /// What the last planned visits of its pool were worth; none before the first.
    threshold_s: Option<f64>,
}

impl Wait {
    /// Returns whether a visit of the page is worth what the last ones were.
    fn is_worth_it(&self, at_ms: u64) -> bool {
        let value = self.page.value(at_ms);
        value > 0.0 && value >= self.threshold_s.unwrap_or(0.0)
    }

    /// Seconds until the reason is over for which the page waits; none where nobody knows, or not
    /// within [`WAIT_MAX_S`].
    fn next_in_s(&self, next: NextVisit, now_ms: u64) -> Option<u64> {
        let early_ms = self
            .clock_ms
            .saturating_add(millis(self.rules.interval_min));
        let until = |at_ms: u64| at_ms.saturating_sub(now_ms).div_ceil(1000);
        match next {
            NextVisit::IntervalMin | NextVisit::Fresh => Some(until(early_ms)),
            NextVisit::Threshold => {
                let longest_ms = millis(self.rules.interval_max);
                let late = (longest_ms > 0).then(|| until(self.page.visited_ms + longest_ms));
                // A value never falls while a page waits.
                let is_worth_it =
                    |wait_s: u64| self.is_worth_it(now_ms.saturating_add(1000 * wait_s));
                let worth = is_worth_it(WAIT_MAX_S).then(|| first(WAIT_MAX_S, is_worth_it));
                late.into_iter().chain(worth).min()
            }
            _ => None,
        }
    }
}

/// The first number up to `most` for which a condition holds that holds from some number on, and
/// for `most`.
fn first(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let mut from = 0;
    let mut to = most;
    while from < to {
        let middle = from.midpoint(to);
        match holds(middle) {
            true => to = middle,
            false => from = middle + 1,
        }
    }
    to
}
