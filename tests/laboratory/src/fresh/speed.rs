//! Speed: how many visits a second a scheduler can choose.
//!
//! Pages lie in memory in the order of their keys, and are spread over many servers in play. Each
//! choice takes the page that is worth most, estimates it anew, finds its class, and puts it and
//! the next head of its old class back. Only this is measured in real time.

use super::web::INTERVAL_S;
use crate::cpu;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use scheduler::visits::{
    Estimate, Heads, KnownPage, Posterior, Prior, Rates, Rule, Signals, Threshold, Visit, VisitKey,
};
use std::collections::BTreeSet;

/// Choices that are measured, after as many others; no more than there are pages.
const CHOICES_MAX: usize = 100_000;
/// Pages of a server, in the mean.
const PAGES_PER_SERVER: usize = 1_000;

struct Pages {
    estimates: Vec<Estimate>,
    visited_ms: Vec<u64>,
    order: BTreeSet<(u32, VisitKey, u32)>,
    heads: Heads<u32>,
    threshold: Threshold,
    random: Xoshiro256PlusPlus,
    servers: usize,
    prior: Prior,
    rates: Rates,
}

/// Choices a second of CPU time among so many pages.
pub(super) fn choices_per_second(pages: usize, seed: u64) -> f64 {
    let choices = pages.min(CHOICES_MAX) as u64;
    let mut all = Pages::new(pages, seed);
    let interval_ms = (1e3 * INTERVAL_S) as u64;
    let mut now_ms = interval_ms;
    let mut choose = || {
        for choice in 0..choices {
            all.choose(now_ms + choice * interval_ms / pages as u64);
        }
        now_ms += choices * interval_ms / pages as u64;
    };
    choose();
    let begun = cpu::of_this_thread();
    choose();
    choices as f64 / (cpu::of_this_thread() - begun).as_secs_f64()
}

impl Pages {
    /// Pages that were each visited once within a uniform interval, and said how old they were.
    fn new(pages: usize, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rates = Rates::default();
        let mut age = || INTERVAL_S * (4.0 * random.random::<f64>() - 2.0).exp2().powi(4);
        let ages: Vec<f64> = (0..pages).map(|_| age()).collect();
        let estimate = |age: &f64| Estimate::of_age(*age, &rates, age.to_bits());
        let visited = |page: u64| page * (1e3 * INTERVAL_S) as u64 / pages as u64;
        let mut all = Pages {
            estimates: ages.iter().map(estimate).collect(),
            visited_ms: (0..pages as u64).map(visited).collect(),
            order: BTreeSet::new(),
            heads: Heads::default(),
            threshold: Threshold::default(),
            random,
            servers: pages.div_ceil(PAGES_PER_SERVER),
            prior: Prior::default(),
            rates,
        };
        for page in 0..pages {
            all.place(page);
        }
        all
    }

    fn known(&self, page: usize) -> KnownPage {
        KnownPage {
            importance: 1.0 + (page % 7) as f64,
            rule: Rule::Fresh {
                posterior: Posterior::new(self.estimates[page], &self.prior, &self.rates),
                signals: Signals::NONE,
            },
            visited_ms: self.visited_ms[page],
            signals: 0,
        }
    }

    fn place(&mut self, page: usize) {
        let server = (page % self.servers) as u32;
        let key = self.known(page).key(&self.threshold);
        self.order.insert((server, key, page as u32));
        self.put_head(server, key);
    }

    fn put_head(&mut self, server: u32, of: VisitKey) {
        let first = (server, VisitKey { clock_ms: 0, ..of }, 0);
        let head = self.order.range(first..).next().copied();
        match head.filter(|(at, key, _)| *at == server && key.class == of.class) {
            Some((_, key, page)) => self.heads.put(server, key, self.known(page as usize)),
            None => self.heads.remove(server, of.class),
        }
    }

    fn choose(&mut self, now_ms: u64) {
        let Some(pick) = self.heads.pick(now_ms) else {
            return;
        };
        let first = (pick.server, pick.key, 0);
        let Some(&row) = self.order.range(first..).next() else {
            return;
        };
        self.order.remove(&row);
        self.put_head(pick.server, pick.key);
        self.threshold.learn(pick.value);
        let page = row.2 as usize;
        let wait_s = (now_ms - self.visited_ms[page]) as f64 / 1e3;
        let before = Posterior::new(self.estimates[page], &self.prior, &self.rates);
        let visit = Visit {
            wait_s,
            is_changed: self.random.random::<f64>() > before.unchanged(wait_s),
            signals: 0,
            age_s: None,
        };
        let random = self.random.random();
        let estimate = self.estimates[page];
        self.estimates[page] =
            estimate.after(&visit, &Signals::NONE, before.mean(), &self.rates, random);
        self.visited_ms[page] = now_ms;
        self.place(page);
    }
}
