//! Scale: how good the order of a crawl is.
//!
//! In: a web, and where crawls of it begin. Out: the area under PageRank by pages of an order, and
//! where it lies between two crawls in which each server fetches a page a round: in order of
//! discovery (0), and in that of the true PageRank of what is known (1), the best that an order can
//! do there.

use super::model::crawl;
use super::rules::{Order, Rules};
use crate::page_rank::page_rank;
use synthetic_web::Graph;

/// A web as a scale for crawls of it.
#[derive(Clone, Debug)]
pub struct Scale {
    pub(super) ranks: Vec<f64>,
    /// The area in order of discovery.
    pub discovery: f64,
    /// The area in order of the true PageRank of what is known.
    pub best: f64,
}

impl Scale {
    /// The scale of a web for crawls that begin with these pages.
    pub fn new(graph: &Graph, seeds: &[usize]) -> Scale {
        let links: Vec<&[usize]> = graph
            .pages
            .iter()
            .map(|page| page.links.as_slice())
            .collect();
        let mut scale = Scale {
            ranks: page_rank(&links),
            discovery: 0.0,
            best: 0.0,
        };
        let area =
            |order| scale.area(&crawl(graph, seeds, &scale.ranks, Rules::plain(order)).fetched);
        (scale.discovery, scale.best) = (area(Order::Discovery), area(Order::PageRank));
        scale
    }

    /// The area under the share of PageRank by the share of pages, for pages in the order in which
    /// they were fetched: 0.5 when the order means nothing.
    pub fn area(&self, fetched: &[usize]) -> f64 {
        let mut so_far = 0.0;
        let mut area = 0.0;
        for page in fetched {
            let rank = self.ranks[*page];
            area += so_far + rank / 2.0;
            so_far += rank;
        }
        if fetched.is_empty() {
            0.0
        } else {
            area / so_far / fetched.len() as f64
        }
    }

    /// Which part of the way from order of discovery to the best order an area is.
    pub fn way(&self, area: f64) -> f64 {
        (area - self.discovery) / (self.best - self.discovery)
    }

    /// The share of PageRank after each hundredth of the pages, from none to all.
    pub(super) fn curve(&self, fetched: &[usize]) -> Vec<f64> {
        let sums: Vec<f64> = std::iter::once(0.0)
            .chain(fetched.iter().scan(0.0, |sum, page| {
                *sum += self.ranks[*page];
                Some(*sum)
            }))
            .collect();
        let all = sums.last().copied().unwrap_or_default();
        (0..=100)
            .map(|part| sums[fetched.len() * part / 100] / all)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_of_an_order_that_means_nothing_is_half_and_good_pages_first_are_above() {
        let scale = |ranks: &[f64]| Scale {
            ranks: ranks.to_vec(),
            discovery: 0.5,
            best: 0.7,
        };
        assert_eq!(scale(&[2.0, 2.0, 2.0]).area(&[1, 0, 2]), 0.5);
        // 3/4 after half of the pages: (3/8 + 7/8) / 2.
        let scale = scale(&[1.0, 3.0]);
        assert_eq!(
            [scale.area(&[1, 0]), scale.area(&[0, 1]), scale.area(&[])],
            [0.625, 0.375, 0.0]
        );
        assert!((scale.way(0.6) - 0.5).abs() < 1e-9);
        let curve = scale.curve(&[1, 0]);
        assert_eq!(
            (curve.len(), curve[0], curve[50], curve[100]),
            (101, 0.0, 0.75, 1.0)
        );
    }
}
