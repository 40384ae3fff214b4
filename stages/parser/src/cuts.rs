//! Cuts: which documents were not read to their end, so that `rhumb why` can tell.
//!
//! In: documents that were cut, when they were fetched or by a limit of links or bytes. Out: what
//! is said of a URL.
//!
//! Invariant: the latest [`REMEMBERED_MAX`] are remembered, and no more (P6). An archive keeps all
//! of them, in `crawl.jsonl`.

use std::collections::VecDeque;

use rhumb_wire::message::Cut;

/// Documents that are remembered: few are cut where limits suit the web that is crawled.
const REMEMBERED_MAX: usize = 1000;

/// What is remembered of a document.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    /// Fingerprint of its URL.
    url: u64,
    /// Links that were taken.
    links: usize,
    /// What ended its reading.
    cut: Option<Cut>,
    /// Its body was cut when it was fetched.
    is_truncated: bool,
}

/// The documents that were cut lately.
#[derive(Debug, Default)]
pub(crate) struct Cuts(VecDeque<Remembered>);

impl Cuts {
    /// A document was read: so far, if it was cut.
    pub(crate) fn read(&mut self, url: u64, links: usize, cut: Option<Cut>, is_truncated: bool) {
        if cut.is_none() && !is_truncated {
            return;
        }
        if self.0.len() == REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Remembered {
            url,
            links,
            cut,
            is_truncated,
        });
    }

    /// What is told of a URL; none when it is not among them.
    pub(crate) fn told_of(&self, url: u64) -> Option<String> {
        let Remembered {
            links,
            cut,
            is_truncated,
            ..
        } = self
            .0
            .iter()
            .rev()
            .find(|remembered| remembered.url == url)?;
        let cut = cut.map(|cut| format!("what is beyond {} was left out", cut.key()));
        let truncated = is_truncated.then(|| "its body was cut when it was fetched".to_owned());
        let reasons: Vec<String> = [truncated, cut].into_iter().flatten().collect();
        Some(format!(
            "{links} links were taken from it: {}",
            reasons.join(", and ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_documents_that_were_cut_are_told_of_and_no_others() {
        let mut cuts = Cuts::default();
        cuts.read(1, 5, None, false);
        assert_eq!(cuts.told_of(1), None, "it was read to its end");
        cuts.read(2, 50_000, Some(Cut::SitemapLinks), false);
        let told =
            "50000 links were taken from it: what is beyond limits.links_per_sitemap was left out";
        assert_eq!(cuts.told_of(2).as_deref(), Some(told));
        cuts.read(2, 7, Some(Cut::PageBytes), true);
        let told = "7 links were taken from it: its body was cut when it was fetched, and what is \
                    beyond limits.decoded_bytes_max was left out";
        assert_eq!(
            cuts.told_of(2).as_deref(),
            Some(told),
            "the last time counts"
        );
        (0..REMEMBERED_MAX as u64).for_each(|url| cuts.read(100 + url, 0, None, true));
        assert_eq!((cuts.0.len(), cuts.told_of(2)), (REMEMBERED_MAX, None));
    }
}
