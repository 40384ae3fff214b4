//! A twin of the world's scheduler: it is stepped with the same, and its steps are committed in
//! batches.
//!
//! In: each step of the scheduler, with what it brought. Invariants: the twin's step brings the
//! same; after each of its commits its store holds the same.

use crate::core::dispatcher::Input;
use crate::core::scheduler::{Scheduler, TABLES};
use crate::quota::ledger::{Claim, ClaimAnswer};
use crate::settings::Settings;
use rhumb_stage::store::{Changes, MemoryStore, Overlay, Store, Uncommitted};
use rhumb_stage::{Core as _, Event, Output};
use rhumb_url::time::Timestamp;
use std::sync::Arc;

pub(crate) struct Twin {
    core: Scheduler,
    store: Arc<MemoryStore>,
    uncommitted: Arc<Uncommitted>,
    /// How many steps each batch has, in turn.
    sizes: Vec<usize>,
    batches: usize,
    /// Steps of the batch under way.
    steps: usize,
}

impl Twin {
    /// A twin whose batches have these sizes, in turn.
    pub(crate) fn of(settings: Settings, owned: &[u16], sizes: Vec<usize>, now: Timestamp) -> Self {
        let store = Arc::<MemoryStore>::default();
        let uncommitted = Arc::<Uncommitted>::default();
        let overlay = Arc::new(Overlay::new(store.clone(), uncommitted.clone()));
        let core = Scheduler::open(settings, 0, 1, owned, overlay, now).unwrap();
        Twin {
            core,
            store,
            uncommitted,
            sizes,
            batches: 0,
            steps: 0,
        }
    }

    /// The scheduler was stepped with this, which brought `out`.
    pub(crate) fn step(
        &mut self,
        now: Timestamp,
        event: Event<Input, ClaimAnswer>,
        out: &Output<Claim>,
    ) {
        let mut own = Output::default();
        self.core.step(now, event, &mut own).unwrap();
        self.uncommitted.add(std::mem::take(&mut own.changes));
        assert_eq!(told(&own), told(out), "what a step brings about");
        self.steps += 1;
    }

    /// The scheduler's step is committed; the twin's is when its batch ends.
    pub(crate) fn committed(&mut self, other: &MemoryStore) {
        if self.steps >= self.sizes[self.batches % self.sizes.len()] {
            self.commit(other);
        }
    }

    fn commit(&mut self, other: &MemoryStore) {
        self.steps = 0;
        self.batches += 1;
        self.store.commit(&self.uncommitted.take()).unwrap();
        assert_eq!(rows(&self.store), rows(other), "what is stored");
    }

    /// The process dies after a commit, and another one opens what it left.
    pub(crate) fn crash(
        &mut self,
        other: &MemoryStore,
        epoch: u64,
        (settings, owned): (Settings, &[u16]),
        now: Timestamp,
    ) {
        self.commit(other);
        let overlay = Overlay::new(self.store.clone(), self.uncommitted.clone());
        self.core = Scheduler::open(settings, 0, epoch, owned, Arc::new(overlay), now).unwrap();
    }
}

/// What a step brings about, beside changes.
fn told(out: &Output<Claim>) -> String {
    let Output {
        publishes,
        sends,
        replies,
        finished,
        effects,
        ..
    } = out;
    format!("{publishes:?} {sends:?} {replies:?} {finished:?} {effects:?}")
}

/// All rows of all tables.
fn rows(store: &MemoryStore) -> Changes {
    let mut rows = Changes::default();
    for (table, _) in TABLES {
        let all = &mut |key: &[u8], row: &[u8]| {
            rows.put(table, key, row);
            true
        };
        store.scan(table, &[], &[u8::MAX; 64], all).unwrap();
    }
    rows
}
