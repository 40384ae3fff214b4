//! The files of an instance: a WARC file of each series that grows, its index, the log of outcomes.
//!
//! ```text
//! <crawl>-<time>-<number>-<instance>.warc.gz.open   grows           ─┐ finished: sorted index written, both renamed
//! <crawl>-<time>-<number>-<instance>.cdxj.open      its index so far ─┘ to .warc.gz (or .warc.zst) and .cdxj
//! <crawl>-<topic>-<time>-…                          the same, where each topic has a series of its own
//! crawl.jsonl, crawl-<instance>.jsonl               grows
//! ```
//!
//! In: batches. Out: these files, and at a start what is in them already.
//!
//! Invariants: when a write is answered, it is synced. The last record of a page has an index line,
//! and the line reaches the disk after the record. So the last whole line says up to where a file
//! is good, whenever the process was killed.

pub(crate) mod batch;
pub(crate) mod found;

mod directory;
mod finishing;
mod growing_file;
mod lock;
pub(crate) mod log;
mod open_warc;

use self::batch::Batch;
use self::directory::{names, sync_dir};
use self::finishing::finish;
use self::found::Found;
use self::growing_file::GrowingFile;
use self::lock::{lock, own_lock};
use self::log::{log_name, open_log};
use self::open_warc::{Lengths, OpenWarc};
use crate::record::Writer;
use crate::time::timestamp;
use anyhow::Context as _;
use rhumb_config::WarcFormat;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::SystemTime;

/// What a folder is made with.
#[derive(Clone, Debug)]
pub struct FolderSettings {
    /// The directory.
    pub dir: PathBuf,
    /// Name of the crawl.
    pub crawl: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// How records are compressed.
    pub format: WarcFormat,
    /// Bodies to be remembered, over all finished files that are there.
    pub digests: usize,
    /// Pages whose own records are to be remembered; 0: none is looked for.
    pub pages: usize,
    /// Where in the log this crawl's own lines begin, in bytes. The lines before are of an earlier
    /// crawl in the same folder, whose outcomes have the same numbers. None for a crawl that
    /// begins: its lines begin at the end.
    pub log_begun: Option<u64>,
    /// Fields of the `warcinfo` record, name and value each.
    pub about: Vec<(String, String)>,
}

/// The files.
pub struct Folder {
    settings: FolderSettings,
    /// By series.
    open: BTreeMap<String, OpenWarc>,
    /// Names of files that could not be finished.
    unfinished: Vec<String>,
    log: GrowingFile,
    /// Files made in this life.
    number: u32,
    writer: Writer,
    /// Held for the life of the process: nobody else writes these files.
    _lock: File,
}

impl Folder {
    /// Opens the folder, which may be new, and finishes what an earlier life left.
    ///
    /// # Errors
    /// The folder cannot be made, read or written, or another process writes the instance's files.
    pub fn open(settings: FolderSettings) -> anyhow::Result<(Folder, Found)> {
        let dir = settings.dir.clone();
        fs::create_dir_all(&dir)
            .with_context(|| format!("cannot create the archive's folder {}", dir.display()))?;
        let lock = own_lock(&dir, settings.instance)?;
        let mut found = Found::default();
        let (log, outcomes) = open_log(
            &dir.join(log_name(settings.instance)),
            settings.log_begun.unwrap_or(u64::MAX),
        )?;
        found.outcomes = outcomes;
        let unfinished = Vec::new();
        let writer = Writer::new(settings.format, 0);
        let folder = Folder {
            settings,
            open: BTreeMap::new(),
            unfinished,
            log,
            number: 0,
            writer,
            _lock: lock,
        };
        let left = folder.finish_what_was_left()?;
        found.read_indexes(&folder.settings, &left)?;
        sync_dir(&dir).with_context(|| format!("cannot sync {}", dir.display()))?;
        Ok((folder, found))
    }

    /// The log of outcomes.
    pub fn log_path(&self) -> PathBuf {
        self.settings.dir.join(log_name(self.settings.instance))
    }

    /// Length of the log, in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes
    }

    /// Writes and syncs a batch. Returns the length of the longest open file then, in bytes;
    /// `u64::MAX` when an index is full.
    ///
    /// # Errors
    /// Nothing of the batch counts as written; the same batch may be tried again.
    pub fn write(&mut self, batch: &Batch) -> anyhow::Result<u64> {
        let before: BTreeMap<String, Lengths> = self
            .open
            .iter()
            .map(|(series, open)| (series.clone(), open.lengths()))
            .collect();
        let written = self.write_records(batch).and_then(|()| {
            let written = self.log.append(batch.lines.as_bytes());
            written.with_context(|| format!("cannot write {}", self.log_path().display()))
        });
        if written.is_err() {
            for (series, open) in &mut self.open {
                open.take_back(before.get(series).copied().unwrap_or(open.first_lengths()));
            }
        }
        written?;
        Ok(self.open.values().map(OpenWarc::bytes).max().unwrap_or(0))
    }

    fn write_records(&mut self, batch: &Batch) -> anyhow::Result<()> {
        for (series, records) in &batch.records {
            if !self.open.contains_key(series) {
                let open = self.create(series)?;
                self.open.insert(series.clone(), open);
            }
            if let Some(open) = self.open.get_mut(series) {
                open.append(records, &self.settings.dir)?;
            }
        }
        Ok(())
    }

    /// Makes a WARC file of a series under a name that is free.
    fn create(&mut self, series: &str) -> anyhow::Result<OpenWarc> {
        let now_ms = SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |elapsed| elapsed.as_millis() as u64);
        let FolderSettings {
            dir,
            crawl,
            instance,
            format,
            about,
            ..
        } = &self.settings;
        let name = loop {
            self.number += 1;
            let of = if series.is_empty() {
                String::new()
            } else {
                format!("-{series}")
            };
            let name = format!(
                "{crawl}{of}-{}-{:05}-{instance:03}",
                timestamp(now_ms),
                self.number
            );
            // An earlier life may have used the same number within this second.
            if WarcFormat::ALL
                .iter()
                .all(|format| !dir.join(format!("{name}.{}", format.extension())).exists())
            {
                break name;
            }
        };
        OpenWarc::create(dir, name, *format, now_ms, about, &mut self.writer)
    }

    /// Finishes the open files, and those that could not be finished before.
    ///
    /// # Errors
    /// Nothing is lost: it may be tried again, and is at the next start.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.unfinished.extend(
            std::mem::take(&mut self.open)
                .into_values()
                .map(|open| open.name),
        );
        while let Some(name) = self.unfinished.last() {
            finish(&self.settings.dir, name)?;
            self.unfinished.pop();
        }
        Ok(())
    }

    /// Cuts files that were open when their process died behind the last whole page, and finishes
    /// them. Gives their names.
    fn finish_what_was_left(&self) -> anyhow::Result<Vec<String>> {
        let mut left = Vec::new();
        let FolderSettings {
            dir,
            crawl,
            instance,
            ..
        } = &self.settings;
        for name in names(dir, crawl, ".cdxj.open")? {
            let name = name.trim_end_matches(".cdxj.open");
            let Some(of) = name
                .rsplit('-')
                .next()
                .and_then(|of| of.parse::<u16>().ok())
            else {
                continue;
            };
            left.push(name.to_owned());
            if of == *instance {
                finish(dir, name)?;
            } else if let Ok(_lock) = lock(dir, of) {
                // That instance does not run: there may be fewer instances than there were.
                finish(dir, name)?;
                open_log(&dir.join(log_name(of)), u64::MAX)?;
            }
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests;
