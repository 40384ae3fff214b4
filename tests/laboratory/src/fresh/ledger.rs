//! Ledger: how fresh the copy is, in each uniform interval.
//!
//! A page's copy is current with a probability that follows from its true rate, the time since the
//! visit and the signals since. That probability is added up, not the changes that were drawn: so
//! a run says more with as many pages.

use super::web::{INTERVAL_S, Signalling, Web};

#[derive(Clone, Copy, Debug)]
struct Copy {
    /// The probability that it is current, at a time in seconds.
    current: f64,
    at_s: f64,
}

/// The freshness of a copy by uniform interval.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// Of each page: how fast it becomes old without a signal, and its weight.
    unsignalled: Vec<f64>,
    weights: Vec<f64>,
    false_shares: Vec<f64>,
    copies: Vec<Copy>,
    sums: Vec<f64>,
}

impl Ledger {
    /// Of so many uniform intervals, when no page was visited yet.
    pub(super) fn new(web: &Web, intervals: usize) -> Self {
        let signals = web.shape.signals;
        let all = web.importance() * INTERVAL_S;
        let of = |number: fn(Signalling, f64) -> f64| {
            web.pages
                .iter()
                .map(|page| number(signals, page.rate))
                .collect()
        };
        Ledger {
            unsignalled: of(|signals, rate| (1.0 - signals.recall) * rate),
            weights: web.pages.iter().map(|page| page.importance / all).collect(),
            false_shares: of(Signalling::false_share),
            copies: vec![
                Copy {
                    current: 0.0,
                    at_s: 0.0
                };
                web.pages.len()
            ],
            sums: vec![0.0; intervals],
        }
    }

    /// The page is visited.
    pub(super) fn visit(&mut self, page: usize, at_s: f64) {
        self.pass(page, at_s);
        self.copies[page].current = 1.0;
    }

    /// A signal of the page comes, true or not.
    pub(super) fn signal(&mut self, page: usize, at_s: f64) {
        self.pass(page, at_s);
        self.copies[page].current *= self.false_shares[page];
    }

    /// The freshness of each interval, when all are over.
    pub(super) fn finish(mut self) -> Vec<f64> {
        let end = self.sums.len() as f64 * INTERVAL_S;
        (0..self.copies.len()).for_each(|page| self.pass(page, end));
        self.sums
    }

    /// Adds the time until then to the intervals that it lies in.
    fn pass(&mut self, page: usize, to_s: f64) {
        let rate = self.unsignalled[page];
        let weight = self.weights[page];
        let copy = &mut self.copies[page];
        while copy.at_s < to_s {
            let interval = (copy.at_s / INTERVAL_S + 1e-12) as usize;
            let end = ((interval + 1) as f64 * INTERVAL_S).min(to_s);
            let wait = end - copy.at_s;
            let current = copy.current * (-rate * wait).exp();
            let time = if rate * wait > 1e-9 {
                (copy.current - current) / rate
            } else {
                copy.current * wait
            };
            if let Some(sum) = self.sums.get_mut(interval) {
                *sum += weight * time;
            }
            *copy = Copy { current, at_s: end };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::optimum::uniform;
    use super::super::web::Shape;
    use super::*;

    #[test]
    fn uniform_visits_are_as_fresh_as_the_formula_says() {
        let shape = Shape {
            pages: 50,
            servers: 5,
            speed: 1.0,
            spread: 2.1,
            importance: 1.0,
            ages: 0.0,
            first_fifth: 1.0,
            signals: Signalling::default(),
        };
        let web = Web::new(shape, 1);
        let mut ledger = Ledger::new(&web, 4);
        for visit in 0..4 {
            for page in 0..50 {
                let at = f64::from(visit) + page as f64 / 50.0;
                ledger.visit(page, at * INTERVAL_S);
            }
        }
        let freshness = ledger.finish();
        assert!(freshness[0] < freshness[1]);
        assert!((freshness[2] - uniform(&web)).abs() < 1e-9);
    }
}
