//! Further: a stage beside the pipeline that takes part in a crawl, started by a test as an operator starts it.
//!
//! Invariant: it has ended when its value is dropped.

use super::command::{binaries, ended_within, signal};
use super::running::Running;
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A further stage that runs.
pub struct Further {
    process: Child,
    listen: String,
}

impl Further {
    /// Starts a stage beside a crawl and waits until it runs.
    ///
    /// # Panics
    /// When it cannot be started or does not run.
    pub fn start(name: &str, up: &Running) -> Further {
        let mut process = Command::new(binaries().join(name))
            .args(["--set", &format!("broker.url={}", up.handle().broker), "--config"])
            .arg(up.data().join("configuration.json"))
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("the stage can be started");
        let mut log = BufReader::new(process.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        let listen = log
            .find_map(|line| Some(line.split_once("listen=")?.1.split_whitespace().next()?.to_owned()))
            .expect("the stage tells where it listens");
        // A full pipe would stop it.
        std::thread::spawn(move || log.for_each(drop));
        Further { process, listen }
    }

    /// One of its counts, from `/metrics`.
    ///
    /// # Panics
    /// When it does not answer, or has no such count.
    pub fn count(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(&self.listen).expect("the stage listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("a request");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
        line.rsplit(' ').next().expect("a value").parse().expect("a number")
    }

    /// How it ended, when that comes within a time.
    pub fn ended_within(&mut self, at_most: Duration) -> Option<ExitStatus> {
        ended_within(&mut self.process, at_most)
    }

    /// Kills it.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn kill(&mut self) {
        self.process.kill().expect("a process that can be killed");
    }

    /// Ends it as an operator does.
    ///
    /// # Panics
    /// When it fails.
    pub fn stop(&mut self) {
        signal(self.process.id(), Signal::TERM);
        assert!(self.process.wait().expect("its end").success());
    }
}

impl Drop for Further {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
