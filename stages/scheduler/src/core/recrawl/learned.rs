//! What is learned of how often pages change: of each page, of all of them, and what a visit is
//! worth.
//!
//! In: visits that ended, and what parsers say of texts. Out: the estimate of a page, its class,
//! and what a visit of it is worth.
//!
//! What counts is whether the text of a page changed. The parser says so some seconds before or
//! after the report of the visit. Until then another body counts as another text, and for good
//! where the parser cannot tell, or says it after the page's next visit.
//!
//! What all pages are like, the prior, is the mean over all known pages. They are looked at one
//! after the other, a few with each visit that ends: a mean over those that are visited would be
//! one of the pages that change most. Pages whose shortest intervals ask for other rates are
//! learned of apart. What a visit has to be worth, the threshold, is that of each pool.

use crate::core::recrawl::budgets::Pool;
use crate::core::recrawl::expected::{Expected, Seen};
use crate::core::recrawl::trust::Trust;
use crate::core::work::Work;
use crate::frontier::visited::Visited;
use crate::keys::topic::TopicIndex;
use crate::known::record::{KNOWN, RECORD_KEY_BYTES, Record};
use crate::known::unjudged::Unjudged;
use crate::settings::Settings;
use crate::visits::{
    Census, Dated, Estimate, Heeded, Interval, KnownPage, Posterior, Prior, Rates, Rule, Signalled,
    Signals, Threshold, Visit, VisitKey,
};
use rhumb_config::{Recrawl, RecrawlPolicy};
use rhumb_stage::Difference;
use rhumb_stage::store::StoreError;
use rhumb_url::time::millis;
use rhumb_url::{fingerprint, noise};
use rhumb_wire::message::{Change, PageState, SeenText};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Records that are looked at with each visit that ends.
const LOOKED_AT: usize = 4;
/// The importance of a page of no quality: it is visited when nothing else is worth more.
const IMPORTANCE_MIN: f64 = 1e-3;

/// What is learned of all pages.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// Of the pages whose shortest interval is the crawl's, …
    of_crawl: OfRates,
    /// … and of those of topics whose shortest interval asks for other rates.
    of_topics: Vec<OfRates>,
    /// Where the census goes on.
    at: Vec<u8>,
    thresholds: BTreeMap<Pool, Threshold>,
    pub(crate) expected: Expected,
    /// Pages that were looked at, by budget: in the look at all that goes on, …
    looked_at: BTreeMap<TopicIndex, u64>,
    /// … and in the last one.
    last_look: BTreeMap<TopicIndex, u64>,
}

/// What is learned between the same rates of change.
#[derive(Debug, Default)]
pub(crate) struct OfRates {
    rates: Rates,
    /// How many steps faster than the default ones these rates are.
    steps: u8,
    prior: Prior,
    census: Census,
}

/// How many steps faster rates are for pages under these rules.
fn steps_for(recrawl: &Recrawl) -> u8 {
    Rates::steps_for(recrawl.interval_min.as_secs_f64())
}

impl Learned {
    /// Nothing yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        let of_crawl = steps_for(&settings.recrawl);
        let of_all = settings.recrawls().map(|recrawl| steps_for(&recrawl));
        let others: BTreeSet<u8> = of_all.filter(|steps| *steps != of_crawl).collect();
        Learned {
            of_crawl: OfRates::new(of_crawl),
            of_topics: others.into_iter().map(OfRates::new).collect(),
            ..Learned::default()
        }
    }

    /// A visit of that value was planned.
    pub(crate) fn bought(&mut self, pool: Pool, value: f64) {
        self.thresholds.entry(pool).or_default().learn(value);
    }

    /// What the last visits that were planned of a pool were worth; none before the first.
    pub(crate) fn threshold(&self, pool: Pool) -> Option<f64> {
        self.thresholds.get(&pool)?.get()
    }

    /// What is learned of pages such as those of a topic.
    pub(crate) fn of(&self, topic: &str, settings: &Settings) -> &OfRates {
        let steps = steps_for(&settings.recrawl_of(topic));
        let of_topic = self.of_topics.iter().find(|of| of.steps == steps);
        of_topic.unwrap_or(&self.of_crawl)
    }

    /// What a visit of a page is worth.
    pub(crate) fn page(&self, record: &Record, heeded: &Heeded, settings: &Settings) -> KnownPage {
        self.of(&record.origin.topic, settings)
            .page(record, heeded, settings)
    }

    /// Where a page lies by its last visit, and its signals since.
    pub(crate) fn key(&self, record: &Record, heeded: &Heeded, settings: &Settings) -> VisitKey {
        let threshold = self
            .thresholds
            .get(&Pool::of(&record.origin.topic, settings));
        let threshold = threshold.copied().unwrap_or_default();
        self.page(record, heeded, settings).key(&threshold)
    }

    /// The importance of news of a page that has changed: that of the page, unless no visit of it is
    /// ever worth what visits have to be.
    pub(crate) fn importance_of_news(&self, record: &Record, settings: &Settings) -> f64 {
        let page = self.page(record, &Heeded::default(), settings);
        let threshold = self.threshold(Pool::of(&record.origin.topic, settings));
        match page.value(u64::MAX) >= threshold.unwrap_or(0.0) {
            true => importance(record, settings),
            false => 0.0,
        }
    }

    /// The part of the known pages that a budget is for, by those that were looked at. `budgets`: how
    /// many there are; all have as many pages while none was looked at.
    pub(crate) fn part_of(&self, budget: TopicIndex, budgets: usize) -> f64 {
        let looks = [&self.looked_at, &self.last_look];
        let of_budget = |look: &&BTreeMap<_, _>| look.get(&budget).copied().unwrap_or(0u64);
        let all: u64 = looks.iter().flat_map(|look| look.values()).sum();
        match all {
            0 => 1.0 / budgets.max(1) as f64,
            _ => looks.iter().map(of_budget).sum::<u64>() as f64 / all as f64,
        }
    }

    /// Looks at some known pages. When all were looked at, their mean is the prior of all.
    ///
    /// # Errors
    /// The store cannot be read, or a record is not understood.
    pub(crate) fn look_around(&mut self, work: &Work<'_>) -> Result<(), StoreError> {
        let now_ms = work.staged.settings.unix_ms(work.staged.now);
        let mut looked_at = 0;
        let mut last = None;
        let of_crawl = &mut self.of_crawl;
        let of_topics = &mut self.of_topics;
        let expected = &mut self.expected;
        let by_budget = &mut self.looked_at;
        let settings = work.staged.settings;
        work.servers.store().scan(
            KNOWN,
            &self.at,
            &[u8::MAX; RECORD_KEY_BYTES],
            &mut |key, row| {
                // What cannot be read says nothing; a visit of it stops the stage.
                if let Some(known) = Record::from_row(row) {
                    let of_all = std::iter::once(&mut *of_crawl).chain(of_topics.iter_mut());
                    for of in of_all.filter(|of| of.steps == known.steps) {
                        expected.look_at(&known, &of.look_at(&known), now_ms);
                    }
                    let pool = Pool::of(&known.origin.topic, settings);
                    if pool.policy != RecrawlPolicy::None {
                        *by_budget.entry(pool.budget).or_default() += 1;
                    }
                }
                last = Some(key.to_vec());
                looked_at += 1;
                looked_at < LOOKED_AT
            },
        )?;
        match last {
            Some(mut key) if looked_at == LOOKED_AT => {
                key.push(0);
                self.at = key;
            }
            _ => {
                self.of_crawl.renew();
                self.of_topics.iter_mut().for_each(OfRates::renew);
                self.expected.end_look();
                self.last_look = std::mem::take(&mut self.looked_at);
                self.at.clear();
            }
        }
        Ok(())
    }
}

impl OfRates {
    fn new(steps: u8) -> Self {
        OfRates {
            rates: Rates::faster(steps),
            steps,
            ..OfRates::default()
        }
    }

    /// Counts a page of these rates. Gives what is known of it.
    fn look_at(&mut self, known: &Record) -> Posterior {
        let posterior = Posterior::new(known.estimate, &self.prior, &self.rates);
        self.census.add(&posterior);
        posterior
    }

    /// All pages were looked at.
    fn renew(&mut self) {
        self.prior = std::mem::take(&mut self.census).prior();
    }

    /// What a visit of a page is worth.
    fn page(&self, record: &Record, heeded: &Heeded, settings: &Settings) -> KnownPage {
        let hub = &record.hub;
        let rule = match settings.recrawl_of(&record.origin.topic).policy {
            RecrawlPolicy::Fresh if hub.is_one() => {
                return KnownPage {
                    importance: hub.importance(),
                    rule: Rule::Fresh {
                        posterior: hub.posterior(),
                        signals: Signals::NONE,
                    },
                    visited_ms: record.asked_ms,
                    signals: 0,
                };
            }
            RecrawlPolicy::Fresh => Rule::Fresh {
                posterior: self.posterior(record),
                signals: heeded.signals,
            },
            RecrawlPolicy::Interval => Rule::Interval(interval(record, settings)),
            RecrawlPolicy::Uniform | RecrawlPolicy::None => Rule::Uniform,
        };
        KnownPage {
            importance: importance(record, settings),
            rule,
            visited_ms: record.asked_ms,
            signals: heeded.count,
        }
    }

    /// The expected time between two changes of a page, in seconds.
    pub(crate) fn between_changes_s(&self, record: &Record) -> f64 {
        1.0 / self.posterior(record).mean()
    }

    fn posterior(&self, record: &Record) -> Posterior {
        let is_of_these = record.steps == self.steps;
        let estimate = if is_of_these {
            record.estimate
        } else {
            Estimate::default()
        };
        Posterior::new(estimate, &self.prior, &self.rates)
    }

    /// A visit of a page has ended: what it found goes into the record. Gives what was expected of
    /// the visit before, if nobody has said in time what that found of the text, and of this one,
    /// if it tells by itself whether the page has changed.
    pub(crate) fn take(
        &self,
        record: &mut Record,
        visited: &Visited,
        trust: &mut Trust,
        settings: &Settings,
        now_ms: u64,
    ) -> [Option<Seen>; 2] {
        let mut seen = None;
        let untold = self.unjudged(record);
        let untold = untold.map(|before| self.judge(&before, trust, true));
        let finding = visited.finding;
        if record.steps != self.steps {
            record.estimate = Estimate::default();
            record.steps = self.steps;
        }
        // The clock of a fetcher may be another one.
        let at_ms = match visited.fetched_at_ms {
            0 => now_ms,
            fetched_at_ms => fetched_at_ms.clamp(record.asked_ms.min(now_ms), now_ms),
        };
        // Nobody knows how the body was before of a page that was given as known, nor how it is now
        // when it was cut.
        let has_bodies = record.body != 0 && visited.body != 0;
        let is_compared = has_bodies || finding.change == Change::Unchanged;
        let is_told = finding.before != PageState::None && finding.before == finding.after;
        match finding.change {
            Change::Changed | Change::Unchanged if is_told && is_compared => {
                let is_changed = finding.change == Change::Changed;
                let dated = Dated {
                    dates: visited.dates,
                    at_s: at_ms as f64 / 1e3,
                    wait_s: at_ms.saturating_sub(record.answered_ms) as f64 / 1e3,
                    is_changed,
                };
                trust.dates.learn(&dated);
                let recrawl = settings.recrawl_of(&record.origin.topic);
                let signalled = match recrawl.policy {
                    RecrawlPolicy::Fresh => record.signalled.until(at_ms),
                    _ => Signalled::default(),
                };
                let before = self.learn(record, &dated, &signalled, trust, settings);
                match is_changed && finding.after == PageState::Page {
                    true => record.text.unjudged = before,
                    false => seen = before.map(|before| self.judge(&before, trust, is_changed)),
                }
            }
            // It says nothing of the page, and is no reason to come again soon.
            Change::None => {
                record.interval_s = interval(record, settings).after(false).as_secs() as u64;
            }
            _ => {}
        }
        if finding.change != Change::None {
            record.signalled = record.signalled.since(at_ms, now_ms);
        }
        keep(record, visited, at_ms, has_bodies, settings);
        [untold, seen]
    }

    /// Learns from a visit. Gives what was known before; none where it teaches nothing.
    fn learn(
        &self,
        record: &mut Record,
        dated: &Dated,
        signalled: &Signalled,
        trust: &Trust,
        settings: &Settings,
    ) -> Option<Unjudged> {
        let &Dated {
            wait_s, is_changed, ..
        } = dated;
        let interval_s = record.interval_s;
        let next = interval(record, settings).after(is_changed).as_secs();
        record.interval_s = next as u64;
        if wait_s <= 0.0 {
            return None;
        }
        let first_s = record.answered_ms as f64 / 1e3;
        if record.visits == 1
            && let Some(age_s) = trust.dates.first_age_s(dated.dates.before_s, first_s)
        {
            // Only now it is known what the date of the first visit was worth.
            let random = random(fingerprint(&record.url), 0);
            record.estimate = Estimate::of_age(age_s, &self.rates, random);
        }
        let heeded = trust.signals.heeded(signalled);
        let visit = Visit {
            wait_s,
            is_changed,
            signals: heeded.count,
            age_s: trust.dates.age_s(dated),
        };
        let estimate = record.estimate;
        self.add(record, &visit, &heeded.signals, record.visits);
        Some(Unjudged {
            estimate,
            interval_s,
            wait_ms: (1e3 * wait_s) as u64,
            signalled: *signalled,
        })
    }

    /// Adds what a visit found to the estimate; `number`: any that the visit has for itself.
    fn add(&self, record: &mut Record, visit: &Visit, signals: &Signals, number: u32) {
        let mean = self.posterior(record).mean();
        let random = random(fingerprint(&record.url), number);
        record.estimate = record
            .estimate
            .after(visit, signals, mean, &self.rates, random);
    }

    /// A parser says what the last visit of a page found of its text. Another body with the same
    /// text then counts as no change. Gives what was expected of the visit, where it was waited
    /// for.
    pub(crate) fn read(
        &self,
        record: &mut Record,
        seen: &SeenText,
        trust: &mut Trust,
        settings: &Settings,
    ) -> Option<Seen> {
        record.text.known = seen.known;
        let is_changed = seen.is_changed?;
        let before = self.unjudged(record)?;
        record.text.difference = match is_changed {
            true => Difference::OtherText,
            false => Difference::SameText,
        };
        if !is_changed {
            record.interval_s = before.interval_s;
            record.interval_s = interval(record, settings).after(false).as_secs() as u64;
            record.estimate = before.estimate;
            let visit = Visit {
                wait_s: before.wait_s(),
                is_changed,
                signals: 0,
                age_s: None,
            };
            let number = record.visits.saturating_sub(1);
            self.add(record, &visit, &Signals::NONE, number);
        }
        Some(self.judge(&before, trust, is_changed))
    }

    /// What was known of a page before its last visit, if nobody has said yet what that found of
    /// the text.
    fn unjudged(&self, record: &mut Record) -> Option<Unjudged> {
        let before = record.text.unjudged.take();
        before.filter(|_| record.steps == self.steps)
    }

    /// It is known by now whether a visit found a change: the signals before it are judged by that.
    /// Gives what was expected of the visit.
    fn judge(&self, before: &Unjudged, trust: &mut Trust, is_changed: bool) -> Seen {
        let posterior = Posterior::new(before.estimate, &self.prior, &self.rates);
        let wait_s = before.wait_s();
        let Heeded { signals, count, .. } = trust.signals.heeded(&before.signalled);
        let expected = 1.0 - posterior.unchanged_signalled(wait_s, count, &signals);
        for kind in before.signalled.kinds() {
            let visit = Visit {
                wait_s,
                is_changed,
                signals: before.signalled.count(kind),
                age_s: None,
            };
            trust.signals.learn(kind, &visit, &posterior);
        }
        Seen {
            expected,
            is_changed,
        }
    }
}

/// What a visit at that time found of its page goes into the record. `has_bodies`: the bodies of
/// before and of now are known.
fn keep(record: &mut Record, visited: &Visited, at_ms: u64, has_bodies: bool, settings: &Settings) {
    let finding = visited.finding;
    // That of a page that is injected again is a first visit, too.
    record.visits = record.visits.max(visited.visit);
    record.state = finding.after;
    record.is_missed = finding.is_missed;
    record.asked_ms = at_ms;
    if finding.change != Change::None {
        let wait_ms = at_ms.saturating_sub(record.answered_ms);
        record.hub = record.hub.visited(wait_ms as f64 / 1e3);
    }
    record.delay_ms = match finding.change {
        Change::None => 0,
        _ => delay_ms(visited.fresh_s, &settings.recrawl_of(&record.origin.topic)),
    };
    if finding.change != Change::None {
        record.answered_ms = at_ms;
        record.text.difference = match (finding.change, finding.after) {
            (Change::Unchanged, PageState::Page) => Difference::SameBody,
            (Change::Changed, PageState::Page) => Difference::OtherBody,
            _ => Difference::Untold,
        };
    }
    if finding.change == Change::Unchanged && has_bodies {
        let known = &mut record.text.known;
        known.noise = noise::after_same_body(known.noise);
    }
    if !matches!(finding.change, Change::None | Change::Unchanged) {
        record.changed_ms = at_ms;
    }
    if finding.change != Change::None && finding.after != PageState::Gone && visited.body != 0 {
        record.body = visited.body;
    }
}

/// So much later a page counts as visited that says it is fresh for so long: it may be visited when
/// that is over, after its shortest interval as any other.
fn delay_ms(fresh_s: u32, recrawl: &Recrawl) -> u64 {
    let mut fresh = Duration::from_secs(fresh_s.into()).min(recrawl.cache_lifetime_max);
    if !recrawl.interval_max.is_zero() {
        fresh = fresh.min(recrawl.interval_max);
    }
    millis(fresh.saturating_sub(recrawl.interval_min))
}

/// What a second with a current copy of a page is worth, beside those of others.
fn importance(record: &Record, settings: &Settings) -> f64 {
    if !settings.policy().by_quality() {
        return 1.0;
    }
    let quality = settings.quality.quality(&record.url, &record.origin);
    f64::from(quality.get()).max(IMPORTANCE_MIN)
}

/// The interval of a page by the rule of that name.
fn interval(record: &Record, settings: &Settings) -> Interval {
    let recrawl = settings.recrawl_of(&record.origin.topic);
    let shortest = recrawl.interval_min.as_secs_f64();
    Interval::from_secs(shortest.max(record.interval_s as f64))
}

/// A number that a visit has for itself (the finalizer of splitmix64).
fn random(fingerprint: u64, visits: u32) -> u64 {
    let mut number = fingerprint ^ u64::from(visits).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
