//! How far a command has come, on standard error: a line that renews itself on a terminal,
//! otherwise one now and then.

use indicatif::ProgressBar;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how far a command has come.
pub(super) struct Progress {
    bar: ProgressBar,
    last_line: Instant,
}

impl Progress {
    /// Shows nothing yet.
    pub(super) fn new() -> Self {
        Progress {
            bar: ProgressBar::new_spinner(),
            last_line: Instant::now(),
        }
    }

    /// Shows how far it has come.
    pub(super) fn show(&mut self, text: String) {
        if self.bar.is_hidden() {
            if self.last_line.elapsed() >= LINE_EVERY {
                self.last_line = Instant::now();
                let _ = writeln!(std::io::stderr(), "{text}");
            }
        } else {
            self.bar.set_message(text);
            self.bar.tick();
        }
    }

    /// Leaves the terminal as it was.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
