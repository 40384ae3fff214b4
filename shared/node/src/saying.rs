//! Saying: something that lasts is said at once, and then once a minute.

use std::time::{Duration, Instant};

const SAY_EVERY: Duration = Duration::from_secs(60);

/// When something that lasts was said last.
#[derive(Debug, Default)]
pub(super) struct Saying(Option<Instant>);

impl Saying {
    /// Returns whether it is to be said now.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self
            .0
            .is_none_or(|said| now.saturating_duration_since(said) >= SAY_EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }

    pub(super) fn has_said(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_said_at_once_and_then_once_a_minute() {
        let mut saying = Saying::default();
        let start = Instant::now();
        assert!(!saying.has_said());
        let said: Vec<u64> = (0..=180)
            .filter(|second| saying.is_due(start + Duration::from_secs(*second)))
            .collect();
        assert_eq!(said, [0, 60, 120, 180]);
        assert!(saying.has_said());
    }
}
