//! A process of a stage, as one life of its core hands it to the next: what it is, what it holds,
//! what it draws from.

use super::context::{Context, Stage};
use super::inputs::Inputs;
use super::moves::{Desk, PartsStream};
use super::number::Number;
use super::orders_watch::OrdersWatch;
use super::owners_watch::OwnersWatch;
use super::ownership::Ownership;
use super::telling::Telling;
use rhumb_bus::Need;
use rhumb_config::orders::Setting;
use rhumb_config::{changed, field};
use rhumb_stage::Rows;
use rhumb_stage::node::{Brought, Drawn, InstanceId, Tenure};
use rhumb_wire::topology::{StageName, consumers};
use std::time::Instant;

/// A stage about to run.
pub(super) struct Process {
    pub(super) stage: Stage,
    /// Messages asked of the broker at once.
    pub(super) batch: usize,
    /// Where the inputs of owned partitions come from.
    pub(super) drawn: Drawn,
    pub(super) context: Context,
    pub(super) telling: Telling,
    /// Who has which partition.
    pub(super) owners: OwnersWatch,
    /// What operators have asked of the crawl.
    pub(super) orders: OrdersWatch,
    /// What they have set, as far as the configuration in `context` has it.
    pub(super) set: Vec<Setting>,
    /// Of a stage with state.
    pub(super) ownership: Option<Ownership>,
    /// Of a stage without state.
    pub(super) number: Option<Number>,
    /// The partitions of the next life, of a stage with state.
    pub(super) tenure: Option<Tenure>,
    /// The rows of the partitions in the store, of a stage with state.
    pub(super) rows: Option<Rows>,
    /// What one life leaves to the next of its moves.
    pub(super) brought: Brought,
    /// Since when the instance stands still, between two lives.
    pub(super) still_since: Option<Instant>,
}

/// How a loop ended that was drained.
pub(super) enum Ended {
    /// The process was told to end.
    Told,
    /// The instance is to have other partitions: the process goes on with another life of the core.
    Reassigned(Box<Process>),
}

impl Process {
    /// The process of a stage that owns no partition yet.
    pub(super) async fn new(
        stage: &Stage,
        context: Context,
        telling: Telling,
        owners: OwnersWatch,
    ) -> anyhow::Result<Self> {
        let orders = OrdersWatch::begin(context.buckets.orders.clone()).await?;
        let set = Vec::new();
        let batch = (stage.batch)(&context.pipeline);
        let stage = *stage;
        let drawn = Drawn::All;
        let ownership = None;
        let number = None;
        let tenure = None;
        let rows = None;
        let still_since = None;
        let brought = Brought::default();
        Ok(Process {
            stage,
            batch,
            drawn,
            context,
            telling,
            owners,
            orders,
            set,
            ownership,
            number,
            tenure,
            rows,
            brought,
            still_since,
        })
    }

    /// Takes over what operators have set. Returns whether any of it concerns the stage.
    ///
    /// # Errors
    /// The configuration of this process does not accept it.
    pub(super) fn set(&mut self, set: &[Setting]) -> anyhow::Result<bool> {
        let own = StageName::from_name(self.stage.name);
        let concerns = |key| {
            field(key)
                .zip(own)
                .is_some_and(|(field, own)| field.live().contains(&own))
        };
        let is_concerned = changed(&self.set, set).any(concerns);
        if self.set != set {
            self.context.pipeline = self.context.pipeline.with_earlier(set)?;
            self.set = set.to_vec();
        }
        Ok(is_concerned)
    }

    /// The stage that takes what this one publishes into lanes, if there is one.
    pub(super) fn lane_taker(&self) -> Option<StageName> {
        let outputs = StageName::from_name(self.stage.name)?.row().outputs;
        let edge = outputs.iter().copied().find(|edge| edge.has_lanes())?;
        consumers(edge).map(|(stage, _)| stage).next()
    }

    /// What moves of the instance's partitions are made with; none of a stage without state.
    pub(super) fn desk(&self) -> Option<Desk> {
        let Context {
            bus,
            identity,
            pipeline,
            buckets,
            instance,
            ..
        } = &self.context;
        let of = InstanceId {
            crawl: identity.mark.to_string(),
            stage: self.stage.name,
            instance: *instance,
        };
        let stream = PartsStream {
            bus: bus.clone(),
            crawl: of.crawl.clone(),
            stage: self.stage.name,
            cpu_share: pipeline.moves.cpu_share,
        };
        Some(Desk {
            of,
            stream,
            owners: buckets.owners.clone(),
            rows: self.rows.clone()?,
            fence: self.ownership.as_ref()?.fence(),
        })
    }

    /// Gives the lease back, so that nobody need wait for its end.
    pub(super) async fn give_back_lease(&mut self) {
        if let Some(ownership) = self.ownership.take() {
            ownership.release().await;
        }
        if let Some(number) = self.number.take() {
            number.release().await;
        }
    }

    /// Looks whether the process is still the only one of its number.
    ///
    /// # Errors
    /// It is not.
    pub(super) async fn look_at_number(&mut self) -> anyhow::Result<()> {
        match &mut self.number {
            Some(number) => number.look(self.stage.name, self.context.instance).await,
            None => Ok(()),
        }
    }

    pub(super) fn inputs(&self) -> Inputs<'_> {
        Inputs {
            bus: &self.context.bus,
            pipeline: &self.context.pipeline,
            stage: self.stage.name,
            instance: self.context.instance,
            drawn: &self.drawn,
            batch: self.batch,
            need: match self.stage.is_required {
                true => Need::Required,
                false => Need::Optional {
                    expires_after: self.context.pipeline.broker.consumer_expiry,
                },
            },
        }
    }

    /// Looks whether a stage that the crawl does not wait for still takes part in it.
    ///
    /// # Errors
    /// One of its consumers was removed.
    pub(super) async fn takes_part(&self) -> anyhow::Result<()> {
        let Some(edge) = self.inputs().removed(self.stage.sources).await else {
            return Ok(());
        };
        anyhow::bail!(
            "the consumer {} of edge {} was removed: it held the crawl back, expired \
             (broker.consumer_expiry), or an operator did it. Start again to take part from then \
             on, or set is_required in the stage if the crawl has to wait for it",
            self.stage.name,
            edge.name()
        )
    }
}
