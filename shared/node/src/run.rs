//! The loop of all stages: it hears what happens, steps the core, and carries out what the
//! settlement says.
//!
//! In: messages of streams and core NATS, streams' answers, ended work, control requests, the
//! clock, the lease. Out: the settlement's actions, carried out in their order. The rules of
//! delivery are the [settlement](rhumb_stage::settlement)'s; nothing here decides what is acked,
//! committed or published. What is due now and then is in `upkeep`, how a process ends in `ending`,
//! what it gives to a checkpoint in `captures`, how the core is stepped with what came in `intake`.

mod captures;
mod ears;
mod ending;
mod intake;
mod upkeep;

use self::ears::Ears;
use super::any_core::{AnyCore, Refusal, Signal};
use super::context::Context;
use super::in_hand::{InHand, guarded};
use super::incoming::Incoming;
use super::inputs::{Opened, SoftInputs, SoftMessage, StreamInputs, StreamMessage};
use super::lookout::Lookout;
use super::moves::{Ahead, Capture};
use super::parked::Parked;
use super::process::{Ended, Process};
use super::rates::Rates;
use super::saying::Saying;
use super::shutdown::Shutdown;
use super::telling::Moment;
use async_nats::Subject;
use async_nats::jetstream::AckKind;
use futures::stream::StreamExt as _;
use rhumb_bus::spool::{Reader, Writer};
use rhumb_bus::{Publisher, StreamAnswer, is_inbox};
use rhumb_config::identity::{Misfit, WAYS_OUT};
use rhumb_config::{Pipeline, Storage};
use rhumb_stage::Occupation;
use rhumb_stage::Step;
use rhumb_stage::settlement::{Action, InputAt, Life, Settlement, next_epoch};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Edge;
use rhumb_wire::topology::StageName;
use std::time::{Duration, Instant};

/// How long a drain may take before what is in hand is left to be delivered again.
const DRAIN_GRACE: Duration = Duration::from_secs(25);
/// The same when the instance is to have other partitions: what is in hand may be delivered again
/// to their next owner.
const REASSIGN_GRACE: Duration = Duration::from_secs(5);
/// How often health is looked after, old inputs are kept alive and stored outputs are cleared.
const UPKEEP: Duration = Duration::from_millis(500);
/// How often an optional stage looks whether it still takes part.
const TAKES_PART_EVERY: Duration = Duration::from_secs(5);

struct Loop {
    process: Process,
    core: Box<dyn AnyCore>,
    settlement: Settlement<Subject>,
    publisher: Publisher,
    spool: Reader,
    lookout: Lookout,
    occupation: Occupation,
    in_hand: InHand,
    parked: Parked,
    /// New inputs in the place of lost ones, until the process has come back after a reconnect.
    reopened: Option<(StreamInputs, SoftInputs)>,
    /// How many URLs a second the partitions deal with.
    rates: Rates,
    /// Partitions on their way to the instance.
    incoming: Incoming,
    /// Why the process has not come back after a reconnect.
    saying: Saying,
    /// The clock's reading at [`Timestamp::ZERO`].
    origin: Instant,
    /// How many times the connection had come about when the streams were looked at after it.
    connections: u64,
    /// Of a stage with state: the revision under which the lease was taken that the epoch is of.
    taken: u64,
    /// When an optional stage looks next whether it still takes part.
    takes_part_at: Instant,
    /// When the instances are counted that take what the process publishes into lanes.
    takers_at: Instant,
    /// The core knows that its life ends.
    is_told_to_drain: bool,
    /// The process is to end, with this life.
    is_told_to_end: bool,
    /// Since when the instance is to have other partitions.
    reassigned: Option<Instant>,
    /// Since when partitions are ready to come or to go, counted from `origin`.
    ready_since: Option<Duration>,
    /// What is done of the instance's moves while the core works; of a stage with state.
    ahead: Option<Ahead>,
    /// Its partitions as they were, for a checkpoint.
    capture: Option<Capture>,
}

/// What a process hears of.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time: a box would cost an allocation per message"
)]
enum Heard {
    Shutdown,
    StreamsAnswer(StreamAnswer),
    WorkEnded,
    Soft(SoftMessage),
    /// None: a pull says that there is nothing for now.
    Message(Option<StreamMessage>),
    Control(async_nats::Message),
    /// Something is due.
    Time,
}

impl Heard {
    /// Returns whether the core is stepped with it.
    fn steps(&self) -> bool {
        matches!(
            self,
            Heard::WorkEnded | Heard::Soft(_) | Heard::Message(Some(_))
        )
    }

    /// Where a message of a stream is acked.
    fn answer_to(self) -> Option<Subject> {
        match self {
            Heard::Message(message) => message?.message.message.reply,
            _ => None,
        }
    }
}

/// Runs a stage until it is told to end, or until its instance is to have other partitions; then
/// drains it.
pub(super) async fn run(
    process: Process,
    core: Box<dyn AnyCore>,
    shutdown: &mut Shutdown,
) -> anyhow::Result<Ended> {
    let (mut ears, opened) = Ears::open(&process).await?;
    let mut this = Loop::begin(process, core, &opened).await?;
    match this.live(&mut ears, shutdown).await {
        Ok(()) => this.end().await,
        Err(error) => {
            this.give_up(ears).await;
            Err(error)
        }
    }
}

impl Loop {
    /// The life of the process, until it is drained.
    async fn live(&mut self, ears: &mut Ears, shutdown: &mut Shutdown) -> anyhow::Result<()> {
        let mut draining = None::<Instant>;
        let mut next_upkeep = Instant::now();
        loop {
            if draining.is_none() && self.reassigned.is_some() {
                draining = self.reassigned;
                self.give_back(std::mem::take(&mut ears.inputs.streams), None)
                    .await;
            }
            self.hear(draining.is_some()).await?;
            let grace = if self.reassigned.is_some() {
                REASSIGN_GRACE
            } else {
                DRAIN_GRACE
            };
            if draining.is_some_and(|since| self.is_drained() || since.elapsed() > grace) {
                break;
            }
            let now = self.now();
            self.occupation.worked(now);
            self.process.telling.health().turned(self.instant(now));
            let may_step = self.settlement.may_step(now);
            let takes_input =
                draining.is_none() && self.settlement.takes_input(now) && self.core.wants_input();
            let wake = self.core.wake_at().filter(|_| may_step);
            let next = [wake, self.settlement.due_at()]
                .into_iter()
                .flatten()
                .map(|at| self.instant(at));
            let next = next.fold(next_upkeep, Instant::min);
            // However many messages wait, upkeep has its turn.
            let is_late = next_upkeep <= self.instant(now);
            let heard = match ears.late.take_if(|_| may_step && !self.is_reconnected()) {
                Some(late) => late,
                None => tokio::select! {
                    biased;
                    () = shutdown.told(), if !self.is_told_to_end => Heard::Shutdown,
                    answer = self.publisher.next() => Heard::StreamsAnswer(answer),
                    () = std::future::poll_fn(|context| self.core.poll_work(context)), if may_step => Heard::WorkEnded,
                    Some(request) = ears.control.next() => Heard::Control(request),
                    heard = std::future::poll_fn(|context| ears.inputs.poll(context, takes_input)), if may_step && !is_late => heard,
                    () = tokio::time::sleep_until(next.into()) => Heard::Time,
                },
            };
            self.hear_of_connection();
            self.occupation
                .waited(self.now(), self.settlement.held_back());
            match heard {
                Heard::Shutdown => {
                    (draining, self.reassigned, self.is_told_to_end) =
                        (Some(Instant::now()), None, true);
                    self.give_back(std::mem::take(&mut ears.inputs.streams), None)
                        .await;
                }
                Heard::Time => {
                    if let Some(new_inputs) = self.look_after(wake, &mut next_upkeep).await? {
                        // What came late may be of a stream that is no more.
                        ears.late = None;
                        if draining.is_none() {
                            (ears.inputs.streams, ears.inputs.soft) = new_inputs;
                        }
                    }
                }
                other if other.steps() && !self.settlement.may_step(self.now()) => {
                    ears.late = Some(other)
                }
                other => self.take_in(other).await?,
            }
        }
        Ok(())
    }

    async fn begin(
        mut process: Process,
        core: Box<dyn AnyCore>,
        opened: &[Opened],
    ) -> anyhow::Result<Self> {
        let brought = std::mem::take(&mut process.brought);
        let still_since = process.still_since.take();
        let context = &process.context;
        let stage = process.stage.name;
        let instance = context.instance;
        let files = Writer::open(
            &context.bus,
            &context.pipeline,
            stage,
            instance,
            context.life,
        )
        .await?;
        let publisher = Publisher::new(&context.bus).await?.with_spool(files);
        let spool = Reader::open(
            &context.bus,
            process.stage.sources.iter().map(|source| source.edge()),
        )
        .await?;
        let life = Life {
            stage,
            instance,
            life: context.life,
            epoch: context.epoch,
        };
        let store = context.store.as_deref();
        let origin = Instant::now();
        let subjects = context.bus.subjects.clone();
        let mut settlement =
            Settlement::open(life, subjects, &context.pipeline, store, Timestamp::ZERO)?;
        if let Some(taker) = process.lane_taker() {
            settlement.lanes_are_shared_by(context.pipeline.stages.of(taker).replicas);
        }
        let connections = context.bus.connections();
        let lookout = Lookout::new(&context.bus, &context.identity);
        let occupation = Occupation::default();
        let in_hand = InHand::open(context.pipeline.instance_dir(stage, instance));
        let parked = Parked::default();
        let taken = process.taken;
        let takes_part_at = origin + TAKES_PART_EVERY;
        let takers_at = origin;
        let is_told_to_drain = false;
        let is_told_to_end = false;
        let reassigned = None;
        let ready_since = None;
        let ahead = process
            .desk()
            .map(|desk| Ahead::begin(desk, context.epoch, brought));
        let mut this = Loop {
            process,
            core,
            settlement,
            publisher,
            spool,
            lookout,
            occupation,
            in_hand,
            parked,
            reopened: None,
            rates: Rates::default(),
            incoming: Incoming::default(),
            saying: Saying::default(),
            origin,
            connections,
            taken,
            takes_part_at,
            takers_at,
            is_told_to_drain,
            is_told_to_end,
            reassigned,
            ready_since,
            ahead,
            capture: None,
        };
        this.adopt(opened)?;
        this.begin_with_orders().await?;
        // Before anything is published: what an earlier life left in the outbox.
        this.look().await?;
        let epoch = this.process.context.epoch;
        let listen = this.process.telling.listen();
        let stood_still_ms = still_since.map(|since| since.elapsed().as_millis() as u64);
        tracing::info!(stage, instance, epoch, %listen, stood_still_ms, "running");
        this.hear_of_lease()?;
        this.carry_out().await?;
        Ok(this)
    }

    fn now(&self) -> Timestamp {
        self.timestamp(Instant::now())
    }

    fn timestamp(&self, at: Instant) -> Timestamp {
        Timestamp::ZERO + at.saturating_duration_since(self.origin)
    }

    fn instant(&self, at: Timestamp) -> Instant {
        // Far enough for any wait, near enough for any clock.
        self.origin + at.since(Timestamp::ZERO).min(Duration::from_secs(1 << 32))
    }

    fn is_drained(&self) -> bool {
        self.core.is_idle() && self.settlement.is_settled()
    }

    /// Hears of the connection and the lease, and tells the core when the process hears again after
    /// a while, and once that it ends.
    async fn hear(&mut self, draining: bool) -> anyhow::Result<()> {
        self.hear_of_connection();
        self.hear_of_lease()?;
        if self.settlement.hears_again(self.now()) {
            self.signal(Signal::HearsAgain).await?;
        }
        if draining && !self.is_told_to_drain && self.settlement.may_step(self.now()) {
            self.is_told_to_drain = true;
            self.signal(Signal::Drain).await?;
        }
        Ok(())
    }

    /// Tells the settlement how long the lease is held, and of a new epoch when it had lapsed and
    /// was taken again.
    ///
    /// # Errors
    /// Somebody else holds it, or the epoch cannot be stored.
    fn hear_of_lease(&mut self) -> anyhow::Result<()> {
        let Some(ownership) = &self.process.ownership else {
            return Ok(());
        };
        let Some(until) = ownership.held_until() else {
            anyhow::bail!("another process owns the partitions of this instance now");
        };
        let until = self.timestamp(until);
        let taken = ownership.taken();
        self.settlement.leased(until);
        if let Some(store) = &self.process.context.store
            && self.taken != taken
        {
            self.taken = taken;
            let epoch = next_epoch(store.as_ref(), taken)?;
            self.settlement.owned_since(epoch);
            self.core.owned_since(epoch);
            let stage = self.process.stage.name;
            let instance = self.process.context.instance;
            tracing::info!(
                stage,
                instance,
                epoch,
                "the lease had lapsed and was taken again"
            );
        }
        Ok(())
    }

    /// From the moment when the connection breaks until the streams were looked at nothing is
    /// published.
    fn hear_of_connection(&mut self) {
        let bus = &self.process.context.bus;
        if bus.connections() != self.connections || !bus.is_connected() {
            self.settlement.disconnected();
        }
    }

    /// Reads how far the stage came in streams that were opened.
    fn adopt(&mut self, opened: &[Opened]) -> anyhow::Result<()> {
        for Opened {
            edge,
            created,
            consumers,
        } in opened
        {
            let Context {
                store,
                pipeline,
                bus,
                identity,
                ..
            } = &self.process.context;
            let is_another = self
                .settlement
                .adopt(store.as_deref(), *edge, consumers, *created)?;
            if is_another && !is_in_memory(pipeline, *edge) {
                let stream = bus.subjects.stream(edge.name());
                let crawl = &identity.mark;
                let what =
                    format!("the stream {stream} of {crawl} was deleted and made anew: {WAYS_OUT}");
                return Err(Misfit(what).into());
            }
        }
        Ok(())
    }

    /// Looks whether the streams are what they were.
    async fn look(&mut self) -> anyhow::Result<()> {
        let looks = self.lookout.look(&self.settlement.expected()).await?;
        Ok(self.settlement.look(&looks)?)
    }

    /// Takes in what came from outside or from the shell.
    async fn take_in(&mut self, heard: Heard) -> anyhow::Result<()> {
        match heard {
            Heard::StreamsAnswer(answer) => self.streams_answer(answer).await,
            Heard::WorkEnded => {
                let now = self.now();
                let step = guarded(
                    || "at an answer of its shell".into(),
                    || self.core.answer(now),
                )??;
                self.settle(step).await
            }
            Heard::Soft(message) => self.receive_soft(message).await,
            Heard::Message(Some(message)) => self.receive(message).await,
            Heard::Control(request) => {
                self.control(request).await;
                Ok(())
            }
            Heard::Message(None) | Heard::Shutdown | Heard::Time => Ok(()),
        }
    }

    /// Settles a step of the core; the work that it asked for begins afterwards.
    async fn settle(&mut self, step: Step) -> anyhow::Result<()> {
        self.hear_of_lease()?;
        self.settlement.stepped(self.now(), step)?;
        self.carry_out().await?;
        self.core.perform();
        Ok(())
    }

    /// Does what the settlement says.
    async fn carry_out(&mut self) -> anyhow::Result<()> {
        let Context { bus, store, .. } = &self.process.context;
        let client = &bus.client;
        while let Some(action) = self.settlement.next_action() {
            // A failed send shows in the answer that does not come.
            let _ = match action {
                Action::Commit(changes) => {
                    if let Some(store) = store {
                        self.ahead.iter_mut().for_each(|ahead| ahead.note(&changes));
                        store.commit(&changes)?;
                    }
                    self.settlement.committed(self.now());
                    continue;
                }
                Action::Publish(token) => {
                    if let Some(message) = self.settlement.outgoing(token) {
                        self.publisher.send(token, message).await;
                    }
                    continue;
                }
                Action::Send(send) => {
                    client
                        .publish(bus.subjects.of(send.edge, &send.token), send.payload)
                        .await
                }
                Action::Reply(reply_to, payload) if is_inbox(&reply_to) => {
                    client.publish(reply_to, payload).await
                }
                Action::Reply(..) => continue,
                Action::Ack(answer_to) => client.publish(answer_to, AckKind::Ack.into()).await,
                Action::Nak(answer_to) => {
                    client.publish(answer_to, AckKind::Nak(None).into()).await
                }
                Action::Extend(answer_to) => {
                    client.publish(answer_to, AckKind::Progress.into()).await
                }
            };
        }
        Ok(())
    }

    fn moment(&self) -> Moment<'_> {
        let Loop {
            process,
            core,
            settlement,
            occupation,
            rates,
            incoming,
            ..
        } = self;
        let Context {
            bus,
            partitions,
            owners,
            ..
        } = &process.context;
        let own = StageName::from_name(process.stage.name).filter(|stage| stage.row().has_state);
        let of_all = own
            .and_then(|own| owners.get(&own))
            .map_or(0, |table| table.owners.partitions.len());
        Moment {
            bus,
            core: core.as_ref(),
            settlement,
            occupation,
            partitions: partitions.len() as u64,
            partitions_of_all: of_all as u64,
            incoming,
            is_draining: self.is_told_to_drain,
            rates,
            heeded: process.orders.heeded(),
            is_held: process.orders.is_held(),
            now: self.now(),
        }
    }
}

/// Returns whether the broker keeps the stream of an edge in its memory alone.
fn is_in_memory(pipeline: &Pipeline, edge: Edge) -> bool {
    pipeline
        .edges
        .stream(edge)
        .is_some_and(|stream| stream.storage == Storage::Memory)
}
