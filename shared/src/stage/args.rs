//! The command line that all stage binaries share.

use crate::config::{ConfigError, Layers, Pipeline};
use clap::Parser;
use std::path::PathBuf;

/// Arguments of a stage binary.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// The configuration; may hold only the keys it changes [default: pipeline.yaml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Overrides a key of the configuration; VALUE is YAML. Repeatable
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    pub set: Vec<String>,

    /// Ordinal of this instance among the stage's replicas: names its state and, for dedup and scheduler, the
    /// partitions that it owns
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub instance: u16,

    /// Process that started this one: it ends when that one does, however it does
    #[arg(long, value_name = "PID", hide = true)]
    pub supervisor: Option<u32>,

    /// The crawl to take part in: a stage with a supervisor does not begin another
    #[arg(long, value_name = "ID", hide = true)]
    pub crawl_id: Option<String>,

    /// File that standard error goes to: it is closed when it has `logs.bytes_max`
    #[arg(long, value_name = "FILE", hide = true)]
    pub log: Option<PathBuf>,
}

impl Args {
    /// Reads and checks the configuration.
    pub fn load(&self) -> Result<Pipeline, ConfigError> {
        Layers { file: self.config.clone(), set: self.set.clone() }.load()
    }
}
