//! The records and the log of an archive, read as they are defined, and not by the code that wrote
//! them.

use flate2::read::MultiGzDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// A record of a WARC file.
#[derive(Debug)]
pub struct Record {
    /// Its version and its named fields, with their ends of line.
    pub head: String,
    /// Its block.
    pub block: Vec<u8>,
}

impl Record {
    /// The value of a named field; empty when it is not there.
    pub fn field(&self, name: &str) -> &str {
        let values = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = values.filter(|(other, _)| *other == name);
        values.next().map_or("", |(_, value)| value)
    }

    /// `WARC-Type`.
    pub fn kind(&self) -> &str {
        self.field("WARC-Type")
    }

    /// `WARC-Target-URI`.
    pub fn url(&self) -> &str {
        self.field("WARC-Target-URI")
    }
}

/// The records of all files of a folder with their final name, each of which must be whole.
///
/// # Panics
/// When a file cannot be read, or is not whole.
pub fn records(dir: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    for path in rhumb_warc::warc_files::in_folder(dir).expect("an archive") {
        let mut bytes = Vec::new();
        MultiGzDecoder::new(File::open(&path).expect("what was kept can be read"))
            .read_to_end(&mut bytes)
            .expect("what was kept can be read");
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let head_bytes = rest
                .windows(4)
                .position(|end| end == b"\r\n\r\n")
                .expect("a record's head")
                + 4;
            let head = std::str::from_utf8(&rest[..head_bytes]).expect("what was kept can be read");
            assert!(head.starts_with("WARC/1.1\r\n"), "{head}");
            let mut record = Record {
                head: head.to_owned(),
                block: Vec::new(),
            };
            let length: usize = record
                .field("Content-Length")
                .parse()
                .expect("what was kept can be read");
            record.block = rest[head_bytes..head_bytes + length].to_vec();
            records.push(record);
            rest = &rest[head_bytes + length..];
            assert_eq!(&rest[..4], b"\r\n\r\n");
            rest = &rest[4..];
        }
    }
    records
}

/// The whole lines of the `crawl.jsonl` of an archive for each URL, in order.
///
/// # Panics
/// When it cannot be read, or a line is no JSON object with a URL.
pub fn logged(dir: &Path) -> BTreeMap<String, Vec<Value>> {
    let text = std::fs::read_to_string(dir.join("crawl.jsonl")).expect("a log");
    let mut lines: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let url = line["url"].as_str().expect("a URL").to_owned();
        lines.entry(url).or_default().push(line);
    }
    lines
}
