//! Crawl logs: how the URLs of a crawl ended, as its archiver wrote it down.
//!
//! In: a data directory, a folder with `crawl.jsonl`, a log, or standard input. Out: the lines of
//! all its logs. Invariant: a log is read from its beginning to its end, a line at a time, and no
//! line takes more than [`LINE_BYTES_MAX`] of memory.

use crate::handle;
use anyhow::Context as _;
use serde::Deserialize;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";
/// Bytes of a line, at most: what is longer is no crawl log.
const LINE_BYTES_MAX: u64 = 1 << 20;

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

/// The logs of a crawl; `-` stands for standard input.
pub(crate) struct CrawlLog {
    files: Vec<PathBuf>,
}

/// Where a line stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    file: &'a Path,
    number: u64,
    is_last: bool,
}

impl Place<'_> {
    /// Returns whether the line that was read with this error is one that a kill cut short.
    pub(crate) fn is_cut(&self, error: &serde_json::Error) -> bool {
        error.is_eof() && self.is_last
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.number)
    }
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

    /// The logs at a path: of a folder as [`CrawlLog::find`] does, a log alone, or with `-` that on
    /// standard input.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn at(path: &Path) -> anyhow::Result<CrawlLog> {
        if path == Path::new(STANDARD_INPUT) {
            let files = vec![path.to_owned()];
            return Ok(CrawlLog { files });
        }
        let found = fs::metadata(path);
        let found = found.with_context(|| format!("cannot read {}", path.display()))?;
        match found.is_dir() {
            true => CrawlLog::find(path),
            false => Ok(CrawlLog {
                files: vec![path.to_owned()],
            }),
        }
    }

    /// Gives every line to `take`; a last one that a kill cut short is left out.
    ///
    /// # Errors
    /// A log cannot be read, or a line is none.
    pub(crate) fn read(&self, mut take: impl FnMut(Line)) -> anyhow::Result<()> {
        self.each(|place, text| match serde_json::from_slice(text) {
            Ok(line) => {
                take(line);
                Ok(())
            }
            Err(error) if place.is_cut(&error) => Ok(()),
            Err(error) => {
                let Place { file, number, .. } = place;
                let file = file.display();
                Err(error).context(format!("line {number} of {file} is not one of a crawl log"))
            }
        })
    }

    /// Gives every line to `take` as it is written, with its place.
    ///
    /// # Errors
    /// A log cannot be read, a line is too long, or `take` gives an error.
    pub(crate) fn each(
        &self,
        mut take: impl FnMut(Place<'_>, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for file in &self.files {
            let error = || format!("cannot read {}", file.display());
            let mut lines = open(file).with_context(error)?;
            let mut text = Vec::new();
            for number in 1.. {
                text.clear();
                let mut line = lines.by_ref().take(LINE_BYTES_MAX);
                if line.read_until(b'\n', &mut text).with_context(error)? == 0 {
                    break;
                }
                let is_last = lines.fill_buf().with_context(error)?.is_empty();
                let place = Place {
                    file,
                    number,
                    is_last,
                };
                let is_whole = text.last() == Some(&b'\n') || is_last;
                anyhow::ensure!(
                    is_whole,
                    "{place} is no line of a crawl log: it is longer than {LINE_BYTES_MAX} bytes"
                );
                take(place, &text)?;
            }
        }
        Ok(())
    }
}

fn open(file: &Path) -> io::Result<Box<dyn BufRead>> {
    match file == Path::new(STANDARD_INPUT) {
        true => Ok(Box::new(BufReader::new(io::stdin()))),
        false => Ok(Box::new(BufReader::new(File::open(file)?))),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a log, with their places.
    fn lines(text: &[u8]) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("crawl.jsonl");
        fs::write(&file, text).unwrap();
        let mut lines = Vec::new();
        CrawlLog::at(&file)?.each(|place, text| {
            let place = place.to_string();
            let name = place.rsplit('/').next().unwrap_or_default();
            lines.push((name.to_owned(), text.to_owned()));
            Ok(())
        })?;
        Ok(lines)
    }

    #[test]
    fn each_line_has_its_place_and_none_is_without_end() {
        let read = lines(b"a\n\nb\xff").unwrap();
        let line = |number: u32, text: &[u8]| (format!("crawl.jsonl:{number}"), text.to_vec());
        assert_eq!(read, [line(1, b"a\n"), line(2, b"\n"), line(3, b"b\xff")]);
        assert_eq!(lines(b"").unwrap(), []);
        let most = LINE_BYTES_MAX as usize;
        assert_eq!(lines(&vec![b'x'; most]).unwrap().len(), 1);
        let error = lines(&vec![b'x'; most + 1]).unwrap_err().to_string();
        assert!(error.contains("crawl.jsonl:1 is no line"), "{error}");
    }

    #[test]
    fn a_log_is_found_in_its_folder_and_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        assert!(CrawlLog::at(folder.path()).is_err());
        assert!(CrawlLog::at(&folder.path().join("none.jsonl")).is_err());
        let file = folder.path().join("crawl.jsonl");
        fs::write(&file, "").unwrap();
        for path in [folder.path(), &file] {
            assert_eq!(
                CrawlLog::at(path).unwrap().files,
                std::slice::from_ref(&file)
            );
        }
    }
}
