//! URLs that the archive of a replay did not have, for those who ask why.
//!
//! Invariant: the last [`KEPT`] are known.

use foldhash::HashSet;
use rhumb_url::fingerprint;
use std::collections::VecDeque;

const KEPT: usize = 1 << 16;

/// The last of them, by their fingerprints.
#[derive(Default)]
pub(crate) struct Absent {
    urls: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Absent {
    /// The archive does not have it.
    pub(crate) fn note(&mut self, url: &str) {
        let url = fingerprint(url);
        if self.urls.insert(url) {
            self.order.push_back(url);
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.urls.remove(&oldest);
        }
    }

    /// Returns whether it is one of them.
    pub(crate) fn has(&self, url: &str) -> bool {
        self.urls.contains(&fingerprint(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known() {
        let mut absent = Absent::default();
        for number in 0..=KEPT {
            absent.note(&number.to_string());
            absent.note(&number.to_string());
        }
        assert!(!absent.has("0") && absent.has("1") && absent.has(&KEPT.to_string()));
        assert_eq!(absent.urls.len(), KEPT);
    }
}
