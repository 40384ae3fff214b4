//! The steps of a move, without a broker: what is read, and what each commit holds.
//!
//! In: the rows of an instance, what the stage keeps beside them, parts that came. Out: parts, and commits in the order in
//! which they are made. `mover` takes these steps with a real broker, the simulation with one in memory.

use super::parts::{Bill, Loading, Unfit};
use super::rows::{Beside, Rows};
use crate::partitions::Owners;
use crate::stage::settlement::{LOOP, are_divided, divide_positions};
use crate::stage::store::{Changes, StoreError};
use bytes::Bytes;

/// The keys of partitions that are being taken begin with this; the partition follows.
const TAKING: &str = "taking ";

/// The steps of the moves of an instance.
impl Rows {
    /// Before the first move: each partition has its own position from then on. None when that is so.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn divide(&self) -> Result<Option<Changes>, StoreError> {
        if are_divided(self.store.as_ref())? {
            return Ok(None);
        }
        let mut changes = Changes::default();
        divide_positions(self.store.as_ref(), self.partitions, &mut changes)?;
        Ok(Some(changes))
    }

    /// Reads a partition into parts; `full` takes each, the last one too.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn load(
        &self,
        beside: Option<&mut (dyn Beside + 'static)>,
        partition: u16,
        mut loading: Loading,
        mut full: impl FnMut(Bytes),
    ) -> Result<(), StoreError> {
        let mut push = |table: &str, key: &[u8], value: &[u8]| {
            loading.push(table, key, value).into_iter().for_each(&mut full);
            Ok(())
        };
        self.visit(partition, &mut push)?;
        if let Some(beside) = beside {
            let name = beside.name();
            beside.export(partition, &mut |key| push(name, key, b""))?;
        }
        full(loading.end());
        Ok(())
    }

    /// Says whether all rows of a partition that was given under this version are committed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn has_whole(&self, partition: u16, version: u64) -> Result<bool, StoreError> {
        let whole = self.store.get(LOOP, taking(partition).as_bytes())?;
        Ok(whole.as_deref() == Some(version.to_le_bytes().as_slice()))
    }

    /// The commit of a part that came, and whether it is the last.
    ///
    /// # Errors
    /// It is not the one, or has a row that is not understood.
    pub fn of_part(
        &self,
        mut beside: Option<&mut (dyn Beside + 'static)>,
        partition: u16,
        (bill, number): (&Bill, u32),
        part: &[u8],
    ) -> Result<(Changes, bool), Unfit> {
        let part = bill.check(number, part)?;
        let mut changes = Changes::default();
        part.visit(|table, key, value| match &mut beside {
            Some(beside) if beside.name() == table => beside.take(key).map_err(|error| error.to_string()),
            _ => self.put(&mut changes, partition, (table, key, value)),
        })?;
        Ok((changes, part.is_last))
    }
}

/// The commit after those of all parts: it says that the partition is whole.
///
/// # Errors
/// What the stage keeps beside its tables cannot be written.
pub fn whole(beside: Option<&mut (dyn Beside + 'static)>, partition: u16, version: u64) -> Result<Changes, StoreError> {
    let mut changes = Changes::default();
    if let Some(beside) = beside {
        beside.end()?;
        beside.stage(&mut changes)?;
    }
    changes.put(LOOP, taking(partition), version.to_le_bytes());
    Ok(changes)
}

/// The commit after a partition was taken, or was not given any more.
pub fn taken(partition: u16) -> Changes {
    let mut changes = Changes::default();
    changes.remove(LOOP, taking(partition));
    changes
}

/// The partitions of others of which the store still has rows.
///
/// # Errors
/// The store cannot be read.
pub fn left_over(rows: &Rows, owners: &Owners, instance: u16) -> Result<Vec<u16>, StoreError> {
    let mut left_over = Vec::new();
    for (partition, of) in owners.all() {
        if of.owner != instance && rows.remove(&mut Changes::default(), partition, 1)? > 0 {
            left_over.push(partition);
        }
    }
    Ok(left_over)
}

fn taking(partition: u16) -> String {
    format!("{TAKING}{partition:05}")
}
