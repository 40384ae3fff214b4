//! How fast pages come, as the progress of a crawl tells it.
//!
//! In: looks at the crawl. Out: pages a second, since the line before and over the last
//! [`SMOOTHED_OVER_S`]. Invariants: neither depends on how often it is looked. Pages from before
//! the first look count for none, nor does time in which nothing is to come: before the first
//! request, and while the crawl is paused.

use std::collections::VecDeque;

/// Seconds over which the rate is told that renews itself all the time.
const SMOOTHED_OVER_S: f64 = 10.0;

/// What a look at the crawl shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Seconds since the crawl was started.
    pub(super) at_s: f64,
    /// Pages of the crawl, those of earlier runs included.
    pub(super) pages: u64,
    /// URLs in connection jobs.
    pub(super) in_flight: u64,
    /// An operator has paused the crawl.
    pub(super) is_paused: bool,
}

/// How fast pages come.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// Looks of the last [`SMOOTHED_OVER_S`], and the one before.
    looks: VecDeque<Look>,
    /// Pages since the line before, and the seconds in which they or others were to come.
    line_pages: u64,
    line_s: f64,
    /// Something is to come: a request was made, and the crawl is not paused.
    is_under_way: bool,
}

impl Speed {
    /// Takes in a look.
    pub(super) fn learn(&mut self, look: Look) {
        let before = self.looks.back().copied().unwrap_or(look);
        let more = look.pages.saturating_sub(before.pages);
        let has_more = more > 0;
        if self.is_under_way || has_more {
            self.line_pages += more;
            self.line_s += look.at_s - before.at_s;
        } else {
            self.looks.clear();
        }
        self.is_under_way =
            look.in_flight > 0 || (has_more || self.is_under_way) && !look.is_paused;
        self.looks.push_back(look);
        while self
            .looks
            .get(1)
            .is_some_and(|next| look.at_s - next.at_s >= SMOOTHED_OVER_S)
        {
            self.looks.pop_front();
        }
    }

    /// Pages a second over the last [`SMOOTHED_OVER_S`].
    pub(super) fn smoothed(&self) -> f64 {
        let (Some(from), Some(to)) = (self.looks.front(), self.looks.back()) else {
            return 0.0;
        };
        rate(to.pages.saturating_sub(from.pages), to.at_s - from.at_s)
    }

    /// Pages a second since the line before. The next line's time begins here.
    pub(super) fn of_line(&mut self) -> f64 {
        let pages = std::mem::take(&mut self.line_pages);
        let seconds = std::mem::take(&mut self.line_s);
        rate(pages, seconds)
    }
}

fn rate(pages: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        pages as f64 / seconds
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages a second.
    const STEADY: f64 = 80.0;

    /// A crawl that is looked at, with a line every five seconds. `until` is looked at at uneven
    /// times: the rates of its lines, and the lowest and highest of those between them.
    struct Crawl {
        speed: Speed,
        at_s: f64,
        pages: f64,
        line_at_s: f64,
    }

    impl Crawl {
        fn begun_with(pages: f64) -> Self {
            Crawl {
                speed: Speed::default(),
                at_s: 0.4,
                pages,
                line_at_s: 0.0,
            }
        }

        fn until(
            &mut self,
            end_s: f64,
            pages_a_second: f64,
            is_paused: bool,
        ) -> (Vec<f64>, Vec<f64>) {
            let mut lines = Vec::new();
            let mut bar = Vec::new();
            for step_s in [0.2, 0.35, 1.0, 0.25].into_iter().cycle() {
                if self.at_s >= end_s {
                    break;
                }
                let in_flight = if pages_a_second > 0.0 { 60 } else { 0 };
                self.speed.learn(Look {
                    at_s: self.at_s,
                    pages: self.pages as u64,
                    in_flight,
                    is_paused,
                });
                bar.push(self.speed.smoothed());
                if self.at_s - self.line_at_s >= 5.0 {
                    self.line_at_s = self.at_s;
                    lines.push(self.speed.of_line());
                }
                self.at_s += step_s;
                self.pages += step_s * pages_a_second;
            }
            (lines, bar)
        }
    }

    fn are_steady(rates: &[f64]) -> bool {
        rates.iter().all(|rate| (rate - STEADY).abs() < 5.0)
    }

    #[test]
    fn a_steady_crawl_has_steady_rates_also_at_its_start_and_when_it_goes_on_from_an_earlier_run() {
        for earlier in [0.0, 50_000.0] {
            let mut crawl = Crawl::begun_with(earlier);
            let (lines, bar) = crawl.until(3.1, 0.0, false);
            assert!(
                lines.is_empty() && bar.iter().all(|rate| *rate == 0.0),
                "nothing was requested: {bar:?}"
            );
            let (lines, bar) = crawl.until(60.0, STEADY, false);
            assert!(
                lines.len() >= 10 && are_steady(&lines),
                "{earlier}: {lines:?}"
            );
            assert!(are_steady(&bar[2..]), "{earlier}: {bar:?}");
        }
    }

    #[test]
    fn the_time_of_a_pause_counts_for_no_rate() {
        let mut crawl = Crawl::begun_with(0.0);
        crawl.until(32.0, STEADY, false);
        let (lines, bar) = crawl.until(90.0, 0.0, true);
        assert!(
            lines[0] > STEADY / 2.0,
            "it has the pages from before the pause: {lines:?}"
        );
        assert!(
            lines[1..].iter().chain(&bar[1..]).all(|rate| *rate == 0.0),
            "{lines:?} {bar:?}"
        );
        let (lines, bar) = crawl.until(120.0, STEADY, false);
        assert!(
            are_steady(&lines) && are_steady(&bar[2..]),
            "{lines:?} {bar:?}"
        );
    }

    #[test]
    fn a_line_tells_of_the_time_since_the_line_before_and_the_bar_of_ten_seconds() {
        let mut speed = Speed::default();
        let mut learn = |at_s, pages| {
            speed.learn(Look {
                at_s,
                pages,
                in_flight: 1,
                is_paused: false,
            });
            (
                speed.smoothed(),
                if at_s % 5.0 == 0.0 {
                    Some(speed.of_line())
                } else {
                    None
                },
            )
        };
        assert_eq!(learn(0.0, 0), (0.0, Some(0.0)));
        assert_eq!(learn(4.0, 40), (10.0, None));
        assert_eq!(learn(5.0, 100), (20.0, Some(20.0)));
        assert_eq!(
            learn(10.0, 100),
            (10.0, Some(0.0)),
            "a crawl that stands still is slow, where nobody has paused it"
        );
        assert_eq!(learn(15.0, 130), (3.0, Some(6.0)));
    }
}
