//! The report of a crawl that ends here.
//!
//! In: what the schedulers tell while they are still there. Out: `report.html` and `report.json` in
//! the data directory, when all has ended. Invariant: a report that cannot be made keeps no crawl
//! from its end.

use super::{Crawl, Stages};
use crate::report::{self, Gathered, HOSTS, Of, Report, State, gather};
use crate::status::Summary;
use anyhow::Context as _;
use rhumb_config::orders::{Author, Setting};
use rhumb_wire::topology::StageName;
use std::path::PathBuf;
use std::time::Duration;

/// How long the schedulers are asked for more hosts, and how long all of it may take.
const ASK_MORE_MAX: Duration = Duration::from_secs(10);
const ASK_MAX: Duration = Duration::from_secs(20);

impl Crawl<'_> {
    /// Asks the schedulers, which have heard of all that was fetched, before they end.
    pub(super) async fn ask_for_report(&mut self) {
        if !self.bus.is_connected() {
            return;
        }
        match tokio::time::timeout(ASK_MAX, self.gathered_now()).await {
            Ok(Ok(gathered)) => self.gathered = Some(gathered),
            Ok(Err(error)) => tracing::warn!("there will be no report: {error:#}"),
            Err(_) => tracing::warn!("there will be no report: the schedulers do not answer"),
        }
    }

    async fn gathered_now(&self) -> anyhow::Result<Gathered> {
        let owners = self.partitions.owners().get(StageName::Scheduler.name());
        let schedulers = owners
            .context("nobody has the partitions of the scheduler")?
            .needed();
        gather(&self.bus, schedulers, HOSTS, ASK_MORE_MAX).await
    }

    /// Writes the report, if the schedulers told what they counted. Gives the path of the page.
    pub(super) fn write_report(&mut self, summary: &Summary) -> Option<PathBuf> {
        let Some(mut gathered) = self.gathered.take() else {
            if matches!(self.stages, Stages::Here(_)) {
                tracing::warn!("there is no report: nobody told what was counted");
            }
            return None;
        };
        gathered.set.extend(self.limit_of_run());
        let written = self
            .report(summary, gathered)
            .and_then(|report| report::write(&self.plan.pipeline.data, &report));
        written
            .inspect_err(|error| tracing::warn!("the report cannot be written: {error:#}"))
            .ok()
    }

    fn report(&self, summary: &Summary, gathered: Gathered) -> anyhow::Result<Report> {
        Report::of(Of {
            crawl: &self.plan.pipeline.crawl,
            state: if summary.complete {
                State::Complete
            } else {
                State::Stopped
            },
            snapshot: self.standing.snapshot(),
            summary,
            gathered,
            configuration: self.configuration.as_deref(),
        })
    }

    /// The limit of pages, which this run may have by itself.
    fn limit_of_run(&self) -> Option<Setting> {
        let pages = self.plan.pipeline.limits.max_pages;
        let key = "limits.max_pages".to_owned();
        (pages > 0).then(|| Setting {
            key,
            value: pages.into(),
            author: Author::default(),
        })
    }
}
