//! Habit: a checkpoint now and then, of which the newest stay.
//!
//! In: a folder for all checkpoints. Out: a folder in it for each, named after the crawl and the
//! time. Invariants: one that fails is said, and the next is taken when it is due; only complete
//! ones count, and only what a checkpoint of this crawl is, or was to become, is removed: another
//! one may have the same name.

use super::interrupt::Interrupt;
use super::taking::{Taken, Taking, stopped};
use crate::checkpoint::{MANIFEST, Manifest, UNFINISHED, is_left_over};
use crate::handle::{self, Handle, Running};
use crate::output::line;
use anyhow::Context as _;
use rhumb_config::Layers;
use rhumb_node::exit_codes::INTERRUPTED;
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
    pub(super) async fn run(
        &self,
        taking: &Taking,
        interrupt: &mut Interrupt,
    ) -> anyhow::Result<ExitCode> {
        let mut running = handle::find(&self.layers).await?;
        loop {
            let began = Instant::now();
            let taken = tokio::select! {
                taken = self.take(taking, &running, interrupt) => taken,
                ended = ends(&running) => return ended,
            };
            match taken {
                Ok(Some(taken)) => line(if self.json {
                    serde_json::to_string(&taken)?
                } else {
                    taken.to_string()
                }),
                Ok(None) => return Ok(ExitCode::from(INTERRUPTED)),
                Err(error) if self.every.is_none() => return Err(error),
                Err(error) => eprintln!("no checkpoint this time: {error:#}"),
            }
            let Some(every) = self.every else {
                return Ok(ExitCode::SUCCESS);
            };
            while began.elapsed() < every {
                tokio::select! {
                    () = tokio::time::sleep(every.saturating_sub(began.elapsed())) => {}
                    () = interrupt.comes() => return Ok(ExitCode::from(INTERRUPTED)),
                    ended = ends(&running) => return ended,
                }
            }
            // A private broker that was started anew listens elsewhere.
            match self.found_anew(&running).await {
                Ok(found) => running = found.unwrap_or(running),
                Err(error) => {
                    eprintln!("the crawl is not found now, it is looked for again: {error:#}")
                }
            }
        }
    }

    /// The crawl, when it is found elsewhere than before.
    async fn found_anew(&self, running: &Running) -> anyhow::Result<Option<Running>> {
        match Handle::read(&running.pipeline.data)? {
            Some(handle) if handle.broker != running.broker => {
                handle::find(&self.layers).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    async fn take(
        &self,
        taking: &Taking,
        running: &Running,
        interrupt: &mut Interrupt,
    ) -> anyhow::Result<Option<Taken>> {
        let crawl = &running.pipeline.crawl;
        fs::create_dir_all(&self.dir)
            .with_context(|| format!("cannot make the folder {}", self.dir.display()))?;
        self.remove_left_over(crawl);
        let time = humantime::format_rfc3339_millis(SystemTime::now())
            .to_string()
            .replace(':', "");
        let taken = taking
            .take(
                running,
                &self.dir.join(format!("{crawl}-{time}")),
                interrupt,
            )
            .await?;
        if let (Some(keep), Some(taken)) = (self.keep, &taken) {
            self.remove_old(crawl, &taken.id, keep);
        }
        Ok(taken)
    }

    /// Removes all complete checkpoints of the crawl with this name and id but the newest `keep`.
    fn remove_old(&self, crawl: &str, id: &str, keep: usize) {
        let is_of =
            |path: &PathBuf| Manifest::read(path).is_ok_and(|manifest| manifest.mark.id == id);
        let complete: Vec<PathBuf> = self.folders(crawl).into_iter().filter(is_of).collect();
        for old in complete.into_iter().rev().skip(keep) {
            if let Err(error) = remove(&old) {
                let old = old.display();
                eprintln!(
                    "a checkpoint was taken, but the old one in {old} cannot be removed, remove it \
                     by hand: {error}"
                );
            }
        }
    }

    fn remove_left_over(&self, crawl: &str) {
        for path in self
            .folders(crawl)
            .into_iter()
            .filter(|path| is_left_over(path))
        {
            if let Err(error) = remove(&path) {
                eprintln!(
                    "cannot remove what is left of a checkpoint in {}: {error}",
                    path.display()
                );
            }
        }
    }

    /// Folders that are named as checkpoints of the crawl are, in order.
    fn folders(&self, crawl: &str) -> Vec<PathBuf> {
        let prefix = format!("{crawl}-");
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let named =
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        let mut folders: Vec<PathBuf> = named
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::manifest_of;

    #[test]
    fn only_checkpoints_of_the_same_crawl_are_removed_whatever_they_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let every = None;
        let keep = Some(1);
        let layers = Layers::default();
        let habit = Habit {
            dir: folder.path().to_owned(),
            every,
            keep,
            layers,
            json: false,
        };
        for (name, id) in [
            ("news-1", "a"),
            ("news-2", "b"),
            ("news-3", "a"),
            ("news-4", "b"),
            ("other-1", "a"),
        ] {
            fs::create_dir(folder.path().join(name)).unwrap();
            manifest_of(id).write(&folder.path().join(name)).unwrap();
        }
        habit.remove_old("news", "a", 1);
        let entries = fs::read_dir(folder.path()).unwrap().flatten();
        let mut left: Vec<_> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["news-2", "news-3", "news-4", "other-1"]);
    }
}
