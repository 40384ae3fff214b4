//! Bodies that are in the archive: which one was kept under which URL, and when.
//!
//! Two generations: what is looked up moves to the young one; when that has half of what is
//! allowed, the old one goes. Invariant: at most `max` bodies are known; one that is forgotten is
//! kept whole once more.

use crate::record::Digest;
use foldhash::{HashMap, HashMapExt as _};

/// The record that has a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Original {
    pub(crate) url: String,
    /// `WARC-Date`.
    pub(crate) date: String,
}

pub(crate) struct Digests {
    max: usize,
    young: HashMap<Digest, Original>,
    old: HashMap<Digest, Original>,
}

impl Digests {
    pub(crate) fn new(max: usize) -> Digests {
        Digests {
            max,
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// The record that has a body, if that is known.
    pub(crate) fn get(&mut self, digest: Digest) -> Option<Original> {
        if let Some(original) = self.old.remove(&digest) {
            self.insert(digest, original);
        }
        self.young.get(&digest).cloned()
    }

    pub(crate) fn insert(&mut self, digest: Digest, original: Original) {
        if self.max == 0 {
            return;
        }
        if self.young.len() >= self.max.div_ceil(2) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, original);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_in_use_stay_known_and_the_others_make_room() {
        let mut digests = Digests::new(4);
        let original = |n: u8| Original {
            url: n.to_string(),
            date: String::new(),
        };
        for n in 0..20 {
            digests.insert(Digest([n; 20]), original(n));
            assert_eq!(digests.get(Digest([0; 20])), Some(original(0)), "after {n}");
            assert!(digests.young.len() + digests.old.len() <= 4);
        }
        assert_eq!(digests.get(Digest([5; 20])), None);
        let mut none = Digests::new(0);
        none.insert(Digest([1; 20]), original(1));
        assert_eq!(none.get(Digest([1; 20])), None);
    }
}
