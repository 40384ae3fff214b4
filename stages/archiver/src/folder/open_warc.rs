//! The WARC file that grows, and the journal of its index beside it.
//!
//! In: records. Out: records in `….warc.gz.open` (or `.zst`), and a line in `….cdxj.open` for each
//! that is indexed. Invariant: a line of the journal is written after the record that it points at.

use super::batch::Records;
use super::directory::sync_dir;
use super::growing_file::GrowingFile;
use crate::index::Line;
use crate::record::{Record, Writer, record_id};
use crate::time::date;
use anyhow::Context as _;
use rhumb_config::WarcFormat;
use std::fs::{self, File};
use std::path::Path;

/// A journal that is so long is full: at the end its lines are sorted in memory.
const INDEX_BYTES_MAX: u64 = 64 << 20;

pub(super) struct OpenWarc {
    /// The part of the name that all files share.
    pub(super) name: String,
    format: WarcFormat,
    /// Length of the record that says what the file is.
    info_bytes: u64,
    warc: GrowingFile,
    journal: GrowingFile,
}

/// Good lengths of the two files, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    warc: u64,
    journal: u64,
}

impl OpenWarc {
    /// Makes a new file, whose first record says with `about` what it is. After an error there is
    /// none.
    pub(super) fn create(
        dir: &Path,
        name: String,
        format: WarcFormat,
        now_ms: u64,
        about: &[(String, String)],
        writer: &mut Writer,
    ) -> anyhow::Result<OpenWarc> {
        let create = |extension: &str| {
            let path = dir.join(format!("{name}.{extension}.open"));
            let file = File::options()
                .create_new(true)
                .read(true)
                .write(true)
                .open(&path);
            let file = file.with_context(|| format!("cannot create {}", path.display()))?;
            anyhow::Ok(GrowingFile::new(file, 0))
        };
        let journal = create("cdxj")?;
        let removed = |error| {
            // Nothing is in them; each try takes another name.
            for extension in ["cdxj", format.extension()] {
                let _ = fs::remove_file(dir.join(format!("{name}.{extension}.open")));
            }
            error
        };
        let mut warc = create(format.extension()).map_err(removed)?;
        let filename = format!("{name}.{}", format.extension());
        let member = info(&filename, &date(now_ms), about, writer);
        let written = warc.append(&member).and_then(|()| sync_dir(dir));
        written
            .with_context(|| format!("cannot write {filename}.open in {}", dir.display()))
            .map_err(removed)?;
        let info_bytes = warc.bytes;
        Ok(OpenWarc {
            name,
            format,
            info_bytes,
            warc,
            journal,
        })
    }

    /// Appends and syncs records, and then their lines.
    pub(super) fn append(&mut self, records: &Records, dir: &Path) -> anyhow::Result<()> {
        let filename = format!("{}.{}", self.name, self.format.extension());
        let mut lines = String::new();
        for (line, place) in &records.entries {
            let line = Line {
                length: place.len() as u64,
                offset: self.warc.bytes + place.start as u64,
                filename: filename.clone(),
                ..line.clone()
            };
            lines.push_str(&line.text());
            lines.push('\n');
        }
        let error = || format!("cannot write {filename}.open in {}", dir.display());
        // The lines of records that do not count go first, then the records.
        self.journal.clean().with_context(error)?;
        self.warc.append(&records.members).with_context(error)?;
        self.journal.append(lines.as_bytes()).with_context(error)
    }

    pub(super) fn lengths(&self) -> Lengths {
        Lengths {
            warc: self.warc.bytes,
            journal: self.journal.bytes,
        }
    }

    /// Lengths of the file when it was made.
    pub(super) fn first_lengths(&self) -> Lengths {
        Lengths {
            warc: self.info_bytes,
            journal: 0,
        }
    }

    /// What was written since the files had these lengths does not count.
    pub(super) fn take_back(&mut self, lengths: Lengths) {
        self.warc.take_back(lengths.warc);
        self.journal.take_back(lengths.journal);
    }

    /// Bytes of the file; the most there are when its index is full.
    pub(super) fn bytes(&self) -> u64 {
        if self.journal.bytes < INDEX_BYTES_MAX {
            self.warc.bytes
        } else {
            u64::MAX
        }
    }
}

/// The record that says what a file is, as a member.
fn info(filename: &str, date: &str, about: &[(String, String)], writer: &mut Writer) -> Vec<u8> {
    let text: String = about
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let record = Record {
        kind: "warcinfo",
        id: &record_id("warcinfo", filename, date),
        date,
        fields: &[("WARC-Filename", filename)],
        content_type: "application/warc-fields",
        payload: None,
        block: [text.as_bytes(), &[]],
        is_coded: false,
    };
    let mut member = Vec::new();
    writer.write(&record, &mut member);
    member
}
