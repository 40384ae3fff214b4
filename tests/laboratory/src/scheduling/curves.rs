//! Curves: how far a crawl has come, in pages and in quality, by time and by pages.

use super::crawl::Fetched;
use super::quality::Model;
use super::setup::Setup;
use super::web::Shape;
use rhumb_wire::message::Quality;
use std::rc::Rc;

/// Throughput is measured over the first pages, this share of all. The last pages are those of a
/// few servers with one connection each, and tell about these servers alone.
const SHARE_IN_THROUGHPUT: f64 = 0.8;

/// A crawl, as one kind of quality sees it.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    pub(super) shape: Shape,
    pub(super) setup: Setup,
    pub(super) model: Model,
    /// The pages, in the order in which they came.
    pub(super) fetched: Rc<[Fetched]>,
    /// Share of all fetched quality that the first pages have: the first none, one, two, …
    quality: Rc<[f64]>,
    /// The seconds that count as the whole time: those of breadth-first, where nothing else is
    /// said.
    whole: f64,
}

impl Curves {
    /// `whole`: the seconds that count as the whole time; without it the crawl's own.
    pub(super) fn new(
        (shape, setup, model): (Shape, Setup, Model),
        fetched: Rc<[Fetched]>,
        qualities: &[Quality],
        whole: Option<f64>,
    ) -> Self {
        let mut sum = 0.0;
        let mut quality = vec![0.0];
        for fetched in fetched.iter() {
            sum += f64::from(qualities[fetched.page].get());
            quality.push(sum);
        }
        quality.iter_mut().for_each(|quality| *quality /= sum);
        let mut curves = Curves {
            shape,
            setup,
            model,
            fetched,
            quality: quality.into(),
            whole: 0.0,
        };
        curves.whole = whole.unwrap_or_else(|| curves.seconds());
        curves
    }

    /// The same crawl, with other seconds as the whole time.
    pub(super) fn with_whole(&self, whole: f64) -> Self {
        Curves {
            whole,
            ..self.clone()
        }
    }

    /// The time when the last page came, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.fetched.last().map_or(0.0, Fetched::seconds)
    }

    /// The time when a share of the pages had come, in seconds.
    pub(super) fn seconds_for(&self, share: f64) -> f64 {
        let pages = (share * self.fetched.len() as f64).ceil() as usize;
        pages
            .checked_sub(1)
            .and_then(|last| self.fetched.get(last))
            .map_or(0.0, Fetched::seconds)
    }

    /// Share of all pages after a share of the whole time.
    pub(super) fn pages_at(&self, time: f64) -> f64 {
        self.fetched_at(time) as f64 / self.fetched.len() as f64
    }

    /// Share of all quality after a share of the whole time.
    pub(super) fn quality_at(&self, time: f64) -> f64 {
        self.quality[self.fetched_at(time)]
    }

    /// Share of all quality after a share of the pages.
    pub(super) fn quality_after(&self, pages: f64) -> f64 {
        self.quality[(pages * self.fetched.len() as f64).round() as usize]
    }

    /// Pages a second, until most have come.
    pub(super) fn throughput(&self) -> f64 {
        let pages = (SHARE_IN_THROUGHPUT * self.fetched.len() as f64).ceil();
        pages / self.seconds_for(SHARE_IN_THROUGHPUT)
    }

    fn fetched_at(&self, time: f64) -> usize {
        self.fetched
            .partition_point(|fetched| fetched.seconds() <= time * self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy::Policy;
    use super::super::tests::{curves, setup};
    use super::*;

    #[test]
    fn a_crawl_is_seen_by_time_and_by_pages() {
        // Qualities 4 1 3 2, one page a second.
        let pages = [(1, 4.0), (2, 1.0), (3, 3.0), (4, 2.0)];
        let curves = curves(setup(Policy::Capacity, 64), Model::Zipf, &pages, Some(8.0));
        assert_eq!(curves.seconds(), 4.0);
        assert_eq!(
            [0.0, 0.124, 0.125, 0.3, 0.5, 1.0].map(|time| curves.pages_at(time)),
            [0.0, 0.0, 0.25, 0.5, 1.0, 1.0]
        );
        assert_eq!(
            [0.125, 0.25, 0.5].map(|time| curves.quality_at(time)),
            [0.4, 0.5, 1.0]
        );
        assert_eq!(
            [0.0, 0.5, 0.75].map(|pages| curves.quality_after(pages)),
            [0.0, 0.5, 0.8]
        );
        assert_eq!(curves.throughput(), 1.0);
        assert_eq!(
            [0.0, 0.5, 0.6, 1.0].map(|share| curves.seconds_for(share)),
            [0.0, 2.0, 3.0, 4.0]
        );
        assert_eq!(
            [0.5, 1.0].map(|time| curves.with_whole(4.0).pages_at(time)),
            [0.5, 1.0]
        );
    }
}
