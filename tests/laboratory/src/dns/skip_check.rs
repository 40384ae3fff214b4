//! Skip-check table: names by their first character and length.
//!
//! Each slot has a list of pointers into a pool of names of fixed length. A search begins at the
//! first pointer and leaves a candidate at the first character that differs. The paper moves names
//! that are used more to the front once in a while. Here every name is looked up equally often, so
//! that order does not matter.
//!
//! Source: Yin, Yin and Huang 2008, the crawler's hash of domains.

use super::work::Work;

/// Characters of a name in the pool.
const NAME_BYTES: usize = 64;
/// Values of a first character.
const FIRSTS: usize = 256;

/// The table.
pub(super) struct SkipCheck {
    /// Numbers in the pool, by first character and length.
    slots: Vec<Vec<u32>>,
    pool: Vec<[u8; NAME_BYTES]>,
}

impl SkipCheck {
    /// An empty table.
    pub(super) fn new() -> Self {
        SkipCheck {
            slots: vec![Vec::new(); FIRSTS * (NAME_BYTES + 1)],
            pool: Vec::new(),
        }
    }

    /// Puts a name at the end of pool and slot. A name that is longer than the pool is wide is left
    /// out.
    pub(super) fn insert(&mut self, name: &str) {
        let (Some(slot), Some(_)) = (slot(name), name.len().checked_sub(1)) else {
            return;
        };
        let mut entry = [0; NAME_BYTES];
        entry[..name.len()].copy_from_slice(name.as_bytes());
        self.slots[slot].push(self.pool.len() as u32);
        self.pool.push(entry);
    }

    /// The number of a name in the pool, and what it took to find it.
    pub(super) fn find(&self, name: &str) -> (Option<u32>, Work) {
        let mut work = Work::default();
        let candidates = slot(name).map_or(&[][..], |slot| &self.slots[slot]);
        for &candidate in candidates {
            // All names of a slot have this length.
            if work.compare(
                &self.pool[candidate as usize][..name.len()],
                name.as_bytes(),
            ) {
                return (Some(candidate), work);
            }
        }
        (None, work)
    }

    /// Slots with a name.
    pub(super) fn slots_taken(&self) -> usize {
        self.slots.iter().filter(|slot| !slot.is_empty()).count()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.pool.len() * (NAME_BYTES + size_of::<u32>()) + self.slots.len() * size_of::<Vec<u32>>()
    }
}

fn slot(name: &str) -> Option<usize> {
    let first = usize::from(*name.as_bytes().first()?);
    (name.len() <= NAME_BYTES).then_some(first * (NAME_BYTES + 1) + name.len())
}

#[cfg(test)]
mod tests {
    use super::super::names::Names;
    use super::*;

    #[test]
    fn what_was_put_in_is_found_and_nothing_else() {
        let names = Names::new(3_000, 1);
        let mut table = SkipCheck::new();
        for name in &names.all()[..2_000] {
            table.insert(name);
        }
        for (number, name) in names.all().iter().enumerate() {
            let expected = (number < 2_000).then_some(number as u32);
            assert_eq!(table.find(name).0, expected, "{name}");
        }
        assert_eq!(table.find("").0, None);
        assert_eq!(table.find(&"a".repeat(NAME_BYTES + 1)).0, None);
    }

    #[test]
    fn only_names_with_that_first_character_and_length_are_compared() {
        let mut table = SkipCheck::new();
        for name in ["abc", "abd", "bbd", "abcd"] {
            table.insert(name);
        }
        assert_eq!(
            table.find("abd"),
            (
                Some(1),
                Work {
                    candidates: 2,
                    characters: 6
                }
            )
        );
        assert_eq!(
            table.find("bbd"),
            (
                Some(2),
                Work {
                    candidates: 1,
                    characters: 3
                }
            )
        );
        assert_eq!(table.slots_taken(), 3);
    }
}
