//! An archive that is open: from a URL to the response that was recorded.
//!
//! In: a URL. Out: its latest response, of that very spelling before another; the body of a revisit
//! is that of the record it refers to, and one that says that nothing has changed is that record. A
//! record that is damaged is named, and the next one is tried.
//!
//! Invariant: of a record no more is read than is wanted of its block.

use super::index::{Index, NAMED_MAX};
use super::inflater::Inflaters;
use super::packing::Packing;
use super::record::{Damage, Head, Kind};
use super::recording::Recording;
use super::scan::Form;
use super::table::Row;
use rhumb_url::canonical;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::sync::{Mutex, PoisonError};

/// The status of a response without a body of its own.
const NOT_MODIFIED: u16 = 304;
/// Damaged places that are remembered, so that each is counted once.
const PLACES_MAX: usize = 100_000;
/// Records that are tried for the body of a revisit.
const ORIGINALS_MAX: usize = 8;

/// An archive with its index.
#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) index: Index,
    inflaters: Inflaters,
    damaged: Mutex<HashSet<(u32, u64)>>,
}

/// What an archive has of a URL.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The response, with the head of its record.
    pub(crate) response: Option<(Head, Recording)>,
    /// Damaged records that were passed over, and not before.
    pub(crate) damaged: u32,
}

/// A record, as far as it is wanted.
struct Record {
    head: Head,
    block: Vec<u8>,
    is_cut: bool,
}

impl Archive {
    pub(crate) fn new(index: Index) -> Archive {
        Archive {
            index,
            inflaters: Inflaters::default(),
            damaged: Mutex::default(),
        }
    }

    /// What there is of a URL; of a block at most so many bytes.
    ///
    /// # Errors
    /// Index or file cannot be read.
    pub(crate) fn find(&self, url: &str, block_bytes_max: u64) -> io::Result<Answered> {
        let mut answered = Answered {
            response: None,
            damaged: 0,
        };
        for row in self.index.of_url(url)?.into_iter().rev() {
            let record = match self.read(row, block_bytes_max)? {
                // Another URL with the same fingerprint.
                Ok(record) if !is_of(&record.head, url) => continue,
                Ok(record) => record,
                Err(reason) => {
                    answered.damaged += u32::from(self.is_damaged(row, &reason));
                    continue;
                }
            };
            match self.response(row, record, block_bytes_max)? {
                // It answers those who have an earlier response, and nobody else.
                Ok((_, recording)) if recording.status == NOT_MODIFIED => {}
                // A body that should be there: the answer to a HEAD, unless nothing better is
                // found.
                Ok(response) if response.1.truncated.is_some() && response.1.body.is_empty() => {
                    answered.response.get_or_insert(response);
                }
                Ok(response) => {
                    answered.response = Some(response);
                    break;
                }
                Err(reason) => answered.damaged += u32::from(self.is_damaged(row, &reason)),
            }
        }
        Ok(answered)
    }

    fn response(
        &self,
        row: Row,
        record: Record,
        bytes_max: u64,
    ) -> io::Result<Result<(Head, Recording), Damage>> {
        let Record {
            head,
            block,
            is_cut,
        } = record;
        if !head.is_recording() {
            return Ok(Err("the record is no response, as the index says".into()));
        }
        if head.kind != Kind::Revisit {
            return Ok(Recording::of(&head, block, is_cut).map(|recording| (head, recording)));
        }
        let Some(original) = self.original(row, &head, bytes_max)? else {
            return Ok(Err(
                "the record whose body it refers to is damaged or not in the archive".into(),
            ));
        };
        if block.is_empty() {
            return Ok(Ok((head, original)));
        }
        Ok(Recording::of(&head, block, is_cut).map(|mut recording| {
            // Nothing has changed: the answer is all of what it stands for.
            if recording.status == NOT_MODIFIED {
                return (head, original);
            }
            (recording.body, recording.truncated) = (original.body, original.truncated);
            (head, recording)
        }))
    }

    /// The response that has the body of a revisit.
    fn original(&self, row: Row, revisit: &Head, bytes_max: u64) -> io::Result<Option<Recording>> {
        let mut rows = match &revisit.refers_to {
            Some((url, date_ms)) => self.index.at(url, *date_ms)?,
            None => Vec::new(),
        };
        if let Some(digest) = &revisit.digest {
            rows.extend(self.index.of_digest(digest)?.into_iter().rev());
        }
        rows.retain(|other| (other.file, other.offset) != (row.file, row.offset));
        for row in rows.into_iter().take(ORIGINALS_MAX) {
            let read = self.read(row, bytes_max)?;
            let Ok(Record {
                head,
                block,
                is_cut,
            }) = read
            else {
                continue;
            };
            let is_another =
                head.digest.is_some() && revisit.digest.is_some() && head.digest != revisit.digest;
            if head.kind != Kind::Response || is_another {
                continue;
            }
            if let Ok(recording) = Recording::of(&head, block, is_cut) {
                return Ok(Some(recording));
            }
        }
        Ok(None)
    }

    fn read(&self, row: Row, bytes_max: u64) -> io::Result<Result<Record, Damage>> {
        let Some(file) = self.index.files.get(row.file as usize) else {
            return Ok(Err("it is in no file".into()));
        };
        let mut opened = File::open(&file.path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", file.path.display()))
        })?;
        if matches!(file.form, Form::Members(Packing::Gzip))
            && let Some(read) = self.inflaters.with(|inflater| {
                let plain = inflater.member(&opened, row.offset)?;
                Some(record(&mut &*plain, bytes_max))
            })
        {
            return Ok(read);
        }
        opened.seek(SeekFrom::Start(row.offset))?;
        let mut opened = BufReader::with_capacity(16 << 10, opened);
        Ok(match &file.form {
            Form::Members(packing) => {
                let mut plain = BufReader::new(packing.member(&mut opened)?);
                record(&mut plain, bytes_max).and_then(|record| {
                    // To the end, where the checksum is; unless no more than the beginning is
                    // wanted.
                    if !record.is_cut {
                        io::copy(&mut plain, &mut io::sink()).map_err(|error| error.to_string())?;
                    }
                    Ok(record)
                })
            }
            Form::Plain | Form::Packed(_) => record(&mut opened, bytes_max),
        })
    }

    /// Names a damaged record, unless many were named. Returns whether it is a new one.
    fn is_damaged(&self, row: Row, reason: &str) -> bool {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.len() >= PLACES_MAX || !damaged.insert((row.file, row.offset)) {
            return false;
        }
        if damaged.len() as u64 <= NAMED_MAX {
            let file = self
                .index
                .files
                .get(row.file as usize)
                .map(|file| file.of.display().to_string());
            let file = file.unwrap_or_default();
            tracing::warn!(
                file,
                offset = row.offset,
                reason,
                "a record of the archive is damaged and is skipped"
            );
        }
        true
    }
}

fn is_of(head: &Head, url: &str) -> bool {
    head.url == url || canonical(&head.url, None, None).is_ok_and(|canonical| canonical == url)
}

fn record(from: &mut impl BufRead, bytes_max: u64) -> Result<Record, Damage> {
    let head = Head::read(from)?.ok_or("no record begins here")?;
    let wanted = head.block_bytes.min(bytes_max);
    let mut block = Vec::new();
    from.take(wanted)
        .read_to_end(&mut block)
        .map_err(|error| error.to_string())?;
    if (block.len() as u64) < wanted {
        return Err("the record ends early".into());
    }
    Ok(Record {
        is_cut: head.block_bytes > wanted,
        head,
        block,
    })
}

#[cfg(test)]
mod tests;
