//! The end of a crawl: what runs here is drained and stopped, and the summary and the report are
//! written.
//!
//! Invariant: the broker goes last, when all that writes to it has ended.

use super::nothing::Nothing;
use super::{Crawl, Plan, Stages};
use crate::handle::Handle;
use crate::status::Snapshot;
use anyhow::Context as _;
use rhumb_config::identity::Misfit;
use rhumb_wire::message::Edge;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// How long closing the connection to the broker may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the end waits until the last reports are taken in, and until the broker tells of its
/// streams.
const LAST_LOOK_MAX: Duration = Duration::from_secs(3);
/// How long jobs that are under way may take to end when the conductor of a fleet stops the crawl.
const STOP_MAX: Duration = Duration::from_secs(120);

impl Crawl<'_> {
    /// Drains and stops all that runs here, and writes the summary and the report. `is_over`: the
    /// crawl is complete or at a limit; `has_ended_well`: no part of it was missing. Returns why no
    /// page was fetched, if none was.
    pub(super) async fn end(
        &mut self,
        is_over: bool,
        has_ended_well: bool,
    ) -> anyhow::Result<Option<String>> {
        self.progress.finish();
        match self.stages {
            Stages::Here(_) => tokio::select! {
                () = self.drain() => {}
                _ = tokio::signal::ctrl_c() => {
                    tracing::warn!("the processes that are left are killed; what they have in hand \
                                    is done again");
                    if let Stages::Here(here) = &mut self.stages {
                        here.processes.kill().await;
                    }
                }
            },
            Stages::Deployed(_) if is_over => self.stop_fleet().await?,
            Stages::Deployed(_) => {}
        }
        let looked = self.last_look(has_ended_well).await;
        if let Stages::Here(here) = &mut self.stages {
            here.end_sweep(&self.bus, &self.plan.pipeline).await;
        }
        let mut summary = self.summary();
        summary.complete &= looked.is_ok();
        if let Some(lease) = self.lease.take() {
            lease.release().await;
        }
        // Closed first: a broker that is stopped on purpose is no news.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.bus.client.drain()).await;
        if let Stages::Here(here) = &mut self.stages {
            if let Some(broker) = &mut here.broker {
                broker.stop().await?;
            }
            Handle::remove(&self.plan.pipeline.data);
        }
        if let Some(path) = &self.plan.summary {
            std::fs::write(path, serde_json::to_vec_pretty(&summary)?)
                .with_context(|| format!("cannot write the summary to {}", path.display()))?;
        }
        let nothing = (summary.pages == 0).then(|| self.why_nothing());
        let report = self
            .write_report(&summary)
            .map(|path| format!("; report {}", path.display()));
        let _ = writeln!(
            std::io::stdout(),
            "{}{}",
            summary.last_line(),
            report.unwrap_or_default()
        );
        looked?;
        Ok(nothing)
    }

    /// Why no page was fetched.
    fn why_nothing(&self) -> String {
        let Plan {
            pipeline,
            seeds,
            topic,
            ..
        } = self.plan;
        let snapshot = self.standing.snapshot();
        let gathered = self.gathered.as_ref();
        Nothing {
            pipeline,
            seeds,
            topic,
            snapshot,
            gathered,
        }
        .why()
    }

    /// Ends all processes: the fetchers first, so that the summary and the report have what they
    /// did last, and the archiver last.
    async fn drain(&mut self) {
        if let Stages::Here(here) = &mut self.stages {
            here.processes.drain_fetchers().await;
        }
        // Of one that is over nothing is on its way from one to another.
        let is_over = self.standing.is_over();
        if !is_over {
            self.hear_last_reports(LAST_LOOK_MAX).await;
        }
        self.ask_for_report().await;
        let Stages::Here(here) = &mut self.stages else {
            return;
        };
        if !is_over {
            here.processes.drain_all_but_archiver().await;
            here.archive_the_rest(&self.bus, &self.plan.pipeline).await;
        }
        here.processes.drain().await;
    }

    /// Has the schedulers grant nothing more, and waits for the end of the jobs under way.
    async fn stop_fleet(&mut self) -> anyhow::Result<()> {
        if !self.standing.is_over() {
            self.partitions.stop(true).await?;
            self.hear_last_reports(STOP_MAX).await;
        }
        Ok(())
    }

    /// Waits until the schedulers have heard what the fetchers did last.
    async fn hear_last_reports(&mut self, at_most: Duration) {
        let end = Instant::now() + at_most;
        while !self.standing.is_over() && Instant::now() < end && self.bus.is_connected() {
            self.front.health.runs(Ok(()));
            let look = Snapshot::take(&self.bus, &self.plan.pipeline, Some(self.expected()));
            if let Ok(snapshot) = look.await {
                let is_last = snapshot.backlog.get(Edge::FetchReports.name()) == Some(&0)
                    && snapshot.summary().in_flight == 0;
                self.standing
                    .remember(snapshot, self.broker_use(), &self.plan.pipeline);
                if is_last {
                    break;
                }
            }
        }
    }

    /// Looks whether the streams are what they were when all has ended. A broker that does not
    /// answer is no news.
    ///
    /// # Errors
    /// One is not.
    async fn last_look(&mut self, has_ended_well: bool) -> Result<(), Misfit> {
        if self.bus.is_connected() && has_ended_well {
            let looked = tokio::time::timeout(LAST_LOOK_MAX, self.tide.look(&self.bus)).await;
            if let Ok(Err(error)) = looked
                && let Ok(misfit) = error.downcast::<Misfit>()
            {
                return Err(misfit);
            }
        }
        self.tide.write();
        Ok(())
    }
}
