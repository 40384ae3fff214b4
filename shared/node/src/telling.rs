//! What a process tells of itself: health and metrics through its [front](super::front), status and
//! reasons on the crawl's control subjects.

use super::any_core::AnyCore;
use super::context::Context;
use super::front::{Front, Vitals};
use super::incoming::Incoming;
use super::rates::Rates;
use crate::health::{Health, NOT_CONNECTED};
use async_nats::Subject;
use rhumb_bus::{Bus, is_inbox};
use rhumb_config::identity::Mark;
use rhumb_stage::Occupation;
use rhumb_stage::report::{ProcessReport, ReportQuestion};
use rhumb_stage::settlement::Settlement;
use rhumb_stage::{
    ControlRequest, PartitionFigures, ProcessCapture, ProcessHeeds, ProcessPartitions,
    ProcessReason, ProcessStatus,
};
use rhumb_stage::{Count, Figures, LabelledCount};
use rhumb_stage::{CountQuestion, DropProgress, ProcessCount, ProcessDrop};
use rhumb_stage::{ProcessQueue, QueueQuestion};
use rhumb_telemetry::metrics::Histogram;
use rhumb_telemetry::process;
use rhumb_url::time::Timestamp;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Who tells, and where.
pub(super) struct Telling {
    stage: &'static str,
    instance: u16,
    life: u64,
    crawl: Mark,
    front: Front,
}

impl Telling {
    /// A process that has joined its crawl tells of itself beyond its health.
    pub(super) fn begin(front: Front, stage: &'static str, context: &Context) -> Self {
        let crawl = context.identity.mark.clone();
        Telling {
            stage,
            instance: context.instance,
            life: context.life,
            crawl,
            front,
        }
    }

    /// The health of the process.
    pub(super) fn health(&self) -> &Health {
        &self.front.health
    }

    pub(super) fn listen(&self) -> SocketAddr {
        self.front.health.listen()
    }

    /// Renews what health and metrics show.
    pub(super) fn renew(&self, moment: Moment<'_>) {
        let Moment {
            core,
            occupation,
            settlement,
            ..
        } = moment;
        let owned = |(name, histogram): (&'static str, &Histogram)| (name, histogram.clone());
        self.front.renew(Vitals {
            counts: moment.counts(),
            labelled_counts: core.labelled_counts(),
            spent: occupation.total().clone(),
            steps: occupation.steps().clone(),
            latencies: settlement.latencies().to_vec(),
            histograms: core.histograms().into_iter().map(owned).collect(),
        });
        self.front.health.runs(moment.readiness());
    }

    /// Answers a control request; what is none gets no answer. Returns whether it tells of other
    /// orders.
    pub(super) async fn answer(&self, request: async_nats::Message, moment: Moment<'_>) -> bool {
        let reply = request.reply.filter(|reply| is_inbox(reply));
        let (Some(reply), Ok(question)) = (reply, serde_json::from_slice(&request.payload)) else {
            return false;
        };
        let tells_of_orders = question == ControlRequest::Heed;
        let answer = match question {
            ControlRequest::Status => serde_json::to_vec(&self.status(moment)),
            ControlRequest::Partitions => match moment.partition_figures() {
                partitions if partitions.is_empty() => return false,
                partitions => serde_json::to_vec(&self.partitions(partitions)),
            },
            ControlRequest::Why(url) => serde_json::to_vec(&self.reason(moment, &url)),
            ControlRequest::Queue(question) => match self.queue(moment, &question) {
                None => return false,
                Some(queue) => serde_json::to_vec(&queue),
            },
            ControlRequest::Report(question) => match self.report(moment, &question) {
                None => return false,
                Some(report) => serde_json::to_vec(&report),
            },
            ControlRequest::Count(question) => match self.count(moment, &question) {
                None => return false,
                Some(count) => serde_json::to_vec(&count),
            },
            ControlRequest::Dropped(id) => match moment.core.drop_progress(id) {
                None => return false,
                Some(progress) => serde_json::to_vec(&self.dropped(progress)),
            },
            ControlRequest::Heed => serde_json::to_vec(&self.heeds(moment)),
            // The loop answers these.
            ControlRequest::Capture(_) | ControlRequest::Piece(_) | ControlRequest::Forget(_) => {
                return false;
            }
        };
        if let Ok(payload) = answer {
            let _ = moment.bus.client.publish(reply, payload.into()).await;
        }
        tells_of_orders
    }

    fn reason(&self, moment: Moment<'_>, url: &str) -> ProcessReason {
        let known = moment.core.known(moment.now, url);
        let told = moment.core.why(moment.now, url);
        let (reason, known) = told
            .and_then(|reason| Ok((reason, known?)))
            .unwrap_or_else(|error| (Some(format!("cannot tell: {error}")), None));
        ProcessReason {
            stage: self.stage.to_owned(),
            instance: self.instance,
            reason,
            known,
        }
    }

    fn queue(&self, moment: Moment<'_>, question: &QueueQuestion) -> Option<ProcessQueue> {
        let told = moment.core.queue(moment.now, question).transpose()?;
        let (servers, error) = match told {
            Ok(servers) => (servers, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        Some(ProcessQueue {
            stage: self.stage.to_owned(),
            instance: self.instance,
            servers,
            error,
        })
    }

    fn report(&self, moment: Moment<'_>, question: &ReportQuestion) -> Option<ProcessReport> {
        let after = question.after.get(&self.instance);
        if after.is_none() && !question.after.is_empty() {
            return None;
        }
        // Who has no partition has nothing to tell, and would answer first.
        if moment.core.figures().is_empty() {
            return None;
        }
        let told = moment
            .core
            .report(moment.now, question.hosts, after.map(Vec::as_slice));
        let told = told.map_err(|error| error.to_string()).transpose()?;
        Some(ProcessReport {
            stage: self.stage.to_owned(),
            instance: self.instance,
            told,
        })
    }

    fn count(&self, moment: Moment<'_>, question: &CountQuestion) -> Option<ProcessCount> {
        let after = question.after.get(&self.instance);
        if after.is_none() && !question.after.is_empty() {
            return None;
        }
        let counted = match question.what.selector() {
            Ok(selector) => moment
                .core
                .count(&selector, after.map(Vec::as_slice))
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let counted = counted.transpose()?;
        Some(ProcessCount {
            stage: self.stage.to_owned(),
            instance: self.instance,
            counted,
        })
    }

    fn dropped(&self, progress: DropProgress) -> ProcessDrop {
        ProcessDrop {
            stage: self.stage.to_owned(),
            instance: self.instance,
            progress,
        }
    }

    fn heeds(&self, moment: Moment<'_>) -> ProcessHeeds {
        ProcessHeeds {
            stage: self.stage.to_owned(),
            instance: self.instance,
            revision: moment.heeded,
        }
    }

    /// What has become of a capture.
    pub(super) fn captured(&self, captured: Result<Vec<(u16, u64)>, String>) -> ProcessCapture {
        ProcessCapture {
            stage: self.stage.to_owned(),
            instance: self.instance,
            captured,
        }
    }

    fn partitions(&self, partitions: Vec<PartitionFigures>) -> ProcessPartitions {
        ProcessPartitions {
            stage: self.stage.to_owned(),
            instance: self.instance,
            partitions,
        }
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
            listen: process::reachable(self.listen()),
            cpu_s,
            peak_rss_bytes,
            ready: readiness.is_ok(),
            reason: readiness.err().unwrap_or_default(),
            shares: moment.occupation.shares(),
            idle: moment.core.is_idle() && moment.settlement.is_settled(),
            held: moment.is_held,
            unsplittable: moment.unsplittable(),
            traps: moment.core.traps(),
            counts: moment
                .counts()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            topics: moment.topics(),
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
    /// Those on their way to it.
    pub(super) incoming: &'a Incoming,
    /// It takes nothing new, and ends.
    pub(super) is_draining: bool,
    pub(super) rates: &'a Rates,
    /// The revision of the orders that the core heeds.
    pub(super) heeded: u64,
    /// It heeds that the crawl is held.
    pub(super) is_held: bool,
    pub(super) now: Timestamp,
}

impl Moment<'_> {
    fn partition_figures(&self) -> Vec<PartitionFigures> {
        let told = |of: Figures| {
            let Figures {
                partition,
                urls,
                bytes,
                ..
            } = of;
            PartitionFigures {
                partition,
                urls,
                bytes,
                urls_per_s: self.rates.of(self.now, &of),
            }
        };
        self.core.figures().into_iter().map(told).collect()
    }

    fn unsplittable(&self) -> BTreeMap<u16, u64> {
        let figures = self
            .core
            .figures()
            .into_iter()
            .filter(|of| of.is_of_one_host);
        figures.map(|of| (of.partition, of.urls)).collect()
    }

    fn counts(&self) -> Vec<Count> {
        let mut counts = self.core.counts();
        counts.extend(self.settlement.counts());
        counts.push(("partitions", self.partitions));
        counts.push(("partitions_of_all", self.partitions_of_all));
        counts.push(("partitions_coming", self.incoming.coming()));
        counts
    }

    fn topics(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut topics: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        let counts = self.core.labelled_counts().into_iter();
        for LabelledCount {
            count,
            label_value,
            value,
            ..
        } in counts.filter(|one| one.label == "topic")
        {
            topics
                .entry(label_value)
                .or_default()
                .insert(count.to_owned(), value);
        }
        topics
    }

    fn readiness(&self) -> Result<(), String> {
        if !self.bus.is_connected() {
            return Err(NOT_CONNECTED.into());
        }
        if self.is_draining {
            return Err("it takes nothing new: it ends, or is to have other partitions".into());
        }
        self.settlement.readiness(self.now)?;
        let hindrance = self
            .core
            .hindrance(self.now)
            .or_else(|| self.incoming.reason().map(str::to_owned));
        hindrance.map_or(Ok(()), Err)
    }
}
