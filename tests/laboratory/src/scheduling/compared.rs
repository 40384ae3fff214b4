//! Compared: the runs of all policies on one web, side by side.

use super::curves::Curves;
use super::policy::Policy;
use super::quality::Model;
use super::runs::Runs;
use super::setup::Setup;
use super::web::Shape;
use crate::text::percent;

/// Points in time at which two curves are compared.
const INSTANTS: u32 = 1_000;

/// The policies on one web, for one kind of quality.
pub(super) struct Compared<'a> {
    pub(super) breadth_first: &'a Curves,
    pub(super) performance: &'a Curves,
    pub(super) quality: &'a Curves,
    pub(super) capacity: &'a Curves,
    pub(super) in_turn: &'a Curves,
}

impl<'a> Compared<'a> {
    fn get(runs: &'a Runs, shape: Shape, setup: Setup, model: Model) -> Option<Self> {
        let of = |policy| runs.get(shape, Setup { policy, ..setup }, model);
        Some(Compared {
            breadth_first: of(Policy::BreadthFirst)?,
            performance: of(Policy::Performance)?,
            quality: of(Policy::Quality)?,
            capacity: of(Policy::Capacity)?,
            in_turn: of(Policy::InTurn)?,
        })
    }

    /// The comparisons for PageRank and for Zipf.
    pub(super) fn both(runs: &'a Runs, shape: Shape, setup: Setup) -> Option<[Self; 2]> {
        let get = |model| Compared::get(runs, shape, setup, model);
        Some([get(Model::PageRank)?, get(Model::Zipf)?])
    }

    /// Performance's pages at half time, for each page of another run.
    pub(super) fn lead(&self, over: &Curves) -> f64 {
        self.performance.pages_at(0.5) / over.pages_at(0.5)
    }

    /// How far capacity is behind quality at worst, in points, and when.
    pub(super) fn behind(&self) -> (f64, f64) {
        let mut worst = (0.0, 0.0);
        for instant in 0..=INSTANTS {
            let time = f64::from(instant) / f64::from(INSTANTS);
            let points = 100.0 * (self.quality.quality_at(time) - self.capacity.quality_at(time));
            if points > worst.0 {
                worst = (points, time);
            }
        }
        worst
    }

    /// Quality of all policies then, as text.
    pub(super) fn at(&self, time: f64) -> String {
        let of = |run: &Curves| format!("{} {}", run.setup.policy, percent(run.quality_at(time)));
        [
            self.capacity,
            self.quality,
            self.performance,
            self.breadth_first,
        ]
        .map(of)
        .join(", ")
    }
}
