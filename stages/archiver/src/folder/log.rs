//! The file of outcomes: its name, and how it is opened.

use super::growing_file::GrowingFile;
use crate::crawl_log;
use crate::recent::KEPT;
use anyhow::Context as _;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// How much of the log's end is read at a start, in bytes.
const LOG_TAIL_BYTES: u64 = 32 << 20;

/// The name of an instance's log.
pub(super) fn log_name(instance: u16) -> String {
    if instance == 0 { "crawl.jsonl".into() } else { format!("crawl-{instance}.jsonl") }
}

/// Opens a log, without the half line that a killed process may have left. Reads which outcomes are at its end, in the
/// lines that begin at `begun` or later.
pub(super) fn open_log(path: &Path, begun: u64) -> anyhow::Result<(GrowingFile, Vec<u64>)> {
    let error = || format!("cannot open {}", path.display());
    let mut file =
        File::options().create(true).truncate(false).read(true).write(true).open(path).with_context(error)?;
    let length = file.metadata().with_context(error)?.len();
    let start = length.saturating_sub(LOG_TAIL_BYTES);
    file.seek(SeekFrom::Start(start)).with_context(error)?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).with_context(error)?;
    let whole = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let bytes = start + whole as u64;
    file.set_len(bytes).with_context(error)?;
    let mut keys = VecDeque::with_capacity(KEPT);
    let own = usize::try_from(begun.saturating_sub(start)).map_or(whole, |own| own.min(whole));
    for line in tail[own..whole].split(|&byte| byte == b'\n') {
        if let Some(key) = std::str::from_utf8(line).ok().and_then(crawl_log::key_of) {
            if keys.len() == KEPT {
                keys.pop_front();
            }
            keys.push_back(key);
        }
    }
    Ok((GrowingFile::new(file, bytes), keys.into()))
}
