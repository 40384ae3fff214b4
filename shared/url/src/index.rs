//! From a fingerprint to its slot: open addressing with linear probing, and no tombstones. The
//! caches of URLs and of names find their entries by it.
//!
//! Invariant: no cell between a fingerprint's home and its cell is empty, so a search ends at the
//! first empty one.

/// What a slot holds is known by its fingerprint.
pub trait Fingerprinted {
    /// The fingerprint.
    fn fingerprint(&self) -> u64;
}

impl Fingerprinted for u64 {
    fn fingerprint(&self) -> u64 {
        *self
    }
}

/// Finds slots by fingerprint.
pub struct Index {
    /// Slot + 1 in each; 0: empty. At most half of them are in use.
    cells: Box<[u32]>,
    /// A home is the upper bits of a product: so many are left out.
    shift: u32,
}

/// 2^64 divided by the golden ratio: spreads what differs in any bits over the upper ones (Knuth
/// 1973, section 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Index {
    /// For so many slots.
    pub fn new(slots: usize) -> Self {
        let cells = (slots * 2).next_power_of_two().max(2);
        Index {
            cells: vec![0; cells].into_boxed_slice(),
            shift: 64 - cells.trailing_zeros(),
        }
    }

    fn home(&self, fingerprint: u64) -> usize {
        (fingerprint.wrapping_mul(SPREAD) >> self.shift) as usize
    }

    fn after(&self, cell: usize) -> usize {
        (cell + 1) & (self.cells.len() - 1)
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.cells)
    }

    /// The slot of a fingerprint.
    pub fn find<S: Fingerprinted>(&self, fingerprint: u64, slots: &[S]) -> Option<u32> {
        let mut cell = self.home(fingerprint);
        loop {
            let slot = self.cells[cell].checked_sub(1)?;
            if slots[slot as usize].fingerprint() == fingerprint {
                return Some(slot);
            }
            cell = self.after(cell);
        }
    }

    /// Takes in a slot, whose fingerprint is not here yet.
    pub fn insert<S: Fingerprinted>(&mut self, slot: u32, slots: &[S]) {
        let mut cell = self.home(slots[slot as usize].fingerprint());
        while self.cells[cell] != 0 {
            cell = self.after(cell);
        }
        self.cells[cell] = slot + 1;
    }

    /// Takes out a slot that is here, and moves back what would otherwise be cut off from its home.
    pub fn remove<S: Fingerprinted>(&mut self, slot: u32, slots: &[S]) {
        let mut empty = self.home(slots[slot as usize].fingerprint());
        while self.cells[empty] != slot + 1 {
            empty = self.after(empty);
        }
        let mut cell = empty;
        loop {
            cell = self.after(cell);
            let Some(other) = self.cells[cell].checked_sub(1) else {
                break;
            };
            let home = self.home(slots[other as usize].fingerprint());
            // Whether its home lies at or before the empty cell, going round.
            let mask = self.cells.len() - 1;
            if (cell.wrapping_sub(home) & mask) >= (cell.wrapping_sub(empty) & mask) {
                self.cells[empty] = other + 1;
                empty = cell;
            }
        }
        self.cells[empty] = 0;
    }
}
