//! `rhumb consumers`: who reads the pages, outcomes and documents of a crawl, and how one of them
//! is removed.

use super::arguments::{BadArguments, Which};
use crate::handle::{self, Running};
use crate::output::line;
use crate::status::ConsumerUse;
use anyhow::Context as _;
use clap::Args;
use rhumb_bus::{all_interested, remove_consumer, required_consumers};

/// Lists who reads pages, outcomes and documents, and how far behind each is
#[derive(Args)]
#[command(after_help = "Example:\n  rhumb consumers --remove find-titles")]
pub(super) struct Consumers {
    /// Remove a further consumer, by its name, from all that it reads: the crawl keeps nothing for
    /// it any more
    #[arg(long, value_name = "NAME")]
    remove: Option<String>,
    /// One JSON object a line
    #[arg(long, conflicts_with = "remove")]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Consumers {
    /// Lists the consumers, or removes one.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let running = handle::find(&self.which.layers()).await?;
        if let Some(name) = &self.remove {
            return remove(&running, name).await;
        }
        for consumer in all_interested(&running.bus, &running.pipeline)
            .await
            .context("the broker does not tell")?
        {
            let consumer = ConsumerUse::of(&consumer);
            line(if self.json {
                serde_json::to_string(&consumer)?
            } else {
                consumer.text()
            });
        }
        Ok(())
    }
}

/// Removes a consumer from the streams of all edges.
async fn remove(Running { bus, pipeline, .. }: &Running, name: &str) -> anyhow::Result<()> {
    let consumers = all_interested(bus, pipeline)
        .await
        .context("the broker does not tell")?;
    let named: Vec<_> = consumers
        .iter()
        .filter(|consumer| consumer.name == name)
        .collect();
    if named
        .iter()
        .any(|consumer| required_consumers(consumer.edge, pipeline).contains(&consumer.name))
    {
        return Err(BadArguments(format!(
            "the stage {name} belongs to the crawl: only further consumers can be removed"
        ))
        .into());
    }
    if named.is_empty() {
        let names: Vec<&str> = consumers
            .iter()
            .map(|consumer| consumer.name.as_str())
            .collect();
        return Err(BadArguments(format!(
            "there is no consumer '{name}'; there are: {}",
            names.join(", ")
        ))
        .into());
    }
    for consumer in named {
        remove_consumer(bus, consumer.edge, name).await?;
        line(format_args!(
            "{name} gets no more of {}",
            consumer.edge.name()
        ));
    }
    Ok(())
}
