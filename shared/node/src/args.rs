//! The command line that all stage binaries share.

use clap::Parser;
use rhumb_config::{ConfigError, Layers, Pipeline};
use std::path::PathBuf;

/// Arguments of a stage binary.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// The configuration; may hold only the keys it changes [default: pipeline.yaml, if there is
    /// one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Overrides a key of the configuration; VALUE is YAML. Repeatable
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    pub set: Vec<String>,

    /// Ordinal of this instance among the stage's replicas: names its state and, for dedup and
    /// scheduler, the partitions that it owns. auto: for dedup, scheduler and archiver, which keep
    /// files, the number at the end of the host's name, such as the name of a pod of a StatefulSet;
    /// for others the lowest number that is free
    #[arg(long, value_name = "N|auto", default_value = "0")]
    pub instance: Instance,

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

/// Which instance of its stage a process is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instance {
    /// This one.
    Number(u16),
    /// One that is found at the start.
    Auto,
}

impl std::str::FromStr for Instance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Instance::Auto),
            number => number
                .parse()
                .map(Instance::Number)
                .map_err(|_| "accepted are 0..65535 and auto".to_owned()),
        }
    }
}

impl Args {
    /// Reads and checks the configuration.
    pub fn load(&self) -> Result<Pipeline, ConfigError> {
        Layers {
            file: self.config.clone(),
            set: self.set.clone(),
        }
        .load()
    }
}
