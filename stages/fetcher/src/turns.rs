//! The requests of a job, by their indexes: which comes next, which are in hand, and which were not
//! made.
//!
//! Invariant: each is to be made, in hand, untried or ended, and never two of these.

use std::collections::VecDeque;

/// How far the requests of a job have come.
pub(crate) struct Turns {
    count: usize,
    /// The first that was never in hand.
    next: usize,
    /// Those that are made again, before that one.
    again: VecDeque<usize>,
    in_hand: Vec<usize>,
    /// Taken in hand, and did not reach the server.
    unreached: Vec<usize>,
}

impl Turns {
    /// So many requests, none of them made.
    pub(crate) fn new(count: usize) -> Turns {
        Turns {
            count,
            next: 0,
            again: VecDeque::new(),
            in_hand: Vec::new(),
            unreached: Vec::new(),
        }
    }

    /// The request whose turn it is.
    pub(crate) fn next(&self) -> Option<usize> {
        self.again
            .front()
            .copied()
            .or_else(|| (self.next < self.count).then_some(self.next))
    }

    /// Takes the request whose turn it is, which ends without having been in hand.
    pub(crate) fn pass(&mut self) -> Option<usize> {
        let index = self.next()?;
        if self.again.pop_front().is_none() {
            self.next += 1;
        }
        Some(index)
    }

    /// Takes the request whose turn it is in hand.
    pub(crate) fn begin(&mut self) -> Option<usize> {
        let index = self.pass()?;
        self.in_hand.push(index);
        Some(index)
    }

    /// A request has ended. Returns whether it was in hand.
    pub(crate) fn end(&mut self, index: usize) -> bool {
        let Some(place) = self.in_hand.iter().position(|&in_hand| in_hand == index) else {
            return false;
        };
        self.in_hand.swap_remove(place);
        true
    }

    /// A request that was in hand is to be made again.
    pub(crate) fn repeat(&mut self, index: usize) {
        self.again.push_back(index);
    }

    /// A request that was in hand did not reach the server.
    pub(crate) fn miss(&mut self, index: usize) {
        self.unreached.push(index);
    }

    /// Takes those that were to be made again, and are not.
    pub(crate) fn take_repeated(&mut self) -> VecDeque<usize> {
        std::mem::take(&mut self.again)
    }

    /// How many are in hand.
    pub(crate) fn in_hand(&self) -> usize {
        self.in_hand.len()
    }

    /// Takes what was not tried, in order: the job is over.
    pub(crate) fn take_untried(&mut self) -> Vec<usize> {
        let mut untried: Vec<usize> = self
            .take_repeated()
            .into_iter()
            .chain(self.unreached.drain(..))
            .collect();
        untried.extend(self.next..self.count);
        untried.sort_unstable();
        self.next = self.count;
        untried
    }
}
