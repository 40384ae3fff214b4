//! The progress of a crawl, on standard error: one line that renews itself on a terminal, plain lines otherwise.

use crate::status::Summary;
use indicatif::{ProgressBar, ProgressStyle};
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
        let bar = std::io::stderr().is_terminal().then(|| {
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
        let parked = match summary.parked.iter().map(|parked| parked.messages).sum::<u64>() {
            0 => String::new(),
            messages => format!("  parked {messages} (see rhumb status)"),
        };
        let text = format!(
            "{} pages ({:.0}/s)  {:.1} MB  waiting {}  in flight {}  found {}  new {}{parked}",
            summary.pages,
            self.rate,
            summary.bytes as f64 / 1e6,
            summary.waiting,
            summary.in_flight,
            summary.urls_found,
            summary.urls_new
        );
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if self.last_line.elapsed() >= self.line_every => {
                self.last_line = Instant::now();
                // Where it goes may be closed or full: no reason to end the crawl.
                let _ = writeln!(std::io::stderr(), "{:>7.1}s  {text}", summary.elapsed_s);
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
