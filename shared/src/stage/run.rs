//! The loop: receive, step, commit, publish, settle.
//!
//! Invariants: a stream input is acked only when what was made from it cannot be lost any more: without state,
//! when all its outputs are in their streams; with state, when input position, changes and outbox are in one
//! commit. Nothing is committed by an owner past the deadline of its lease.

use super::control::{ControlRequest, ProcessReason, ProcessStatus};
use super::inputs::{Identity, Inputs, SoftInputs, SoftMessage, StreamInputs, StreamMessage};
use super::outbox::{LOOP, Outbox};
use super::ownership::Ownership;
use super::start::{Context, Shell};
use super::store::Changes;
use super::tickets::Tickets;
use super::{Applied, Core, Event, Output, Publish, Ticket};
use crate::bus::{Bus, Outgoing, Publisher, ensure_streams};
use crate::message::{Edge, Undecodable};
use crate::telemetry::{self, SharedVitals, Vitals};
use crate::time::Timestamp;
use crate::topology::Source;
use async_nats::Subject;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Messages on their way into streams above which no input is taken.
const PUBLISHES_MAX: usize = 1000;
/// How long a drain may take before what is in hand is left to be delivered again.
const DRAIN_GRACE: Duration = Duration::from_secs(25);
/// How often health is looked after, old inputs are kept alive and stored outputs are cleared.
const UPKEEP: Duration = Duration::from_millis(500);
/// A publish that waits longer makes the process not ready.
const PUBLISH_LATE: Duration = Duration::from_secs(10);
/// After how long an input of an unknown schema is delivered again.
const UNKNOWN_VERSION_DELAY: Duration = Duration::from_secs(5);
/// Ranges above a position's low-water mark from which the broker is asked how far acks reach.
const POSITION_RANGES_MAX: usize = 256;
/// Stored replies read in one go.
const ACKS_AT_ONCE: usize = 256;

/// A stage about to run.
pub(super) struct Process {
    pub(super) stage: &'static str,
    pub(super) sources: Vec<Source>,
    pub(super) batch: usize,
    pub(super) replicas: u16,
    pub(super) context: Context,
    pub(super) ownership: Option<Ownership>,
}

/// How far a stateful stage has come in a stream.
struct Position {
    created: i64,
    applied: Applied,
}

struct Loop<C: Core, S> {
    process: Process,
    core: C,
    shell: S,
    origin: Instant,
    publisher: Publisher,
    tickets: Tickets,
    /// Inputs that wait for a publish, by its token.
    causes: HashMap<u64, Vec<Ticket>>,
    tags: HashMap<u64, u64>,
    outbox: Option<Outbox>,
    positions: HashMap<Edge, Position>,
    effects: FuturesUnordered<BoxFuture<'static, C::Answer>>,
    vitals: SharedVitals,
    listen: SocketAddr,
    received: u64,
    published: u64,
    repeated: u64,
    dead: u64,
    /// Until then an input of an unknown schema version is taken to wait still.
    unknown_version_until: Option<Instant>,
    connected: u64,
}

/// Runs a stage until `shutdown`, then drains it.
pub(super) async fn run<C: Core, S: Shell<C>>(
    process: Process,
    core: C,
    shell: S,
    mut shutdown: Pin<&mut impl Future<Output = ()>>,
) -> anyhow::Result<()> {
    let bus = process.context.bus.clone();
    let mut control = control_requests(&bus, process.stage, process.context.instance).await?;
    let mut soft = inputs(&process).soft(&process.sources).await?;
    let (mut streams, identities) = inputs(&process).streams(&process.sources).await?;
    let mut this = Loop::new(process, core, shell).await?;
    this.adopt_positions(&identities)?;
    tracing::info!(
        stage = this.process.stage,
        instance = this.process.context.instance,
        epoch = this.process.context.epoch,
        listen = %this.listen,
        "running"
    );
    this.publish_what_was_left().await?;

    let mut draining: Option<Instant> = None;
    let mut next_upkeep = Instant::now();
    loop {
        if this.owner_is_lost() {
            anyhow::bail!("another process owns the partitions of this instance now");
        }
        if let Some(since) = draining
            && (this.is_drained() || since.elapsed() > DRAIN_GRACE)
        {
            break;
        }
        let may_step = this.may_commit();
        let takes_input =
            draining.is_none() && may_step && this.core.wants_input() && this.publisher.len() < PUBLISHES_MAX;
        let wake = if may_step { this.core.wake_at().map(|at| this.instant(at)) } else { None };
        let next = [wake, this.publisher.due_at()].into_iter().flatten().fold(next_upkeep, Instant::min);
        tokio::select! {
            biased;
            () = shutdown.as_mut(), if draining.is_none() => {
                draining = Some(Instant::now());
                this.give_back(std::mem::take(&mut streams)).await;
                this.step(Event::Drain).await?;
            }
            Some(reply) = this.publisher.next_ack() => this.settle(reply).await?,
            Some(answer) = this.effects.next(), if may_step && !this.effects.is_empty() => {
                this.step(Event::Answer(answer)).await?;
            }
            Some(message) = soft.next(), if may_step => this.receive_soft(message).await?,
            Some(message) = streams.next(), if takes_input => {
                if let Some(message) = message {
                    this.receive(message).await?;
                }
            }
            Some(request) = control.next() => this.answer(request).await,
            () = tokio::time::sleep_until(next.into()) => {
                let now = Instant::now();
                if wake.is_some_and(|wake| wake <= now) {
                    this.step(Event::Wake).await?;
                }
                if this.publisher.due_at().is_some_and(|due| due <= now) {
                    this.publisher.republish().await;
                }
                if next_upkeep <= now {
                    next_upkeep = now + UPKEEP;
                    if let Some((new_streams, new_soft)) = this.upkeep().await?
                        && draining.is_none()
                    {
                        streams = new_streams;
                        soft = new_soft;
                    }
                }
            }
        }
    }
    this.end().await
}

fn inputs(process: &Process) -> Inputs<'_> {
    Inputs {
        bus: &process.context.bus,
        pipeline: &process.context.pipeline,
        stage: process.stage,
        instance: process.context.instance,
        replicas: process.replicas,
        batch: process.batch,
    }
}

async fn control_requests(
    bus: &Bus,
    stage: &str,
    instance: u16,
) -> anyhow::Result<futures::stream::Select<async_nats::Subscriber, async_nats::Subscriber>> {
    let one = bus.client.subscribe(bus.subjects.control(&format!("{stage}.{instance}"))).await?;
    let all = bus.client.subscribe(bus.subjects.control("all")).await?;
    Ok(futures::stream::select(one, all))
}

impl<C: Core, S: Shell<C>> Loop<C, S> {
    async fn new(process: Process, core: C, shell: S) -> anyhow::Result<Self> {
        let publisher = Publisher::new(&process.context.bus).await?;
        let listen = process
            .context
            .pipeline
            .stages
            .common()
            .into_iter()
            .find(|(stage, _)| *stage == process.stage)
            .map_or(SocketAddr::from(([127, 0, 0, 1], 0)), |(_, common)| common.listen);
        let vitals = SharedVitals::default();
        let listen = telemetry::serve(listen, process.stage, vitals.clone())
            .await
            .map_err(|error| anyhow::anyhow!("cannot listen on stages.{}.listen = {listen}: {error}", process.stage))?;
        let connected = process.context.bus.connected.load(Ordering::Relaxed);
        Ok(Loop {
            process,
            core,
            shell,
            origin: Instant::now(),
            publisher,
            tickets: Tickets::default(),
            causes: HashMap::new(),
            tags: HashMap::new(),
            outbox: None,
            positions: HashMap::new(),
            effects: FuturesUnordered::new(),
            vitals,
            listen,
            received: 0,
            published: 0,
            repeated: 0,
            dead: 0,
            unknown_version_until: None,
            connected,
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.origin.elapsed()
    }

    fn instant(&self, at: Timestamp) -> Instant {
        // Far enough for any wait, near enough for any clock.
        self.origin + at.since(Timestamp::ZERO).min(Duration::from_secs(1 << 32))
    }

    fn may_commit(&self) -> bool {
        self.process.ownership.as_ref().is_none_or(Ownership::holds)
    }

    fn owner_is_lost(&self) -> bool {
        self.process.ownership.as_ref().is_some_and(Ownership::is_lost)
    }

    fn is_drained(&self) -> bool {
        self.core.is_idle() && self.tickets.is_empty() && self.publisher.is_empty()
    }

    /// Reads how far earlier lives came in each stream; in a stream of another identity nothing was read yet.
    fn adopt_positions(&mut self, identities: &[Identity]) -> anyhow::Result<()> {
        let Some(store) = self.process.context.store.clone() else { return Ok(()) };
        for Identity { edge, created } in identities {
            let stored = store.get(LOOP, position_key(*edge).as_bytes())?;
            let position = stored.as_deref().and_then(read_position).filter(|position| position.created == *created);
            let position = position.unwrap_or(Position { created: *created, applied: Applied::default() });
            self.positions.insert(*edge, position);
        }
        Ok(())
    }

    /// Opens the outbox and publishes what an earlier life committed and may not have published.
    async fn publish_what_was_left(&mut self) -> anyhow::Result<()> {
        let context = &self.process.context;
        let Some(store) = &context.store else { return Ok(()) };
        let (mut outbox, left) = Outbox::open(store.as_ref(), self.process.stage, context.instance, context.epoch)?;
        for (key, message) in left {
            let token = self.publisher.publish(message).await;
            outbox.published(token, key);
        }
        self.outbox = Some(outbox);
        Ok(())
    }

    async fn receive(&mut self, StreamMessage { edge, message }: StreamMessage) -> anyhow::Result<()> {
        let sequence = message.info().map_or(0, |info| info.stream_sequence);
        let reply = message.message.reply.clone();
        if self.positions.get(&edge).is_some_and(|position| position.applied.contains(sequence)) {
            self.repeated += 1;
            self.ack(reply).await;
            return Ok(());
        }
        match C::decode(edge, &message.payload) {
            Ok(input) => {
                self.received += 1;
                let ack_wait = self.ack_wait(edge);
                let ticket = self.tickets.take(reply, (edge, sequence), ack_wait);
                self.step(Event::Message { ticket, input }).await
            }
            Err(Undecodable::Corrupt(reason)) => {
                let ticket = self.tickets.take(reply, (edge, sequence), self.ack_wait(edge));
                self.bury(message.message, reason, ticket).await;
                Ok(())
            }
            Err(error @ Undecodable::UnknownVersion { .. }) => {
                if self.unknown_version_until.is_none() {
                    tracing::error!(%error, "an input waits for a program that knows its schema: finish the update");
                }
                self.unknown_version_until = Some(Instant::now() + 2 * UNKNOWN_VERSION_DELAY);
                if let Some(reply) = reply {
                    let delay = format!("-NAK {{\"delay\": {}}}", UNKNOWN_VERSION_DELAY.as_nanos());
                    let _ = self.process.context.bus.client.publish(reply, delay.into()).await;
                }
                Ok(())
            }
        }
    }

    fn ack_wait(&self, edge: Edge) -> Duration {
        self.process.context.pipeline.edges.stream(edge).map_or(Duration::MAX, |stream| stream.ack_wait)
    }

    async fn receive_soft(&mut self, SoftMessage { edge, message }: SoftMessage) -> anyhow::Result<()> {
        match C::decode(edge, &message.payload) {
            Ok(input) => {
                self.received += 1;
                let ticket = self.tickets.take_soft(message.reply);
                self.step(Event::Message { ticket, input }).await
            }
            Err(error) => {
                // Soft state: its sender asks again. Counted, and kept for whoever wants to know.
                tracing::debug!(edge = edge.name(), %error, "a message could not be read");
                let ticket = self.tickets.take_soft(None);
                self.bury(message, error.to_string(), ticket).await;
                Ok(())
            }
        }
    }

    /// Ends the pulls and returns what they delivered and nobody took: the next owner need not wait for `ack_wait`.
    async fn give_back(&self, mut streams: StreamInputs) {
        let mut left = Vec::new();
        while let Some(Some(message)) = streams.next().now_or_never() {
            left.extend(message.and_then(|message| message.message.message.reply));
        }
        // First the end of the pulls: what is returned must not come to this process again.
        drop(streams);
        for reply in left {
            let _ = self.process.context.bus.client.publish(reply, "-NAK".into()).await;
        }
    }

    /// Moves a corrupt input to the stage's dead letters; it is acked when it lies there.
    async fn bury(&mut self, message: async_nats::Message, reason: String, ticket: Ticket) {
        self.dead += 1;
        tracing::warn!(subject = %message.subject, reason, "a corrupt message goes to the dead letters (see `rhumb dead`)");
        let number = self.dead;
        let letter = Outgoing {
            subject: self.process.context.bus.subjects.dead(self.process.stage),
            id: format!("dead-{:016x}-{number}", self.process.context.life),
            headers: vec![
                ("Rhumb-Subject", message.subject.to_string()),
                ("Rhumb-Reason", reason.replace(['\r', '\n'], " ")),
            ],
            payload: message.payload,
        };
        let token = self.publisher.publish(letter).await;
        self.causes.insert(token, vec![ticket]);
    }

    /// Steps the core and carries out what it says.
    async fn step(&mut self, event: Event<C::Input, C::Answer>) -> anyhow::Result<()> {
        let mut out = Output::default();
        self.core.step(self.now(), event, &mut out)?;
        if self.outbox.is_some() {
            self.commit_and_publish(&mut out).await?;
        } else {
            self.publish(&mut out).await;
        }
        for send in out.sends {
            let subject = self.process.context.bus.subjects.of(send.edge, &send.token);
            let _ = self.process.context.bus.client.publish(subject, send.payload).await;
        }
        for (ticket, payload) in out.replies {
            if let Some(reply) = self.tickets.get(ticket).and_then(|held| held.reply.clone()) {
                let _ = self.process.context.bus.client.publish(reply, payload).await;
            }
        }
        for ticket in out.finished {
            self.release(ticket).await;
        }
        for effect in out.effects {
            self.effects.push(self.shell.perform(effect));
        }
        Ok(())
    }

    /// Without state: publishes; the inputs are acked when all that was made from them is stored.
    async fn publish(&mut self, out: &mut Output<C::Effect>) {
        for Publish { edge, token, payload, causes, tag } in out.publishes.drain(..) {
            let subject = self.process.context.bus.subjects.of(edge, &token);
            let id = match causes.is_empty() {
                // Nothing makes it again, and one like it may be news.
                true => format!("{:016x}-{}", self.process.context.life, self.published),
                // The same message made again from the same input has the same id.
                false => format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&payload)),
            };
            for &cause in &causes {
                self.tickets.reference(cause);
            }
            self.published += 1;
            let published = self.publisher.publish(Outgoing { subject, id, headers: Vec::new(), payload }).await;
            if !causes.is_empty() {
                self.causes.insert(published, causes);
            }
            if let Some(tag) = tag {
                self.tags.insert(published, tag);
            }
        }
    }

    /// With state: positions of finished inputs, changes and outputs in one commit; then the outputs are published.
    async fn commit_and_publish(&mut self, out: &mut Output<C::Effect>) -> anyhow::Result<()> {
        let context = &self.process.context;
        let (Some(store), Some(outbox)) = (&context.store, &mut self.outbox) else { return Ok(()) };
        let mut changes = std::mem::take(&mut out.changes);
        let mut outgoing = Vec::with_capacity(out.publishes.len());
        for Publish { edge, token, payload, .. } in out.publishes.drain(..) {
            outgoing.push(outbox.add(&mut changes, context.bus.subjects.of(edge, &token), payload));
        }
        let mut moved = BTreeSet::new();
        for ticket in &out.finished {
            if let Some((edge, sequence)) = self.tickets.get(*ticket).and_then(|held| held.position)
                && let Some(position) = self.positions.get_mut(&edge)
            {
                position.applied.insert(sequence);
                moved.insert(edge);
            }
        }
        for edge in moved {
            changes.put(LOOP, position_key(edge), write_position(&self.positions[&edge]));
        }
        if changes.is_empty() {
            return Ok(());
        }
        outbox.clear_stored(&mut changes);
        if !self.process.ownership.as_ref().is_none_or(Ownership::holds) {
            // What this step made was not committed: only a fresh start from the store is right now.
            anyhow::bail!("the lease on the partitions of this instance is over; nothing was written after it");
        }
        store.commit(&changes)?;
        for (key, message) in outgoing {
            self.published += 1;
            let token = self.publisher.publish(message).await;
            if let Some(outbox) = &mut self.outbox {
                outbox.published(token, key);
            }
        }
        Ok(())
    }

    /// Reads what streams say of messages published to them.
    async fn settle(&mut self, first: async_nats::Message) -> anyhow::Result<()> {
        let mut next = Some(first);
        for _ in 0..ACKS_AT_ONCE {
            let Some(reply) = next else { break };
            if let Some((token, _)) = self.publisher.settle(&reply) {
                if let Some(outbox) = &mut self.outbox {
                    outbox.stored(token);
                }
                for ticket in self.causes.remove(&token).unwrap_or_default() {
                    self.release(ticket).await;
                }
                if let Some(tag) = self.tags.remove(&token) {
                    self.step(Event::Stored(tag)).await?;
                }
            }
            next = self.publisher.next_ack().now_or_never().flatten();
        }
        Ok(())
    }

    async fn release(&mut self, ticket: Ticket) {
        if let Some(held) = self.tickets.release(ticket)
            && held.position.is_some()
        {
            self.ack(held.reply).await;
        }
    }

    async fn ack(&self, reply: Option<Subject>) {
        if let Some(reply) = reply {
            let _ = self.process.context.bus.client.publish(reply, "+ACK".into()).await;
        }
    }

    /// Health, old inputs, stored outputs, positions; new inputs when the broker lost the old streams.
    async fn upkeep(&mut self) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        let bus = self.process.context.bus.clone();
        self.tickets.keep_alive(&bus).await;
        self.clear_stored_outputs()?;
        self.trim_positions().await;
        self.renew_vitals();
        self.unknown_version_until = self.unknown_version_until.filter(|until| Instant::now() < *until);
        let connected = bus.connected.load(Ordering::Relaxed);
        if connected != self.connected && bus.is_connected() {
            self.connected = connected;
            return self.reopen_lost_streams().await;
        }
        Ok(None)
    }

    fn clear_stored_outputs(&mut self) -> anyhow::Result<()> {
        let may_commit = self.may_commit();
        let (Some(store), Some(outbox)) = (&self.process.context.store, &mut self.outbox) else { return Ok(()) };
        if may_commit && outbox.has_stored() {
            let mut changes = Changes::default();
            outbox.clear_stored(&mut changes);
            store.commit(&changes)?;
        }
        Ok(())
    }

    /// An instance that owns some of a stream's partitions sees gaps between its messages: how far the broker
    /// has all acks closes them.
    async fn trim_positions(&mut self) {
        let bus = &self.process.context.bus;
        for (edge, position) in &mut self.positions {
            if position.applied.ranges() < POSITION_RANGES_MAX {
                continue;
            }
            let name = crate::bus::consumer_name(self.process.stage, Some(self.process.context.instance));
            let stream = bus.subjects.stream(edge.name());
            let consumer = bus
                .jetstream
                .get_consumer_from_stream::<async_nats::jetstream::consumer::pull::Config, _, _>(name, stream)
                .await;
            if let Ok(consumer) = consumer {
                position.applied.raise(consumer.cached_info().ack_floor.stream_sequence);
            }
        }
    }

    /// After a reconnect: a broker that came back without its streams gets them again, and is read from their
    /// beginning.
    async fn reopen_lost_streams(&mut self) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        let bus = self.process.context.bus.clone();
        ensure_streams(&bus, &self.process.context.pipeline).await?;
        let before: HashMap<Edge, i64> = self.positions.iter().map(|(edge, p)| (*edge, p.created)).collect();
        let mut lost = false;
        for source in &self.process.sources {
            let (Source::Shared(edge) | Source::Owned(edge)) = *source else { continue };
            let stream = bus.jetstream.get_stream(bus.subjects.stream(edge.name())).await?;
            let created = i64::try_from(stream.cached_info().created.unix_timestamp_nanos()).unwrap_or(i64::MAX);
            lost |= stream.cached_info().state.consumer_count == 0 || before.get(&edge).is_some_and(|b| *b != created);
        }
        if !lost {
            return Ok(None);
        }
        tracing::warn!("the broker came back without its streams; they are made anew");
        let (streams, identities) = inputs(&self.process).streams(&self.process.sources).await?;
        let soft = inputs(&self.process).soft(&self.process.sources).await?;
        self.adopt_positions(&identities)?;
        Ok(Some((streams, soft)))
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts = self.core.counts();
        counts.extend([
            ("loop_received_total", self.received),
            ("loop_published_total", self.published),
            ("loop_repeated_total", self.repeated),
            ("loop_dead_total", self.dead),
            ("loop_inputs_in_hand", self.tickets.len() as u64),
            ("loop_outputs_in_flight", self.publisher.len() as u64),
        ]);
        counts
    }

    fn readiness(&self) -> Result<(), String> {
        if !self.process.context.bus.is_connected() {
            Err("not connected to the broker".into())
        } else if !self.may_commit() {
            Err("no lease on the partitions".into())
        } else if self.unknown_version_until.is_some() {
            Err("an input has a schema version that this program does not know".into())
        } else if self.publisher.oldest() > PUBLISH_LATE {
            Err(format!("what is published is not stored: {}", self.publisher.refusal().unwrap_or("no answer")))
        } else {
            Ok(())
        }
    }

    fn renew_vitals(&self) {
        let readiness = self.readiness();
        let vitals =
            Vitals { counts: self.counts(), ready: readiness.is_ok(), reason: readiness.err().unwrap_or_default() };
        *self.vitals.lock().unwrap_or_else(PoisonError::into_inner) = vitals;
    }

    async fn answer(&mut self, request: async_nats::Message) {
        let (Some(reply), Ok(question)) = (request.reply, serde_json::from_slice(&request.payload)) else { return };
        let answer = match question {
            ControlRequest::Status => serde_json::to_vec(&self.status()),
            ControlRequest::Why(url) => serde_json::to_vec(&self.reason(&url)),
        };
        if let Ok(payload) = answer {
            let _ = self.process.context.bus.client.publish(reply, payload.into()).await;
        }
    }

    fn reason(&self, url: &str) -> ProcessReason {
        let reason = self.core.why(self.now(), url).unwrap_or_else(|error| Some(format!("cannot tell: {error}")));
        ProcessReason { stage: self.process.stage.to_owned(), instance: self.process.context.instance, reason }
    }

    fn status(&self) -> ProcessStatus {
        let pid = std::process::id();
        let (cpu_s, peak_rss_bytes) = telemetry::process_usage(pid).unwrap_or_default();
        let readiness = self.readiness();
        ProcessStatus {
            stage: self.process.stage.to_owned(),
            instance: self.process.context.instance,
            pid,
            life: self.process.context.life,
            listen: self.listen.to_string(),
            cpu_s,
            peak_rss_bytes,
            ready: readiness.is_ok(),
            reason: readiness.err().unwrap_or_default(),
            idle: self.is_drained(),
            counts: self.counts().into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    /// The end of a drained process: what is stored is cleared, the lease given back, the connection flushed.
    async fn end(mut self) -> anyhow::Result<()> {
        self.clear_stored_outputs()?;
        let left = self.tickets.len() + self.publisher.len();
        tracing::info!(stage = self.process.stage, instance = self.process.context.instance, left, "ended");
        if let Some(ownership) = self.process.ownership.take() {
            ownership.release().await;
        }
        let _ = tokio::time::timeout(Duration::from_secs(2), self.process.context.bus.client.flush()).await;
        Ok(())
    }
}

fn position_key(edge: Edge) -> String {
    format!("position {}", edge.name())
}

fn write_position(position: &Position) -> Vec<u8> {
    let mut bytes = position.created.to_le_bytes().to_vec();
    bytes.extend_from_slice(&position.applied.to_bytes());
    bytes
}

fn read_position(bytes: &[u8]) -> Option<Position> {
    let (created, applied) = bytes.split_at_checked(8)?;
    Some(Position { created: i64::from_le_bytes(created.try_into().ok()?), applied: Applied::from_bytes(applied)? })
}
