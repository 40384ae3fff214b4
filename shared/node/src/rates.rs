//! Rates: how many URLs a second the partitions of an instance have dealt with lately.
//!
//! In: the core's figures, every ten seconds. Out: rates over the last 10 to 20 seconds. A life of
//! the core begins with none.

use rhumb_stage::Figures;
use rhumb_url::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often figures are noted.
const EVERY: Duration = Duration::from_secs(10);

/// What the partitions had dealt with at two moments.
#[derive(Debug, Default)]
pub(super) struct Rates {
    earlier: Noted,
    latest: Noted,
}

#[derive(Debug, Default)]
struct Noted {
    at: Timestamp,
    handled: BTreeMap<u16, u64>,
}

impl Rates {
    /// Returns whether figures are to be noted again.
    pub(super) fn are_due(&self, now: Timestamp) -> bool {
        self.latest.handled.is_empty() || now.since(self.latest.at) >= EVERY
    }

    /// Notes figures.
    pub(super) fn note(&mut self, now: Timestamp, figures: &[Figures]) {
        let handled = figures
            .iter()
            .map(|of| (of.partition, of.handled))
            .collect();
        self.earlier = std::mem::replace(&mut self.latest, Noted { at: now, handled });
    }

    /// URLs a second that a partition has dealt with lately; none before that is known.
    pub(super) fn of(&self, now: Timestamp, figures: &Figures) -> Option<f64> {
        let is_known = |noted: &&Noted| noted.handled.contains_key(&figures.partition);
        let since = [&self.earlier, &self.latest].into_iter().find(is_known)?;
        let handled = figures
            .handled
            .saturating_sub(since.handled[&figures.partition]);
        let seconds = now.since(since.at).as_secs_f64();
        (seconds >= 1.0).then(|| handled as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_last_ten_to_twenty_seconds() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let figures = |handled| Figures {
            partition: 3,
            urls: 0,
            bytes: 0,
            handled,
            is_of_one_host: false,
        };
        let mut rates = Rates::default();
        assert!(rates.are_due(at(0)) && rates.of(at(5), &figures(50)).is_none());
        rates.note(at(0), &[figures(100)]);
        assert!(!rates.are_due(at(9)) && rates.of(at(0), &figures(100)).is_none());
        assert_eq!(rates.of(at(5), &figures(150)), Some(10.0));
        assert!(rates.are_due(at(10)));
        rates.note(at(10), &[figures(200)]);
        assert_eq!(rates.of(at(15), &figures(250)), Some(10.0));
        rates.note(at(20), &[figures(300)]);
        assert_eq!(rates.of(at(25), &figures(300)), Some(100.0 / 15.0));
        let other = Figures {
            partition: 4,
            ..figures(7)
        };
        assert_eq!(rates.of(at(25), &other), None);
    }
}
