//! Hub: a page that is visited for the news that it brings of others, such as a sitemap.
//!
//! What it says of a page is worth the time for which that page would have been stale, had nobody
//! looked at the hub: half of the time between two looks, in the mean. So news that come at rate l
//! make a visit after a wait t worth l t^2 / 2, as long as they are few. That is the value of so
//! many pages, visited together, that change at that rate together. Hubs and pages share one
//! budget by it.
//!
//! News are told by signals that come behind their visit. Those of long ago fade.

use super::posterior::Posterior;

/// The pages that a hub stands for: more news than that wait for it no longer.
const PAGES: f64 = 100.0;
/// Each visit makes what was before it weigh so much less.
const KEPT: f32 = 0.7;
/// Fewer news are none.
const NEWS_MIN: f32 = 0.01;

/// The news of a page so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hub {
    /// Pages of which it told that they had changed, each by its importance, and the likelihood
    /// that it was true.
    pub news: f32,
    /// The time for which they gathered, in seconds.
    pub gathered_s: f32,
}

impl Hub {
    /// Returns whether it is one.
    pub fn is_one(&self) -> bool {
        self.news >= NEWS_MIN && self.gathered_s > 0.0
    }

    /// It told of pages of this importance together, weighed, which had gathered for so long.
    #[must_use]
    pub fn told(self, importance: f64, wait_s: f64) -> Self {
        let gathered_s = match self.is_one() {
            true => self.gathered_s,
            false => wait_s as f32,
        };
        Hub {
            news: self.news + importance as f32,
            gathered_s,
        }
    }

    /// It was visited after this wait.
    #[must_use]
    pub fn visited(self, wait_s: f64) -> Self {
        match self.is_one() {
            true => Hub {
                news: KEPT * self.news,
                gathered_s: KEPT * self.gathered_s + wait_s as f32,
            },
            false => Hub::default(),
        }
    }

    /// The importance of the pages for which it stands.
    pub fn importance(&self) -> f64 {
        PAGES
    }

    /// How often one of them changes.
    pub fn posterior(&self) -> Posterior {
        let rate = f64::from(self.news) / f64::from(self.gathered_s);
        Posterior::known(rate / PAGES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many visits, each this wait after the one before, with so many news.
    fn hub(visits: u32, wait_s: f64, news: u32) -> Hub {
        let mut hub = Hub::default();
        for _ in 0..visits {
            hub = hub.visited(wait_s).told(news.into(), wait_s);
        }
        hub
    }

    #[test]
    fn a_visit_is_worth_the_time_for_which_its_news_were_waiting() {
        let hub = hub(20, 600.0, 3);
        let rate = 3.0 / 600.0;
        for wait_s in [60.0, 600.0] {
            let value = hub.importance() * hub.posterior().value(wait_s);
            let ratio = value / (rate * wait_s * wait_s / 2.0);
            assert!((0.95..1.05).contains(&ratio), "{ratio} after {wait_s} s");
        }
    }

    #[test]
    fn what_brings_no_news_any_more_is_no_hub() {
        assert!(!Hub::default().is_one());
        let mut hub = hub(20, 600.0, 3);
        assert!(hub.is_one());
        (0..30).for_each(|_| hub = hub.visited(600.0));
        assert!(!hub.is_one());
    }
}
