//! Logs: one home for all stages.
//!
//! They go to standard error, one line an event, at level info unless `RUST_LOG` says otherwise.

use crate::log_file::Lines;
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Starts logging to standard error.
pub fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,async_nats=error"));
    let ansi = std::io::stderr().is_terminal();
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines)
        .with_ansi(ansi)
        .with_target(false)
        // A log on a full disk is no reason to end.
        .log_internal_errors(false)
        .try_init();
}
