//! Reading: what the paper's words mean, where they leave room. No crawl has to be made anew for
//! it.
//!
//! In: the runs of a comparison. Out: the same runs as that reading sees them.
//!
//! - Breadth-first goes to the server of the URL that was found first, or lets servers take turns.
//! - The whole time is what breadth-first takes; or what each policy takes itself; or what
//!   breadth-first takes for the first 95 % of the pages, so that a few late servers do not count.

use super::super::curves::Curves;
use super::super::policy::Policy;
use super::super::runs::Runs;
use super::super::setup::Setup;
use std::fmt;

/// Share of the pages that is nearly all.
const NEARLY_ALL: f64 = 0.95;

/// What the paper's words mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// The policy that breadth-first means.
    pub(super) breadth_first: Policy,
    pub(super) whole: Whole,
}

/// What the whole time means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    BreadthFirst,
    EachItsOwn,
    NearlyAll,
}

impl Reading {
    /// The one by which claims are judged.
    pub(super) const CHOSEN: Reading = Reading {
        breadth_first: Policy::BreadthFirst,
        whole: Whole::BreadthFirst,
    };

    /// All readings; the chosen one comes first.
    pub(super) fn all() -> impl Iterator<Item = Reading> {
        let wholes = [Whole::BreadthFirst, Whole::EachItsOwn, Whole::NearlyAll];
        let of = move |breadth_first| {
            wholes.map(|whole| Reading {
                breadth_first,
                whole,
            })
        };
        [Policy::BreadthFirst, Policy::InTurn]
            .into_iter()
            .flat_map(of)
    }

    /// The runs as this reading sees them.
    pub(super) fn of(self, runs: &Runs) -> Runs {
        let mut read = Runs::default();
        for run in &runs.curves {
            if run.setup.policy == self.breadth_first {
                let mut breadth_first = self.timed(run, runs);
                breadth_first.setup.policy = Policy::BreadthFirst;
                read.curves.push(breadth_first);
            }
            if run.setup.policy != Policy::BreadthFirst {
                read.curves.push(self.timed(run, runs));
            }
        }
        read
    }

    /// A run with its whole time.
    fn timed(self, run: &Curves, runs: &Runs) -> Curves {
        let is_its = |other: &&Curves| {
            other.setup
                == Setup {
                    policy: self.breadth_first,
                    ..run.setup
                }
                && (other.shape, other.model) == (run.shape, run.model)
        };
        let breadth_first = runs.curves.iter().find(is_its).unwrap_or(run);
        run.with_whole(match self.whole {
            Whole::BreadthFirst => breadth_first.seconds(),
            Whole::EachItsOwn => run.seconds(),
            Whole::NearlyAll => breadth_first.seconds_for(NEARLY_ALL),
        })
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let breadth_first = match self.breadth_first {
            Policy::InTurn => "servers in turn",
            _ => "URL found first",
        };
        write!(f, "{breadth_first}; {}", self.whole)
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Whole::BreadthFirst => "breadth-first's time",
            Whole::EachItsOwn => "each its own time",
            Whole::NearlyAll => "time of 95 %",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::quality::Model;
    use super::super::super::tests::{BASE, curves, setup};
    use super::*;

    #[test]
    fn a_reading_says_what_breadth_first_is_and_how_long_it_takes() {
        let mut runs = Runs::default();
        let crawls = [
            (Policy::BreadthFirst, [(1, 1.0), (8, 1.0)]),
            (Policy::Performance, [(1, 1.0), (4, 1.0)]),
            (Policy::InTurn, [(2, 1.0), (6, 1.0)]),
        ];
        for (policy, pages) in crawls {
            runs.curves.push(curves(
                setup(policy, 64),
                Model::PageRank,
                &pages,
                Some(8.0),
            ));
        }
        let pages_at = |reading: Reading, policy, time| {
            reading
                .of(&runs)
                .get(BASE, setup(policy, 64), Model::PageRank)
                .unwrap()
                .pages_at(time)
        };
        let half = |reading| {
            [Policy::BreadthFirst, Policy::Performance].map(|policy| pages_at(reading, policy, 0.5))
        };
        assert_eq!(half(Reading::CHOSEN), [0.5, 1.0]);
        let in_turn = Reading {
            breadth_first: Policy::InTurn,
            ..Reading::CHOSEN
        };
        assert_eq!(half(in_turn), [0.5, 0.5]);
        assert_eq!(pages_at(in_turn, Policy::BreadthFirst, 0.75), 0.5);
        assert_eq!(pages_at(in_turn, Policy::BreadthFirst, 1.0), 1.0);
        assert_eq!(
            half(Reading {
                whole: Whole::EachItsOwn,
                ..Reading::CHOSEN
            }),
            [0.5, 0.5]
        );
        assert_eq!(Reading::all().next(), Some(Reading::CHOSEN));
    }
}
