//! What was kept lately, so that what is delivered again is not kept again.
//!
//! Invariant: at most [`KEPT`] keys, and the last so many of all that were given are among them.

use std::collections::{HashSet, VecDeque};

/// Far more than inputs that a broker can deliver again: those in hand of a life that ended.
pub(crate) const KEPT: usize = 1 << 16;

/// The last keys.
#[derive(Default)]
pub(crate) struct Recent {
    keys: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Recent {
    /// Whether the key is new.
    pub(crate) fn insert(&mut self, key: u64) -> bool {
        if !self.keys.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        true
    }
}

impl FromIterator<u64> for Recent {
    fn from_iter<I: IntoIterator<Item = u64>>(keys: I) -> Self {
        let mut recent = Recent::default();
        for key in keys {
            recent.insert(key);
        }
        recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_new_once_and_only_the_last_ones_are_known() {
        let mut recent: Recent = (0..KEPT as u64 + 1).collect();
        assert_eq!(recent.keys.len(), KEPT);
        assert!(!recent.insert(1));
        assert!(recent.insert(0), "the first one made room");
    }
}
