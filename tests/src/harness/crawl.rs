//! Crawl: a run of `rhumb` that is prepared.

use super::command::binaries;
use super::running::{Finished, Running};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A crawl to be run.
pub struct Crawl {
    programs: PathBuf,
    folder: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Crawl {
    /// `rhumb` with a command that leaves its log, and its summary, in a folder.
    pub(super) fn new(folder: PathBuf, command: &str) -> Crawl {
        Crawl {
            programs: binaries(),
            folder,
            arguments: vec![command.to_owned()],
            environment: Vec::new(),
        }
    }

    /// With the programs of another build, which are in this folder.
    #[must_use]
    pub fn programs(mut self, folder: &Path) -> Crawl {
        folder.clone_into(&mut self.programs);
        self
    }

    /// Overrides a configuration key.
    #[must_use]
    pub fn set(self, assignment: &str) -> Crawl {
        self.arguments(&["--set", assignment])
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Crawl {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds arguments (seeds, limits).
    #[must_use]
    pub fn arguments<S: AsRef<str>>(mut self, arguments: &[S]) -> Crawl {
        self.arguments.extend(
            arguments
                .iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// When the program cannot be run.
    pub fn start(self) -> Running {
        let _ = std::fs::remove_file(self.folder.join("summary.json"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("rhumb.log"))
            .expect("a log file");
        let child = Command::new(self.programs.join("rhumb"))
            .args(&self.arguments)
            // Not where somebody works: a pipeline.yaml there would be read.
            .current_dir(&self.folder)
            .envs(self.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log)
            .spawn()
            .expect("rhumb can be started");
        Running::new(child, self.folder)
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it cannot be run or does not end in time.
    pub fn run(self, at_most: Duration) -> Finished {
        self.start().finish(at_most)
    }
}
