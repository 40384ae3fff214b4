//! The index that this crawler's archiver writes beside a WARC file: it saves reading the file.
//!
//! In: a WARC file. Out: what the index beside it says of each record; none when it does not say
//! everything. Source: as `index.rs` and `finishing.rs` of the archiver write it: the last record
//! of a file is one that the index names.

use super::record::{Head, Kind, millis};
use rhumb_config::WarcFormat;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

/// The media type of records without a body.
const REVISIT: &str = "warc/revisit";

/// What an index says of a record.
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) head: Head,
}

#[derive(Deserialize)]
struct Line {
    url: String,
    mime: String,
    status: String,
    digest: String,
    length: String,
    offset: String,
    filename: String,
    date: String,
}

/// The entries of the index beside a file, if it reaches to the file's end.
///
/// # Errors
/// The index is there and cannot be read.
pub(crate) fn complete(warc: &Path) -> io::Result<Option<Vec<Entry>>> {
    let name = warc.file_name().unwrap_or_default().to_string_lossy();
    let mut stems = WarcFormat::ALL
        .iter()
        .map(|format| name.strip_suffix(format.extension())?.strip_suffix('.'));
    let Some(stem) = stems.find_map(|stem| stem) else {
        return Ok(None);
    };
    let file = match File::open(warc.with_file_name(format!("{stem}.cdxj"))) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = warc.metadata()?.len();
    let mut entries = Vec::new();
    let mut end = 0;
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        // Key, timestamp, object; no key has a space.
        let object = line
            .splitn(3, |&byte| byte == b' ')
            .nth(2)
            .unwrap_or_default();
        let Ok(line) = serde_json::from_slice::<Line>(object) else {
            return Ok(None);
        };
        let (Ok(offset), Ok(length)) = (line.offset.parse::<u64>(), line.length.parse::<u64>())
        else {
            return Ok(None);
        };
        if line.filename != name {
            return Ok(None);
        }
        end = end.max(offset.saturating_add(length));
        entries.extend(entry(offset, line));
    }
    Ok((end == bytes).then_some(entries))
}

/// None of a response that says that nothing has changed, and not of which body.
fn entry(offset: u64, line: Line) -> Option<Entry> {
    let kind = match line.mime.as_str() {
        REVISIT if line.status == "304" && line.digest == "-" => return None,
        REVISIT => Kind::Revisit,
        _ => Kind::Response,
    };
    let digest = Some(line.digest).filter(|digest| digest != "-");
    let head = Head {
        kind,
        url: line.url,
        date_ms: millis(&line.date),
        digest,
        ..Head::default()
    };
    Some(Entry { offset, head })
}
