//! How long a checkpoint of a large crawl takes, how long dispatch stands still for it, and how
//! long it takes to restore.
//!
//! A crawl of a synthetic web is begun and stopped, and a partition in which the web has no host is
//! filled, as for the [moves](super::moves). The crawl goes on, and a checkpoint is taken. Another
//! crawl begins with it.

use super::moves::{
    PARTITIONS, begun_and_stopped, fill_dedup, fill_scheduler, partition_without_hosts,
};
use crate::harness::{binaries, run};
use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde::Serialize;
use std::process::Command;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
/// How long a command may take.
const COMMAND_AT_MOST: Duration = Duration::from_secs(300);

/// A checkpoint, and its restore.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// What the command told: `pause_s`, `drain_s`, `took_s`, `bytes`.
    pub checkpoint: serde_json::Value,
    /// From the command until the restored crawl has fetched ten pages, in seconds.
    pub restored_s: f64,
}

/// Takes a checkpoint of a crawl with so many known and waiting URLs, and restores it.
///
/// # Errors
/// The folders cannot be written, or a command fails.
pub fn measure(known: u64, waiting: u64, set: &[String]) -> anyhow::Result<Measured> {
    let world = begun_and_stopped(set, |crawl| crawl)?;
    let free = partition_without_hosts(&world)?;
    fill_dedup(&world.data().join("dedup/0"), free, known)?;
    let all: Vec<u16> = (0..PARTITIONS).collect();
    fill_scheduler(
        &world.data().join("scheduler/0"),
        0,
        &all,
        free,
        waiting,
        world.web.host_address(0),
    )?;

    let mut crawl = world.resume().start();
    crawl.until(MINUTE, |summary| summary.pages > 1000);
    let folder = world.folder().join("checkpoint");
    let mut rhumb = Command::new(binaries().join("rhumb"));
    let rhumb = rhumb
        .args(["checkpoint", "--json", "--data"])
        .arg(crawl.data())
        .arg(&folder);
    let said = run(rhumb, COMMAND_AT_MOST);
    ensure!(said.code == 0, "{}{}\n{}", said.out, said.err, crawl.log());
    ensure!(!crawl.has_ended(), "the crawl was too short");
    let pages = crawl.status().context("no status")?.pages;
    crawl.signal(Signal::KILL);
    ensure!(crawl.exit_code(MINUTE) == -1, "the crawl did not stop");

    let began = Instant::now();
    let mut restored = world.restored("again", &folder).start();
    restored.until(COMMAND_AT_MOST, |summary| summary.pages > pages + 10);
    let restored_s = began.elapsed().as_secs_f64();
    restored.signal(Signal::KILL);
    restored.exit_code(MINUTE);
    Ok(Measured {
        checkpoint: serde_json::from_str(&said.out)?,
        restored_s,
    })
}
