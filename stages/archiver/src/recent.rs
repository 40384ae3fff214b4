//! What was kept lately, so that what is delivered again is not kept again.
//!
//! Invariant: at most [`KEPT`] keys are held. The last [`KEPT`] keys that were given are among
//! them.

use foldhash::{HashSet, HashSetExt as _};
use std::collections::VecDeque;
use std::hash::Hash;

/// Far more than inputs that a broker can deliver again: those in hand of a life that ended.
pub(crate) const KEPT: usize = 1 << 16;

/// The last keys.
pub(crate) struct Recent<K> {
    keys: HashSet<K>,
    order: VecDeque<K>,
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Recent {
            keys: HashSet::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Copy + Eq + Hash> Recent<K> {
    /// Returns whether the key is one of the last.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.keys.contains(key)
    }

    /// Returns whether the key is new.
    pub(crate) fn insert(&mut self, key: K) -> bool {
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

impl<K: Copy + Eq + Hash> FromIterator<K> for Recent<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
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
        let mut recent: Recent<u64> = (0..KEPT as u64 + 1).collect();
        assert_eq!(recent.keys.len(), KEPT);
        assert!(!recent.insert(1));
        assert!(recent.insert(0), "the first one made room");
    }
}
