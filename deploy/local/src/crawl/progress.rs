//! The progress of a crawl, on standard error: one line that renews itself on a terminal, plain lines otherwise; with
//! `log.format: json`, lines of the log.

use crate::status::Summary;
use indicatif::{ProgressBar, ProgressStyle};
use shared::log;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Between two plain lines of a crawl that runs here, and of one whose stages are deployed: its lines are in a log.
const LINE_EVERY: Duration = Duration::from_secs(5);
const LOG_LINE_EVERY: Duration = Duration::from_secs(60);

/// Shows how a crawl goes, on standard error.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    line_every: Duration,
    last_line: Instant,
    before: (f64, u64),
    rate: f64,
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
        let line_every = if runs_here { LINE_EVERY } else { LOG_LINE_EVERY };
        Progress { bar, line_every, last_line: Instant::now(), before: (0.0, 0), rate: 0.0 }
    }

    /// Shows a summary.
    pub(super) fn show(&mut self, summary: &Summary) {
        let (elapsed_s, pages) = self.before;
        if summary.elapsed_s > elapsed_s + 0.9 {
            self.rate = summary.pages.saturating_sub(pages) as f64 / (summary.elapsed_s - elapsed_s);
            self.before = (summary.elapsed_s, summary.pages);
        }
        match &self.bar {
            Some(bar) => bar.set_message(self.text(summary)),
            None if self.last_line.elapsed() >= self.line_every => {
                self.last_line = Instant::now();
                if log::is_json() {
                    self.log(summary);
                } else {
                    // Where it goes may be closed or full: no reason to end the crawl.
                    let _ = writeln!(std::io::stderr(), "{:>7.1}s  {}", summary.elapsed_s, self.text(summary));
                }
            }
            None => {}
        }
    }

    fn text(&self, summary: &Summary) -> String {
        let parked = match parked(summary) {
            0 => String::new(),
            messages => format!("  parked {messages} (see rhumb status)"),
        };
        format!(
            "{} pages ({:.0}/s)  {:.1} MB  waiting {}  in flight {}  found {}  new {}{parked}",
            summary.pages,
            self.rate,
            summary.bytes as f64 / 1e6,
            summary.waiting,
            summary.in_flight,
            summary.urls_found,
            summary.urls_new
        )
    }

    /// The same numbers as fields, by the names that they have in the summary.
    fn log(&self, summary: &Summary) {
        let Summary { elapsed_s, pages, bytes, waiting, in_flight, urls_found, urls_new, .. } = summary;
        let (pages_per_s, parked) = (self.rate, parked(summary));
        tracing::info!(
            elapsed_s,
            pages,
            pages_per_s,
            bytes,
            waiting,
            in_flight,
            urls_found,
            urls_new,
            parked,
            "progress"
        );
    }

    /// Clears the line.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Messages of all stages that are parked.
fn parked(summary: &Summary) -> u64 {
    summary.parked.iter().map(|parked| parked.messages).sum()
}
