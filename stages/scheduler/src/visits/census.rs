//! Census: pages are looked at, and their mean is the prior of the time that follows.
//!
//! In: the posteriors of all pages, of a sample, or of a server's. Out: a [`Prior`].

use super::posterior::Posterior;
use super::prior::Prior;
use super::rates::RATES;

/// How many pages the prior of before counts for in a new one.
const WEIGHT: f64 = 8.0;
/// So many pages a server needs to have a prior of its own.
const SERVER_PAGES_MIN: u32 = 300;

/// What is known of the pages that were looked at: all of them, or a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Census {
    sums: [f64; RATES],
    pages: u32,
}

impl Census {
    /// Counts a page.
    pub fn add(&mut self, posterior: &Posterior) {
        let weights = posterior.weights();
        self.sums
            .iter_mut()
            .zip(weights)
            .for_each(|(sum, weight)| *sum += weight);
        self.pages += 1;
    }

    /// The prior of all pages.
    pub fn prior(&self) -> Prior {
        self.beside(&Prior::default())
    }

    /// The prior of a server, where these are its pages and there are enough of them. `all` is that
    /// of all pages.
    pub fn server_prior(&self, all: &Prior) -> Option<Prior> {
        (self.pages >= SERVER_PAGES_MIN).then(|| self.beside(all))
    }

    fn beside(&self, base: &Prior) -> Prior {
        let pages = f64::from(self.pages) + WEIGHT;
        Prior(std::array::from_fn(|number| {
            (self.sums[number] + WEIGHT * base.0[number]) / pages
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::estimate::Estimate;
    use super::super::rates::Rates;
    use super::*;

    #[test]
    fn it_learns_which_rates_pages_have() {
        let rates = Rates::default();
        let fast = Estimate::of_age(3_600.0, &rates, 0);
        let slow = Estimate::of_age(3e8, &rates, 0);
        let mut prior = Prior::default();
        for _ in 0..20 {
            let mut census = Census::default();
            for number in 0..1_000 {
                let estimate = if number % 10 == 0 { fast } else { slow };
                census.add(&Posterior::new(estimate, &prior, &rates));
            }
            prior = census.prior();
        }
        let Prior(weights) = prior;
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let fast_share: f64 = weights[7..].iter().sum();
        assert!((0.09..0.12).contains(&fast_share), "{weights:?}");
    }

    #[test]
    fn a_server_has_its_own_when_it_has_enough_pages() {
        let rates = Rates::default();
        let page = Posterior::new(Estimate::of_age(60.0, &rates, 0), &Prior::default(), &rates);
        let mut census = Census::default();
        (0..SERVER_PAGES_MIN - 1).for_each(|_| census.add(&page));
        assert_eq!(census.server_prior(&Prior::default()), None);
        census.add(&page);
        let Some(Prior(own)) = census.server_prior(&Prior::default()) else {
            panic!("no prior of {SERVER_PAGES_MIN} pages");
        };
        assert!(own[11] > 0.5, "{own:?}");
    }
}
