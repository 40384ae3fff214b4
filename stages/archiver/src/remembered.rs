//! A table of limited size that forgets what was not asked for the longest.
//!
//! Two generations: what is looked up moves to the young one; when that has half of what is
//! allowed, the old one goes. Invariant: at most `max` keys are known, each in one generation.

use foldhash::{HashMap, HashMapExt as _};
use std::hash::Hash;

pub(crate) struct Remembered<K, V> {
    max: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    pub(crate) fn new(max: usize) -> Remembered<K, V> {
        Remembered {
            max,
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// Allows so many keys; what is known is forgotten where that is another number.
    pub(crate) fn allow(&mut self, max: usize) {
        if max != self.max {
            *self = Remembered::new(max);
        }
    }

    /// The value of a key, if it is known.
    pub(crate) fn get(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(value.clone());
        }
        let value = self.old.remove(&key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.max == 0 {
            return;
        }
        if self.young.len() >= self.max.div_ceil(2) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_use_stay_known_and_the_others_make_room() {
        let mut remembered: Remembered<u8, String> = Remembered::new(4);
        for n in 0..20 {
            remembered.insert(n, n.to_string());
            assert_eq!(remembered.get(0).as_deref(), Some("0"), "after {n}");
            assert!(remembered.young.len() + remembered.old.len() <= 4);
        }
        assert_eq!(remembered.get(5), None);
        let mut none: Remembered<u8, u8> = Remembered::new(0);
        none.insert(1, 1);
        assert_eq!(none.get(1), None);
    }

    #[test]
    fn the_last_value_counts_whatever_the_generation_of_the_one_before() {
        for between in 0..4 {
            let mut remembered: Remembered<u8, u8> = Remembered::new(6);
            remembered.insert(0, 1);
            (1..=between).for_each(|other| remembered.insert(other, 0));
            remembered.insert(0, 2);
            assert_eq!(remembered.get(0), Some(2), "{between} between");
            remembered.remove(&0);
            assert_eq!(remembered.get(0), None, "{between} between");
        }
    }

    #[test]
    fn another_limit_begins_anew() {
        let mut remembered: Remembered<u8, u8> = Remembered::new(0);
        remembered.allow(4);
        remembered.insert(1, 1);
        remembered.allow(4);
        assert_eq!(remembered.get(1), Some(1));
        remembered.allow(0);
        assert_eq!(remembered.get(1), None);
    }
}
