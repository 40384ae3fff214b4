//! The loop of all stages: it hears what happens, steps the core, and carries out what the
//! node says.
//!
//! In: messages of streams and core NATS, streams' answers, ended work, control requests, the
//! clock, the lease. Out: the node's actions, carried out in their order. The rules of delivery are
//! the [settlement](rhumb_stage::settlement)'s, how a life ends is the [node](rhumb_stage::node)'s;
//! nothing here decides what is acked, committed or published, or how much one commit settles. What
//! is due now and then is in `upkeep`, how a process ends in `ending`, what it gives to a
//! checkpoint in `captures`, how the core is stepped with what came in `intake`.

mod captures;
mod ears;
mod ending;
mod intake;
mod upkeep;

use self::ears::{Ears, Inputs};
use super::any_core::{AnyCore, Refusal};
use super::context::Context;
use super::in_hand::InHand;
use super::incoming::Incoming;
use super::inputs::{Opened, SoftInputs, SoftMessage, StreamInputs, StreamMessage};
use super::lookout::Lookout;
use super::moves::{Capture, Workers};
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
use rhumb_stage::Signal;
use rhumb_stage::node::Node;
use rhumb_stage::settlement::{Action, InputAt, Life, Settlement};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Edge;
use rhumb_wire::topology::StageName;
use std::time::{Duration, Instant};

/// How often health is looked after, old inputs are kept alive and stored outputs are cleared.
const UPKEEP: Duration = Duration::from_millis(500);
/// How often an optional stage looks whether it still takes part.
const TAKES_PART_EVERY: Duration = Duration::from_secs(5);

struct Loop {
    process: Process,
    core: Box<dyn AnyCore>,
    node: Node<Subject>,
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
    /// When an optional stage looks next whether it still takes part.
    takes_part_at: Instant,
    /// When the instances are counted that take what the process publishes into lanes.
    takers_at: Instant,
    /// Who does what is done of the instance's moves while the core works; of a stage with state.
    workers: Option<Workers>,
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
        let mut next_upkeep = Instant::now();
        loop {
            if self.node.gives_inputs_back() {
                self.give_back(std::mem::take(&mut ears.inputs.streams), None)
                    .await;
            }
            self.hear().await?;
            if self.node.is_over(self.now(), self.core.is_idle()) {
                break;
            }
            let now = self.now();
            self.occupation.worked(now);
            self.process.telling.health().turned(self.instant(now));
            let may_step = self.node.settlement.may_step(now);
            let takes_stream = self.takes_stream();
            let wake = self.core.wake_at().filter(|_| may_step);
            let next = [wake, self.node.settlement.due_at()]
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
                    () = shutdown.told(), if !self.node.is_told_to_end() => Heard::Shutdown,
                    answer = self.publisher.next() => Heard::StreamsAnswer(answer),
                    () = std::future::poll_fn(|context| self.core.poll_work(context)), if may_step => Heard::WorkEnded,
                    Some(request) = ears.control.next() => Heard::Control(request),
                    heard = std::future::poll_fn(|context| ears.inputs.poll(context, takes_stream)), if may_step && !is_late => heard,
                    () = tokio::time::sleep_until(next.into()) => Heard::Time,
                },
            };
            self.hear_of_connection();
            self.occupation
                .waited(self.now(), self.node.settlement.held_back());
            match heard {
                Heard::Shutdown => self.node.end(self.now()),
                Heard::Time => {
                    if let Some(new_inputs) = self.look_after(wake, &mut next_upkeep).await? {
                        // What came late may be of a stream that is no more.
                        ears.late = None;
                        if self.node.is_draining() {
                            self.give_back(new_inputs.0, None).await;
                        } else {
                            (ears.inputs.streams, ears.inputs.soft) = new_inputs;
                        }
                    }
                }
                other if other.steps() && !self.node.settlement.may_step(self.now()) => {
                    ears.late = Some(other)
                }
                other => self.take_batch(other, &mut ears.inputs).await?,
            }
        }
        Ok(())
    }

    async fn begin(
        mut process: Process,
        core: Box<dyn AnyCore>,
        opened: &[Opened],
    ) -> anyhow::Result<Self> {
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
        let uncommitted = context.uncommitted.clone();
        let pipeline = &context.pipeline;
        let now = Timestamp::ZERO;
        let mut settlement = Settlement::open(life, subjects, pipeline, store, uncommitted, now)?;
        if let Some(taker) = process.lane_taker() {
            settlement.lanes_are_shared_by(context.pipeline.stages.of(taker).replicas);
        }
        let connections = context.bus.connections();
        let lookout = Lookout::new(&context.bus, &context.identity);
        let occupation = Occupation::default();
        let in_hand = InHand::open(context.pipeline.instance_dir(stage, instance));
        let parked = Parked::default();
        let takes_part_at = origin + TAKES_PART_EVERY;
        let takers_at = origin;
        let workers = process.desk().as_ref().map(Workers::begin);
        let node = Node::new(settlement, process.tenure.take());
        let mut this = Loop {
            process,
            core,
            node,
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
            takes_part_at,
            takers_at,
            workers,
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

    /// Hears of the connection and the lease, and tells the core when the process hears again after
    /// a while, and once that it ends.
    async fn hear(&mut self) -> anyhow::Result<()> {
        self.hear_of_connection();
        self.hear_of_lease()?;
        while let Some(signal) = self.node.next_signal(self.now()) {
            self.signal(signal).await?;
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
        if let Some(epoch) = self.node.leased(until, taken)? {
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
            self.node.settlement.disconnected();
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
            let is_another =
                self.node
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
        let looks = self.lookout.look(&self.node.settlement.expected()).await?;
        Ok(self.node.settlement.look(&looks)?)
    }

    /// Returns whether the core may be given messages of streams.
    fn takes_stream(&self) -> bool {
        self.node.takes_input(self.now()) && self.core.wants_input()
    }

    /// Does what the settlement says.
    async fn carry_out(&mut self) -> anyhow::Result<()> {
        let Context { bus, store, .. } = &self.process.context;
        let client = &bus.client;
        while let Some(action) = self.node.next_action() {
            // A failed send shows in the answer that does not come.
            let _ = match action {
                Action::Commit(changes) => {
                    if let Some(store) = store {
                        store.commit(&changes)?;
                    }
                    self.core.committed()?;
                    self.node.settlement.committed(self.now());
                    continue;
                }
                Action::Publish(token) => {
                    if let Some(message) = self.node.settlement.outgoing(token) {
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
            node,
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
            settlement: &node.settlement,
            occupation,
            partitions: partitions.len() as u64,
            partitions_of_all: of_all as u64,
            incoming,
            is_draining: node.is_core_told_to_drain(),
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
