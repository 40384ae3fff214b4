//! Crawl logs: how the URLs of a crawl ended, as its archiver wrote it down.
//!
//! In: a data directory, or a folder with `crawl.jsonl`. Out: the lines of all its logs. Invariant:
//! a log is read from its beginning to its end, a line at a time.

use crate::handle;
use anyhow::Context as _;
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A line: how a URL ended.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) url: String,
    pub(crate) outcome: String,
    pub(crate) status: u16,
    pub(crate) title: String,
    time: String,
    serial: u64,
}

impl Line {
    /// Grows with the lines of a URL: with each way around, and with the time of its response.
    pub(crate) fn order(&self) -> (u64, u64) {
        let at = humantime::parse_rfc3339(&self.time)
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        (
            at.map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }),
            self.serial,
        )
    }
}

/// The logs of a crawl.
pub(crate) struct CrawlLog {
    files: Vec<PathBuf>,
}

impl CrawlLog {
    /// The logs in a folder, in its `archive`, or where the crawl in that data directory keeps its
    /// archive.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn find(dir: &Path) -> anyhow::Result<CrawlLog> {
        let configured = handle::kept(dir)
            .ok()
            .flatten()
            .map(|pipeline| pipeline.stages.archiver.dir);
        let folders = [
            Some(dir.to_owned()),
            configured.filter(|dir| dir.is_absolute()),
            Some(dir.join("archive")),
        ];
        for folder in folders.into_iter().flatten() {
            let files = logs(&folder).unwrap_or_default();
            if !files.is_empty() {
                return Ok(CrawlLog { files });
            }
        }
        anyhow::bail!(
            "there is no crawl log in {}: name the data directory of a crawl with an archiver \
             (stages.archiver.replicas=1), or a folder with its crawl.jsonl",
            dir.display()
        )
    }

    /// Gives every line to `take`; a last one that a kill cut short is left out.
    ///
    /// # Errors
    /// A log cannot be read, or a line is none.
    pub(crate) fn read(&self, mut take: impl FnMut(Line)) -> anyhow::Result<()> {
        for path in &self.files {
            let error = || format!("cannot read {}", path.display());
            let file = BufReader::new(File::open(path).with_context(error)?);
            let mut lines = (1..).zip(file.lines()).peekable();
            while let Some((number, line)) = lines.next() {
                let line = line.with_context(error)?;
                match serde_json::from_str(&line) {
                    Ok(line) => take(line),
                    Err(error) if error.is_eof() && lines.peek().is_none() => {}
                    Err(error) => {
                        let path = path.display();
                        return Err(error)
                            .context(format!("line {number} of {path} is not one of a crawl log"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// `crawl.jsonl`, and `crawl-<instance>.jsonl` of further archivers.
fn logs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let instance = name
            .strip_prefix("crawl")
            .and_then(|rest| rest.strip_suffix(".jsonl"));
        let is_log = instance.is_some_and(|instance| {
            let number = instance.strip_prefix('-');
            instance.is_empty() || number.is_some_and(|number| number.parse::<u16>().is_ok())
        });
        if is_log {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
