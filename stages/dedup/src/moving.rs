//! What dedup keeps of its partitions beside its tables, as it moves: the keys of the URL-seen store.
//!
//! In: a partition; keys in order, 16 bytes each (host, URL, both big-endian). Out: the same of another instance's store,
//! and what has to be committed.

use crate::dedup::failed;
use crate::meta::{META, SEEN};
use crate::seen::{self, Key, SeenStore};
use shared::stage::Beside;
use shared::stage::store::{Changes, Store, StoreError, Table};
use std::path::PathBuf;

/// Keys that go to the store together.
const KEYS_AT_ONCE: usize = 4096;

/// The URL-seen store of an instance, opened for moves alone.
pub struct MovingKeys {
    seen: Box<dyn SeenStore>,
    keys: Vec<Key>,
}

impl MovingKeys {
    /// Opens the URL-seen store in the instance's folder as it was committed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(settings: &seen::Settings, store: &dyn Store, folder: PathBuf) -> Result<Self, StoreError> {
        let committed = store.get(META, SEEN)?;
        let seen = seen::open(settings, folder, &[], committed.as_deref()).map_err(failed)?;
        Ok(MovingKeys { seen, keys: Vec::with_capacity(KEYS_AT_ONCE) })
    }

    fn pass_on(&mut self) -> Result<(), StoreError> {
        self.seen.import_keys(&self.keys).map_err(failed)?;
        self.keys.clear();
        Ok(())
    }
}

impl Beside for MovingKeys {
    fn name(&self) -> Table {
        "seen"
    }

    fn export(
        &mut self,
        partition: u16,
        visit: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut stopped = Ok(());
        let exported = self.seen.export(partition, &mut |(host, url)| {
            if stopped.is_ok() {
                stopped = visit([host.to_be_bytes(), url.to_be_bytes()].as_flattened());
            }
            Ok(())
        });
        exported.map_err(failed)?;
        stopped
    }

    fn begin(&mut self, partition: u16) -> Result<(), StoreError> {
        self.keys.clear();
        self.seen.import_begin(partition).map_err(failed)
    }

    fn take(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let (halves, rest) = key.as_chunks::<8>();
        let (&[host, url], []) = (halves, rest) else {
            return Err(StoreError::Unusable(format!("{} bytes are no key of the URL-seen store", key.len())));
        };
        self.keys.push((u64::from_be_bytes(host), u64::from_be_bytes(url)));
        if self.keys.len() < KEYS_AT_ONCE { Ok(()) } else { self.pass_on() }
    }

    fn end(&mut self) -> Result<(), StoreError> {
        self.pass_on()?;
        self.seen.import_end().map_err(failed)
    }

    fn forget(&mut self, partition: u16) -> Result<(), StoreError> {
        match self.seen.known(partition) {
            0 => Ok(()),
            _ => self.seen.forget(partition).map_err(failed),
        }
    }

    fn stage(&mut self, changes: &mut Changes) -> Result<(), StoreError> {
        if let Some(seen) = self.seen.stage().map_err(failed)? {
            changes.put(META, SEEN, seen);
        }
        Ok(())
    }

    fn committed(&mut self) -> Result<(), StoreError> {
        self.seen.committed().map_err(failed)
    }
}
