//! Which entry gives way to a new one? CLOCK, LRU and RANDOM (Broder, Najork and Wiener 2003,
//! section 3).

/// A policy of replacement over the slots of a full cache.
pub trait Replacement: Send {
    /// The slot's entry was asked for and found.
    fn used(&mut self, slot: u32);
    /// The slot has a new entry.
    fn placed(&mut self, slot: u32);
    /// The slot whose entry gives way. All slots are in use.
    fn victim(&mut self) -> u32;
}

/// A mark per entry and a hand that goes round: a use sets the mark, the hand clears marks until it
/// finds an entry without one.
pub struct Clock {
    marks: Box<[bool]>,
    hand: usize,
}

impl Clock {
    /// For so many slots.
    pub fn new(slots: usize) -> Self {
        Clock {
            marks: vec![false; slots.max(1)].into_boxed_slice(),
            hand: 0,
        }
    }

    fn advance(&mut self) {
        self.hand += 1;
        if self.hand == self.marks.len() {
            self.hand = 0;
        }
    }
}

impl Replacement for Clock {
    fn used(&mut self, slot: u32) {
        self.marks[slot as usize] = true;
    }

    /// Not marked: an entry that is never used gives way at the hand's first pass.
    fn placed(&mut self, _slot: u32) {}

    fn victim(&mut self) -> u32 {
        while std::mem::take(&mut self.marks[self.hand]) {
            self.advance();
        }
        let slot = self.hand as u32;
        self.advance();
        slot
    }
}

/// The entry whose last use is longest ago: a doubly linked list over the slots.
pub struct Lru {
    /// Per slot, the one used next before and next after it; a slot that is its own neighbour is in
    /// no list yet.
    links: Box<[Link]>,
    /// Used last; its `newer` is the one used longest ago: the list is a ring.
    newest: Option<u32>,
}

#[derive(Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
}

impl Lru {
    /// For so many slots.
    pub fn new(slots: usize) -> Self {
        let links = (0..slots.max(1) as u32)
            .map(|slot| Link {
                older: slot,
                newer: slot,
            })
            .collect();
        Lru {
            links,
            newest: None,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Link { older, newer } = self.links[slot as usize];
        self.links[older as usize].newer = newer;
        self.links[newer as usize].older = older;
        self.links[slot as usize] = Link {
            older: slot,
            newer: slot,
        };
    }

    fn link_newest(&mut self, slot: u32) {
        if let Some(newest) = self.newest {
            let oldest = self.links[newest as usize].newer;
            self.links[slot as usize] = Link {
                older: newest,
                newer: oldest,
            };
            self.links[newest as usize].newer = slot;
            self.links[oldest as usize].older = slot;
        }
        self.newest = Some(slot);
    }
}

impl Replacement for Lru {
    fn used(&mut self, slot: u32) {
        if self.newest == Some(slot) {
            return;
        }
        self.unlink(slot);
        self.link_newest(slot);
    }

    fn placed(&mut self, slot: u32) {
        self.used(slot);
    }

    fn victim(&mut self) -> u32 {
        self.newest
            .map_or(0, |newest| self.links[newest as usize].newer)
    }
}

/// Any entry.
pub struct Random {
    slots: u64,
    /// Of a xorshift generator: a fixed beginning makes every run alike.
    state: u64,
}

impl Random {
    /// For so many slots.
    pub fn new(slots: usize) -> Self {
        Random {
            slots: slots.max(1) as u64,
            state: 0x2545_f491_4f6c_dd1d,
        }
    }
}

impl Replacement for Random {
    fn used(&mut self, _slot: u32) {}

    fn placed(&mut self, _slot: u32) {}

    fn victim(&mut self) -> u32 {
        // Marsaglia 2003, with the multiplication of Vigna's xorshift64*.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let number = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((number * self.slots) >> 32) as u32
    }
}
