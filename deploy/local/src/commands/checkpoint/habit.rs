//! Habit: a checkpoint now and then, of which the newest stay.
//!
//! In: a folder for all checkpoints. Out: a folder in it for each, named after the crawl and the time. Invariants: one that
//! fails is said, and the next is taken when it is due; only complete ones count, and only what a checkpoint of this crawl
//! is, or was to become, is removed.

use super::taking::{Interrupt, Taken, Taking, stopped};
use crate::checkpoint::{MANIFEST, Manifest, UNFINISHED, is_left_over};
use crate::commands::EXIT_INTERRUPTED;
use crate::handle::{self, Handle, Running};
use crate::output::line;
use anyhow::Context as _;
use shared::config::Layers;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// When checkpoints are taken, and which of them stay.
pub(super) struct Habit {
    pub(super) dir: PathBuf,
    /// None: once.
    pub(super) every: Option<Duration>,
    /// None: all.
    pub(super) keep: Option<usize>,
    pub(super) layers: Layers,
    pub(super) json: bool,
}

impl Habit {
    /// Takes checkpoints until the crawl has stopped, or it is told to end.
    ///
    /// # Errors
    /// The crawl is not found at first, or the only checkpoint cannot be taken.
    pub(super) async fn run(&self, taking: &Taking, interrupt: &mut Interrupt) -> anyhow::Result<ExitCode> {
        let mut running = handle::find(&self.layers).await?;
        loop {
            let began = Instant::now();
            let taken = tokio::select! {
                taken = self.take(taking, &running, interrupt) => taken,
                ended = ends(&running) => return ended,
            };
            match taken {
                Ok(Some(taken)) => line(if self.json { serde_json::to_string(&taken)? } else { taken.to_string() }),
                Ok(None) => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
                Err(error) if self.every.is_none() => return Err(error),
                Err(error) => eprintln!("no checkpoint this time: {error:#}"),
            }
            let Some(every) = self.every else { return Ok(ExitCode::SUCCESS) };
            while began.elapsed() < every {
                tokio::select! {
                    () = tokio::time::sleep(every.saturating_sub(began.elapsed())) => {}
                    () = interrupt.comes() => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
                    ended = ends(&running) => return ended,
                }
            }
            // A private broker that was started anew listens elsewhere.
            let is_same = |handle: Handle| handle.broker == running.broker;
            if !Handle::read(&running.pipeline.data)?.is_none_or(is_same) {
                running = handle::find(&self.layers).await?;
            }
        }
    }

    async fn take(
        &self,
        taking: &Taking,
        running: &Running,
        interrupt: &mut Interrupt,
    ) -> anyhow::Result<Option<Taken>> {
        let crawl = &running.pipeline.crawl;
        fs::create_dir_all(&self.dir).with_context(|| format!("cannot make the folder {}", self.dir.display()))?;
        self.remove_left_over(crawl);
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string().replace(':', "");
        let taken = taking.take(running, &self.dir.join(format!("{crawl}-{time}")), interrupt).await?;
        if let (Some(keep), Some(_)) = (self.keep, &taken) {
            for old in self.complete(crawl).into_iter().rev().skip(keep) {
                remove(&old).with_context(|| format!("cannot remove the old checkpoint {}", old.display()))?;
            }
        }
        Ok(taken)
    }

    /// Complete checkpoints of the crawl, the oldest first.
    fn complete(&self, crawl: &str) -> Vec<PathBuf> {
        let is_of = |path: &PathBuf| Manifest::read(path).is_ok_and(|manifest| manifest.crawl == crawl);
        self.folders(crawl).into_iter().filter(is_of).collect()
    }

    fn remove_left_over(&self, crawl: &str) {
        for path in self.folders(crawl).into_iter().filter(|path| is_left_over(path)) {
            if let Err(error) = remove(&path) {
                eprintln!("cannot remove what is left of a checkpoint in {}: {error}", path.display());
            }
        }
    }

    /// Folders that are named as checkpoints of the crawl are, in order.
    fn folders(&self, crawl: &str) -> Vec<PathBuf> {
        let prefix = format!("{crawl}-");
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        let mut folders: Vec<PathBuf> = named.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    }
}

/// The end of a habit whose crawl has stopped.
async fn ends(running: &Running) -> anyhow::Result<ExitCode> {
    stopped(running).await?;
    eprintln!("the crawl has stopped: no more checkpoints are taken");
    Ok(ExitCode::SUCCESS)
}

/// Removes a checkpoint: what is left of one on the way is known as such.
fn remove(path: &Path) -> std::io::Result<()> {
    fs::write(path.join(UNFINISHED), "")?;
    match fs::remove_file(path.join(MANIFEST)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_dir_all(path)
}
