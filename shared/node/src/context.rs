//! What a stage is, in plain data, and what its core and its shell are made from.

use super::any_core::AnyCore;
use super::disk::StoreOptions;
use anyhow::Context as _;
use rhumb_bus::{Buckets, Bus};
use rhumb_config::Pipeline;
use rhumb_config::identity::Identity;
use rhumb_partition::{Owners, OwnersTable};
use rhumb_stage::doubt::Past;
use rhumb_stage::store::{Overlay, Store, Table, Uncommitted};
use rhumb_stage::{Beside, HalveRows, Keyed};
use rhumb_telemetry::metrics::Row;
use rhumb_url::time::Timestamp;
use rhumb_wire::topology::{Edge, Source, StageName};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A stage: its name, where its input comes from, and how its core is made.
#[derive(Clone, Copy)]
pub struct Stage {
    /// As in the picture.
    pub name: &'static str,
    /// One sentence for `--help`.
    pub about: &'static str,
    /// Where its input comes from.
    pub sources: &'static [Source],
    /// Further edges that it brings, whether it produces or consumes them: their streams are made
    /// when it starts. None for a stage of the pipeline.
    pub edges: &'static [Edge],
    /// Whether the crawl waits for it rather than lose a message to it, as for all stages of the
    /// pipeline. A further stage that is not required is removed from the streams that it reads
    /// when it holds the crawl back (P8).
    pub is_required: bool,
    /// Tables of its state and how they are stored; none for a stage without state.
    pub state: Option<fn(&Pipeline) -> State>,
    /// What the numbers of its core are called and mean.
    pub metrics: &'static [Row],
    /// Messages asked of the broker at once.
    pub batch: fn(&Pipeline) -> usize,
    /// Makes core and shell, with [`assemble`](super::assemble).
    pub open: fn(&Context) -> anyhow::Result<Box<dyn AnyCore>>,
}

impl Stage {
    /// Messages asked of the broker at once, by a stage that has no reason for another number.
    pub const BATCH: usize = 200;
}

/// Opens what a stage keeps of its partitions beside its tables.
pub type OpenBeside = fn(&Context) -> anyhow::Result<Box<dyn Beside>>;

/// The state of a stateful stage.
#[derive(Clone, Debug)]
pub struct State {
    /// Its tables, with how their keys begin.
    pub tables: Vec<(Table, Keyed)>,
    /// Memory and durability of the store.
    pub options: StoreOptions,
    /// Instances that there are to be when the crawl begins.
    pub replicas: u16,
    /// Opens what the stage keeps of its partitions beside the tables; none when that is nothing.
    pub beside: Option<OpenBeside>,
    /// What it does with its rows when a partition is split.
    pub halve: HalveRows,
}

/// What a core and a shell are made from.
pub struct Context {
    /// The configuration.
    pub pipeline: Pipeline,
    /// Ordinal of the instance.
    pub instance: u16,
    /// The broker.
    pub bus: Bus,
    /// Its key-value buckets.
    pub buckets: Buckets,
    /// Which crawl it is.
    pub identity: Identity,
    /// The state of a stateful stage: what is committed.
    pub store: Option<Arc<dyn Store>>,
    /// What the core's steps have changed in it since.
    pub(super) uncommitted: Arc<Uncommitted>,
    /// What the stage keeps of its partitions beside the tables, as an earlier core of the process
    /// left it.
    pub(super) beside: Mutex<Option<Box<dyn Beside>>>,
    /// Epoch of the ownership; 0 for a stage without state.
    pub epoch: u64,
    /// Partitions owned by the instance; none for a stage without state.
    pub partitions: Vec<u16>,
    /// Who has the partitions of the stages that the stage has to know of: of those that it asks,
    /// and its own.
    pub owners: BTreeMap<StageName, OwnersTable>,
    /// A number that no other life of any process has.
    pub life: u64,
    /// Whether contacts of the crawl have succeeded before this process began.
    pub past: Past,
    /// Now.
    pub now: Timestamp,
}

impl Context {
    /// The owners of a stage's partitions. When nothing is known of them, instance 0 has all.
    pub fn owners_of(&self, stage: StageName) -> Owners {
        let known = self.owners.get(&stage).map(|table| table.owners.clone());
        known.unwrap_or_else(|| Owners::new(self.pipeline.partitions, 1))
    }

    /// What an earlier core of the process left of what the stage keeps beside the tables; none for
    /// the first, or when that is nothing.
    pub fn take_beside<T: Beside>(&self) -> Option<T> {
        let left: Box<dyn Any> = self
            .beside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        left.downcast().ok().map(|left| *left)
    }

    /// The store of a stateful stage, as its core reads it.
    ///
    /// # Errors
    /// The stage has no state.
    pub fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        let store = self.store.clone();
        let store = store.context("a stage without state has no store")?;
        Ok(Arc::new(Overlay::new(store, self.uncommitted.clone())))
    }
}
