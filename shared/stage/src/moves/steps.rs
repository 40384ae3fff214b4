//! The steps of a move, without a broker: what is read, and what each commit holds.
//!
//! In: the rows of an instance, what the stage keeps beside them, parts that came. Out: parts, and
//! commits in the order in which they are made. A process takes these steps with a real broker, the
//! simulation with one in memory.

use super::parts::{Bill, Follows, Loading, Unfit};
use super::rows::{Removal, Rows};
use crate::beside::{Beside, Copied, Importing};
use crate::settlement::{LOOP, are_divided, divide_positions};
use crate::store::{Changes, StoreError, Table};
use bytes::Bytes;
use rhumb_partition::{Owners, Split};
use std::collections::BTreeSet;

/// The keys of partitions that are being taken begin with this; the partition follows.
const TAKING: &str = "taking ";
/// The value of a block of keys that came later than the copy began.
const LATER: &[u8] = b"later";

/// The keys of the last serial numbers of partitions whose rows were halved begin with this; the
/// partition follows.
const HALVED: &str = "halved ";

/// The steps of the moves and splits of an instance.
impl Rows {
    /// Before the first move: each partition has its own position from then on. None when that is
    /// so.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn divide(&self) -> Result<Option<Changes>, StoreError> {
        if are_divided(self.store.as_ref())? {
            return Ok(None);
        }
        let mut changes = Changes::default();
        divide_positions(self.store.as_ref(), self.directory.ids(), &mut changes)?;
        Ok(Some(changes))
    }

    /// The last serial number of a partition that was split, when its rows were halved.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn is_halved(&self, partition: u16) -> Result<Option<u64>, StoreError> {
        let last = self.store.get(LOOP, halved(partition).as_bytes())?;
        Ok(last
            .and_then(|bytes| bytes.try_into().ok())
            .map(u64::from_le_bytes))
    }

    /// The commit that halves the rows of a partition that was split, and its last serial number.
    ///
    /// # Errors
    /// The store cannot be read, or what the stage keeps beside its tables cannot be written.
    pub fn halve(
        &self,
        beside: Option<&mut (dyn Beside + 'static)>,
        split: &Split,
    ) -> Result<(Changes, u64), StoreError> {
        let mut changes = Changes::default();
        let last = (self.halve)(self.store.as_ref(), split, &mut changes)?;
        if let Some(beside) = beside {
            beside.halve(split)?;
            beside.stage(&mut changes)?;
        }
        changes.put(LOOP, halved(split.partition), last.to_le_bytes());
        Ok((changes, last))
    }

    /// Reads a partition into parts while the core works on; `full` takes each. `copied`: what the
    /// stage keeps beside its tables, with its name.
    ///
    /// # Errors
    /// It cannot be read, or `full` has failed.
    pub fn copy(
        &self,
        copied: Option<(Table, &mut (dyn Copied + 'static))>,
        partition: u16,
        loading: &mut Loading,
        full: &mut dyn FnMut(Bytes) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.visit(partition, &mut |table, key, value| {
            loading
                .push(table, key, Some(value))
                .map_or(Ok(()), &mut *full)
        })?;
        if let Some((name, copied)) = copied {
            copied.visit(&mut |block| {
                loading
                    .push(name, block, Some(b""))
                    .map_or(Ok(()), &mut *full)
            })?;
        }
        full(loading.close(Follows::Changes))
    }

    /// Reads what changed since a copy began, when the core works no more.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn copy_changes(
        &self,
        beside: Option<&mut (dyn Beside + 'static)>,
        partition: u16,
        changed: &BTreeSet<(Table, Vec<u8>)>,
        loading: &mut Loading,
    ) -> Result<Vec<Bytes>, StoreError> {
        let mut parts = Vec::new();
        self.visit_positions(partition, &mut |table, key, value| {
            parts.extend(loading.push(table, key, Some(value)));
            Ok(())
        })?;
        for (table, key) in changed {
            parts.extend(loading.push(table, key, self.store.get(table, key)?.as_deref()));
        }
        if let Some(beside) = beside {
            let name = beside.name();
            beside.take_later(partition, &mut |block| {
                parts.extend(loading.push(name, block, Some(LATER)));
                Ok(())
            })?;
        }
        parts.push(loading.close(Follows::Nothing));
        Ok(parts)
    }

    /// Returns whether all rows of a copy that was given under this version are committed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn has_whole(&self, partition: u16, version: u64, copy: u64) -> Result<bool, StoreError> {
        let whole = self.store.get(LOOP, taking(partition).as_bytes())?;
        Ok(whole.as_deref() == Some([version.to_le_bytes(), copy.to_le_bytes()].as_flattened()))
    }

    /// The commit of a part that came, the copy that it is of, and what follows.
    ///
    /// # Errors
    /// It is not the one, or has a row that is not understood.
    pub fn of_part(
        &self,
        mut importing: Option<(Table, &mut (dyn Importing + 'static))>,
        partition: u16,
        (bill, copy, number): (&Bill, Option<u64>, u32),
        part: &[u8],
    ) -> Result<(Changes, u64, Follows), Unfit> {
        let part = bill.check(copy, number, part)?;
        let mut changes = Changes::default();
        part.visit(|table, key, value| match &mut importing {
            Some((name, importing)) if *name == table => importing
                .take(key, value == Some(LATER))
                .map_err(|error| error.to_string()),
            _ => self.apply(&mut changes, partition, (table, key, value)),
        })?;
        Ok((changes, part.copy, part.follows))
    }
}

/// The commit after those of all parts: it says that the partition is whole.
///
/// # Errors
/// What the stage keeps beside its tables cannot be written.
pub fn whole(
    beside: Option<(&mut (dyn Beside + 'static), Box<dyn Importing>)>,
    partition: u16,
    version: u64,
    copy: u64,
) -> Result<Changes, StoreError> {
    let mut changes = Changes::default();
    if let Some((beside, importing)) = beside {
        beside.import(importing)?;
        beside.stage(&mut changes)?;
    }
    changes.put(
        LOOP,
        taking(partition),
        [version.to_le_bytes(), copy.to_le_bytes()].as_flattened(),
    );
    Ok(changes)
}

/// The commit after a partition was taken, or was not given any more.
pub fn taken(partition: u16) -> Changes {
    let mut changes = Changes::default();
    changes.remove(LOOP, taking(partition));
    changes
}

/// The partitions of others of which the store still has rows, but for those that are on their way
/// to the instance.
///
/// # Errors
/// The store cannot be read.
pub fn left_over(rows: &Rows, owners: &Owners, instance: u16) -> Result<Vec<u16>, StoreError> {
    let mut left_over = Vec::new();
    for (partition, of) in owners.all() {
        let is_others = of.owner != instance && !of.comes_to(instance);
        if is_others
            && rows.remove(
                &mut Changes::default(),
                partition,
                &mut Removal::default(),
                1,
            )? > 0
        {
            left_over.push(partition);
        }
    }
    Ok(left_over)
}

fn halved(partition: u16) -> String {
    format!("{HALVED}{partition:05}")
}

fn taking(partition: u16) -> String {
    format!("{TAKING}{partition:05}")
}
