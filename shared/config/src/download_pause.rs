//! The pause that a server gets because its last answer took long: a slow server is asked less
//! often.
//!
//! Source: Najork and Heydon 2001 (Mercator waits ten times as long as the last download took, and
//! has no other delay).

use super::Politeness;
use std::time::Duration;

/// The pause after a response, by the duration of that response; the default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DownloadPause {
    /// The pause is this many times as long as the response took.
    pub factor: u32,
    /// The longest pause.
    pub max: Duration,
}

impl DownloadPause {
    /// From the configuration: `politeness.download_factor` times the duration, at most
    /// `politeness.crawl_delay_max`; nothing with a delay of 0s: such a crawl asks for no pauses.
    pub fn new(politeness: &Politeness) -> Self {
        let factor = if politeness.delay.is_zero() {
            0
        } else {
            politeness.download_factor
        };
        DownloadPause {
            factor,
            max: politeness.crawl_delay_max,
        }
    }

    /// No contact for so long after a response that took `elapsed`.
    pub fn after(self, elapsed: Duration) -> Duration {
        elapsed.saturating_mul(self.factor).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layers;

    fn pause(delay: &str) -> DownloadPause {
        let set = vec![
            format!("politeness.delay={delay}"),
            "politeness.download_factor=10".into(),
            "politeness.crawl_delay_max=5s".into(),
            "network.allow_private_addresses=true".into(),
        ];
        DownloadPause::new(
            &Layers { file: None, set }
                .load_with(std::iter::empty())
                .unwrap()
                .politeness,
        )
    }

    #[test]
    fn a_slow_answer_makes_a_long_pause_up_to_a_cap() {
        let after = |millis| {
            pause("1ms")
                .after(Duration::from_millis(millis))
                .as_millis()
        };
        assert_eq!(
            [0, 7, 400, 600, u64::MAX].map(after),
            [0, 70, 4000, 5000, 5000]
        );
    }

    #[test]
    fn without_a_delay_there_is_no_pause() {
        assert_eq!(pause("0s").after(Duration::from_secs(9)), Duration::ZERO);
    }
}
