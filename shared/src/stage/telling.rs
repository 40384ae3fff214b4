//! What a process tells of itself: health and metrics over HTTP, status and reasons on the crawl's control subjects.

use super::any_core::AnyCore;
use super::context::Context;
use super::control::{ControlRequest, ProcessReason, ProcessStatus};
use super::core::Count;
use super::settlement::Settlement;
use crate::bus::Bus;
use crate::telemetry::{self, SharedVitals, Vitals};
use crate::time::Timestamp;
use async_nats::Subject;
use std::net::SocketAddr;
use std::sync::PoisonError;

/// Who tells, and where.
pub(super) struct Telling {
    stage: &'static str,
    instance: u16,
    life: u64,
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
        Ok(Telling { stage, instance: context.instance, life: context.life, listen, vitals })
    }

    pub(super) fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Renews what health and metrics show.
    pub(super) fn renew(&self, bus: &Bus, core: &dyn AnyCore, settlement: &Settlement<Subject>, now: Timestamp) {
        let readiness = readiness(bus, core, settlement, now);
        let vitals = Vitals {
            counts: counts(core, settlement),
            ready: readiness.is_ok(),
            reason: readiness.err().unwrap_or_default(),
        };
        *self.vitals.lock().unwrap_or_else(PoisonError::into_inner) = vitals;
    }

    /// Answers a control request; what is none gets no answer.
    pub(super) async fn answer(
        &self,
        request: async_nats::Message,
        bus: &Bus,
        core: &dyn AnyCore,
        settlement: &Settlement<Subject>,
        now: Timestamp,
    ) {
        let (Some(reply), Ok(question)) = (request.reply, serde_json::from_slice(&request.payload)) else { return };
        let answer = match question {
            ControlRequest::Status => serde_json::to_vec(&self.status(bus, core, settlement, now)),
            ControlRequest::Why(url) => serde_json::to_vec(&self.reason(core, now, &url)),
        };
        if let Ok(payload) = answer {
            let _ = bus.client.publish(reply, payload.into()).await;
        }
    }

    fn reason(&self, core: &dyn AnyCore, now: Timestamp, url: &str) -> ProcessReason {
        let reason = core.why(now, url).unwrap_or_else(|error| Some(format!("cannot tell: {error}")));
        ProcessReason { stage: self.stage.to_owned(), instance: self.instance, reason }
    }

    fn status(&self, bus: &Bus, core: &dyn AnyCore, settlement: &Settlement<Subject>, now: Timestamp) -> ProcessStatus {
        let pid = std::process::id();
        let (cpu_s, peak_rss_bytes) = telemetry::process_usage(pid).unwrap_or_default();
        let readiness = readiness(bus, core, settlement, now);
        ProcessStatus {
            stage: self.stage.to_owned(),
            instance: self.instance,
            pid,
            life: self.life,
            listen: self.listen.to_string(),
            cpu_s,
            peak_rss_bytes,
            ready: readiness.is_ok(),
            reason: readiness.err().unwrap_or_default(),
            idle: core.is_idle() && settlement.is_settled(),
            counts: counts(core, settlement).into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

fn counts(core: &dyn AnyCore, settlement: &Settlement<Subject>) -> Vec<Count> {
    let mut counts = core.counts();
    counts.extend(settlement.counts());
    counts
}

fn readiness(bus: &Bus, core: &dyn AnyCore, settlement: &Settlement<Subject>, now: Timestamp) -> Result<(), String> {
    if !bus.is_connected() {
        return Err("not connected to the broker".into());
    }
    settlement.readiness(now)?;
    core.hindrance(now).map_or(Ok(()), Err)
}
