//! Quality: what each page of a web is worth. It is known beforehand; the scheduler sees it once the page is
//! discovered.
//!
//! Source: Cao, Jiang and Singh 2003, section 4.

use super::web::Web;
use crate::page_rank::page_rank;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use shared::message::Quality;
use std::fmt;

/// Where qualities come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// PageRank.
    PageRank,
    /// 1 / k, where k is a random permutation, so that servers mean nothing.
    Zipf,
}

impl Model {
    pub(super) const ALL: [Model; 2] = [Model::PageRank, Model::Zipf];

    pub(super) fn name(self) -> &'static str {
        match self {
            Model::PageRank => "PageRank",
            Model::Zipf => "Zipf(1)",
        }
    }

    /// The quality of each page.
    pub(super) fn qualities(self, web: &Web, seed: u64) -> Vec<Quality> {
        let values = match self {
            Model::PageRank => page_rank(&web.pages.iter().map(|page| page.links.as_slice()).collect::<Vec<_>>()),
            Model::Zipf => zipf(web.pages.len(), seed),
        };
        values.into_iter().map(|value| Quality::new(value as f32).unwrap_or_default()).collect()
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn zipf(pages: usize, seed: u64) -> Vec<f64> {
    // These are not the numbers from which the web was made.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(random.random());
    let mut values: Vec<f64> = (1..=pages).map(|rank| 1.0 / rank as f64).collect();
    values.shuffle(&mut random);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_is_a_permutation_by_the_seed() {
        let [one, same, other] = [7, 7, 8].map(|seed| zipf(100, seed));
        assert_eq!(one, same);
        assert_ne!(one, other);
        let mut sorted = one;
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        assert_eq!((sorted[0], sorted[1], sorted[99]), (1.0, 0.5, 0.01));
    }
}
