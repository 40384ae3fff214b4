//! `rhumb scale`: changes how many instances of a stage run.

use super::arguments::{BadArguments, Which};
use crate::control::{SupervisorRequest, ask_supervisor};
use crate::handle;
use anyhow::Context as _;
use clap::Args;

/// Changes how many instances of a stage run, while the crawl goes on
#[derive(Args)]
#[command(after_help = "Example:\n  rhumb scale fetcher=4 parser=2")]
pub(super) struct Scale {
    /// Stage and number of instances
    #[arg(value_name = "STAGE=N", required = true)]
    stages: Vec<String>,
    #[command(flatten)]
    which: Which,
}

impl Scale {
    /// Asks the supervisor for each stage in turn; the first one that it refuses is the error.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let wanted = self.stages.iter().map(|assignment| parse(assignment)).collect::<Result<Vec<_>, _>>()?;
        let running = handle::find(&self.which.layers()).await?;
        for (stage, replicas) in wanted {
            let answer = ask_supervisor(&running.bus, &SupervisorRequest::Scale { stage, replicas })
                .await
                .context("no `rhumb crawl` or `rhumb up` supervises this crawl; scale its deployment instead")?;
            let error = String::from_utf8_lossy(&answer.payload);
            if !error.is_empty() {
                return Err(BadArguments(error.into_owned()).into());
            }
        }
        Ok(())
    }
}

fn parse(assignment: &str) -> Result<(String, u16), BadArguments> {
    let parsed = assignment.split_once('=').and_then(|(stage, n)| Some((stage.to_owned(), n.parse::<u16>().ok()?)));
    parsed
        .filter(|(_, replicas)| (1..=1000).contains(replicas))
        .ok_or_else(|| BadArguments(format!("'{assignment}' is not of the form STAGE=N with N from 1 to 1000")))
}
