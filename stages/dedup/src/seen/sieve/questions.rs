//! Questions of a partition that wait for an exact answer, in the order asked.

use crate::seen::Key;
use rhumb_url::time::Timestamp;

/// A question that waits.
#[derive(Clone, Copy)]
pub(super) struct Question {
    pub(super) key: Key,
    /// Goes back with the answer.
    pub(super) token: u64,
}

/// A question as it is looked up: questions are sorted for that, and answered in the order asked.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) key: Key,
    /// Its place among the partition's questions.
    pub(super) place: u32,
    /// A run holds it.
    pub(super) found: bool,
}

/// The questions of a partition.
#[derive(Default)]
pub(super) struct Questions {
    list: Vec<Question>,
    /// When the first was asked.
    oldest: Option<Timestamp>,
}

impl Questions {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Memory held, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.list.capacity() * size_of::<Question>()
    }

    /// When the first of those that wait was asked.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.oldest
    }

    pub(super) fn push(&mut self, now: Timestamp, question: Question) {
        self.oldest.get_or_insert(now);
        if self.list.len() == self.list.capacity() {
            // A quarter at a time: doubling would leave half of the memory unused.
            self.list.reserve_exact((self.list.len() / 4).max(16));
        }
        self.list.push(question);
    }

    /// The questions sorted by key, equal ones in the order asked.
    pub(super) fn sorted_into(&self, asked: &mut Vec<Asked>) {
        asked.clear();
        asked.reserve_exact(self.list.len());
        asked.extend((0..).zip(&self.list).map(|(place, question)| Asked {
            key: question.key,
            place,
            found: false,
        }));
        asked.sort_unstable_by_key(|asked| (asked.key, asked.place));
    }

    /// All questions in the order asked; none are left and no memory is held.
    pub(super) fn take(&mut self) -> Vec<Question> {
        std::mem::take(self).list
    }
}
