//! Change: how the pages of a web change, come and go, and what their hosts say of it.
//!
//! In: numbers, shares, and the place of a host or a page. Out: what chance gives it. Nothing here
//! knows a time other than as seconds since the start of the web.
//!
//! Invariant: seed, host and page decide every draw. Shares of hosts are spread evenly over them,
//! so that they hold for few hosts, too.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::dice::{Dice, Purpose, spread};

/// No page changes more often, in changes a second: nobody could tell.
const RATE_MAX: f64 = 1_000.0;

/// How pages change. The pages of hostile hosts and redirects never do.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Mean time between two changes of the median page among those that change.
    pub interval: Duration,
    /// Standard deviation of the logarithm of the rates of change, which are lognormal.
    pub sigma: f64,
    /// Share of pages that never change.
    pub never: f64,
    /// Standard deviation of the logarithm of the importance of pages, which is lognormal; 0 makes
    /// all equal. Only the figures of [`Freshness`](super::Freshness) know it.
    pub importance_sigma: f64,
    /// By which validators hosts name the versions of their pages.
    pub validators: ValidatorShares,
    /// Share of hosts whose pages have a few other bytes in each answer, though their text has not
    /// changed.
    pub noise: f64,
    /// Which hosts have a sitemap of their pages, with what dates.
    pub sitemaps: SitemapShares,
    /// Pages that are away for a while.
    pub gone: GonePages,
    /// Pages that come later.
    pub new: NewPages,
}

/// Which hosts send what validators. Tags and dates are independent of each other, except that a
/// host that always answers 304 sends no date.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValidatorShares {
    /// Share of hosts whose ETag is another one exactly when the page has changed.
    pub tags: f64,
    /// Share of hosts whose ETag never changes, and who answer 304 to every conditional request.
    pub frozen: f64,
    /// Share of hosts whose ETag is another one in each answer. Hosts of none of the three kinds
    /// send no ETag.
    pub fickle: f64,
    /// Share of hosts whose Last-Modified is the time of the last change, in whole seconds. The
    /// others send none.
    pub dates: f64,
}

impl ValidatorShares {
    /// All validators of all hosts are right.
    pub const RIGHT: ValidatorShares = ValidatorShares {
        tags: 1.0,
        frozen: 0.0,
        fickle: 0.0,
        dates: 1.0,
    };
}

/// Which hosts have a sitemap of their pages. The others have none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SitemapShares {
    /// Share of hosts whose `lastmod` is the time of the last change.
    pub right: f64,
    /// Share of hosts whose `lastmod` is always the present.
    pub wrong: f64,
    /// Share of hosts whose sitemap has no `lastmod`.
    pub undated: f64,
}

/// Pages that answer 404 for a while. Only pages that make no other reachable are among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GonePages {
    /// Share of those pages.
    pub share: f64,
    /// Mean time from the start of the web, or of the page, to its end; exponential.
    pub after: Duration,
    /// Mean time until the page is back; exponential.
    pub length: Duration,
}

/// Pages that are neither there nor linked to before a time. One page links to each, whose version
/// is another one from then on. Only pages that make no other reachable are among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NewPages {
    /// Share of those pages.
    pub share: f64,
    /// They come at uniform times from the start of the web to this one.
    pub within: Duration,
}

/// The ETag of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    Missing,
    Right,
    Frozen,
    Fickle,
}

/// The `lastmod` of a host's sitemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lastmod {
    Right,
    Wrong,
    Missing,
}

/// What a host says of the changes of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manners {
    pub(crate) tags: Tags,
    pub(crate) has_dates: bool,
    pub(crate) is_noisy: bool,
    /// None without a sitemap.
    pub(crate) sitemap: Option<Lastmod>,
}

impl Change {
    /// Pages change, with a median of this interval; 30 % never do. All are equally important and
    /// have right validators, and none comes or goes.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            sigma: 2.1,
            never: 0.3,
            importance_sigma: 0.0,
            validators: ValidatorShares::RIGHT,
            noise: 0.0,
            sitemaps: SitemapShares::default(),
            gone: GonePages::default(),
            new: NewPages::default(),
        }
    }

    /// The shares among its numbers, by name.
    pub(crate) fn shares(&self) -> [(&'static str, f64); 14] {
        let validators = &self.validators;
        let sitemaps = &self.sitemaps;
        [
            ("change.never", self.never),
            ("change.noise", self.noise),
            ("change.gone.share", self.gone.share),
            ("change.new.share", self.new.share),
            ("change.validators.tags", validators.tags),
            ("change.validators.frozen", validators.frozen),
            ("change.validators.fickle", validators.fickle),
            ("change.validators.dates", validators.dates),
            (
                "change.validators.tags + frozen + fickle",
                validators.tags + validators.frozen + validators.fickle,
            ),
            (
                "change.validators.dates + frozen",
                validators.dates + validators.frozen,
            ),
            ("change.sitemaps.right", sitemaps.right),
            ("change.sitemaps.wrong", sitemaps.wrong),
            ("change.sitemaps.undated", sitemaps.undated),
            (
                "change.sitemaps.right + wrong + undated",
                sitemaps.right + sitemaps.wrong + sitemaps.undated,
            ),
        ]
    }

    /// Checks every number that is no share.
    pub(crate) fn validate(&self) -> Result<()> {
        ensure!(
            !self.interval.is_zero() && self.sigma >= 0.0 && self.importance_sigma >= 0.0,
            "change needs an interval above 0 and sigmas of at least 0"
        );
        Ok(())
    }

    /// Changes of a page a second.
    pub(crate) fn rate(&self, seed: u64, host: u32, page: u32) -> f64 {
        let mut dice = Dice::new(seed, Purpose::Rate, host, page);
        if dice.chance(self.never) {
            return 0.0;
        }
        let median = 1.0 / self.interval.as_secs_f64();
        dice.lognormal(median, self.sigma).min(RATE_MAX)
    }

    /// The importance of a page; 1 is the median.
    pub(crate) fn importance(&self, seed: u64, host: u32, page: u32) -> f64 {
        Dice::new(seed, Purpose::Importance, host, page).lognormal(1.0, self.importance_sigma)
    }

    /// When a page that may come later comes; 0 if it is there from the start on.
    pub(crate) fn born_s(&self, seed: u64, host: u32, page: u32) -> f64 {
        let mut dice = Dice::new(seed, Purpose::Birth, host, page);
        if dice.chance(self.new.share) {
            dice.unit() * self.new.within.as_secs_f64()
        } else {
            0.0
        }
    }

    /// From when to when a page that may be gone is gone, counted from its birth; empty if never.
    pub(crate) fn gone_s(&self, seed: u64, host: u32, page: u32) -> Range<f64> {
        let mut dice = Dice::new(seed, Purpose::Absence, host, page);
        if !dice.chance(self.gone.share) {
            return 0.0..0.0;
        }
        let start = dice.exponential(self.gone.after.as_secs_f64());
        start..start + dice.exponential(self.gone.length.as_secs_f64())
    }

    /// What a host says of the changes of its pages.
    pub(crate) fn manners(&self, seed: u64, host: u32) -> Manners {
        let shares = &self.validators;
        let tags = pick(
            spread(seed, host, 0.316_624_790_355_400),
            [
                (shares.frozen, Tags::Frozen),
                (shares.fickle, Tags::Fickle),
                (shares.tags, Tags::Right),
            ],
        );
        let sitemap = pick(
            spread(seed, host, 0.358_898_943_540_674),
            [
                (self.sitemaps.right, Lastmod::Right),
                (self.sitemaps.wrong, Lastmod::Wrong),
                (self.sitemaps.undated, Lastmod::Missing),
            ],
        );
        // Frozen hosts send no date: they are no part of those that may.
        let may_have_dates = 1.0 - shares.frozen;
        let place = spread(seed, host, 0.605_551_275_463_989) * may_have_dates;
        Manners {
            tags: tags.unwrap_or(Tags::Missing),
            has_dates: tags != Some(Tags::Frozen) && place < shares.dates,
            is_noisy: spread(seed, host, 0.123_105_625_617_661) < self.noise,
            sitemap,
        }
    }
}

/// The kind that has the place, if one has.
fn pick<T: Copy, const N: usize>(mut place: f64, kinds: [(f64, T); N]) -> Option<T> {
    for (share, kind) in kinds {
        if place < share {
            return Some(kind);
        }
        place -= share;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> Change {
        Change::new(Duration::from_secs(5))
    }

    #[test]
    fn rates_have_the_median_spread_and_share_asked_for_and_the_seed_decides_them() {
        let rates = |seed| -> Vec<f64> {
            (0..20_000)
                .map(|page| change().rate(seed, page % 40, page / 40))
                .collect()
        };
        let of_one = rates(1);
        assert_eq!(of_one, rates(1));
        assert_ne!(of_one, rates(2));
        let mut logs: Vec<f64> = of_one
            .iter()
            .filter(|rate| **rate > 0.0)
            .map(|rate| rate.ln())
            .collect();
        let never = 1.0 - logs.len() as f64 / 20_000.0;
        assert!((never - 0.3).abs() < 0.01, "{never} never change");
        logs.sort_by(f64::total_cmp);
        let at = |share: f64| logs[(share * logs.len() as f64) as usize];
        let median_s = (-at(0.5)).exp();
        assert!((4.7..5.3).contains(&median_s), "median {median_s} s");
        // Between these lies one standard deviation on each side.
        let sigma = (at(0.8413) - at(0.1587)) / 2.0;
        assert!((2.05..2.15).contains(&sigma), "sigma {sigma}");
    }

    #[test]
    fn importance_is_equal_unless_it_is_to_differ() {
        let importance = |sigma| -> Vec<f64> {
            let change = Change {
                importance_sigma: sigma,
                ..change()
            };
            (0..10_001)
                .map(|page| change.importance(1, 0, page))
                .collect()
        };
        assert!(importance(0.0).iter().all(|importance| *importance == 1.0));
        let mut unequal = importance(1.0);
        unequal.sort_by(f64::total_cmp);
        assert!((0.95..1.05).contains(&unequal[5_000]));
        assert!((2.5..2.95).contains(&unequal[8_413]), "{}", unequal[8_413]);
    }

    #[test]
    fn hosts_have_their_manners_in_the_shares_asked_for() {
        let change = Change {
            validators: ValidatorShares {
                tags: 0.3,
                frozen: 0.2,
                fickle: 0.1,
                dates: 0.5,
            },
            noise: 0.25,
            sitemaps: SitemapShares {
                right: 0.25,
                wrong: 0.125,
                undated: 0.5,
            },
            ..change()
        };
        let all: Vec<Manners> = (0..1_000).map(|host| change.manners(1, host)).collect();
        let share = |of: &dyn Fn(&Manners) -> bool| {
            all.iter().filter(|manners| of(manners)).count() as f64 / 1_000.0
        };
        for (wanted, is) in [
            (0.3, share(&|manners| manners.tags == Tags::Right)),
            (0.2, share(&|manners| manners.tags == Tags::Frozen)),
            (0.1, share(&|manners| manners.tags == Tags::Fickle)),
            (0.5, share(&|manners| manners.has_dates)),
            (0.25, share(&|manners| manners.is_noisy)),
            (
                0.25,
                share(&|manners| manners.sitemap == Some(Lastmod::Right)),
            ),
            (
                0.125,
                share(&|manners| manners.sitemap == Some(Lastmod::Wrong)),
            ),
            (0.125, share(&|manners| manners.sitemap.is_none())),
        ] {
            assert!((wanted - is).abs() < 0.02, "{wanted}: {is}");
        }
        let frozen_with_date = share(&|manners| manners.tags == Tags::Frozen && manners.has_dates);
        assert_eq!(frozen_with_date, 0.0);
    }

    #[test]
    fn half_of_forty_hosts_have_dates_when_half_shall() {
        let change = Change {
            validators: ValidatorShares {
                tags: 0.0,
                frozen: 0.0,
                fickle: 0.0,
                dates: 0.5,
            },
            ..change()
        };
        for seed in 0..20 {
            let dated = (0..40).filter(|host| change.manners(seed, *host).has_dates);
            let dated = dated.count();
            assert!((19..=21).contains(&dated), "seed {seed}: {dated}");
        }
    }

    #[test]
    fn pages_come_and_go_in_the_shares_asked_for() {
        let change = Change {
            gone: GonePages {
                share: 0.2,
                after: Duration::from_secs(10),
                length: Duration::from_secs(3),
            },
            new: NewPages {
                share: 0.1,
                within: Duration::from_secs(60),
            },
            ..change()
        };
        let pages = 0..10_000;
        let born: Vec<f64> = pages
            .clone()
            .map(|page| change.born_s(1, 0, page))
            .filter(|born| *born > 0.0)
            .collect();
        assert!((900..1_100).contains(&born.len()), "{}", born.len());
        let mean = born.iter().sum::<f64>() / born.len() as f64;
        assert!((28.0..32.0).contains(&mean) && born.iter().all(|born| *born < 60.0));
        let gone: Vec<Range<f64>> = pages
            .map(|page| change.gone_s(1, 0, page))
            .filter(|gone| !gone.is_empty())
            .collect();
        assert!((1_850..2_150).contains(&gone.len()), "{}", gone.len());
        let mean =
            |of: &dyn Fn(&Range<f64>) -> f64| gone.iter().map(of).sum::<f64>() / gone.len() as f64;
        assert!((9.4..10.6).contains(&mean(&|gone| gone.start)));
        assert!((2.8..3.2).contains(&mean(&|gone| gone.end - gone.start)));
    }
}
