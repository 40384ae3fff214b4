//! What a process spends its time on: it works, waits for input, or is held back by an edge.
//!
//! In: the ends of spans, as readings of the clock; the loop takes two in a round. Out: the time
//! spent since the process began, for metrics, and shares of the last seconds, for status.
//!
//! Invariant: the spans follow each other without a gap, so the shares add up to 1.

use rhumb_telemetry::metrics::Histogram;
use rhumb_url::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shares are those of a window between this long and twice as long.
const WINDOW: Duration = Duration::from_secs(10);

/// Time by what it was spent on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeSpent {
    /// Steps, commits, and what is sent.
    pub busy: Duration,
    /// Nothing to do.
    pub waiting: Duration,
    /// A stream refused what was published because it is full, or too much was on its way into it:
    /// by edge.
    pub held_back: BTreeMap<String, Duration>,
}

impl TimeSpent {
    fn since(&self, before: &TimeSpent) -> TimeSpent {
        let held_back = self.held_back.iter().map(|(edge, time)| {
            let before = before.held_back.get(edge).copied().unwrap_or_default();
            (edge.clone(), time.saturating_sub(before))
        });
        TimeSpent {
            busy: self.busy.saturating_sub(before.busy),
            waiting: self.waiting.saturating_sub(before.waiting),
            held_back: held_back.filter(|(_, time)| !time.is_zero()).collect(),
        }
    }

    fn shares(&self) -> Shares {
        let whole = self.busy + self.waiting + self.held_back.values().sum::<Duration>();
        // In thousandths: more digits would say nothing.
        let share = |time: Duration| {
            (1000.0 * time.as_secs_f64() / whole.as_secs_f64().max(1e-9)).round() / 1000.0
        };
        Shares {
            busy: share(self.busy),
            waiting: share(self.waiting),
            held_back: self
                .held_back
                .iter()
                .map(|(edge, time)| (edge.clone(), share(*time)))
                .collect(),
        }
    }
}

/// Shares of the time of a process, from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// It worked.
    pub busy: f64,
    /// It waited for input.
    pub waiting: f64,
    /// An edge held it back: by edge.
    pub held_back: BTreeMap<String, f64>,
}

/// Keeps the time that a process spends.
#[derive(Debug, Default)]
pub struct Occupation {
    total: TimeSpent,
    /// How long it was busy at a stretch.
    steps: Histogram,
    /// Until when it is kept.
    until: Timestamp,
    /// The total when the window before the present one began, and when the present one did.
    windows: [(Timestamp, TimeSpent); 2],
}

impl Occupation {
    /// The process worked until `now`.
    pub fn worked(&mut self, now: Timestamp) {
        let span = self.span(now);
        self.total.busy += span;
        self.steps.observe(span);
    }

    /// The process waited until `now`, or was held back by an edge.
    pub fn waited(&mut self, now: Timestamp, held_back: Option<&str>) {
        let span = self.span(now);
        let Some(edge) = held_back else {
            self.total.waiting += span;
            return;
        };
        match self.total.held_back.get_mut(edge) {
            Some(time) => *time += span,
            None => {
                self.total.held_back.insert(edge.to_owned(), span);
            }
        }
    }

    fn span(&mut self, now: Timestamp) -> Duration {
        if self.until.since(self.windows[1].0) >= WINDOW {
            self.windows.swap(0, 1);
            self.windows[1] = (self.until, self.total.clone());
        }
        let span = now.since(self.until);
        self.until = now;
        span
    }

    /// How long each turn of the loop was busy.
    pub fn steps(&self) -> &Histogram {
        &self.steps
    }

    /// The time spent since the process began.
    pub fn total(&self) -> &TimeSpent {
        &self.total
    }

    /// Shares of the last 10 to 20 seconds, or of all the time while there is less.
    pub fn shares(&self) -> Shares {
        self.total.since(&self.windows[0].1).shares()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1000)
    }

    #[test]
    fn time_is_divided_among_work_waiting_and_edges() {
        let mut occupation = Occupation::default();
        occupation.worked(at(100));
        occupation.waited(at(400), None);
        occupation.worked(at(500));
        occupation.waited(at(900), Some("pages"));
        occupation.waited(at(1000), Some("urls.found"));
        let held_back = [("pages", 400), ("urls.found", 100)];
        let held_back = held_back
            .map(|(edge, millis)| (edge.to_owned(), Duration::from_millis(millis)))
            .into();
        let total = TimeSpent {
            busy: Duration::from_millis(200),
            waiting: Duration::from_millis(300),
            held_back,
        };
        assert_eq!(occupation.total(), &total);
        assert_eq!(occupation.steps().sum(), Duration::from_millis(200));
        assert_eq!(occupation.steps().count(), 2);
        let Shares {
            busy,
            waiting,
            held_back,
        } = occupation.shares();
        assert_eq!(
            (busy, waiting, held_back["pages"], held_back["urls.found"]),
            (0.2, 0.3, 0.4, 0.1)
        );
    }

    #[test]
    fn shares_forget_what_is_long_ago_and_totals_do_not() {
        let mut occupation = Occupation::default();
        for second in 1..=30 {
            occupation.waited(at(second * 1000), Some("pages"));
        }
        for second in 31..=36 {
            occupation.waited(at(second * 1000), None);
            occupation.worked(at(second * 1000));
        }
        let shares = occupation.shares();
        assert_eq!(
            (shares.held_back["pages"], shares.waiting),
            (0.625, 0.375),
            "since second 20"
        );
        for second in 37..=60 {
            occupation.waited(at(second * 1000), None);
        }
        assert_eq!(
            occupation.shares(),
            Shares {
                waiting: 1.0,
                ..Shares::default()
            }
        );
        assert_eq!(
            occupation.total().held_back["pages"],
            Duration::from_secs(30)
        );
    }

    #[test]
    fn a_process_that_just_began_has_no_shares_yet() {
        assert_eq!(Occupation::default().shares(), Shares::default());
    }
}
