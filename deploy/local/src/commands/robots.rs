//! `rhumb robots`: a window on the scheduler's reading of robots.txt.

use super::arguments::BadArguments;
use crate::output::line;
use anyhow::Context as _;
use clap::Args;
use scheduler::Robots as Rules;
use shared::url::{canonical, path_of};
use std::path::PathBuf;
use std::process::ExitCode;

/// Says whether a robots.txt allows a URL: exit 0 allowed, 1 disallowed, 2 bad arguments
#[derive(Args)]
pub(super) struct Robots {
    /// The robots.txt
    file: PathBuf,
    /// The URL
    url: String,
    /// User agent whose group counts
    #[arg(long, default_value = "rhumb")]
    agent: String,
}

impl Robots {
    /// Prints whether the URL is allowed.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let allowed = self.allows().map_err(|error| BadArguments(format!("{error:#}")))?;
        line(if allowed { "allowed" } else { "disallowed" });
        Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn allows(&self) -> anyhow::Result<bool> {
        let Robots { file, url, agent } = self;
        let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let canonical = canonical(url, None, None).with_context(|| format!("'{url}' is no URL that can be crawled"))?;
        Ok(Rules::parse(&body, agent).allows(path_of(&canonical)))
    }
}
