//! Freshness: how much of a time a crawler's copy was the current one, and what plans would have
//! made of as many visits.
//!
//! In: the lives of all pages, and what their askers got ([`Look`]). Out: a [`Freshness`]. A copy
//! is fresh while the page has the version that was served last, or is away and that is what the
//! last answer said. An answer of 304 leaves the asker with the copy of before, whatever has
//! changed: so a host that always says 304 keeps its askers with what they had.
//!
//! Invariant: only pages count that a perfect crawl finds and that change or might: allowed, with
//! 200, on hosts that are not hostile. A page that comes later counts from then on.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::life::Life;
use super::plan::Plan;
use super::record::{Look, Recorder, Sight};
use super::visiting::{Cycles, Pace, optimum, uniform, weighted};

/// How fresh the copy of a crawler was. Shares are of time, weighted by the importance of pages.
/// Those of plans are expectations: they visit all pages from the first moment on, and know nothing
/// of pages that come or go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Freshness {
    /// Begin of the time that is judged, in seconds since the start of the web.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Pages that are counted.
    pub pages: u64,
    /// Requests for pages that had been answered before.
    pub visits: u64,
    /// The share of time in which the copy was the current version; a page that was never asked
    /// for has none.
    pub share: f64,
    /// The same, had all pages been visited alike, with as many visits.
    pub uniform: f64,
    /// The same, had they been visited in proportion to their importance.
    pub weighted: f64,
    /// The same, under the best plan.
    pub optimum: f64,
    /// Which part of the way from uniform to the optimum the share is; none without a visit, or
    /// where the two are one.
    pub way: Option<f64>,
}

impl Freshness {
    /// Of the time between the two, which are counted from the start of the web. `None` where no
    /// page changes.
    pub(crate) fn new(
        plan: &Plan,
        recorder: &Recorder,
        from: Duration,
        to: Duration,
    ) -> Option<Self> {
        let change = plan.profile.change.as_ref()?;
        let window = from.as_secs_f64()..to.as_secs_f64();
        let mut visits = 0;
        let mut pages = Vec::new();
        let mut fresh = 0.0;
        let mut whole = 0.0;
        for host in 0..plan.profile.hosts {
            let looks = by_page(plan.site(host).pages, &recorder.host(host).looks);
            for (page, looks) in (0..).zip(looks) {
                if !plan.shape(host, page).is_open() {
                    continue;
                }
                let Some(mut life) = plan.life(host, page) else {
                    continue;
                };
                let importance = change.importance(plan.profile.seed, host, page);
                let rate = life.rate;
                pages.push(Pace { rate, importance });
                visits += visits_in(&looks, &window);
                fresh += importance * fresh_s(&mut life, &looks, &window);
                whole += importance * length(&(window.start.max(life.born_s)..window.end));
            }
        }
        let share = if whole > 0.0 { fresh / whole } else { 0.0 };
        Some(Self::beside_plans(&pages, visits, share, window))
    }

    fn beside_plans(pages: &[Pace], visits: u64, share: f64, window: Range<f64>) -> Self {
        let visits_per_s = match length(&window) {
            0.0 => 0.0,
            seconds => visits as f64 / seconds,
        };
        let uniform = uniform(pages, visits_per_s);
        let optimum = optimum(pages, visits_per_s, &Cycles::regular());
        let is_a_way = visits > 0 && optimum - uniform > 1e-6;
        Self {
            from_s: window.start,
            to_s: window.end,
            pages: pages.len() as u64,
            visits,
            share,
            uniform,
            weighted: weighted(pages, visits_per_s),
            optimum,
            way: is_a_way.then(|| (share - uniform) / (optimum - uniform)),
        }
    }
}

/// The looks at each page of a host, in order of time.
fn by_page(pages: u32, looks: &[Look]) -> Vec<Vec<Look>> {
    let mut by_page = vec![Vec::new(); pages as usize];
    for look in looks {
        by_page[look.page as usize].push(*look);
    }
    // Answers of two connections may be recorded in another order than that in which they were
    // made.
    for looks in &mut by_page {
        looks.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    }
    by_page
}

/// The looks in the window but the first one at the page.
fn visits_in(looks: &[Look], window: &Range<f64>) -> u64 {
    let later = looks.iter().skip(1);
    later.filter(|look| window.contains(&look.at_s)).count() as u64
}

/// For how long in the window the copy was current, in seconds.
fn fresh_s(life: &mut Life, looks: &[Look], window: &Range<f64>) -> f64 {
    let mut copy_until_s = f64::NEG_INFINITY;
    let mut fresh = 0.0;
    for (number, look) in looks.iter().enumerate() {
        if look.sight == Sight::Page {
            copy_until_s = life.version_at(look.at_s).until_s;
        }
        let next_s = looks.get(number + 1).map_or(window.end, |next| next.at_s);
        let held = look.at_s.max(window.start)..next_s.min(window.end);
        fresh += if look.sight == Sight::Absent {
            length(&common(&held, &life.gone_s))
        } else {
            let current = held.start..held.end.min(copy_until_s);
            length(&current) - length(&common(&current, &life.gone_s))
        };
    }
    fresh
}

fn common(one: &Range<f64>, other: &Range<f64>) -> Range<f64> {
    one.start.max(other.start)..one.end.min(other.end)
}

fn length(range: &Range<f64>) -> f64 {
    (range.end - range.start).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::profile::Profile;

    fn look(at_s: f64, sight: Sight) -> Look {
        let page = 0;
        Look { page, at_s, sight }
    }

    /// A page whose text changes at 10, 20 and 30 s.
    fn life() -> Life {
        let change = Change {
            never: 1.0,
            ..Change::new(Duration::from_secs(1))
        };
        Life::new(&change, 1, 0, 0).with_additions(vec![10.0, 20.0, 30.0])
    }

    #[test]
    fn a_copy_is_fresh_from_the_answer_to_the_next_change() {
        let looks = [
            look(3.0, Sight::Page),
            look(12.0, Sight::Page),
            look(15.0, Sight::NotModified),
        ];
        // From 3 to 10 and from 12 to 20.
        assert_eq!(fresh_s(&mut life(), &looks, &(0.0..40.0)), 15.0);
        assert_eq!(fresh_s(&mut life(), &looks, &(5.0..14.0)), 7.0);
        assert_eq!(fresh_s(&mut life(), &looks, &(21.0..40.0)), 0.0);
        assert_eq!(fresh_s(&mut life(), &[], &(0.0..40.0)), 0.0);
        assert_eq!(visits_in(&looks, &(0.0..40.0)), 2);
        assert_eq!(visits_in(&looks, &(13.0..40.0)), 1);
    }

    #[test]
    fn a_304_that_lies_leaves_the_old_copy() {
        let looks = [look(3.0, Sight::Page), look(12.0, Sight::NotModified)];
        assert_eq!(fresh_s(&mut life(), &looks, &(0.0..40.0)), 7.0);
        // Nobody knows of which copy this speaks.
        let alone = [look(12.0, Sight::NotModified)];
        assert_eq!(fresh_s(&mut life(), &alone, &(0.0..40.0)), 0.0);
    }

    #[test]
    fn that_a_page_is_gone_must_be_seen_and_that_it_is_back_too() {
        let mut life = life().between(0.0, 12.0..18.0);
        let copy = look(11.0, Sight::Page);
        // Not seen to be gone: fresh before and after, until the next change.
        assert_eq!(fresh_s(&mut life, &[copy], &(0.0..40.0)), 3.0);
        let gone = look(14.0, Sight::Absent);
        assert_eq!(fresh_s(&mut life, &[copy, gone], &(0.0..40.0)), 5.0);
        let back = look(19.0, Sight::NotModified);
        assert_eq!(fresh_s(&mut life, &[copy, gone, back], &(0.0..40.0)), 6.0);
    }

    #[test]
    fn a_share_stands_on_its_way_from_uniform_to_the_optimum() {
        let page = |rate, importance| Pace { rate, importance };
        let pages = [page(0.1, 1.0), page(10.0, 1.0)];
        let of = |share, visits| Freshness::beside_plans(&pages, visits, share, 0.0..10.0);
        let plans = of(0.0, 20);
        assert!(plans.uniform < plans.optimum && plans.uniform == plans.weighted);
        assert_eq!(of(plans.optimum, 20).way, Some(1.0));
        assert_eq!(of(plans.uniform, 20).way, Some(0.0));
        assert_eq!(of(0.5, 0).way, None);
        assert_eq!(of(0.5, 0).uniform, 0.0);
    }

    /// What 40 visits a second of 200 pages come to, in the last 60 of 90 seconds, when `next` says
    /// which page is visited: by rates, importance and seconds since each was visited.
    fn way(importance_sigma: f64, mut next: impl FnMut(&[Pace], &[f64]) -> usize) -> f64 {
        let change = Change {
            importance_sigma,
            ..Change::new(Duration::from_secs(5))
        };
        let profile = Profile {
            hosts: 1,
            change: Some(change.clone()),
            ..Profile::raw()
        };
        let plan = Plan::new(profile, 80);
        let recorder = Recorder::new(1, 0);
        let pages: Vec<Pace> = (0..200)
            .map(|page| Pace {
                rate: change.rate(1, 0, page),
                importance: change.importance(1, 0, page),
            })
            .collect();
        let mut visited = vec![0.0; pages.len()];
        let sight = Sight::Page;
        for page in 0..200 {
            let at_s = 0.0;
            recorder.looked(0, Look { page, at_s, sight });
        }
        for slot in 1..90 * 40 {
            let at_s = f64::from(slot) / 40.0;
            let waits: Vec<f64> = visited.iter().map(|visit| at_s - visit).collect();
            let page = next(&pages, &waits);
            visited[page] = at_s;
            let page = page as u32;
            recorder.looked(0, Look { page, at_s, sight });
        }
        let from = Duration::from_secs(30);
        let to = Duration::from_secs(90);
        let freshness = Freshness::new(&plan, &recorder, from, to).unwrap();
        assert_eq!((freshness.pages, freshness.visits), (200, 60 * 40));
        freshness.way.unwrap()
    }

    /// Goal: the scale is right at both ends. Method: pages visited in turn, and always the page
    /// whose visit has the largest value, which comes to the optimum.
    #[test]
    fn visits_in_turn_go_none_of_the_way_and_visits_by_value_all_of_it() {
        for sigma in [0.0, 1.0] {
            let mut turn = 0;
            let in_turn = way(sigma, |pages, _| {
                turn = (turn + 1) % pages.len();
                turn
            });
            assert!(in_turn.abs() < 0.1, "{in_turn}");
            let value = |page: &Pace, wait_s: f64| {
                let changes = page.rate * wait_s;
                let value = 1.0 - (-changes).exp() * (1.0 + changes);
                page.importance * value / page.rate.max(f64::MIN_POSITIVE)
            };
            let by_value = way(sigma, |pages, waits| {
                let values = pages.iter().zip(waits);
                let values = values.map(|(page, wait)| value(page, *wait));
                let best = values
                    .enumerate()
                    .max_by(|one, other| one.1.total_cmp(&other.1));
                best.unwrap().0
            });
            assert!((by_value - 1.0).abs() < 0.1, "{by_value}");
        }
    }
}
