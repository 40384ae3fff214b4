//! The loop of all stages: it hears what happens, steps the core, and carries out what the settlement says.
//!
//! In: messages of streams and core NATS, streams' answers, ended work, control requests, the clock, the lease. Out: the
//! settlement's actions, carried out in their order. The rules of delivery are the [settlement](super::settlement)'s;
//! nothing here decides what is acked, committed or published. How a process ends is in `ending`.

mod ending;

use super::any_core::{AnyCore, Refusal, Signal};
use super::context::{Context, Stage};
use super::core::{Step, Ticket};
use super::in_hand::{InHand, Panicked, guarded};
use super::inputs::{Identity, Inputs, SoftInputs, SoftMessage, StreamInputs, StreamMessage};
use super::occupation::Occupation;
use super::ownership::Ownership;
use super::parked::Parked;
use super::settlement::{Action, Life, Settlement};
use super::telling::{Look, Telling};
use crate::bus::{Bus, Publisher, StreamAnswer, ensure_streams};
use crate::message::Edge;
use crate::time::Timestamp;
use crate::topology::Source;
use async_nats::Subject;
use async_nats::jetstream::AckKind;
use futures::stream::StreamExt as _;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// How long a drain may take before what is in hand is left to be delivered again.
const DRAIN_GRACE: Duration = Duration::from_secs(25);
/// How often health is looked after, old inputs are kept alive and stored outputs are cleared.
const UPKEEP: Duration = Duration::from_millis(500);
/// Answers of streams read in one go.
const ANSWERS_AT_ONCE: usize = 256;

/// A stage about to run.
pub(super) struct Process {
    pub(super) stage: Stage,
    /// Messages asked of the broker at once.
    pub(super) batch: usize,
    /// Instances among which the partitions are shared out.
    pub(super) replicas: u16,
    pub(super) context: Context,
    /// Of a stage with state.
    pub(super) ownership: Option<Ownership>,
}

impl Process {
    fn inputs(&self) -> Inputs<'_> {
        Inputs {
            bus: &self.context.bus,
            pipeline: &self.context.pipeline,
            stage: self.stage.name,
            instance: self.context.instance,
            replicas: self.replicas,
            batch: self.batch,
        }
    }
}

struct Loop {
    process: Process,
    core: Box<dyn AnyCore>,
    settlement: Settlement<Subject>,
    publisher: Publisher,
    telling: Telling,
    occupation: Occupation,
    in_hand: InHand,
    parked: Parked,
    /// The clock's reading at [`Timestamp::ZERO`].
    origin: Instant,
    /// How many times the connection had come about when it was looked at last.
    connections: u64,
}

/// What a process hears of.
#[expect(clippy::large_enum_variant, reason = "there is one at a time: a box would cost an allocation per message")]
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

/// Runs a stage until `shutdown`, then drains it.
pub(super) async fn run(
    process: Process,
    core: Box<dyn AnyCore>,
    shutdown: Pin<&mut impl Future<Output = ()>>,
) -> anyhow::Result<()> {
    let control = control_requests(&process).await?;
    let soft = process.inputs().soft(process.stage.sources).await?;
    let (streams, identities) = process.inputs().streams(process.stage.sources).await?;
    let mut this = Loop::begin(process, core, &identities).await?;
    match this.live(control, soft, streams, shutdown).await {
        Ok(()) => this.end().await,
        Err(error) => {
            if error.is::<Panicked>() {
                this.give_up().await;
            }
            Err(error)
        }
    }
}

type ControlRequests = futures::stream::Select<async_nats::Subscriber, async_nats::Subscriber>;

async fn control_requests(process: &Process) -> anyhow::Result<ControlRequests> {
    let Bus { client, subjects, .. } = &process.context.bus;
    let name = format!("{}.{}", process.stage.name, process.context.instance);
    let one = client.subscribe(subjects.control(&name)).await?;
    let all = client.subscribe(subjects.control("all")).await?;
    Ok(futures::stream::select(one, all))
}

impl Loop {
    /// The life of the process, until it is drained.
    async fn live(
        &mut self,
        mut control: ControlRequests,
        mut soft: SoftInputs,
        mut streams: StreamInputs,
        mut shutdown: Pin<&mut impl Future<Output = ()>>,
    ) -> anyhow::Result<()> {
        let (mut draining, mut next_upkeep) = (None::<Instant>, Instant::now());
        loop {
            self.hear_of_lease()?;
            if draining.is_some_and(|since| self.is_drained() || since.elapsed() > DRAIN_GRACE) {
                break;
            }
            let now = self.now();
            self.occupation.worked(now);
            let may_step = self.settlement.may_step(now);
            let takes_input = draining.is_none() && self.settlement.takes_input(now) && self.core.wants_input();
            let wake = self.core.wake_at().filter(|_| may_step);
            let next = [wake, self.settlement.due_at()].into_iter().flatten().map(|at| self.instant(at));
            let next = next.fold(next_upkeep, Instant::min);
            let heard = tokio::select! {
                biased;
                () = shutdown.as_mut(), if draining.is_none() => Heard::Shutdown,
                answer = self.publisher.next() => Heard::StreamsAnswer(answer),
                () = std::future::poll_fn(|context| self.core.poll_work(context)), if may_step => Heard::WorkEnded,
                Some(message) = soft.next(), if may_step => Heard::Soft(message),
                Some(message) = streams.next(), if takes_input => Heard::Message(message),
                Some(request) = control.next() => Heard::Control(request),
                () = tokio::time::sleep_until(next.into()) => Heard::Time,
            };
            self.occupation.waited(self.now(), self.settlement.held_back());
            match heard {
                Heard::Shutdown => {
                    draining = Some(Instant::now());
                    self.give_back(std::mem::take(&mut streams)).await;
                    self.signal(Signal::Drain).await?;
                }
                Heard::Time => {
                    if let Some((new_streams, new_soft)) = self.look_after(wake, &mut next_upkeep).await?
                        && draining.is_none()
                    {
                        streams = new_streams;
                        soft = new_soft;
                    }
                }
                other => self.take_in(other).await?,
            }
        }
        Ok(())
    }

    async fn begin(process: Process, core: Box<dyn AnyCore>, identities: &[Identity]) -> anyhow::Result<Self> {
        let context = &process.context;
        let (stage, instance) = (process.stage.name, context.instance);
        let publisher = Publisher::new(&context.bus).await?;
        let telling = Telling::begin(stage, context).await?;
        let life = Life { stage, instance, life: context.life, epoch: context.epoch };
        let (store, origin) = (context.store.as_deref(), Instant::now());
        let subjects = context.bus.subjects.clone();
        let settlement = Settlement::open(life, subjects, &context.pipeline, store, Timestamp::ZERO)?;
        let connections = context.bus.connections();
        let occupation = Occupation::default();
        let in_hand = InHand::open(context.pipeline.instance_dir(stage, instance));
        let parked = Parked::default();
        let mut this =
            Loop { process, core, settlement, publisher, telling, occupation, in_hand, parked, origin, connections };
        this.adopt(identities)?;
        let (epoch, listen) = (this.process.context.epoch, this.telling.listen());
        tracing::info!(stage, instance, epoch, %listen, "running");
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

    /// Tells the settlement how long the lease is held.
    ///
    /// # Errors
    /// Somebody else holds it.
    fn hear_of_lease(&mut self) -> anyhow::Result<()> {
        let Some(ownership) = &self.process.ownership else { return Ok(()) };
        let Some(until) = ownership.held_until() else {
            anyhow::bail!("another process owns the partitions of this instance now");
        };
        let until = self.timestamp(until);
        self.settlement.leased(until);
        Ok(())
    }

    fn adopt(&mut self, identities: &[Identity]) -> anyhow::Result<()> {
        for Identity { edge, created } in identities {
            self.settlement.adopt(self.process.context.store.as_deref(), *edge, *created)?;
        }
        Ok(())
    }

    /// Takes in what came from outside or from the shell.
    async fn take_in(&mut self, heard: Heard) -> anyhow::Result<()> {
        match heard {
            Heard::StreamsAnswer(answer) => self.streams_answer(answer).await,
            Heard::WorkEnded => {
                let now = self.now();
                let step = guarded(|| "at an answer of its shell".into(), || self.core.answer(now))??;
                self.settle(step).await
            }
            Heard::Soft(message) => self.receive_soft(message).await,
            Heard::Message(Some(message)) => self.receive(message).await,
            Heard::Control(request) => {
                self.telling.answer(request, self.look()).await;
                Ok(())
            }
            Heard::Message(None) | Heard::Shutdown | Heard::Time => Ok(()),
        }
    }

    async fn receive(&mut self, StreamMessage { edge, message }: StreamMessage) -> anyhow::Result<()> {
        let (sequence, delivered) = message.info().map_or((0, 1), |info| (info.stream_sequence, info.delivered));
        let message = message.message;
        let Some(answer_to) = message.reply.clone() else { return Ok(()) };
        match self.settlement.message(self.now(), edge, sequence, answer_to) {
            Some(ticket) => self.take(ticket, edge, message, delivered > 1).await,
            None => self.carry_out().await,
        }
    }

    async fn receive_soft(&mut self, SoftMessage { edge, mut message }: SoftMessage) -> anyhow::Result<()> {
        let ticket = self.settlement.request(message.reply.take(), self.now());
        // Nobody tells of a request whether it came before.
        self.take(ticket, edge, message, self.in_hand.has_deaths()).await
    }

    /// Steps the core with an input. One that came before (`is_repeat`) may be what an earlier life died of.
    async fn take(
        &mut self,
        ticket: Ticket,
        edge: Edge,
        message: async_nats::Message,
        is_repeat: bool,
    ) -> anyhow::Result<()> {
        let (now, subject) = (self.now(), message.subject.as_str());
        let step = || self.core.message(now, ticket, edge, &message.payload);
        match self.in_hand.step(edge, &message, is_repeat, step)? {
            Some(Ok(step)) => {
                self.settlement.taken();
                return self.settle(step).await;
            }
            Some(Err(Refusal::Unreadable(error))) => {
                self.settlement.unreadable(now, ticket, subject, message.payload, &error);
            }
            Some(Err(Refusal::Store(error))) => return Err(error.into()),
            None => self.settlement.deadly(now, ticket, subject, message.payload),
        }
        self.carry_out().await
    }

    async fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        let now = self.now();
        let step = guarded(|| format!("at the signal {signal:?}"), || self.core.signal(now, signal))??;
        self.settle(step).await
    }

    /// Reads what streams say of messages published to them.
    async fn streams_answer(&mut self, first: StreamAnswer) -> anyhow::Result<()> {
        let mut next = Some(first);
        for _ in 0..ANSWERS_AT_ONCE {
            match next {
                Some(StreamAnswer::Stored(token)) => {
                    if let Some(tag) = self.settlement.stored(token) {
                        self.signal(Signal::Stored(tag)).await?;
                    }
                }
                Some(StreamAnswer::Refused(token, why)) => self.settlement.refused(self.now(), token, why),
                None => break,
            }
            next = self.publisher.next_now();
        }
        self.carry_out().await
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
                Action::Send(send) => client.publish(bus.subjects.of(send.edge, &send.token), send.payload).await,
                Action::Reply(reply_to, payload) => client.publish(reply_to, payload).await,
                Action::Ack(answer_to) => client.publish(answer_to, AckKind::Ack.into()).await,
                Action::Nak(answer_to) => client.publish(answer_to, AckKind::Nak(None).into()).await,
                Action::Extend(answer_to) => client.publish(answer_to, AckKind::Progress.into()).await,
            };
        }
        Ok(())
    }

    /// Does what is due: wakes the core, publishes again, upkeep. Returns new inputs when the old ones are gone.
    async fn look_after(
        &mut self,
        wake: Option<Timestamp>,
        next_upkeep: &mut Instant,
    ) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        let now = self.now();
        if wake.is_some_and(|wake| wake <= now) {
            self.signal(Signal::Wake).await?;
        }
        self.publish_again().await?;
        if *next_upkeep > Instant::now() && !self.is_reconnected() {
            return Ok(None);
        }
        *next_upkeep = Instant::now() + UPKEEP;
        self.upkeep().await
    }

    /// Publishes again what no stream has answered for too long.
    async fn publish_again(&mut self) -> anyhow::Result<()> {
        if !self.process.context.bus.is_connected() {
            self.settlement.disconnected();
        }
        self.settlement.due(self.now());
        self.carry_out().await
    }

    /// Says whether the connection came back since it was looked at last.
    fn is_reconnected(&self) -> bool {
        let bus = &self.process.context.bus;
        bus.connections() != self.connections && bus.is_connected()
    }

    /// Health, old inputs, stored outputs, positions; new inputs when the broker lost the old streams.
    async fn upkeep(&mut self) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        self.settlement.upkeep(self.now());
        self.carry_out().await?;
        self.trim_positions().await;
        let new_inputs = match self.is_reconnected() {
            true => {
                self.connections = self.process.context.bus.connections();
                let new_inputs = self.reopen_lost_streams().await?;
                self.settlement.reconnected(self.now());
                self.carry_out().await?;
                new_inputs
            }
            false => None,
        };
        let Loop { parked, core, process, .. } = self;
        parked.put_back(&process.context.bus, &process.stage, |edge, payload| core.reads(edge, payload)).await;
        self.telling.renew(self.look());
        Ok(new_inputs)
    }

    /// Asks the broker how far it has all acks of edges whose positions have many gaps.
    async fn trim_positions(&mut self) {
        let bus = &self.process.context.bus;
        for edge in self.settlement.gapped() {
            let name = crate::bus::consumer_name(self.process.stage.name, Some(self.process.context.instance));
            let stream = bus.subjects.stream(edge.name());
            let consumer = bus
                .jetstream
                .get_consumer_from_stream::<async_nats::jetstream::consumer::pull::Config, _, _>(name, stream)
                .await;
            if let Ok(consumer) = consumer {
                self.settlement.acked_up_to(edge, consumer.cached_info().ack_floor.stream_sequence);
            }
        }
    }

    /// After a reconnect: a broker that came back without its streams gets them again, and is read from their
    /// beginning.
    async fn reopen_lost_streams(&mut self) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        let Context { bus, pipeline, .. } = &self.process.context;
        ensure_streams(bus, pipeline, self.process.stage.edges).await?;
        let mut lost = false;
        for source in self.process.stage.sources {
            let (Source::Shared(edge) | Source::Owned(edge)) = *source else { continue };
            let stream = bus.jetstream.get_stream(bus.subjects.stream(edge.name())).await?;
            let info = stream.cached_info();
            let created = i64::try_from(info.created.unix_timestamp_nanos()).unwrap_or(i64::MAX);
            lost |= info.state.consumer_count == 0
                || self.settlement.stream_of(edge).is_some_and(|before| before != created);
        }
        if !lost {
            return Ok(None);
        }
        tracing::warn!("the broker came back without its streams; they are made anew");
        let (streams, identities) = self.process.inputs().streams(self.process.stage.sources).await?;
        let soft = self.process.inputs().soft(self.process.stage.sources).await?;
        self.adopt(&identities)?;
        Ok(Some((streams, soft)))
    }

    fn look(&self) -> Look<'_> {
        let Loop { process, core, settlement, occupation, .. } = self;
        Look { bus: &process.context.bus, core: core.as_ref(), settlement, occupation, now: self.now() }
    }
}
