//! Logs: how a process says what happens to it.
//!
//! In: events, from `tracing`. Out: a line each on standard error, for people or as JSON, as the
//! section `log` of the configuration says.
//!
//! - `lines`: the form of a line in JSON, with the stage and the instance that write it;
//! - `repeats`: the same event again and again is left out and counted.
//!
//! Invariant: what the level lets pass is written, apart from what `repeats` counts.

mod kind;
mod lines;
mod repeats;

use crate::log_file::Lines;
use lines::JsonLines;
use repeats::{Limit, Repeats};
use rhumb_config::{Log, LogFormat};
use std::fmt::Display;
use std::io::IsTerminal as _;
use std::sync::OnceLock;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

pub use lines::{instance, instance_is};

/// The form that lines have since logging began.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Starts logging to standard error for a stage, or for a program that is none. What began first
/// stays.
pub fn begin(log: &Log, stage: &'static str) {
    if FORMAT.set(log.format).is_err() {
        return;
    }
    let is_json = log.format == LogFormat::Json;
    let lines = if is_json {
        // A log on a full disk is no reason to end.
        fmt::layer()
            .with_writer(Lines)
            .with_ansi(false)
            .log_internal_errors(false)
            .event_format(JsonLines(stage))
            .boxed()
    } else {
        let ansi = std::io::stderr().is_terminal();
        fmt::layer()
            .with_writer(Lines)
            .with_ansi(ansi)
            .with_target(false)
            .log_internal_errors(false)
            .boxed()
    };
    let repeats = Repeats::start(Limit {
        events_max: log.repeats_max,
        interval: log.repeats_interval,
    });
    let begun = tracing_subscriber::registry()
        .with(filter(log))
        .with(repeats)
        .with(lines)
        .try_init();
    if is_json && begun.is_ok() {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string);
            let why = panic.payload_as_str().unwrap_or("not said in words");
            tracing::error!(place, "panicked: {why}");
        }));
    }
}

/// What `RUST_LOG` says, else the configuration; the counts of what was left out come in any case.
fn filter(log: &Log) -> EnvFilter {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(log.directives()));
    match repeats::DIRECTIVE.parse() {
        Ok(directive) if !filter.to_string().split(',').any(|part| part == "off") => {
            filter.add_directive(directive)
        }
        _ => filter,
    }
}

/// Returns whether lines are JSON.
pub fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}

/// Says why a program ends: as a line of the log when lines are JSON, else plainly.
pub fn say_end(program: &str, why: impl Display) {
    if is_json() {
        tracing::error!("{why}");
    } else {
        eprintln!("{program}: {why}");
    }
}

/// Says at the end of a process what was left out since it was last said.
pub fn end() {
    repeats::tell_rest();
}
