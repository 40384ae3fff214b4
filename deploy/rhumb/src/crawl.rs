//! The life of a crawl.
//!
//! In: a [`Plan`]; signals, and what the operator asks while it runs. Out: why it ended, and a
//! summary.
//!
//! Flow: `start` brings up broker, streams, processes and seeds on this machine (`rhumb crawl`,
//! `rhumb up`), or takes over a crawl whose stages others deploy (`rhumb conduct`). Then the crawl
//! is watched until it is complete or at a limit: what died here is started again, the stages that
//! are deployed are kept in view. Then it is drained, summed up and stopped.

mod bystanders;
mod disk;
mod elsewhere;
mod ending;
mod fleet;
mod front;
mod here;
mod kubernetes;
mod membership;
mod metrics;
mod nothing;
mod pace;
mod partitions;
mod plan;
mod ports;
mod progress;
mod reporting;
mod restoring;
mod settings;
mod speed;
mod standing;
mod start;
mod telling;
mod tide;
mod waits;

pub(crate) use disk::PROBE;
pub(crate) use membership::{KEPT, begin_or_go_on};
pub use metrics::tables as tables_of_metrics;
pub(crate) use partitions::OWNERS;
pub(crate) use plan::{EndReason, Plan, Runs};
pub(crate) use restoring::{Restore, check_restored};
pub(crate) use settings::check_set;
pub(crate) use tide::TIDE;

use crate::control::{Awaited, SupervisorRequest, supervisor_requests};
use crate::report::Gathered;
use crate::stages::{ARCHIVER, owns_partitions};
use crate::status::{ProcessUse, Snapshot, Summary};
use async_nats::Subject;
use bystanders::{Bystanders, Leaving};
use fleet::Fleet;
use front::Front;
use futures::stream::{FuturesUnordered, Stream, StreamExt as _};
use here::Here;
use pace::{FIRST_LOOK_AFTER, LOOK_AFTER_IDLE};
use partitions::Partitions;
use ports::check_ports;
use progress::Progress;
use rhumb_bus::{Buckets, Bus, Interested, is_inbox, make_streams, remove_consumer};
use rhumb_config::identity::{Identity, Misfit};
use rhumb_node::Ownership;
use standing::Standing;
use start::{Parts, start};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tide::Tide;
use tokio::signal::unix::{SignalKind, signal};
use waits::{News, Waits};

/// Between two looks at processes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// One look of so many waits for all processes.
const PATIENT_EVERY: u64 = 10;
/// How long the broker may take to make streams again.
const MAKE_MAX: Duration = Duration::from_secs(5);

/// Runs or conducts a crawl from its beginning, or from where it stopped, to its end.
///
/// # Errors
/// It cannot be started; a process cannot go on; another `rhumb` took the crawl over; the summary
/// cannot be written; URLs are unaccounted for in the end (P3); it has ended by itself, and no page
/// was ever fetched.
pub(crate) async fn run(plan: &Plan) -> anyhow::Result<EndReason> {
    let mut crawl = match &plan.runs {
        Runs::Here => Crawl::new(plan, start(plan).await?),
        // As the first process of a container it would not hear of it otherwise.
        Runs::Deployed { .. } => {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            tokio::select! {
                parts = start(plan) => Crawl::new(plan, parts?),
                _ = interrupt.recv() => return Ok(EndReason::Interrupted),
                _ = terminate.recv() => return Ok(EndReason::Interrupted),
            }
        }
    };
    let mut requests = supervisor_requests(&crawl.bus).await?;
    let reason = crawl.watch(&mut requests).await;
    let _telling = crawl.tell_end(requests).await;
    let is_over = matches!(reason, Ok(EndReason::Complete | EndReason::AtLimit));
    let ended = crawl.end(is_over, reason.is_ok()).await;
    let reason = reason?;
    let nothing = ended?;
    let violations = crawl.standing.violations();
    anyhow::ensure!(
        violations.is_empty(),
        "the crawl has ended, and URLs are unaccounted for: {}; what was lost cannot be found \
         again in this crawl",
        violations.join("; ")
    );
    if let Some(why) = nothing.filter(|_| reason == EndReason::Complete) {
        anyhow::bail!("the crawl has ended, and no page was fetched: {why}");
    }
    Ok(reason)
}

/// Where the stages run.
enum Stages {
    /// On this machine, as processes of this one.
    Here(Box<Here>),
    /// Wherever others deployed them.
    Deployed(Box<Fleet>),
}

struct Crawl<'a> {
    plan: &'a Plan,
    stages: Stages,
    front: Front,
    bus: Bus,
    buckets: Buckets,
    identity: Identity,
    /// Number of connects after which the streams were made.
    connections: u64,
    tide: Tide,
    progress: Progress,
    standing: Standing,
    bystanders: Bystanders,
    partitions: Partitions,
    lease: Option<Ownership>,
    /// What was told for the report, at the end.
    gathered: Option<Gathered>,
    /// The configuration without what others should not see, for it; none where others keep it.
    configuration: Option<String>,
    /// What the operator knows of the end of a crawl whose stages are deployed; nothing while it
    /// goes on.
    has_said: Option<&'static str>,
    /// Whether what is kept back in traps is to end, as it was said last; none before.
    traps_end: Option<bool>,
    waits: Waits,
    /// Processes that had died at the latest look.
    restarts_at_look: u64,
    /// Who has asked how the crawl stands, and is answered after the next look.
    asked: Vec<Subject>,
}

impl<'a> Crawl<'a> {
    fn new(plan: &'a Plan, parts: Parts) -> Self {
        let Parts {
            stages,
            front,
            bus,
            buckets,
            identity,
            partitions,
            tide,
            configuration,
            elapsed,
            connections,
            lease,
        } = parts;
        Crawl {
            plan,
            progress: Progress::new(matches!(stages, Stages::Here(_))),
            stages,
            front,
            connections,
            bus,
            buckets,
            identity,
            tide,
            standing: Standing::since(elapsed),
            bystanders: Bystanders::default(),
            partitions,
            lease: Some(lease),
            gathered: None,
            configuration,
            has_said: None,
            traps_end: None,
            waits: Waits::default(),
            restarts_at_look: 0,
            asked: Vec::new(),
        }
    }

    /// Looks after the crawl until it is complete, at a limit, or interrupted.
    async fn watch(
        &mut self,
        requests: &mut (impl Stream<Item = async_nats::Message> + Unpin),
    ) -> anyhow::Result<EndReason> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let plan = self.plan;
        let bus = self.bus.clone();
        // At most one at a time. A process that is away makes it wait: not the supervision.
        let mut snapshots = FuturesUnordered::new();
        let mut next_snapshot = Instant::now() + FIRST_LOOK_AFTER;
        // How many had asked before the look that is under way.
        let mut askers = 0;
        loop {
            self.front.health.runs(Ok(()));
            self.look_after_stages().await?;
            let is_due = next_snapshot <= Instant::now() || !self.asked.is_empty();
            if snapshots.is_empty() && is_due && self.bus.is_connected() {
                askers = self.asked.len();
                snapshots.push(Snapshot::take(&bus, &plan.pipeline, self.awaited()));
            }
            tokio::select! {
                _ = interrupt.recv() => return Ok(EndReason::Interrupted),
                _ = terminate.recv() => return Ok(EndReason::Interrupted),
                Some(request) = requests.next() => self.answer(request).await,
                Some(snapshot) = snapshots.next() => {
                    let quiet = self.take_in(snapshot).await?;
                    next_snapshot = Instant::now() + self.snapshot_after(quiet);
                    self.tell(askers).await;
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if self.standing.is_over() || self.at_limit() {
                self.end_traps(false).await;
                if plan.ends {
                    let is_over = self.standing.is_over();
                    return Ok(if is_over {
                        EndReason::Complete
                    } else {
                        EndReason::AtLimit
                    });
                }
                self.say_over().await;
            } else if self.standing.has_traps_alone() {
                self.end_traps(true).await;
            } else if self.standing.has_work() {
                self.has_said = None;
                self.end_traps(false).await;
            }
            if self.lease.as_ref().is_some_and(Ownership::is_lost) {
                anyhow::bail!(
                    "another rhumb has taken over the crawl '{}' on its broker",
                    plan.pipeline.crawl
                );
            }
        }
    }

    /// When to look again. `quiet`: nothing was left to do. Two such looks say that a crawl is
    /// over: the second comes at once.
    fn snapshot_after(&self, quiet: bool) -> Duration {
        match quiet {
            _ if self.standing.is_still() || self.has_said.is_some() => LOOK_AFTER_IDLE,
            true => Duration::ZERO,
            false => self.standing.next_look(),
        }
    }

    fn at_limit(&self) -> bool {
        let limit = self.plan.pipeline.limits.max_pages;
        limit > 0 && self.standing.pages() >= limit
            || self
                .plan
                .at_most
                .is_some_and(|at_most| self.standing.elapsed() >= at_most)
    }

    /// Takes in what a look brought. Returns whether nothing was left to do in it.
    ///
    /// # Errors
    /// A stream has become shorter.
    async fn take_in(&mut self, looked: anyhow::Result<Snapshot>) -> anyhow::Result<bool> {
        // A broker that is away is no reason to end: the next look may find it back.
        let Ok(snapshot) = looked else {
            return Ok(false);
        };
        self.look_after_consumers(&snapshot.consumers).await;
        self.learn(snapshot)
    }

    /// Takes a snapshot in and shows it. Returns whether nothing was left to do in it.
    ///
    /// # Errors
    /// A stream has become shorter.
    fn learn(&mut self, snapshot: Snapshot) -> anyhow::Result<bool> {
        self.tide.learn(&snapshot.last_sequences)?;
        self.restarts_at_look = self.restarts();
        let quiet = self.standing.learn(
            snapshot,
            self.broker_use(),
            &self.plan.pipeline,
            self.expected(),
        );
        self.say_waits(quiet);
        let summary = self.summary();
        self.progress.show(
            &summary,
            self.standing.was_whole(),
            self.standing.snapshot().is_paused(),
        );
        let expected = self.expected();
        let missing = self.missing();
        self.front.learn(
            self.standing.snapshot(),
            summary,
            self.partitions.owners(),
            expected,
            missing,
        );
        Ok(quiet)
    }

    /// Says what the crawl waits for while nothing moves. `quiet`: nothing was left to do.
    fn say_waits(&mut self, quiet: bool) {
        let news = self.waits.learn(
            Instant::now(),
            self.standing.snapshot(),
            &self.plan.pipeline,
            quiet,
        );
        match news {
            Some(News::Waits(why)) => tracing::warn!("the crawl waits: {why}"),
            Some(News::GoesOn) => tracing::info!("the crawl goes on"),
            None => {}
        }
    }

    /// How many processes there should be, here and on other machines.
    fn expected(&self) -> usize {
        match &self.stages {
            Stages::Here(here) => here.processes.expected() + self.partitions.elsewhere().count(),
            Stages::Deployed(fleet) => fleet.expected(),
        }
    }

    /// Who answered at the last look is waited for: one that died or starts would make every look a
    /// long one. Now and then all are: one that is slow to answer is not passed over for ever.
    fn awaited(&self) -> Awaited {
        let at_most = self.expected();
        let surely = match self.standing.looks() % PATIENT_EVERY {
            0 => at_most,
            _ => self.answering().min(at_most),
        };
        Awaited {
            surely: surely.max(1),
            at_most,
        }
    }

    /// How many processes answered the latest look and have not died since.
    fn answering(&self) -> usize {
        let deaths = self.restarts().saturating_sub(self.restarts_at_look);
        let deaths = usize::try_from(deaths).unwrap_or(usize::MAX);
        self.standing.answered().saturating_sub(deaths)
    }

    /// Instances with partitions that do not run.
    fn missing(&self) -> usize {
        match &self.stages {
            Stages::Here(_) => self.partitions.elsewhere().missing(),
            Stages::Deployed(fleet) => fleet.missing(),
        }
    }

    fn summary(&self) -> Summary {
        Summary {
            consumers_removed: self.bystanders.removed().to_vec(),
            waits: self.waits.now().unwrap_or_default().to_owned(),
            product_token: self.plan.pipeline.product_token(),
            ..self.standing.summary(self.restarts())
        }
    }

    fn restarts(&self) -> u64 {
        if let Stages::Here(here) = &self.stages {
            here.restarts()
        } else {
            0
        }
    }

    fn broker_use(&self) -> Option<ProcessUse> {
        if let Stages::Here(here) = &self.stages {
            here.broker_use()
        } else {
            None
        }
    }

    /// Starts again what died here, or looks what is deployed; makes streams again that went with
    /// the broker's memory.
    async fn look_after_stages(&mut self) -> anyhow::Result<()> {
        let is_connected = self.bus.is_connected();
        if is_connected && self.connections != self.bus.connections() {
            self.make_streams_again().await?;
        }
        match &mut self.stages {
            Stages::Here(here) => {
                here.look_after_disk(&mut self.standing).await?;
                if !here.is_full() {
                    if is_connected {
                        self.partitions
                            .look_after(&mut here.processes, &mut self.standing)
                            .await?;
                    }
                    here.look_after().await?;
                    here.sweep(&self.bus).await;
                }
            }
            Stages::Deployed(fleet) if is_connected => {
                fleet
                    .look_after(&mut self.partitions, &mut self.standing)
                    .await?
            }
            Stages::Deployed(_) => {}
        }
        Ok(())
    }

    /// After a reconnect: streams that the broker kept in its memory may have gone with it. Stages
    /// wait for them.
    ///
    /// # Errors
    /// A stream that should have lasted is gone.
    async fn make_streams_again(&mut self) -> anyhow::Result<()> {
        let connections = self.bus.connections();
        let made = make_streams(
            &self.bus,
            &self.plan.pipeline,
            &self.buckets.register,
            &self.identity,
        );
        match tokio::time::timeout(MAKE_MAX, made).await {
            Ok(Ok(())) => self.connections = connections,
            Ok(Err(error)) if error.is::<Misfit>() => return Err(error),
            // A broker that has just started may not answer yet: the next look tries again.
            Ok(Err(error)) => tracing::debug!("the streams cannot be looked after yet: {error:#}"),
            Err(_) => tracing::debug!(
                "the streams cannot be looked after yet: the broker does not answer"
            ),
        }
        Ok(())
    }

    /// Says once that a crawl goes on being conducted although it is complete or at a limit. One
    /// whose time is over is stopped: the schedulers grant nothing more.
    async fn say_over(&mut self) {
        let is_at_limit = self.at_limit();
        let Stages::Deployed(fleet) = &mut self.stages else {
            return;
        };
        let why = match is_at_limit {
            true => "at its limit, and no job is granted any more",
            false => "complete; what is injected from now on is crawled, too",
        };
        if self.has_said == Some(why) {
            return;
        }
        // A broker that does not answer now is asked again.
        if is_at_limit && self.partitions.stop(true).await.is_err() {
            return;
        }
        self.has_said = Some(why);
        tracing::info!(pages = self.standing.pages(), "the crawl is {why}");
        fleet.announce(why).await;
    }

    /// Has what is kept back in traps end, or not any more. A broker that does not answer now is
    /// asked again with the next look.
    async fn end_traps(&mut self, traps_end: bool) {
        if self.traps_end == Some(traps_end) {
            return;
        }
        self.traps_end = Some(traps_end);
        match self.partitions.end_traps(traps_end).await {
            Ok(true) if traps_end => {
                let urls = self.standing.snapshot().summary().waiting_trapped;
                tracing::info!(urls, "nothing else waits: what was kept back in traps ends");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!("the schedulers cannot be told of the end of traps: {error:#}");
                self.traps_end = None;
            }
        }
    }

    /// Removes optional consumers that hold the crawl back (P8).
    async fn look_after_consumers(&mut self, consumers: &[Interested]) {
        for leaving in self
            .bystanders
            .judge(Instant::now(), consumers, &self.plan.pipeline)
        {
            let Leaving { edge, name, reason } = &leaving;
            match remove_consumer(&self.bus, *edge, name).await {
                Ok(()) => {
                    tracing::warn!(
                        "the optional consumer {name} of {} is removed: {reason}",
                        edge.name()
                    );
                    self.bystanders.left(&leaving);
                }
                // It is tried again with the next look.
                Err(error) => tracing::debug!(consumer = name, "cannot be removed: {error:#}"),
            }
        }
    }

    async fn answer(&mut self, request: async_nats::Message) {
        let answer = match serde_json::from_slice(&request.payload) {
            Ok(SupervisorRequest::Scale {
                stage,
                replicas,
                without,
            }) => {
                let scaled = self.scale(&stage, replicas, &without).await;
                scaled
                    .map_or_else(|error| format!("{error:#}"), |()| String::new())
                    .into_bytes()
            }
            Ok(SupervisorRequest::Move {
                stage,
                partitions,
                to,
            }) => {
                let sent = self.partitions.send(&stage, &partitions, to).await;
                sent.map_or_else(|error| format!("{error:#}"), |()| String::new())
                    .into_bytes()
            }
            Ok(SupervisorRequest::Split { partitions }) => {
                let split = self.partitions.split(&partitions).await;
                split
                    .map_or_else(|error| format!("{error:#}"), |()| String::new())
                    .into_bytes()
            }
            Ok(SupervisorRequest::Status) => {
                self.asked
                    .extend(request.reply.filter(|reply| is_inbox(reply)));
                return;
            }
            Err(_) => return,
        };
        if let Some(reply) = request.reply.filter(|reply| is_inbox(reply)) {
            let _ = self.bus.client.publish(reply, answer.into()).await;
        }
    }

    async fn scale(
        &mut self,
        stage: &str,
        replicas: u16,
        without: &BTreeSet<u16>,
    ) -> anyhow::Result<()> {
        let stages = self.plan.pipeline.stages.common();
        let Some((_, common)) = stages.into_iter().find(|(known, _)| *known == stage) else {
            anyhow::bail!("there is no stage '{stage}'");
        };
        if stage == ARCHIVER
            && (self.plan.pipeline.stages.archiver.replicas == 0) != (replicas == 0)
        {
            anyhow::bail!(
                "whether there is an archiver is fixed for a run: stop it and go on with --resume \
                 --set stages.archiver.replicas={replicas}"
            );
        }
        match &mut self.stages {
            Stages::Deployed(fleet) => {
                fleet.may_scale(stage, replicas)?;
                self.partitions.want(stage, replicas, without).await
            }
            Stages::Here(here) => {
                check_ports(stage, common, replicas)?;
                if owns_partitions(stage) {
                    return self.partitions.want(stage, replicas, without).await;
                }
                here.processes.run(stage, &(0..replicas).collect())
            }
        }
    }
}
