//! Crawl: a web is visited by the scheduler's rules, request by request.
//!
//! Requests are evenly spaced, as many in a uniform interval as there are pages. Either rates and
//! signals are known and the pages were visited before, or the first requests make all pages known
//! and each rule learns from what its visits find. Signals come in between. Rows lie in memory, in
//! the order in which the scheduler keeps them on disk.
//!
//! Invariant: what chooses, estimates and believes is [`scheduler::visits`]; here pages change and
//! rows lie.

use super::ledger::Ledger;
use super::web::{INTERVAL_S, Web};
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use scheduler::visits::{
    Census, Class, Estimate, Evidence, Heads, Interval, KnownPage, Posterior, Prior, Rates, Rule,
    Signals, Stake, Threshold, Visit, VisitKey, shares,
};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// In a uniform interval the prior is taken anew so often, and shares move so often.
const CENSUSES: usize = 4;
const ROUNDS: usize = 20;
/// A page that never changed is so old when a crawl begins, in uniform intervals.
const OLDEST: f64 = 1_000.0;

/// By what pages are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The largest value, with true rates and signals.
    KnownRates,
    /// The largest value, with rates and signals learned from nothing.
    LearnedRates,
    /// Nutch's rule.
    Interval,
}

/// How a web is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) by: By,
    /// Uniform intervals.
    pub(super) intervals: usize,
    /// Schedulers. The first of several has a fifth of the servers.
    pub(super) schedulers: usize,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// The freshness in each uniform interval, by importance.
    pub(super) freshness: Vec<f64>,
    /// The share of the budget of each scheduler at the end.
    pub(super) shares: Vec<f64>,
}

/// A page as the scheduler has it, and what has become of it since.
#[derive(Clone, Copy, Debug)]
struct Row {
    estimate: Estimate,
    interval: Interval,
    visited_ms: u64,
    signals: u32,
    key: VisitKey,
    /// The last signal that was true.
    changed_ms: Option<u64>,
}

struct Scheduler {
    heads: Heads<u32>,
    threshold: Threshold,
    /// Requests that it may make, in parts of one.
    credit: f64,
}

struct Crawl<'a> {
    web: &'a Web,
    plan: Plan,
    random: Xoshiro256PlusPlus,
    rates: Rates,
    prior: Prior,
    rows: Vec<Option<Row>>,
    order: BTreeSet<(u32, VisitKey, u32)>,
    evidence: Vec<Evidence>,
    schedulers: Vec<Scheduler>,
    shares: Vec<f64>,
    /// Signals that are to come, the next one of each page.
    coming: BinaryHeap<Reverse<(u64, u32)>>,
    ledger: Ledger,
}

/// Visits a web.
pub(super) fn crawl(web: &Web, plan: Plan, seed: u64) -> Outcome {
    let pages = web.pages.len();
    let scheduler = || Scheduler {
        heads: Heads::default(),
        threshold: Threshold::default(),
        credit: 0.0,
    };
    let mut crawl = Crawl {
        web,
        plan,
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        rates: Rates::default(),
        prior: Prior::default(),
        rows: vec![None; pages],
        order: BTreeSet::new(),
        evidence: vec![Evidence::default(); web.shape.servers],
        schedulers: (0..plan.schedulers).map(|_| scheduler()).collect(),
        shares: vec![1.0 / plan.schedulers as f64; plan.schedulers],
        coming: BinaryHeap::new(),
        ledger: Ledger::new(web, plan.intervals),
    };
    let mut first: Vec<usize> = (0..pages).collect();
    first.shuffle(&mut crawl.random);
    let mut first = first.into_iter();
    if plan.by == By::KnownRates {
        first.by_ref().for_each(|page| crawl.visit_first(page, 0));
    }
    for request in 0..plan.intervals * pages {
        let now_ms = milliseconds((request as f64 + 0.5) / pages as f64 * INTERVAL_S);
        crawl.hear(now_ms);
        match first.next() {
            Some(page) => crawl.visit_first(page, now_ms),
            None => crawl.visit_best(now_ms),
        }
        if request % (pages / CENSUSES).max(1) == 0 {
            crawl.take_census();
        }
        if plan.schedulers > 1 && request % (pages / ROUNDS).max(1) == 0 {
            crawl.share(now_ms);
        }
    }
    Outcome {
        freshness: crawl.ledger.finish(),
        shares: crawl.shares,
    }
}

impl Crawl<'_> {
    /// Time until the next event of this rate, in seconds.
    fn until_next(&mut self, rate: f64) -> f64 {
        -(1.0 - self.random.random::<f64>()).ln() / rate
    }

    fn visit_first(&mut self, page: usize, now_ms: u64) {
        let known = self.web.pages[page];
        let estimate = if self.web.has_ages(known.server) {
            let age = self.until_next(known.rate).min(OLDEST * INTERVAL_S);
            Estimate::of_age(age, &self.rates, self.random.random())
        } else {
            Estimate::default()
        };
        self.rows[page] = Some(Row {
            estimate,
            interval: Interval::from_secs(INTERVAL_S),
            visited_ms: now_ms,
            signals: 0,
            key: VisitKey {
                class: Class::default(),
                clock_ms: 0,
            },
            changed_ms: None,
        });
        self.ledger.visit(page, seconds(now_ms));
        self.place(page);
        self.await_signal(page, now_ms);
    }

    /// The request goes to the page that is worth most, of the scheduler whose turn it is.
    fn visit_best(&mut self, now_ms: u64) {
        let credits = self.schedulers.iter_mut().zip(&self.shares);
        credits.for_each(|(scheduler, share)| scheduler.credit += share);
        let turn = self
            .schedulers
            .iter_mut()
            .max_by(|a, b| a.credit.total_cmp(&b.credit));
        let Some(scheduler) = turn else { return };
        scheduler.credit -= 1.0;
        let Some(pick) = scheduler.heads.pick(now_ms) else {
            return;
        };
        scheduler.threshold.learn(pick.value);
        let first = (pick.server, pick.key, 0);
        let Some(&(_, _, page)) = self.order.range(first..).next() else {
            return;
        };
        self.visit(page as usize, now_ms);
    }

    fn visit(&mut self, page: usize, now_ms: u64) {
        let Some(mut row) = self.rows[page] else {
            return;
        };
        let known = self.web.pages[page];
        let visit = self.look(page, &row, now_ms);
        let random = self.random.random();
        if self.plan.by == By::LearnedRates {
            let before = Posterior::new(row.estimate, &self.prior, &self.rates);
            let server = known.server as usize;
            let signals = self.believed(known.server);
            if self.web.shape.signals != Default::default() {
                self.evidence[server].learn(&visit, &before);
            }
            row.estimate = row
                .estimate
                .after(&visit, &signals, before.mean(), &self.rates, random);
        }
        row.interval = row.interval.after(visit.is_changed);
        row.visited_ms = now_ms;
        row.signals = 0;
        row.changed_ms = None;
        self.ledger.visit(page, seconds(now_ms));
        self.unplace(page);
        self.rows[page] = Some(row);
        self.place(page);
    }

    /// What a visit finds.
    fn look(&mut self, page: usize, row: &Row, now_ms: u64) -> Visit {
        let known = self.web.pages[page];
        let wait_s = seconds(now_ms - row.visited_ms);
        let unsignalled = (1.0 - self.web.shape.signals.recall) * known.rate;
        let signalled = row.changed_ms.map(|at_ms| seconds(now_ms - at_ms));
        let age_s = self
            .until_next(unsignalled)
            .min(signalled.unwrap_or(f64::INFINITY));
        let is_changed = age_s < wait_s || signalled.is_some();
        Visit {
            wait_s,
            is_changed,
            signals: row.signals,
            age_s: (is_changed && self.web.has_ages(known.server)).then_some(age_s),
        }
    }

    /// Signals that have come by now.
    fn hear(&mut self, now_ms: u64) {
        while let Some(&Reverse((at_ms, page))) = self.coming.peek() {
            if at_ms > now_ms {
                break;
            }
            self.coming.pop();
            let page = page as usize;
            self.ledger.signal(page, seconds(at_ms));
            let rate = self.web.pages[page].rate;
            let is_true = self.random.random::<f64>() >= self.web.shape.signals.false_share(rate);
            if let Some(row) = &mut self.rows[page]
                && is_true
            {
                row.changed_ms = Some(at_ms);
            }
            self.signal(page);
            self.await_signal(page, at_ms);
        }
    }

    /// A signal moves the row of its page.
    fn signal(&mut self, page: usize) {
        self.unplace(page);
        if let Some(row) = &mut self.rows[page] {
            row.signals += 1;
        }
        self.place(page);
    }

    fn await_signal(&mut self, page: usize, now_ms: u64) {
        let rate = self.web.shape.signals.rate(self.web.pages[page].rate);
        let wait = self.until_next(rate);
        if wait < self.plan.intervals as f64 * INTERVAL_S {
            let at_ms = now_ms + milliseconds(wait);
            self.coming.push(Reverse((at_ms, page as u32)));
        }
    }

    fn believed(&self, server: u32) -> Signals {
        match self.plan.by {
            By::KnownRates => self.web.shape.signals.known(),
            By::LearnedRates => self.evidence[server as usize].signals(),
            By::Interval => Signals::NONE,
        }
    }

    fn known_page(&self, page: usize) -> Option<KnownPage> {
        let row = self.rows[page].as_ref()?;
        let of = self.web.pages[page];
        let fresh = |posterior| Rule::Fresh {
            posterior,
            signals: self.believed(of.server),
        };
        let rule = match self.plan.by {
            By::KnownRates => fresh(Posterior::known(of.rate)),
            By::LearnedRates => fresh(Posterior::new(row.estimate, &self.prior, &self.rates)),
            By::Interval => Rule::Interval(row.interval),
        };
        Some(KnownPage {
            importance: of.importance,
            rule,
            visited_ms: row.visited_ms,
            signals: row.signals,
        })
    }

    fn scheduler_of(&self, server: u32) -> usize {
        let of_first = self.web.shape.servers as u32 / 5;
        match self.schedulers.len() {
            1 => 0,
            _ if server < of_first => 0,
            schedulers => 1 + (server - of_first) as usize % (schedulers - 1),
        }
    }

    /// Puts a page where its class and clock say.
    fn place(&mut self, page: usize) {
        let Some(known) = self.known_page(page) else {
            return;
        };
        let scheduler = self.scheduler_of(self.web.pages[page].server);
        let key = known.key(&self.schedulers[scheduler].threshold);
        if let Some(row) = &mut self.rows[page] {
            row.key = key;
        }
        let row = (self.web.pages[page].server, key, page as u32);
        self.order.insert(row);
        if self.first(row.0, key.class) == Some(row) {
            self.put_head(row.0, key.class);
        }
    }

    fn unplace(&mut self, page: usize) {
        let Some(Row { key, .. }) = self.rows[page] else {
            return;
        };
        let row = (self.web.pages[page].server, key, page as u32);
        let is_head = self.first(row.0, key.class) == Some(row);
        self.order.remove(&row);
        if is_head {
            self.put_head(row.0, key.class);
        }
    }

    /// The first row of a class.
    fn first(&self, server: u32, class: Class) -> Option<(u32, VisitKey, u32)> {
        let key = VisitKey { class, clock_ms: 0 };
        let first = self.order.range((server, key, 0)..).next().copied();
        first.filter(|(of, key, _)| *of == server && key.class == class)
    }

    /// The first row of a class is its head.
    fn put_head(&mut self, server: u32, class: Class) {
        let head = self.first(server, class);
        let known = head.and_then(|(_, key, page)| Some((key, self.known_page(page as usize)?)));
        let scheduler = self.scheduler_of(server);
        let heads = &mut self.schedulers[scheduler].heads;
        match known {
            Some((key, known)) => heads.put(server, key, known),
            None => heads.remove(server, class),
        }
    }

    /// Takes the prior anew from all pages, and looks at the heads with it.
    fn take_census(&mut self) {
        if self.plan.by != By::LearnedRates {
            return;
        }
        let mut census = Census::default();
        for row in self.rows.iter().flatten() {
            census.add(&Posterior::new(row.estimate, &self.prior, &self.rates));
        }
        self.prior = census.prior();
        let classes: BTreeSet<(u32, Class)> = self
            .order
            .iter()
            .map(|(server, key, _)| (*server, key.class))
            .collect();
        for (server, class) in classes {
            self.put_head(server, class);
        }
    }

    fn share(&mut self, now_ms: u64) {
        let mut pages = vec![0; self.schedulers.len()];
        for (server, _, _) in &self.order {
            pages[self.scheduler_of(*server)] += 1;
        }
        let stakes: Vec<Stake> = self
            .schedulers
            .iter_mut()
            .zip(pages)
            .map(|(scheduler, pages)| Stake {
                pages,
                value: scheduler.heads.pick(now_ms).map_or(0.0, |pick| pick.value),
            })
            .collect();
        self.shares = shares(&stakes);
    }
}

fn milliseconds(seconds: f64) -> u64 {
    (1e3 * seconds) as u64
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}
