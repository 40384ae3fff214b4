//! A core with its shell behind one object-safe trait, so that the loop is compiled once and not
//! for each stage.
//!
//! In: payloads, signals, and the end of work that the shell does. Out: [`Step`]s for the
//! settlement. Work that a step asks for begins when its step is settled ([`AnyCore::perform`]).

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Stream as _};
use rhumb_config::Pipeline;
use rhumb_config::orders::{Orders, Selector};
use rhumb_partition::Owners;
use rhumb_stage::Beside;
use rhumb_stage::report::Reported;
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, Figures, LabelledCount, Output, Signal, Step, Ticket};
use rhumb_stage::{Counted, DropProgress, KnownTold};
use rhumb_stage::{QueueQuestion, ServerQueue, Trap};
use rhumb_telemetry::metrics::Histogram;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Edge, Undecodable};
use rhumb_wire::topology::StageName;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Does the work that waits.
pub trait Shell<C: Core>: 'static {
    /// Performs an effect; what it brings goes back to the core. Must not panic, whatever the
    /// network sends.
    fn perform(&mut self, effect: C::Effect) -> BoxFuture<'static, C::Answer>;

    /// The configuration is this from now on.
    fn configure(&mut self, _pipeline: &Pipeline) {}
}

/// The shell of a core without effects.
#[derive(Debug)]
pub struct NoShell;

impl<C: Core<Effect = Infallible>> Shell<C> for NoShell {
    fn perform(&mut self, effect: Infallible) -> BoxFuture<'static, C::Answer> {
        match effect {}
    }
}

/// Why an input did not become a step.
#[derive(Debug)]
pub enum Refusal {
    /// It cannot be read; the core has not seen it.
    Unreadable(Undecodable),
    /// The core's store failed; the stage must end.
    Store(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::Store(error)
    }
}

/// A core with its shell, whatever their types.
pub trait AnyCore {
    /// Returns whether this program knows the schema version of a message.
    fn reads(&self, edge: Edge, payload: &[u8]) -> bool;

    /// Reads an input and steps the core with it.
    ///
    /// # Errors
    /// The input cannot be read, or the core's store.
    fn message(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        edge: Edge,
        payload: &[u8],
    ) -> Result<Step, Refusal>;

    /// Steps the core with a signal.
    ///
    /// # Errors
    /// The core's store cannot be read.
    fn signal(&mut self, now: Timestamp, signal: Signal) -> Result<Step, StoreError>;

    /// Waits for the end of a piece of work; pending while there is none.
    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Steps the core with what the work brought that [`poll_work`](Self::poll_work) found ended.
    ///
    /// # Errors
    /// The core's store cannot be read.
    fn answer(&mut self, now: Timestamp) -> Result<Step, StoreError>;

    /// All that the core's steps have changed is committed.
    ///
    /// # Errors
    /// What is not used any more since then cannot be removed.
    fn committed(&mut self) -> Result<(), StoreError>;

    /// Begins the work that the last steps asked for; to be called when they are settled.
    fn perform(&mut self);

    /// When to wake the core although nothing came, if ever.
    fn wake_at(&self) -> Option<Timestamp>;

    /// Returns whether the core takes more input now.
    fn wants_input(&self) -> bool;

    /// Returns whether the core holds nothing that a drain should wait for.
    fn is_idle(&self) -> bool;

    /// The lease on the core's partitions was taken again, under this epoch.
    fn owned_since(&mut self, epoch: u64);

    /// Partitions of the core's stage, or of one that it asks, have other owners.
    fn owners(&mut self, stage: StageName, owners: &Owners);

    /// Operators ask this of the crawl from now on.
    fn orders(&mut self, orders: &Orders);

    /// The configuration is this from now on. Returns whether core and shell go by it: if not, they
    /// are opened anew.
    fn configure(&mut self, pipeline: &Pipeline) -> bool;

    /// Returns whether all has come that belongs to a partition that was split, and not to one of
    /// its halves.
    fn has_all(&self, partition: u16) -> bool;

    /// A partition that is to be split, if there is one.
    ///
    /// # Errors
    /// The core's store cannot be read.
    fn overfull(&mut self) -> Result<Option<u16>, StoreError>;

    /// What the core tells of each of its partitions.
    fn figures(&self) -> Vec<Figures>;

    /// What the core keeps of its partitions beside the store's tables.
    fn beside(&mut self) -> Option<&mut dyn Beside>;

    /// The same, when the core works no more.
    fn into_beside(self: Box<Self>) -> Option<Box<dyn Beside>>;

    /// What the core knows of a canonical URL, in a line for an operator; none when that is
    /// nothing.
    ///
    /// # Errors
    /// The core's store cannot be read.
    fn why(&self, now: Timestamp, url: &str) -> Result<Option<String>, StoreError>;

    /// [`Core::known`]
    fn known(&self, now: Timestamp, url: &str) -> Result<Option<KnownTold>, StoreError>;

    /// The servers that the core has of those that an operator asks for, with what waits at them;
    /// none of a stage where nothing waits.
    ///
    /// # Errors
    /// The core's store cannot be read.
    fn queue(
        &self,
        now: Timestamp,
        question: &QueueQuestion,
    ) -> Result<Option<Vec<ServerQueue>>, StoreError>;

    /// What the core counted of the URLs that ended, and the hosts and servers that stand out; none
    /// of a stage where no URL ends.
    ///
    /// # Errors
    /// The core's store cannot be read.
    fn report(
        &self,
        now: Timestamp,
        hosts: usize,
        after: Option<&[u8]>,
    ) -> Result<Option<Reported>, StoreError>;

    /// Counts the URLs that wait and are selected; none of a stage where nothing waits.
    ///
    /// # Errors
    /// The core's store cannot be read.
    fn count(
        &self,
        selector: &Selector,
        after: Option<&[u8]>,
    ) -> Result<Option<Counted>, StoreError>;

    /// How far the core has come with a drop; none of a stage where nothing waits.
    fn drop_progress(&self, id: u64) -> Option<DropProgress>;

    /// Why the core does not do its work although it runs, if it does not.
    fn hindrance(&self, now: Timestamp) -> Option<String>;

    /// The core's numbers.
    fn counts(&self) -> Vec<Count>;

    /// The traps whose URLs the core keeps back.
    fn traps(&self) -> Vec<Trap>;

    /// The core's numbers by a label.
    fn labelled_counts(&self) -> Vec<LabelledCount>;

    /// How long what the core waits for took.
    fn histograms(&self) -> Vec<(&'static str, &Histogram)>;
}

/// Puts a core and its shell together.
pub fn assemble<C: Core + 'static>(core: C, shell: impl Shell<C>) -> Box<dyn AnyCore> {
    Box::new(Assembled {
        core,
        shell,
        asked: Vec::new(),
        working: FuturesUnordered::new(),
        ended: None,
    })
}

struct Assembled<C: Core, S> {
    core: C,
    shell: S,
    /// Work that steps have asked for and that has not begun.
    asked: Vec<C::Effect>,
    working: FuturesUnordered<BoxFuture<'static, C::Answer>>,
    ended: Option<C::Answer>,
}

impl<C: Core, S: Shell<C>> Assembled<C, S> {
    fn step(
        &mut self,
        now: Timestamp,
        event: Event<C::Input, C::Answer>,
    ) -> Result<Step, StoreError> {
        let mut out = Output::default();
        self.core.step(now, event, &mut out)?;
        let (step, effects) = out.split();
        self.asked.extend(effects);
        Ok(step)
    }
}

impl<C: Core, S: Shell<C>> AnyCore for Assembled<C, S> {
    fn reads(&self, edge: Edge, payload: &[u8]) -> bool {
        !matches!(
            C::decode(edge, payload),
            Err(Undecodable::UnknownVersion { .. })
        )
    }

    fn message(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        edge: Edge,
        payload: &[u8],
    ) -> Result<Step, Refusal> {
        let input = C::decode(edge, payload).map_err(Refusal::Unreadable)?;
        Ok(self.step(now, Event::Message { ticket, input })?)
    }

    fn signal(&mut self, now: Timestamp, signal: Signal) -> Result<Step, StoreError> {
        self.step(now, signal.into())
    }

    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.ended.is_none() && !self.working.is_empty() {
            match Pin::new(&mut self.working).poll_next(context) {
                Poll::Ready(ended) => self.ended = ended,
                Poll::Pending => {}
            }
        }
        if self.ended.is_some() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn answer(&mut self, now: Timestamp) -> Result<Step, StoreError> {
        match self.ended.take() {
            Some(answer) => self.step(now, Event::Answer(answer)),
            None => Ok(Step::default()),
        }
    }

    fn committed(&mut self) -> Result<(), StoreError> {
        self.core.committed()
    }

    fn perform(&mut self) {
        for effect in self.asked.drain(..) {
            self.working.push(self.shell.perform(effect));
        }
    }

    fn wake_at(&self) -> Option<Timestamp> {
        self.core.wake_at()
    }

    fn wants_input(&self) -> bool {
        self.core.wants_input()
    }

    fn is_idle(&self) -> bool {
        self.core.is_idle()
    }

    fn owned_since(&mut self, epoch: u64) {
        self.core.owned_since(epoch);
    }

    fn owners(&mut self, stage: StageName, owners: &Owners) {
        self.core.owners(stage, owners);
    }

    fn orders(&mut self, orders: &Orders) {
        self.core.orders(orders);
    }

    fn configure(&mut self, pipeline: &Pipeline) -> bool {
        self.shell.configure(pipeline);
        self.core.configure(pipeline)
    }

    fn has_all(&self, partition: u16) -> bool {
        self.core.has_all(partition)
    }

    fn overfull(&mut self) -> Result<Option<u16>, StoreError> {
        self.core.overfull()
    }

    fn figures(&self) -> Vec<Figures> {
        self.core.figures()
    }

    fn beside(&mut self) -> Option<&mut dyn Beside> {
        self.core.beside()
    }

    fn into_beside(self: Box<Self>) -> Option<Box<dyn Beside>> {
        self.core.into_beside()
    }

    fn why(&self, now: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        self.core.why(now, url)
    }

    fn known(&self, now: Timestamp, url: &str) -> Result<Option<KnownTold>, StoreError> {
        self.core.known(now, url)
    }

    fn queue(
        &self,
        now: Timestamp,
        question: &QueueQuestion,
    ) -> Result<Option<Vec<ServerQueue>>, StoreError> {
        self.core.queue(now, question)
    }

    fn report(
        &self,
        now: Timestamp,
        hosts: usize,
        after: Option<&[u8]>,
    ) -> Result<Option<Reported>, StoreError> {
        self.core.report(now, hosts, after)
    }

    fn count(
        &self,
        selector: &Selector,
        after: Option<&[u8]>,
    ) -> Result<Option<Counted>, StoreError> {
        self.core.count(selector, after)
    }

    fn drop_progress(&self, id: u64) -> Option<DropProgress> {
        self.core.drop_progress(id)
    }

    fn hindrance(&self, now: Timestamp) -> Option<String> {
        self.core.hindrance(now)
    }

    fn counts(&self) -> Vec<Count> {
        self.core.counts()
    }

    fn traps(&self) -> Vec<Trap> {
        self.core.traps()
    }

    fn labelled_counts(&self) -> Vec<LabelledCount> {
        self.core.labelled_counts()
    }

    fn histograms(&self) -> Vec<(&'static str, &Histogram)> {
        self.core.histograms()
    }
}
