//! Quality: what each page of a web is worth. It is known beforehand; the scheduler sees it once the page is
//! discovered.
//!
//! Source: Cao, Jiang and Singh 2003, section 4.

use super::web::Web;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use shared::message::Quality;
use std::fmt;

/// d of PageRank: the share that flows along links.
const DAMPING: f64 = 0.85;
/// Rounds of PageRank: after them less than a millionth of it still moves.
const ROUNDS: usize = 100;

/// Where qualities come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// R(u) = (1 - d) / T + d * sum of R(v) / C_v over the pages v that link to u. T is the number of pages, C_v the
    /// number of links of v.
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
            Model::PageRank => page_rank(web),
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

fn page_rank(web: &Web) -> Vec<f64> {
    let pages = web.pages.len();
    let own = (1.0 - DAMPING) / pages as f64;
    let mut ranks = vec![1.0 / pages as f64; pages];
    for _ in 0..ROUNDS {
        let mut next = vec![own; pages];
        for (page, rank) in web.pages.iter().zip(&ranks) {
            for &to in &page.links {
                next[to] += DAMPING * rank / page.links.len() as f64;
            }
        }
        ranks = next;
    }
    ranks
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
    use super::super::web::Page;
    use super::*;

    #[test]
    fn page_rank_flows_along_links() {
        // 0 and 1 link to each other and to 2, which links to nothing.
        let page = |links: &[usize]| Page { server: 0, response_us: 1, links: links.to_vec() };
        let web = Web { servers: Vec::new(), pages: vec![page(&[1, 2]), page(&[0, 2]), page(&[])] };
        let ranks = page_rank(&web);
        // x = 0.05 + 0.85 x / 2; the third has 0.05 + 0.85 x.
        let x = 0.05 / (1.0 - 0.425);
        for (rank, expected) in ranks.iter().zip([x, x, 0.05 + 0.85 * x]) {
            assert!((rank - expected).abs() < 1e-9, "{ranks:?}");
        }
    }

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
