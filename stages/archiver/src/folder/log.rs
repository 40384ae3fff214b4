//! The file of outcomes: its name, how it is opened, and how a URL is looked up in it.

use super::growing_file::GrowingFile;
use crate::crawl_log;
use crate::recent::KEPT;
use anyhow::Context as _;
use memchr::memmem::FinderRev;
use memchr::{memchr, memrchr};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// How much of the log's end is read at a start, in bytes.
const LOG_TAIL_BYTES: u64 = 32 << 20;

/// How much of the log's end is searched for a URL, in bytes: the archiver does nothing else
/// meanwhile.
const SEARCHED_BYTES: u64 = 16 << 20;
/// It is read so many bytes at once.
const BLOCK_BYTES: u64 = 1 << 20;

/// The name of an instance's log.
pub(super) fn log_name(instance: u16) -> String {
    if instance == 0 {
        "crawl.jsonl".into()
    } else {
        format!("crawl-{instance}.jsonl")
    }
}

/// Opens a log, without the half line that a killed process may have left. Reads which outcomes are
/// at its end, in the lines that begin at `begun` or later.
pub(super) fn open_log(path: &Path, begun: u64) -> anyhow::Result<(GrowingFile, Vec<u64>)> {
    let error = || format!("cannot open {}", path.display());
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .with_context(error)?;
    let length = file.metadata().with_context(error)?.len();
    let start = length.saturating_sub(LOG_TAIL_BYTES);
    file.seek(SeekFrom::Start(start)).with_context(error)?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).with_context(error)?;
    let whole = tail
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
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

/// The last line about a URL, without its end, among those that begin at `begun` or later.
///
/// # Errors
/// The file cannot be read, or the URL is not at its end and the beginning is too far away.
pub(crate) fn last_line_of(path: &Path, begun: u64, url: &str) -> io::Result<Option<String>> {
    let wanted = format!("\"url\":{}", serde_json::to_string(url)?);
    let wanted = FinderRev::new(&wanted);
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut at = length;
    let least = at.saturating_sub(SEARCHED_BYTES).max(begun);
    // The first line of what was read may have begun before it.
    let mut first_line = Vec::new();
    while at > least {
        let from = at.saturating_sub(BLOCK_BYTES).max(least);
        let mut block = vec![0; usize::try_from(at - from).map_err(io::Error::other)?];
        file.read_exact_at(&mut block, from)?;
        if at == length {
            // A line that is being written does not count.
            block.truncate(memrchr(b'\n', &block).map_or(0, |end| end + 1));
        }
        block.append(&mut first_line);
        let whole = match memchr(b'\n', &block) {
            _ if from == begun => 0,
            Some(end) => end + 1,
            None => block.len(),
        };
        if let Some(found) = wanted.rfind(&block[whole..]) {
            let start = memrchr(b'\n', &block[..whole + found]).map_or(0, |end| end + 1);
            let end = memchr(b'\n', &block[start..]).map_or(block.len(), |end| start + end);
            return Ok(Some(
                String::from_utf8_lossy(&block[start..end]).into_owned(),
            ));
        }
        block.truncate(whole);
        (first_line, at) = (block, from);
    }
    if at > begun {
        let searched = SEARCHED_BYTES >> 20;
        return Err(io::Error::other(format!(
            "not in the last {searched} MiB of {}",
            path.display()
        )));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(url: &str, serial: usize) -> String {
        format!("{{\"url\":\"{url}\",\"serial\":{serial}}}\n")
    }

    #[test]
    fn the_last_line_of_a_url_is_found_wherever_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("crawl.jsonl");
        let of_earlier = line("http://a.test/earlier", 1);
        let lines: Vec<String> = (0..60_000)
            .map(|n| line(&format!("http://a.test/{}", n % 50_000), n))
            .collect();
        let half_a_line = "{\"url\":\"http://a.test/9999\",";
        std::fs::write(&path, of_earlier.clone() + &lines.concat() + half_a_line).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() > 2 * BLOCK_BYTES);
        let begun = of_earlier.len() as u64;
        for (n, last) in [
            (0, 50_000),
            (9_999, 59_999),
            (10_000, 10_000),
            (25_000, 25_000),
            (49_999, 49_999),
        ] {
            let found = last_line_of(&path, begun, &format!("http://a.test/{n}")).unwrap();
            assert_eq!(found.as_deref(), Some(lines[last].trim_end()));
        }
        for n in 0..lines.len() / 97 {
            let url = format!("http://a.test/{}", 97 * n % 50_000);
            assert!(last_line_of(&path, begun, &url).unwrap().is_some(), "{url}");
        }
        for absent in [
            "http://a.test/50000",
            "http://a.test/earlier",
            "http://a.test/",
        ] {
            assert_eq!(
                last_line_of(&path, begun, absent).unwrap(),
                None,
                "{absent}"
            );
        }
        assert_eq!(
            last_line_of(&path, 0, "http://a.test/earlier")
                .unwrap()
                .as_deref(),
            Some(of_earlier.trim_end())
        );
    }
}
