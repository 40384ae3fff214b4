//! Commands: a program that is run to its end within a time, and what it said.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a command on a running crawl may take. A checkpoint may wait for a message that is
/// delivered again after the `ack_wait` of its edge (30 s): its reader has begun a new life when it
/// came.
pub(super) const COMMAND_AT_MOST: Duration = Duration::from_secs(45);
/// Time between two looks at something that is awaited.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// The folder of the programs: those that were built with the running test or bench.
///
/// # Panics
/// When they have not been built.
pub fn binaries() -> PathBuf {
    let folder = rhumb::binaries::folder().expect("the folder of this program");
    assert!(
        folder.join("rhumb").exists(),
        "no rhumb in {}: run `tests/build` first (for a bench: `cargo build --release \
         --workspace`)",
        folder.display()
    );
    folder
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    /// Exit code; -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs `rhumb` with these arguments.
///
/// # Panics
/// When it cannot be run or does not end in time.
pub fn rhumb<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Said {
    run(
        Command::new(binaries().join("rhumb")).args(arguments),
        COMMAND_AT_MOST,
    )
}

/// Runs a command to its end.
///
/// # Panics
/// When it cannot be run or does not end in time.
pub fn run(command: &mut Command, at_most: Duration) -> Said {
    let file = || tempfile::tempfile().expect("a temporary file");
    let mut out = file();
    let mut err = file();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a file"))
        .stderr(err.try_clone().expect("a file"))
        .spawn()
        .expect("the program can be started");
    let status = ended_within(&mut child, at_most);
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind()
            .and_then(|()| file.read_to_end(&mut bytes))
            .expect("what was written can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let out = read(&mut out);
    let err = read(&mut err);
    match status {
        Some(status) => Said {
            code: status.code().unwrap_or(-1),
            out,
            err,
        },
        None => panic!("{command:?} did not end within {at_most:?}; it said:\n{out}{err}"),
    }
}

/// Waits for the end of a process; none when it does not come in time.
pub fn ended_within(child: &mut Child, at_most: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + at_most;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(POLL);
    }
}

/// Sends a process that a crawl started a signal.
///
/// # Panics
/// When it has ended.
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    kill_process(pid, signal).expect("the process runs");
}

/// A number that a process tells at `/metrics`.
pub(super) fn metric(listen: &str, name: &str) -> u64 {
    let text =
        http_get(listen.trim_start_matches("http://"), "/metrics").expect("the process answers");
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit(' ')
        .next()
        .expect("a value")
        .parse()
        .expect("a number")
}

/// The body of an answer of one that serves HTTP at an address.
///
/// # Errors
/// Nobody does.
pub fn http_get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    // Of this version, an answer comes in one piece.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text
        .split_once("\r\n\r\n")
        .map_or(String::new(), |(_, body)| body.to_owned()))
}

/// A path as an argument.
pub(super) fn path_text(path: &Path) -> String {
    path.display().to_string()
}
