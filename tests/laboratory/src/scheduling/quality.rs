//! Quality: what each page of a web is worth. It is known beforehand; the scheduler sees it once
//! the page is discovered.
//!
//! Source: Cao, Jiang and Singh 2003, section 4.

use super::web::{Shape, Web};
use crate::page_rank::page_rank;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rhumb_wire::message::Quality;
use std::fmt;

/// Where qualities come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// PageRank.
    PageRank,
    /// 1 / k, where k is a random permutation, so that servers mean nothing, unless the web's
    /// traits say otherwise.
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

    /// The quality of each page of the web of that shape.
    pub(super) fn qualities(self, web: &Web, shape: Shape) -> Vec<Quality> {
        let values = match self {
            Model::PageRank => page_rank(
                &web.pages
                    .iter()
                    .map(|page| page.links.as_slice())
                    .collect::<Vec<_>>(),
            ),
            Model::Zipf => zipf(web, shape),
        };
        values
            .into_iter()
            .map(|value| Quality::new(value as f32).unwrap_or_default())
            .collect()
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn zipf(web: &Web, shape: Shape) -> Vec<f64> {
    // These are not the numbers from which the web was made.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(shape.seed);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(random.random());
    let count = web.pages.len();
    let mut values: Vec<f64> = (1..=count)
        .map(|rank| 1.0 / (rank as f64).powf(shape.traits.zipf_exponent))
        .collect();
    if !shape.traits.zipf_by_server {
        values.shuffle(&mut random);
        return values;
    }
    let mut servers: Vec<_> = web
        .servers
        .iter()
        .map(|server| server.pages.clone())
        .collect();
    servers.shuffle(&mut random);
    let mut by_page = vec![0.0; count];
    for (page, value) in servers.into_iter().flatten().zip(values) {
        by_page[page] = value;
    }
    by_page
}

#[cfg(test)]
mod tests {
    use super::super::traits::Traits;
    use super::super::web::tests::SMALL;
    use super::*;

    fn of(shape: Shape) -> Vec<f64> {
        zipf(&Web::generate(shape), shape)
    }

    #[test]
    fn zipf_is_a_permutation_by_the_seed() {
        let [one, same, other] = [7, 7, 8].map(|seed| of(Shape { seed, ..SMALL }));
        assert_eq!(one, same);
        assert_ne!(one, other);
        let mut sorted = one;
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        assert_eq!((sorted[0], sorted[1], sorted[99]), (1.0, 0.5, 0.01));
    }

    #[test]
    fn zipf_by_server_has_its_best_pages_together() {
        let traits = Traits {
            zipf_by_server: true,
            zipf_exponent: 2.0,
            ..Traits::CHOSEN
        };
        let values = of(Shape { traits, ..SMALL });
        let web = Web::generate(SMALL);
        let best = values.iter().position(|&value| value == 1.0).unwrap();
        assert_eq!(
            (best, values[best + 1]),
            (web.servers[web.pages[best].server].pages.start, 0.25)
        );
        assert_ne!(best, 0);
    }
}
