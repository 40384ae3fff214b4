//! From a WARC file that grows to a finished one: it is cut behind its last whole page, its index
//! is sorted, both get their final names.

use super::directory::sync_dir;
use crate::index::Line;
use anyhow::Context as _;
use rhumb_config::WarcFormat;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Finishes a file. Begun anew after any interruption, it comes to the same.
pub(super) fn finish(dir: &Path, name: &str) -> anyhow::Result<()> {
    let path = |extension: &str| dir.join(format!("{name}.{extension}"));
    let journal = path("cdxj.open");
    let [warc, finished] = warc_files(&path);
    let error = || format!("cannot finish {}", warc.display());
    let warc_bytes = [&warc, &finished]
        .into_iter()
        .find_map(|path| path.metadata().ok())
        .map_or(0, |m| m.len());
    let mut lines = read_journal(&journal).with_context(error)?;
    let mut good = 0;
    lines.retain(|line| {
        let end = Line::parse(line).map_or(u64::MAX, |line| line.offset + line.length);
        good = if end <= warc_bytes {
            end.max(good)
        } else {
            good
        };
        end <= warc_bytes
    });
    if warc.exists() {
        if good == 0 {
            // There is no whole page in it.
            fs::remove_file(&warc).with_context(error)?;
        } else {
            let file = File::options()
                .write(true)
                .open(&warc)
                .with_context(error)?;
            file.set_len(good)
                .and_then(|()| file.sync_all())
                .with_context(error)?;
        }
    }
    if good > 0 {
        write_index(dir, name, lines).with_context(error)?;
        if warc.exists() {
            fs::rename(&warc, &finished).with_context(error)?;
        }
    }
    sync_dir(dir).with_context(error)?;
    fs::remove_file(&journal).with_context(error)
}

/// The file that grows, and what it becomes. An earlier life may have been told to write another
/// format.
fn warc_files(path: &impl Fn(&str) -> PathBuf) -> [PathBuf; 2] {
    let [gzip, zstd] = WarcFormat::ALL.map(|format| {
        let finished = path(format.extension());
        [path(&format!("{}.open", format.extension())), finished]
    });
    if zstd.iter().any(|path| path.exists()) {
        zstd
    } else {
        gzip
    }
}

/// The whole lines of an index that is not finished.
fn read_journal(path: &Path) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut reader = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        if line.pop() != Some(b'\n') {
            break;
        }
        lines.push(String::from_utf8_lossy(&line).into_owned());
        line.clear();
    }
    Ok(lines)
}

fn write_index(dir: &Path, name: &str, mut lines: Vec<String>) -> io::Result<()> {
    lines.sort_unstable();
    let unfinished = dir.join(format!("{name}.cdxj.sorted"));
    let mut index = BufWriter::new(File::create(&unfinished)?);
    for line in lines {
        writeln!(index, "{line}")?;
    }
    index.into_inner()?.sync_all()?;
    fs::rename(&unfinished, dir.join(format!("{name}.cdxj")))
}
