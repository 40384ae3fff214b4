//! Further: a stage beside the pipeline, or an instance of one of its stages on another machine,
//! that takes part in a crawl; started by a test as an operator starts it.
//!
//! Invariant: it has ended when its value is dropped.

use super::command::{COMMAND_AT_MOST, binaries, ended_within, metric, path_text, signal};
use super::running::Running;
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A further stage that runs.
pub struct Further {
    process: Child,
    listen: String,
}

impl Further {
    /// Starts it beside a crawl and waits until it runs.
    ///
    /// # Panics
    /// When it does not come so far.
    pub fn start(name: &str, crawl: &Running) -> Further {
        Further::start_with(name, crawl, &[])
    }

    /// Starts an instance of a stage with a data directory of its own, as on another machine, and
    /// waits until it runs.
    ///
    /// # Panics
    /// When it does not come so far.
    pub fn join(stage: &str, instance: u16, data: &Path, crawl: &Running) -> Further {
        let data = format!("data={}", path_text(data));
        Further::start_with(
            stage,
            crawl,
            &["--instance", &instance.to_string(), "--set", &data],
        )
    }

    fn start_with(name: &str, crawl: &Running, arguments: &[&str]) -> Further {
        let handle = crawl.handle();
        let mut process = Command::new(binaries().join(name))
            .env("RHUMB__BROKER__URL", handle.broker)
            .arg("--config")
            .arg(crawl.data().join("configuration.json"))
            .args(arguments)
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("the further stage can be started");
        let mut log = BufReader::new(process.stderr.take().expect("a pipe"))
            .lines()
            .map_while(Result::ok);
        let listen = log
            .find_map(|line| {
                Some(
                    line.split_once("listen=")?
                        .1
                        .split_whitespace()
                        .next()?
                        .to_owned(),
                )
            })
            .expect("the further stage tells where it listens");
        // A full pipe would stop it.
        std::thread::spawn(move || log.for_each(drop));
        Further { process, listen }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// One of its counts, from `/metrics`.
    ///
    /// # Panics
    /// When it does not tell.
    pub fn count(&self, name: &str) -> u64 {
        metric(&self.listen, name)
    }

    /// Kills it.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn kill(&mut self) {
        self.process.kill().expect("a process that can be killed");
    }

    /// Ends it as an operator does; its exit code.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn stop(&mut self) -> i32 {
        signal(self.process.id(), Signal::TERM);
        self.ended()
    }

    /// Waits until it has ended by itself; its exit code.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn ended(&mut self) -> i32 {
        self.ended_within(COMMAND_AT_MOST)
            .expect("the further stage ends")
    }

    /// Its exit code, when it ends within a time; -1 when a signal ended it.
    pub fn ended_within(&mut self, at_most: Duration) -> Option<i32> {
        Some(
            ended_within(&mut self.process, at_most)?
                .code()
                .unwrap_or(-1),
        )
    }
}

impl Drop for Further {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
