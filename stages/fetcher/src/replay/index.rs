//! The index of an archive: which record answers a request.
//!
//! In: the WARC files of a folder, with the CDXJ index beside each where it is complete. Out: a
//! table in the data directory of the instance, by which a record is found from its URL or from the
//! digest of its payload.
//!
//! Invariant: the index is of the files as they are: other names, sizes or times make another
//! index.

use super::cdxj;
use super::record::{Head, Kind};
use super::scan::{Form, Found, scan};
use super::table::{About, Making, Row, Table};
use anyhow::Context as _;
use rhumb_url::{canonical, fingerprint};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The name of the table.
const TABLE: &str = "index";
/// In a rank: the record has that very URL, not another spelling of it.
const EXACT: u64 = 1 << 63;
/// Damaged records that the log names; the others are counted.
pub(super) const NAMED_MAX: u64 = 100;

/// A file of the archive, or what was unpacked from it.
#[derive(Debug)]
pub(crate) struct ArchiveFile {
    /// The file that is read.
    pub(crate) path: PathBuf,
    pub(crate) form: Form,
    /// The file in the archive.
    pub(crate) of: PathBuf,
}

/// The index of an archive.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) files: Vec<ArchiveFile>,
    pub(crate) table: Table,
}

impl Index {
    /// Opens the index of these files in a folder, or makes it.
    ///
    /// # Errors
    /// A file cannot be read, or the folder cannot be written.
    pub(crate) fn open(paths: &[PathBuf], dir: &Path) -> anyhow::Result<Index> {
        let signature = signature(paths)?;
        let path = dir.join(TABLE);
        if let Some(table) = Table::open(&path, signature)
            .with_context(|| format!("cannot read {}", path.display()))?
        {
            let files: io::Result<_> = paths
                .iter()
                .map(|path| ArchiveFile::of(path, dir))
                .collect();
            return Ok(Index {
                files: files.context("cannot read the archive")?,
                table,
            });
        }
        // What is there is of other files.
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(dir),
        }
        .with_context(|| format!("cannot write {}", dir.display()))?;
        let mut making = IndexMaking {
            table: Making::new(dir),
            recordings: 0,
            damaged: 0,
        };
        let mut files = Vec::new();
        for (number, path) in (0..).zip(paths) {
            let file = making
                .file(number, path, dir)
                .with_context(|| format!("cannot index {}", path.display()))?;
            files.push(file);
        }
        let IndexMaking {
            table,
            recordings,
            damaged,
        } = making;
        let written = table
            .finish(
                TABLE,
                About {
                    signature,
                    recordings,
                    damaged,
                },
            )
            .and_then(|()| Table::open(&path, signature));
        let table = written.with_context(|| format!("cannot write {}", path.display()))?;
        let table =
            table.with_context(|| format!("{} is not what was written to it", path.display()))?;
        Ok(Index { files, table })
    }

    /// The rows of a URL, the one to try first last: that very URL before another spelling, later
    /// before earlier.
    pub(crate) fn of_url(&self, url: &str) -> io::Result<Vec<Row>> {
        self.table.rows(fingerprint(url))
    }

    /// The rows of a URL at that time.
    pub(crate) fn at(&self, url: &str, date_ms: u64) -> io::Result<Vec<Row>> {
        let mut rows = self.of_url(url)?;
        rows.retain(|row| row.rank & !EXACT == date_ms);
        Ok(rows)
    }

    /// The rows of responses with that payload.
    pub(crate) fn of_digest(&self, digest: &str) -> io::Result<Vec<Row>> {
        self.table.rows(digest_key(digest))
    }
}

/// Digests and URLs are keys of one table.
fn digest_key(digest: &str) -> u64 {
    fingerprint(&format!("digest {digest}"))
}

/// By which an archive is known again: names, sizes and times of its files.
fn signature(paths: &[PathBuf]) -> anyhow::Result<u64> {
    let mut text = String::new();
    for path in paths {
        let about = path
            .metadata()
            .with_context(|| format!("cannot read {}", path.display()))?;
        text.push_str(&format!(
            "{} {} {}.{}\n",
            path.display(),
            about.len(),
            about.mtime(),
            about.mtime_nsec()
        ));
    }
    Ok(fingerprint(&text))
}

impl ArchiveFile {
    fn of(path: &Path, dir: &Path) -> io::Result<ArchiveFile> {
        let of = path.to_owned();
        Ok(match Form::of(path)? {
            Form::Packed(_) => ArchiveFile {
                path: unpacked(path, dir),
                form: Form::Plain,
                of,
            },
            form => ArchiveFile {
                path: of.clone(),
                form,
                of,
            },
        })
    }
}

/// Where what is compressed as one is unpacked to: otherwise each record would be as slow as all
/// before it.
fn unpacked(path: &Path, dir: &Path) -> PathBuf {
    dir.join(format!(
        "unpacked-{:016x}.warc",
        fingerprint(&path.display().to_string())
    ))
}

struct IndexMaking {
    table: Making,
    recordings: u64,
    damaged: u64,
}

impl IndexMaking {
    fn file(&mut self, number: u32, path: &Path, dir: &Path) -> anyhow::Result<ArchiveFile> {
        if let Form::Packed(packing) = Form::of(path)? {
            let plain = packing.all(io::BufReader::new(File::open(path)?))?;
            self.unpack(path, plain, &unpacked(path, dir))?;
        }
        let file = ArchiveFile::of(path, dir)?;
        if matches!(file.form, Form::Members(_))
            && let Some(entries) = cdxj::complete(path)?
        {
            for entry in entries {
                self.record(number, entry.offset, &entry.head)?;
            }
            return Ok(file);
        }
        scan(&file.path, &file.form, &mut |offset, found| match found {
            Found::Record(head) => self.record(number, offset, &head),
            Found::Damaged(reason) => {
                self.is_damaged(path, offset, &reason);
                Ok(())
            }
        })?;
        Ok(file)
    }

    /// What comes before damage is kept.
    fn unpack(&mut self, path: &Path, mut from: impl io::Read, to: &Path) -> io::Result<()> {
        let mut to = io::BufWriter::new(File::create(to)?);
        let mut buffer = vec![0; 256 << 10];
        let mut bytes = 0;
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(more) => {
                    io::Write::write_all(&mut to, &buffer[..more])?;
                    bytes += more as u64;
                }
                Err(error) => {
                    self.is_damaged(
                        path,
                        bytes,
                        &format!("what follows cannot be unpacked: {error}"),
                    );
                    break;
                }
            }
        }
        io::Write::flush(&mut to)
    }

    fn is_damaged(&mut self, path: &Path, offset: u64, reason: &str) {
        self.damaged += 1;
        if self.damaged <= NAMED_MAX {
            tracing::warn!(file = %path.display(), offset, reason, "a record of the archive is damaged and is skipped");
        }
        if self.damaged == NAMED_MAX {
            tracing::warn!(
                "further damaged records are skipped and counted (archive_damaged_total), and not \
                 named"
            );
        }
    }

    fn record(&mut self, file: u32, offset: u64, head: &Head) -> io::Result<()> {
        if !head.is_recording() {
            return Ok(());
        }
        self.recordings += 1;
        let date_ms = head.date_ms & !EXACT;
        self.table.add(Row {
            key: fingerprint(&head.url),
            rank: EXACT | date_ms,
            file,
            offset,
        })?;
        if let Some(canonical) = canonical(&head.url, None, None)
            .ok()
            .filter(|canonical| *canonical != head.url)
        {
            self.table.add(Row {
                key: fingerprint(&canonical),
                rank: date_ms,
                file,
                offset,
            })?;
        }
        match &head.digest {
            Some(digest) if head.kind == Kind::Response => self.table.add(Row {
                key: digest_key(digest),
                rank: date_ms,
                file,
                offset,
            }),
            _ => Ok(()),
        }
    }
}
