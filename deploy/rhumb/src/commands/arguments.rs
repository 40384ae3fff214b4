//! What several commands take: which crawl is meant, and how its configuration is changed.

use crate::handle::{assignment, kept};
use clap::{Args, ValueEnum};
use rhumb_config::{Layers, Pipeline};
use std::path::PathBuf;

/// An error that is the caller's: exit 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct BadArguments(pub(super) String);

/// Which crawl, and with which configuration.
#[derive(Args, Clone, Debug)]
pub(super) struct Which {
    /// The configuration; may hold only the keys it changes [default: pipeline.yaml, if there is
    /// one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Overrides a key of the configuration; VALUE is YAML. Repeatable
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    set: Vec<String>,
    /// Data directory of the crawl (configuration key data)
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Which {
    /// The same, of the crawl in this data directory, if one is named.
    pub(super) fn at(self, data: Option<PathBuf>) -> Which {
        Which {
            data: data.or(self.data),
            ..self
        }
    }

    /// The layers of the configuration that the arguments name.
    pub(super) fn layers(&self) -> Layers {
        let mut set = self.set.clone();
        if let Some(data) = &self.data {
            set.push(assignment("data", &data.display().to_string()));
        }
        Layers {
            file: self.config.clone(),
            set,
        }
    }
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Checks that what is fixed for the life of a crawl is as it was.
///
/// # Errors
/// A key differs ([`BadArguments`]), or the configuration that the crawl keeps is damaged.
pub(super) fn check_fixed(pipeline: &Pipeline) -> anyhow::Result<()> {
    let Some(kept) = kept(&pipeline.data)? else {
        return Ok(());
    };
    let fixed = |pipeline: &Pipeline| {
        [
            ("crawl", pipeline.crawl.clone()),
            ("partitions", pipeline.partitions.to_string()),
            (
                "ownership_lease",
                humantime::format_duration(pipeline.ownership_lease).to_string(),
            ),
        ]
    };
    for ((key, is), (_, was)) in fixed(pipeline).into_iter().zip(fixed(&kept)) {
        if is != was {
            let data = pipeline.data.display();
            return Err(BadArguments(format!(
                "configuration key {key} = {is}: the crawl in {data} has {was}, which is fixed for \
                 its life; set it back, or take another data directory"
            ))
            .into());
        }
    }
    Ok(())
}
