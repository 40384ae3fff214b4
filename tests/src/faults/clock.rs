//! Clock: the time of day as the processes of a crawl see it, which can be set. libfaketime,
//! preloaded into them, reads it from a file. The broker is a static program and sees the true
//! time; the time that only goes on is true for all.

use std::fs;
use std::path::{Path, PathBuf};

/// A clock that can be set.
pub(crate) struct Clock {
    file: PathBuf,
    library: PathBuf,
}

impl Clock {
    /// A clock that shows the true time.
    ///
    /// # Panics
    /// When libfaketime is not installed.
    pub(crate) fn start(file: &Path) -> Clock {
        let library = library()
            .expect("libfaketime: install the package of that name, or leave out --faults clock");
        let clock = Clock {
            file: file.to_owned(),
            library,
        };
        clock.step("+0");
        clock
    }

    /// From now on it shows another time: the true one with a difference, such as `-1h`. Processes
    /// see it within a second.
    pub(crate) fn step(&self, difference: &str) {
        let new = self.file.with_extension("new");
        let written = fs::write(&new, difference).and_then(|()| fs::rename(&new, &self.file));
        written.expect("the file of the clock");
    }

    /// What lets a process, and those that it starts, see this clock.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        let variables = [
            ("LD_PRELOAD", text(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.file)),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        variables
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec()
    }
}

/// Where Debian installs it.
fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    folders
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
        .find(|path| path.exists())
}
