//! Changes of the table of owners: what an instance says there of its partitions.
//!
//! In: a table. Out: whether the change changed anything. Every change is made in one moment, by a
//! compare-and-swap of the whole table, and says nothing when others were faster.

use crate::moves::Bill;
use rhumb_partition::Owners;
use std::fmt::Display;

/// An instance of a stage of a crawl.
#[derive(Clone, Debug)]
pub struct InstanceId {
    /// Which crawl it is: id and generation.
    pub crawl: String,
    /// The stage.
    pub stage: &'static str,
    /// Ordinal of the instance.
    pub instance: u16,
}

impl InstanceId {
    /// Who gives what: parts say so.
    pub(super) fn bill(&self, partition: u16, version: u64) -> Bill {
        Bill::new(&self.crawl, self.stage, partition, version)
    }

    /// The instance cannot send a partition, and keeps it.
    pub fn keeps(&self, partition: u16, version: u64, why: &dyn Display) -> Change {
        let stage = self.stage;
        let instance = self.instance;
        tracing::warn!(
            stage,
            instance,
            partition,
            "keeps a partition that cannot be sent: {why:#}"
        );
        Change::Keep { partition, version }
    }

    /// The instance does not take a partition: its owner keeps it.
    pub fn refuses(&self, partition: u16, version: u64, why: &dyn Display) -> Change {
        let stage = self.stage;
        let instance = self.instance;
        tracing::error!(
            stage,
            instance,
            partition,
            version,
            "refuses a partition, its owner keeps it: {why:#}"
        );
        Change::Refuse { partition, version }
    }
}

/// A change of the table of owners by an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// None: the table is read.
    Read,
    /// What an earlier process of the instance had sent is given by nobody.
    ForgetCopies,
    /// The instance has a copy of a partition that comes.
    Copied {
        /// The partition.
        partition: u16,
        /// Of its ownership.
        version: u64,
        /// The number of the copy.
        copy: u64,
    },
    /// The instance keeps a partition that it cannot send.
    Keep {
        /// The partition.
        partition: u16,
        /// Of its ownership.
        version: u64,
    },
    /// The instance does not take a partition: its owner keeps it.
    Refuse {
        /// The partition.
        partition: u16,
        /// Of its ownership.
        version: u64,
    },
    /// The rows of a partition that was split are halved.
    Halve {
        /// The partition.
        partition: u16,
        /// The serial number of the last new URL that it was given.
        last_serial: u64,
    },
    /// All has come that belongs to a partition that was split.
    Finish(u16),
    /// Partitions are given away: each with its copy.
    Give(Vec<(u16, u64)>),
    /// Partitions are taken over: each with its version.
    Take(Vec<(u16, u64)>),
}

impl Change {
    /// Changes a table for an instance. Returns whether that changed anything.
    pub fn apply(&self, owners: &mut Owners, instance: u16) -> bool {
        match *self {
            Change::Read => false,
            Change::ForgetCopies => owners.forget_copies(instance),
            Change::Copied {
                partition,
                version,
                copy,
            } => owners.copied(partition, version, copy, instance),
            Change::Keep { partition, version } => {
                owners.version(partition) == version && owners.keep(partition, instance)
            }
            Change::Refuse { partition, version } => owners.refuse(partition, version, instance),
            Change::Halve {
                partition,
                last_serial,
            } => owners.halve(partition, instance, last_serial),
            Change::Finish(partition) => owners.finish(partition),
            Change::Give(ref given) => given.iter().fold(false, |any, &(partition, copy)| {
                owners.give(partition, copy, instance) || any
            }),
            Change::Take(ref taken) => taken.iter().fold(false, |any, &(partition, version)| {
                owners.take(partition, version, instance) || any
            }),
        }
    }

    /// Returns whether the instance goes on when the change cannot be made: a later look makes up
    /// for it.
    pub fn may_fail(&self) -> bool {
        matches!(
            self,
            Change::Keep { .. } | Change::Refuse { .. } | Change::Finish(_)
        )
    }
}
