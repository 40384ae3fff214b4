//! What is due now and then: waking the core, publishing again, health, old inputs, positions, and
//! streams that a broker came back without.

use super::{Loop, SoftInputs, StreamInputs, TAKES_PART_EVERY, UPKEEP};
use crate::context::Context;
use crate::life::is_final;
use crate::ownership::instances;
use crate::process::Process;
use crate::saying::Saying;
use rhumb_bus::{OrdersGiven, make_further_streams, missing, stream_info};
use rhumb_partition::{LEADER, Owners};
use rhumb_stage::Signal;
use rhumb_url::time::Timestamp;
use rhumb_wire::topology::{Source, StageName};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rows of partitions that are others' which one upkeep removes: a few milliseconds.
const ROWS_AT_ONCE: usize = 2000;

/// How long after its start a process counts again the instances that take what it publishes into
/// lanes. Then it waits as long as it has been there, and this long at last: a pipeline's processes
/// start within seconds of each other.
const TAKERS_AFTER: Duration = Duration::from_millis(500);
const TAKERS_EVERY: Duration = Duration::from_secs(10);
/// How long the broker may take to say so.
const TAKERS_TIMEOUT: Duration = Duration::from_secs(1);

impl Loop {
    /// Does what is due: wakes the core, publishes again, upkeep. Returns new inputs when the old
    /// ones are gone.
    pub(super) async fn look_after(
        &mut self,
        wake: Option<Timestamp>,
        next_upkeep: &mut Instant,
    ) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        let now = self.now();
        // The process may have stood still since it was last known to hold the lease.
        if wake.is_some_and(|wake| wake <= now) && self.node.settlement.may_step(now) {
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
        self.node.settlement.due(self.now());
        self.carry_out().await
    }

    /// Returns whether the connection came back since it was looked at last.
    pub(super) fn is_reconnected(&self) -> bool {
        let bus = &self.process.context.bus;
        bus.connections() != self.connections && bus.is_connected()
    }

    /// Health, old inputs, stored outputs, positions, streams; new inputs when the broker lost
    /// streams in its memory.
    async fn upkeep(&mut self) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        self.node.settlement.upkeep(self.now());
        self.carry_out().await?;
        self.trim_positions().await;
        if !self.process.stage.is_required
            && self.takes_part_at <= Instant::now()
            && !self.is_reconnected()
        {
            self.takes_part_at = Instant::now() + TAKES_PART_EVERY;
            self.process.takes_part().await?;
        }
        let new_inputs = if self.is_reconnected() {
            self.try_to_come_back().await?
        } else {
            None
        };
        if self.node.settlement.wants_look() {
            self.lookout.hurry();
        }
        let looks = self
            .lookout
            .glance(|| self.node.settlement.expected())
            .await?;
        self.node.settlement.look(&looks)?;
        if !self.is_reconnected() {
            let Loop {
                parked,
                core,
                process,
                ..
            } = self;
            parked
                .put_back(&process.context.bus, &process.stage, |edge, payload| {
                    core.reads(edge, payload)
                })
                .await;
        }
        self.see_incoming();
        self.count_takers().await;
        self.process.telling.renew(self.moment());
        self.process.look_at_number().await?;
        self.hear_of_owners()?;
        self.hear_of_orders().await?;
        self.see_to_splits().await?;
        self.weigh_partitions().await;
        self.remove_left_over()?;
        self.capture.take_if(|capture| capture.is_forgotten());
        Ok(new_inputs)
    }

    /// Counts now and then who takes what the process publishes into lanes. A count that is out of
    /// date costs something, and changes nothing of what comes of the messages.
    async fn count_takers(&mut self) {
        let Some(taker) = self
            .process
            .lane_taker()
            .filter(|_| self.takers_at <= Instant::now())
        else {
            return;
        };
        self.takers_at = Instant::now() + self.origin.elapsed().clamp(TAKERS_AFTER, TAKERS_EVERY);
        let counting = instances(&self.process.context.buckets.leases, taker.name());
        match tokio::time::timeout(TAKERS_TIMEOUT, counting).await {
            Ok(Ok(instances)) => self.node.settlement.lanes_are_shared_by(instances),
            Ok(Err(error)) => tracing::debug!(
                "the instances of {} cannot be counted: {error:#}",
                taker.name()
            ),
            Err(_) => tracing::debug!(
                "the broker does not say how many instances {} has",
                taker.name()
            ),
        }
    }

    /// Notes the time, and which partitions are on their way to the instance.
    fn see_incoming(&mut self) {
        let now = self.now();
        if let Ok(since_1970) = SystemTime::now().duration_since(UNIX_EPOCH) {
            self.node.settlement.is_now(
                now,
                i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX),
            );
        }
        let Process {
            stage,
            context,
            owners,
            ..
        } = &self.process;
        let own = StageName::from_name(stage.name).filter(|own| own.row().has_state);
        let tables = owners.tables.borrow();
        if let Some(table) = own.and_then(|own| tables.get(&own)) {
            self.incoming.look(now, &table.owners, context.instance);
        }
    }

    /// Tells the core who has the partitions of its stage, and of those that it asks; does what can
    /// be done of the moves of the instance's partitions while it works, and finds out whether it
    /// is to have others.
    fn hear_of_owners(&mut self) -> anyhow::Result<()> {
        let now = self.now();
        let Loop {
            process,
            core,
            node,
            workers,
            ..
        } = self;
        let own = StageName::from_name(process.stage.name);
        if process.owners.tables.has_changed().unwrap_or(false) {
            let tables = process.owners.tables.borrow_and_update();
            tables
                .iter()
                .for_each(|(stage, table)| core.owners(*stage, &table.owners));
        }
        let tables = process.owners.tables.borrow();
        let (Some(workers), Some(table)) = (workers, own.and_then(|own| tables.get(&own))) else {
            return Ok(());
        };
        if let Some(migration) = node.migration() {
            workers.report(migration);
        }
        node.look(now, table, core.beside())?;
        if let Some(migration) = node.migration() {
            workers.take_on(migration);
        }
        Ok(())
    }

    /// Tells a new core what operators have asked of the crawl, before it gives out anything. They
    /// are read after the process has begun to listen: who asks it from now on is heard.
    pub(super) async fn begin_with_orders(&mut self) -> anyhow::Result<()> {
        let given = self.process.orders.read().await?;
        self.heed(given)
    }

    /// Tells the core what operators have asked of the crawl since. It has acted by it when the
    /// process says that it heeds it.
    async fn hear_of_orders(&mut self) -> anyhow::Result<()> {
        let may_step = self.node.settlement.may_step(self.now()) && !self.node.is_draining();
        if self.process.orders.has_others() && may_step {
            let given = self.process.orders.given();
            self.heed(given)?;
            self.signal(Signal::Wake).await?;
        }
        Ok(())
    }

    /// Has the core heed orders. When it cannot go by what is set, its life ends, and the next one
    /// does.
    fn heed(&mut self, OrdersGiven { orders, revision }: OrdersGiven) -> anyhow::Result<()> {
        self.core.orders(&orders);
        let is_held = orders.hold.is_some();
        match self.process.set(&orders.set) {
            Ok(true) if !self.core.configure(&self.process.context.pipeline) => {
                self.node.reassign(self.now())
            }
            Ok(_) => self.process.orders.heeds(revision, is_held),
            Err(error) if self.saying.is_due(Instant::now()) => {
                tracing::error!(
                    "what `rhumb set` has set cannot be used here, all goes on as before: {error:#}"
                );
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Has a partition split that has grown too large, and says in the table of owners when all
    /// that belongs to one that was split has come.
    async fn see_to_splits(&mut self) -> anyhow::Result<()> {
        let Loop {
            process,
            core,
            node,
            ..
        } = self;
        let Some(own) = StageName::from_name(process.stage.name) else {
            return Ok(());
        };
        let Context {
            instance,
            buckets,
            bus,
            ..
        } = &process.context;
        let is_reassigned = node.reassigned_at().is_some();
        if node.tenure().is_none() || is_reassigned || !bus.is_connected() {
            return Ok(());
        }
        let (finished, is_splitting) = {
            let tables = process.owners.tables.borrow();
            let owners = tables.get(&own).map(|table| &table.owners);
            let has_all = |partition| core.has_all(partition);
            let finished = owners.map(|owners| node.finished(owners, has_all));
            let is_splitting = tables.values().any(|table| table.owners.splitting() > 0);
            (finished.unwrap_or_default(), is_splitting)
        };
        for change in finished {
            let apply = |owners: &mut Owners| change.apply(owners, *instance);
            // When the broker does not answer, it is said in a later look.
            if let Err(error) = buckets.owners.change(own.name(), apply).await {
                tracing::debug!(?change, "it cannot be said that a split is over: {error:#}");
            }
        }
        // A look at what has grown too large takes time: one is enough.
        let overfull = if is_splitting { None } else { core.overfull()? };
        if let Some(partition) = overfull {
            let stage = own.name();
            let leader = LEADER.name();
            let mut is_split = false;
            let split = |owners: &mut Owners| {
                is_split = owners.split(partition).is_ok();
                is_split
            };
            match buckets.owners.change(leader, split).await {
                Ok(_) if is_split => tracing::info!(
                    stage,
                    partition,
                    "has a partition split that has grown too large"
                ),
                Ok(_) => tracing::debug!(
                    stage,
                    partition,
                    "a partition that is too large cannot be split now"
                ),
                Err(error) => tracing::debug!(
                    stage,
                    partition,
                    "a partition cannot be split now: {error:#}"
                ),
            }
        }
        Ok(())
    }

    /// Notes now and then what the partitions have done, and says in the table of owners what they
    /// weigh, if that is news.
    async fn weigh_partitions(&mut self) {
        let now = self.now();
        let Loop {
            process,
            core,
            rates,
            node,
            ..
        } = self;
        let (Some(own), true) = (StageName::from_name(process.stage.name), rates.are_due(now))
        else {
            return;
        };
        let figures = core.figures();
        rates.note(now, &figures);
        let Context {
            instance,
            buckets,
            bus,
            ..
        } = &process.context;
        let is_reassigned = node.reassigned_at().is_some();
        let is_free = node.tenure().is_some() && !is_reassigned && bus.is_connected();
        if !is_free || figures.is_empty() {
            return;
        }
        let urls: Vec<(u16, u64)> = figures.iter().map(|of| (of.partition, of.urls)).collect();
        let weigh = |owners: &mut Owners| owners.weigh(*instance, &urls);
        let is_news = process
            .owners
            .tables
            .borrow()
            .get(&own)
            .is_some_and(|table| weigh(&mut table.owners.clone()));
        if is_news && let Err(error) = buckets.owners.change(own.name(), weigh).await {
            tracing::debug!("it cannot be said what the partitions weigh: {error:#}");
        }
    }

    /// Removes some of the rows that are left of partitions that are others'.
    fn remove_left_over(&mut self) -> anyhow::Result<()> {
        let removed = self.node.remove_left_over(self.now(), ROWS_AT_ONCE)?;
        if let (Some(changes), Some(store)) = (removed, &self.process.context.store) {
            store.commit(&changes)?;
        }
        Ok(())
    }

    /// Asks the broker how far it has all acks of edges whose positions have many gaps.
    async fn trim_positions(&mut self) {
        let bus = &self.process.context.bus;
        if !bus.is_connected() {
            return;
        }
        for (edge, partition) in self.node.settlement.gapped() {
            let name = self.process.inputs().owner(partition);
            let stream = bus.subjects.stream(edge.name());
            let consumer = bus
                .jetstream
                .get_consumer_from_stream::<async_nats::jetstream::consumer::pull::Config, _, _>(
                    name, stream,
                )
                .await;
            if let Ok(consumer) = consumer {
                self.node.settlement.acked_up_to(
                    (edge, partition),
                    consumer.cached_info().ack_floor.stream_sequence,
                );
            }
        }
    }

    /// Comes back after a reconnect, or tries again in the next upkeep: a broker that has just
    /// started may not answer yet.
    async fn try_to_come_back(&mut self) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        // It could not be told of others meanwhile.
        self.process.orders.look();
        match self.come_back().await {
            Err(error) if !is_final(&error) => {
                if self.saying.is_due(Instant::now()) {
                    tracing::warn!(
                        "the broker is back, and does not let this process go on yet: {error:#}"
                    );
                }
                Ok(None)
            }
            done => {
                self.saying = Saying::default();
                done
            }
        }
    }

    /// After a reconnect: the broker must hold what it held; then all that is on its way is
    /// published again. Streams that it kept in memory may have gone with it: they are waited for,
    /// and read from their beginning.
    async fn come_back(&mut self) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        let connections = self.process.context.bus.connections();
        // First whose crawl it holds: nothing is made at a broker that came back empty.
        self.lookout.look(&[]).await?;
        let Context {
            bus,
            pipeline,
            buckets,
            identity,
            ..
        } = &self.process.context;
        if let Some(what) = missing(bus, pipeline, &buckets.register, identity).await? {
            anyhow::bail!(
                "{what} went with the broker's memory; the `rhumb` that runs the crawl makes it \
                 again"
            );
        }
        if !self.process.stage.edges.is_empty() {
            make_further_streams(
                bus,
                pipeline,
                self.process.stage.edges,
                &buckets.register,
                identity,
            )
            .await?;
        }
        if let Some(reopened) = self.reopen_lost_streams().await? {
            self.reopened = Some(reopened);
        }
        self.look().await?;
        let bus = &self.process.context.bus;
        if bus.connections() != connections || !bus.is_connected() {
            anyhow::bail!("the connection broke again");
        }
        self.connections = connections;
        self.node.settlement.reconnected(self.now());
        self.carry_out().await?;
        Ok(self.reopened.take())
    }

    async fn reopen_lost_streams(&mut self) -> anyhow::Result<Option<(StreamInputs, SoftInputs)>> {
        let Context { bus, .. } = &self.process.context;
        let mut lost = false;
        for source in self.process.stage.sources {
            let (Source::Shared(edge) | Source::Owned(edge)) = *source else {
                continue;
            };
            let info = stream_info(bus, &bus.subjects.stream(edge.name())).await?;
            lost |= match info {
                None => true,
                Some(info) => {
                    let created =
                        i64::try_from(info.created.unix_timestamp_nanos()).unwrap_or(i64::MAX);
                    self.node
                        .settlement
                        .stream_of(edge)
                        .is_some_and(|before| before != created)
                        || self.process.inputs().are_forgotten(*source, edge).await?
                }
            };
        }
        if !lost {
            return Ok(None);
        }
        tracing::warn!(
            "the broker came back without consumers, or without streams in its memory; they are \
             made anew"
        );
        let (streams, opened) = self
            .process
            .inputs()
            .streams(self.process.stage.sources)
            .await?;
        let soft = self
            .process
            .inputs()
            .soft(self.process.stage.sources)
            .await?;
        self.adopt(&opened)?;
        Ok(Some((streams, soft)))
    }
}
