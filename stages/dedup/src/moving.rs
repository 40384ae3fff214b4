//! What dedup keeps of its partitions beside its tables, as it moves: the keys of the URL-seen
//! store.
//!
//! In: a partition; blocks of keys, each key 16 bytes (host, URL, both big-endian). Out: the same
//! of another instance's store, and what has to be committed.

use crate::meta::{META, SEEN, SERIALS, key, of_another_version};
use crate::seen::{self, CopiedKeys, Import, Key, SeenError, SeenStore};
use rhumb_partition::Split;
use rhumb_stage::store::{Changes, Store, StoreError, Table};
use rhumb_stage::{Beside, Copied, Importing, VisitBlock};
use std::any::Any;
use std::path::PathBuf;

/// Keys of a block.
const KEYS_OF_BLOCK: usize = 2048;
const KEY_BYTES: usize = 16;

/// The URL-seen store of an instance.
pub struct MovingKeys {
    pub(crate) store: Box<dyn SeenStore>,
}

impl MovingKeys {
    /// Opens the URL-seen store in the instance's folder as it was committed. `partitions`: those
    /// there are questions about.
    ///
    /// # Errors
    /// It cannot be read, or does not say what was seen although numbers were given out.
    pub fn open(
        settings: &seen::Settings,
        store: &dyn Store,
        folder: PathBuf,
        partitions: &[u16],
    ) -> Result<Self, StoreError> {
        let committed = store.get(META, SEEN)?;
        if committed.is_none() {
            // Files that nothing names would be removed.
            for &partition in partitions {
                if store.contains(META, &key(partition, SERIALS))? {
                    return Err(of_another_version("which URLs were seen"));
                }
            }
        }
        let store = seen::open(settings, folder, partitions, committed.as_deref())?;
        Ok(MovingKeys { store })
    }
}

impl Beside for MovingKeys {
    fn name(&self) -> Table {
        "seen"
    }

    fn copy(&mut self, partition: u16) -> Result<Box<dyn Copied>, StoreError> {
        Ok(Box::new(Copy(self.store.copy(partition)?)))
    }

    fn take_later(&mut self, partition: u16, visit: &mut VisitBlock<'_>) -> Result<(), StoreError> {
        let later = self.store.take_later(partition);
        later
            .chunks(KEYS_OF_BLOCK)
            .try_for_each(|keys| visit(&block_of(keys)))
    }

    fn importer(&mut self, partition: u16) -> Result<Box<dyn Importing>, StoreError> {
        Ok(Box::new(Keys(self.store.importer(partition)?)))
    }

    fn import(&mut self, importing: Box<dyn Importing>) -> Result<(), StoreError> {
        let importing: Box<dyn Any> = importing;
        let keys = importing
            .downcast::<Keys>()
            .map_err(|_| StoreError::Unusable("an import of another stage".into()))?;
        self.store.import(keys.0).map_err(StoreError::from)
    }

    fn forget(&mut self, partition: u16) -> Result<(), StoreError> {
        match self.store.known(partition) {
            0 => Ok(()),
            _ => self.store.forget(partition).map_err(StoreError::from),
        }
    }

    fn halve(&mut self, split: &Split) -> Result<(), StoreError> {
        Ok(self.store.halve(split)?)
    }

    fn stage(&mut self, changes: &mut Changes) -> Result<(), StoreError> {
        if let Some(seen) = self.store.stage()? {
            changes.put(META, SEEN, seen);
        }
        Ok(())
    }

    fn committed(&mut self) -> Result<(), StoreError> {
        self.store.committed().map_err(StoreError::from)
    }
}

/// A copy of a partition's keys.
struct Copy(Box<dyn CopiedKeys>);

impl Copied for Copy {
    fn visit(&mut self, visit: &mut VisitBlock<'_>) -> Result<(), StoreError> {
        let mut keys = Vec::with_capacity(KEYS_OF_BLOCK);
        let mut stopped = Ok(());
        let visited = self.0.visit(&mut |key| {
            keys.push(key);
            if keys.len() == KEYS_OF_BLOCK {
                stopped = visit(&block_of(&keys));
                keys.clear();
            }
            // Nobody wants the rest.
            if stopped.is_ok() {
                Ok(())
            } else {
                Err(SeenError::Stopped)
            }
        });
        stopped?;
        visited?;
        if keys.is_empty() {
            Ok(())
        } else {
            visit(&block_of(&keys))
        }
    }
}

/// Keys of a partition that come.
struct Keys(Import);

impl Importing for Keys {
    fn take(&mut self, block: &[u8], is_later: bool) -> Result<(), StoreError> {
        let (keys, rest) = block.as_chunks::<KEY_BYTES>();
        if !rest.is_empty() {
            return Err(StoreError::Unusable(format!(
                "{} bytes are no keys of the URL-seen store",
                block.len()
            )));
        }
        let keys: Vec<Key> = keys.iter().map(key_of).collect();
        if is_later {
            self.0.push_later(&keys);
            return Ok(());
        }
        self.0.push(&keys).map_err(StoreError::from)
    }
}

fn block_of(keys: &[Key]) -> Vec<u8> {
    keys.iter()
        .flat_map(|(host, url)| [host.to_be_bytes(), url.to_be_bytes()])
        .flatten()
        .collect()
}

fn key_of(bytes: &[u8; KEY_BYTES]) -> Key {
    let (halves, _) = bytes.as_chunks::<8>();
    (u64::from_be_bytes(halves[0]), u64::from_be_bytes(halves[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::VisitKey;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts the keys that were read.
    struct Counted(Arc<AtomicUsize>);

    impl CopiedKeys for Counted {
        fn visit(&self, visit: &mut VisitKey<'_>) -> Result<(), SeenError> {
            (0..10 * KEYS_OF_BLOCK as u64).try_for_each(|url| {
                self.0.fetch_add(1, Ordering::Relaxed);
                visit((1, url))
            })
        }
    }

    #[test]
    fn a_copy_that_nobody_wants_any_more_is_not_read_to_its_end() {
        let read = Arc::new(AtomicUsize::new(0));
        let mut blocks = 0;
        let visited = Copy(Box::new(Counted(Arc::clone(&read)))).visit(&mut |_| {
            blocks += 1;
            if blocks < 2 {
                Ok(())
            } else {
                Err(StoreError::Unusable("nobody asks for it".into()))
            }
        });
        assert_eq!(visited.unwrap_err().to_string(), "nobody asks for it");
        assert_eq!(
            (blocks, read.load(Ordering::Relaxed)),
            (2, 2 * KEYS_OF_BLOCK)
        );
    }
}
