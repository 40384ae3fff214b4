//! A partition on its way into a store: its keys, before anything refers to them.
//!
//! In: the keys as they were when the copy of the partition began, in order; then those that became
//! known since, in any order. Out: what a store takes over with
//! [`SeenStore::import`](super::SeenStore::import). An import that is dropped leaves nothing.

use super::Key;
use super::ascent::Ascent;
use super::error::SeenError;
use super::sieve::run_writer::RunWriter;

/// The keys of an import, as its store will keep them.
pub(super) enum Base {
    /// For the sieve: a run that is being written.
    Run(RunWriter),
    /// For the memory store.
    Keys(Vec<Key>),
}

/// An import that has begun.
pub struct Import {
    ascent: Ascent,
    /// None when it was taken over, or given up.
    base: Option<Base>,
    later: Vec<Key>,
}

impl Import {
    pub(super) fn begin(partition: u16, base: Base) -> Self {
        Import {
            ascent: Ascent::new(partition),
            base: Some(base),
            later: Vec::new(),
        }
    }

    /// Takes the next keys, which ascend strictly over all calls.
    ///
    /// # Errors
    /// They do not, or cannot be written: the import is given up.
    pub fn push(&mut self, keys: &[Key]) -> Result<(), SeenError> {
        let pushed = self.ascent.check(keys).and_then(|()| match &mut self.base {
            Some(Base::Run(writer)) => keys.iter().try_for_each(|&key| writer.push(key)),
            Some(Base::Keys(so_far)) => {
                so_far.extend(keys);
                Ok(())
            }
            None => Err(SeenError::Unordered(self.ascent.partition())),
        });
        if pushed.is_err() {
            self.give_up();
        }
        pushed
    }

    /// Takes keys that became known since the copy began: none of them was pushed.
    pub fn push_later(&mut self, keys: &[Key]) {
        self.later.extend(keys);
    }

    /// The partition, its keys in order, and those that follow.
    ///
    /// # Errors
    /// The import was given up.
    pub(super) fn end(mut self) -> Result<(u16, Base, Vec<Key>), SeenError> {
        let partition = self.ascent.partition();
        let base = self.base.take().ok_or(SeenError::Unordered(partition))?;
        Ok((partition, base, std::mem::take(&mut self.later)))
    }

    fn give_up(&mut self) {
        // What cannot be removed goes at the next start.
        if let Some(Base::Run(writer)) = self.base.take() {
            let _ = writer.give_up();
        }
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // A process that panics changes nothing more.
        if !std::thread::panicking() {
            self.give_up();
        }
    }
}
