//! The progress of a crawl, on standard error: one line that renews itself on a terminal, plain
//! lines otherwise; with `log.format: json`, lines of the log.

use super::speed::{Look, Speed};
use crate::status::{Silent, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use rhumb_node::log;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Between two plain lines of a crawl that runs here, and of one whose stages are deployed: its
/// lines are in a log.
const LINE_EVERY: Duration = Duration::from_secs(5);
const LOG_LINE_EVERY: Duration = Duration::from_secs(60);

/// Shows how a crawl goes, on standard error.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    line_every: Duration,
    last_line: Instant,
    speed: Speed,
}

impl Progress {
    /// Shows nothing yet. `runs_here`: the crawl does, with all its stages.
    pub(super) fn new(runs_here: bool) -> Self {
        let bar = (std::io::stderr().is_terminal() && !log::is_json()).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let line_every = if runs_here {
            LINE_EVERY
        } else {
            LOG_LINE_EVERY
        };
        Progress {
            bar,
            line_every,
            last_line: Instant::now(),
            speed: Speed::default(),
        }
    }

    /// Shows a summary. `is_whole`: the numbers of all partitions are in it; `is_paused`: an
    /// operator has paused the crawl.
    pub(super) fn show(&mut self, summary: &Summary, is_whole: bool, is_paused: bool) {
        if is_whole {
            let Summary {
                elapsed_s,
                pages,
                in_flight,
                ..
            } = *summary;
            self.speed.learn(Look {
                at_s: elapsed_s,
                pages,
                in_flight,
                is_paused,
            });
        }
        match &self.bar {
            Some(bar) => bar.set_message(text(summary, self.speed.smoothed())),
            None if self.last_line.elapsed() >= self.line_every => {
                self.last_line = Instant::now();
                let pages_per_s = self.speed.of_line();
                if log::is_json() {
                    log_line(summary, pages_per_s);
                } else {
                    // Where it goes may be closed or full: no reason to end the crawl.
                    let _ = writeln!(
                        std::io::stderr(),
                        "{:>7.1}s  {}",
                        summary.elapsed_s,
                        text(summary, pages_per_s)
                    );
                }
            }
            None => {}
        }
    }

    /// Clears the line.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn text(summary: &Summary, pages_per_s: f64) -> String {
    let parked = match parked(summary) {
        0 => String::new(),
        messages => format!("  parked {messages} (see rhumb status)"),
    };
    let silent: String = summary
        .silent
        .iter()
        .map(|silent| format!("  {}", silent.in_short()))
        .collect();
    format!(
        "{} pages ({pages_per_s:.0}/s)  {:.1} MB  waiting {}  in flight {}  found {}  new \
         {}{parked}{silent}",
        summary.pages,
        summary.bytes as f64 / 1e6,
        summary.waiting,
        summary.in_flight,
        summary.urls_found,
        summary.urls_new
    )
}

/// The same numbers as fields, by the names that they have in the summary.
fn log_line(summary: &Summary, pages_per_s: f64) {
    let Summary {
        elapsed_s,
        pages,
        bytes,
        waiting,
        in_flight,
        urls_found,
        urls_new,
        ..
    } = summary;
    let silent: Vec<String> = summary.silent.iter().map(Silent::in_short).collect();
    tracing::info!(
        elapsed_s,
        pages,
        pages_per_s,
        bytes,
        waiting,
        in_flight,
        urls_found,
        urls_new,
        parked = parked(summary),
        silent = silent.join(", "),
        "progress"
    );
}

/// Messages of all stages that are parked.
fn parked(summary: &Summary) -> u64 {
    summary.parked.iter().map(|parked| parked.messages).sum()
}
