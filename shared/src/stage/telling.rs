//! What a process tells of itself: health and metrics over HTTP, status and reasons on the crawl's control subjects.

use super::any_core::AnyCore;
use super::context::Context;
use super::control::{ControlRequest, PartitionFigures, ProcessPartitions, ProcessReason, ProcessStatus};
use super::core::{Count, Figures};
use super::occupation::Occupation;
use super::rates::Rates;
use super::settlement::Settlement;
use crate::bus::Bus;
use crate::identity::Mark;
use crate::process;
use crate::telemetry::{self, SharedVitals, Vitals};
use crate::time::Timestamp;
use async_nats::Subject;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::PoisonError;

/// Who tells, and where.
pub(super) struct Telling {
    stage: &'static str,
    instance: u16,
    life: u64,
    crawl: Mark,
    /// Where health and metrics are served.
    listen: SocketAddr,
    vitals: SharedVitals,
}

impl Telling {
    /// Begins to serve health and metrics on `stages.<stage>.listen`; a stage that the configuration does not name
    /// serves them on a free port of the loopback interface.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub(super) async fn begin(stage: &'static str, context: &Context) -> anyhow::Result<Self> {
        let stages = context.pipeline.stages.common();
        let common = stages.into_iter().find(|(name, _)| *name == stage);
        let listen = common.map_or(SocketAddr::from(([127, 0, 0, 1], 0)), |(_, common)| common.listen);
        let vitals = SharedVitals::default();
        let listen = telemetry::serve(listen, stage, vitals.clone())
            .await
            .map_err(|error| anyhow::anyhow!("cannot listen on stages.{stage}.listen = {listen}: {error}"))?;
        let crawl = context.identity.mark.clone();
        Ok(Telling { stage, instance: context.instance, life: context.life, crawl, listen, vitals })
    }

    pub(super) fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Renews what health and metrics show.
    pub(super) fn renew(&self, moment: Moment<'_>) {
        let readiness = moment.readiness();
        let vitals = Vitals {
            counts: moment.counts(),
            spent: moment.occupation.total().clone(),
            ready: readiness.is_ok(),
            reason: readiness.err().unwrap_or_default(),
        };
        *self.vitals.lock().unwrap_or_else(PoisonError::into_inner) = vitals;
    }

    /// Answers a control request; what is none gets no answer.
    pub(super) async fn answer(&self, request: async_nats::Message, moment: Moment<'_>) {
        let (Some(reply), Ok(question)) = (request.reply, serde_json::from_slice(&request.payload)) else { return };
        let answer = match question {
            ControlRequest::Status => serde_json::to_vec(&self.status(moment)),
            ControlRequest::Partitions => match moment.partition_figures() {
                partitions if partitions.is_empty() => return,
                partitions => serde_json::to_vec(&self.partitions(partitions)),
            },
            ControlRequest::Why(url) => serde_json::to_vec(&self.reason(moment, &url)),
        };
        if let Ok(payload) = answer {
            let _ = moment.bus.client.publish(reply, payload.into()).await;
        }
    }

    fn reason(&self, moment: Moment<'_>, url: &str) -> ProcessReason {
        let reason = moment.core.why(moment.now, url).unwrap_or_else(|error| Some(format!("cannot tell: {error}")));
        ProcessReason { stage: self.stage.to_owned(), instance: self.instance, reason }
    }

    fn partitions(&self, partitions: Vec<PartitionFigures>) -> ProcessPartitions {
        ProcessPartitions { stage: self.stage.to_owned(), instance: self.instance, partitions }
    }

    fn status(&self, moment: Moment<'_>) -> ProcessStatus {
        let pid = std::process::id();
        let (cpu_s, peak_rss_bytes) = process::usage(pid).unwrap_or_default();
        let readiness = moment.readiness();
        ProcessStatus {
            stage: self.stage.to_owned(),
            instance: self.instance,
            crawl: Some(self.crawl.clone()),
            pid,
            host: process::host_name(),
            life: self.life,
            listen: self.listen.to_string(),
            cpu_s,
            peak_rss_bytes,
            ready: readiness.is_ok(),
            reason: readiness.err().unwrap_or_default(),
            shares: moment.occupation.shares(),
            idle: moment.core.is_idle() && moment.settlement.is_settled(),
            unsplittable: moment.unsplittable(),
            counts: moment.counts().into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

/// A process at one moment: what it tells of.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) bus: &'a Bus,
    pub(super) core: &'a dyn AnyCore,
    pub(super) settlement: &'a Settlement<Subject>,
    pub(super) occupation: &'a Occupation,
    /// How many the instance owns, and how many all instances own; of a stage with state.
    pub(super) partitions: u64,
    pub(super) partitions_of_all: u64,
    pub(super) rates: &'a Rates,
    pub(super) now: Timestamp,
}

impl Moment<'_> {
    fn partition_figures(&self) -> Vec<PartitionFigures> {
        let told = |of: Figures| {
            let Figures { partition, urls, bytes, .. } = of;
            PartitionFigures { partition, urls, bytes, urls_per_s: self.rates.of(self.now, &of) }
        };
        self.core.figures().into_iter().map(told).collect()
    }

    fn unsplittable(&self) -> BTreeMap<u16, u64> {
        let figures = self.core.figures().into_iter().filter(|of| of.is_of_one_host);
        figures.map(|of| (of.partition, of.urls)).collect()
    }

    fn counts(&self) -> Vec<Count> {
        let mut counts = self.core.counts();
        counts.extend(self.settlement.counts());
        counts.push(("partitions", self.partitions));
        counts.push(("partitions_of_all", self.partitions_of_all));
        counts
    }

    fn readiness(&self) -> Result<(), String> {
        if !self.bus.is_connected() {
            return Err("not connected to the broker".into());
        }
        self.settlement.readiness(self.now)?;
        self.core.hindrance(self.now).map_or(Ok(()), Err)
    }
}
