//! A node: one instance of a stage, driven as the stage loop drives it in a process.
//!
//! What is decided is decided as in a process, by the same [machine](rhumb_stage::node): what is
//! acked, committed and published, when a life ends, which partitions are given and taken. Here it
//! is carried out with the broker in memory. A crash takes the core and everything that was not
//! committed; the next life starts from the store, when the lease of the last one is over, under
//! the next epoch, and with a clock of its own. When the instance is to have other partitions, the
//! life of its core ends, partitions are given and taken, and the next one begins under the same
//! lease.
//!
//! Not modelled: two processes that work on one store at once (the store is locked), and corrupt
//! payloads.

use super::agenda::{Answer, EffectId, Input, Place, Process};
use super::around::Around;
use super::background::instance_id;
use super::life::{Begun, Died, LifeOf};
use super::moves::{OpenBeside, Settling};
use super::plan::Micros;
use super::scaling::Watch;
use super::tenure::Left;
use rhumb_config::Pipeline;
use rhumb_partition::{Directory, Owners};
use rhumb_stage::doubt::Past;
use rhumb_stage::node::{Brought, Drawn, Lease, Settled, Tenure};
use rhumb_stage::store::{MemoryStore, Overlay, Store, Table, Uncommitted};
use rhumb_stage::{Beside, Core, Count, HalveRows, Keyed, Rows};
use rhumb_url::time::Timestamp;
use rhumb_wire::topology::StageName;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A core that the simulation can run: who does its work that waits.
pub(crate) trait Simulated: Core + 'static {
    /// Begins work; its answer comes through the agenda.
    fn perform(effect: Self::Effect, id: EffectId, around: &mut Around);
    /// The answer as the core takes it.
    fn accept(answer: Answer) -> Option<Self::Answer>;
    /// Why a server is not being fetched, if that is for the core to say.
    fn why_idle(&self, _now: Timestamp, _server: &str) -> Option<String> {
        None
    }
}

/// What a core is opened with.
pub(crate) struct Opening {
    pub(crate) instance: u16,
    pub(crate) epoch: u64,
    /// A number that no other life has.
    pub(crate) life: u64,
    /// Whether a server has answered before.
    pub(crate) past: Past,
    /// As the core reads it.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// What its steps have changed there and is not committed.
    pub(crate) uncommitted: Arc<Uncommitted>,
    /// The partitions that the instance owns.
    pub(crate) partitions: Vec<u16>,
    /// Who has which partition of the stages that the instance has to know of.
    pub(crate) owners: BTreeMap<StageName, Owners>,
    /// What an earlier core of the process left of what the stage keeps beside its tables.
    pub(crate) beside: RefCell<Option<Box<dyn Beside>>>,
}

/// A node of any stage.
pub(crate) trait AnyNode {
    /// Starts the next life; false when another process still holds the lease.
    fn start(&mut self, around: &mut Around) -> bool;
    /// Ends the life at once.
    fn crash(&mut self, around: &mut Around);
    fn process(&self) -> Option<Process>;
    /// Takes what reached it.
    fn take(&mut self, input: Input, around: &mut Around);
    /// When it wants to be woken.
    fn wake_at(&self, now: Micros) -> Option<Micros>;
    /// Nothing in hand, nothing on its way into a stream.
    fn is_quiet(&self) -> bool;
    fn counts(&self) -> Vec<Count>;
    /// Why a server is not being fetched, if that is for the node to say.
    fn why_idle(&self, now: Micros, server: &str) -> Option<String>;
}

/// The state of an instance, which goes with it through all its lives.
pub(crate) struct State {
    pub(crate) store: Arc<MemoryStore>,
    tables: Vec<(Table, Keyed)>,
    beside: Option<OpenBeside>,
    halve: HalveRows,
}

impl State {
    pub(crate) fn new(
        tables: &[(Table, Keyed)],
        beside: Option<OpenBeside>,
        halve: HalveRows,
    ) -> Self {
        State {
            store: Arc::default(),
            tables: tables.to_vec(),
            beside,
            halve,
        }
    }
}

/// An instance of a stage.
pub(crate) struct Node<C: Simulated> {
    place: Place,
    open: Box<dyn Fn(&Opening) -> C>,
    pipeline: Pipeline,
    state: Option<State>,
    lives: u64,
    watch: Option<Watch>,
    life: Option<LifeOf<C>>,
    /// Between two lives.
    settling: Option<Settling>,
}

impl<C: Simulated> Node<C> {
    pub(crate) fn new(
        place: Place,
        pipeline: &Pipeline,
        state: Option<State>,
        open: impl Fn(&Opening) -> C + 'static,
    ) -> Self {
        let pipeline = pipeline.clone();
        let watch = None;
        let life = None;
        let settling = None;
        Node {
            place,
            open: Box::new(open),
            pipeline,
            state,
            lives: 0,
            watch,
            life,
            settling,
        }
    }

    fn rows(&self) -> Option<Rows> {
        let State {
            store,
            tables,
            halve,
            ..
        } = self.state.as_ref()?;
        let edges = self.place.owned_edges().collect();
        let directory = Directory::new(self.pipeline.partitions);
        Some(Rows {
            store: store.clone(),
            tables: tables.clone(),
            edges,
            directory,
            halve: *halve,
        })
    }

    /// The next process of the instance.
    fn next_process(&mut self) -> Process {
        self.lives += 1;
        Process {
            place: self.place,
            life: self.lives,
        }
    }

    /// A life of the core begins, over the partitions that the table gives the instance.
    /// `is_first`: of its process.
    fn begin(
        &mut self,
        begun: &Begun,
        settled: Option<Settled>,
        is_first: bool,
        around: &mut Around,
    ) {
        let watch = self.watch.as_ref();
        let mut owners = watch.map(|watch| watch.tables.clone()).unwrap_or_default();
        let mut beside = None;
        let mut tenure = None;
        if let Some(mut settled) = settled {
            beside = settled.beside.take();
            owners.insert(self.place.stage, settled.table.clone());
            tenure = Some(self.tenure(begun, settled, is_first, around));
        }
        let epoch = tenure.as_ref().map_or(0, Tenure::epoch);
        let drawn = tenure.as_ref().map_or(Drawn::All, |of| of.drawn().clone());
        let partitions = tenure.as_ref().map(|of| of.partitions().to_vec());
        let number = around.dice.number();
        let store = self.state.as_ref().map(|state| state.store.clone());
        let uncommitted = Arc::<Uncommitted>::default();
        let overlay = |store| Arc::new(Overlay::new(store, uncommitted.clone()));
        let opening = Opening {
            instance: self.place.instance,
            epoch,
            life: number,
            past: if around.web.served.is_empty() {
                Past::Unknown
            } else {
                Past::Successful
            },
            store: store.clone().map(|store| overlay(store) as Arc<dyn Store>),
            uncommitted: uncommitted.clone(),
            partitions: partitions.unwrap_or_default(),
            owners: owners
                .into_iter()
                .map(|(stage, table)| (stage, table.owners))
                .collect(),
            beside: RefCell::new(beside),
        };
        let core = (self.open)(&opening);
        let life = LifeOf::begin(core, &opening, begun, tenure, &self.pipeline, store, around);
        for edge in self.place.owned_edges() {
            around.broker.draw(edge, self.place, &drawn);
        }
        self.life = Some(life);
    }

    /// The partitions of a life that begins.
    fn tenure(
        &self,
        begun: &Begun,
        settled: Settled,
        is_first: bool,
        around: &mut Around,
    ) -> Tenure {
        let lease = Lease {
            taken: begun.taken,
            epoch: 0,
        };
        let directory = settled.table.owners.directory();
        let tenure = Tenure::begin(instance_id(self.place), lease, settled, is_first)
            .expect("a store in memory does not fail");
        let partitions = tenure.partitions();
        let hashes = partitions
            .iter()
            .filter_map(|&partition| directory.hashes_of(partition));
        around.moves.hashes.insert(self.place, hashes.collect());
        around.moves.used.insert(self.place, partitions.to_vec());
        tenure
    }

    fn ends(&mut self, around: &mut Around) {
        (self.life, self.settling, self.watch) = (None, None, None);
        self.withdraws(around);
    }

    /// No core works with the instance's partitions any more.
    fn withdraws(&self, around: &mut Around) {
        around.moves.between.remove(&self.place);
        around.moves.used.remove(&self.place);
        around.moves.hashes.remove(&self.place);
        for edge in self.place.owned_edges() {
            around.broker.withdraw(edge, self.place);
        }
    }

    /// Between two lives partitions are given and taken.
    fn settle(
        &mut self,
        process: Process,
        held: (u64, Micros),
        left: Option<(Brought, Option<Box<dyn Beside>>)>,
        around: &mut Around,
    ) {
        self.withdraws(around);
        around.moves.between.insert(self.place);
        let rows = self.rows().expect("only a stage with state has partitions");
        let state = self.state.as_ref().expect("it has rows");
        let open = state.beside.as_ref();
        let store = state.store.clone();
        let settling = Settling::begin(process, held, (rows, store), open, left, around);
        self.settling = Some(settling);
    }

    fn take_between(&mut self, input: &Input, around: &mut Around) {
        let (Some(settling), Some(state)) = (&mut self.settling, &self.state) else {
            return;
        };
        match settling.take(input, state.beside.as_ref(), around) {
            Err(_) => self.ends(around),
            Ok(None) => {}
            Ok(Some(settled)) => {
                let begun = Begun::of(settling);
                let is_first = settling.is_first;
                self.settling = None;
                around.moves.between.remove(&self.place);
                self.begin(&begun, Some(settled), is_first, around);
                self.carry_out(around);
                around.dispatch_all();
            }
        }
    }

    fn carry_out(&mut self, around: &mut Around) {
        if let Some(life) = &mut self.life
            && life.carry_out_all(around).is_err()
        {
            self.ends(around);
        }
    }

    fn take_in_life(&mut self, input: Input, around: &mut Around) -> Result<(), Died> {
        let (Some(life), Some(watch)) = (&mut self.life, &mut self.watch) else {
            return Ok(());
        };
        if matches!(input, Input::Tick) {
            life.hear_of_owners(watch, around);
        }
        life.take(input, around)?;
        life.take_what_waits(around)?;
        if life.is_over(around)?
            && let Some(life) = self.life.take()
        {
            let Left {
                held,
                brought,
                beside,
            } = life.end(around)?;
            let process = self.next_process();
            around.leases.pass_on(process);
            self.settle(process, held, Some((brought, beside)), around);
        }
        Ok(())
    }
}

impl<C: Simulated> AnyNode for Node<C> {
    fn start(&mut self, around: &mut Around) -> bool {
        let process = Process {
            place: self.place,
            life: self.lives + 1,
        };
        let held_until = around.now + around.leases.lasts;
        let taken = match self
            .state
            .is_some()
            .then(|| around.leases.take(around.now, process))
        {
            None => 0,
            Some(Some(taken)) => taken,
            Some(None) => return false,
        };
        self.lives += 1;
        self.watch = Some(Watch::begin(self.place, around));
        if self.state.is_some() && around.faults.scalings > 0 {
            self.settle(process, (taken, held_until), None, around);
            return true;
        }
        let table = around
            .moves
            .tables
            .get(&self.place.stage)
            .filter(|_| self.state.is_some());
        let settled = table
            .cloned()
            .zip(self.rows())
            .map(|(table, rows)| Settled {
                rows: Rows {
                    directory: table.owners.directory(),
                    ..rows
                },
                table,
                left_over: Vec::new(),
                brought: Brought::default(),
                beside: None,
            });
        let next_renewal = around.now + around.leases.lasts / 4;
        self.begin(
            &Begun {
                process,
                taken,
                held_until,
                next_renewal,
            },
            settled,
            true,
            around,
        );
        self.carry_out(around);
        true
    }

    fn crash(&mut self, around: &mut Around) {
        self.ends(around);
    }

    fn process(&self) -> Option<Process> {
        let settling = self.settling.as_ref().map(|settling| settling.process);
        self.life.as_ref().map(|life| life.process).or(settling)
    }

    fn take(&mut self, input: Input, around: &mut Around) {
        let (Some(process), Some(watch)) = (self.process(), &mut self.watch) else {
            return;
        };
        match input {
            Input::Owners(stage, table) => return watch.sees(self.place, stage, table, around),
            Input::Tick => watch.tick(process, around),
            _ => {}
        }
        if self.settling.is_some() {
            self.take_between(&input, around);
        } else if self.take_in_life(input, around).is_err() {
            self.ends(around);
        }
    }

    fn wake_at(&self, now: Micros) -> Option<Micros> {
        let life = self.life.as_ref().and_then(|life| life.wake_at(now));
        let settling = self.settling.as_ref().map(Settling::wake_at);
        let watch = self.watch.as_ref().and_then(Watch::wake_at);
        [life, settling, watch].into_iter().flatten().min()
    }

    fn is_quiet(&self) -> bool {
        self.life.as_ref().is_some_and(LifeOf::is_quiet)
    }

    fn counts(&self) -> Vec<Count> {
        self.life.as_ref().map(LifeOf::counts).unwrap_or_default()
    }

    fn why_idle(&self, now: Micros, server: &str) -> Option<String> {
        let life = self.life.as_ref()?;
        life.core.why_idle(life.at(now), server)
    }
}
