//! The files of an instance: a WARC file that grows, its index, the log of outcomes.
//!
//! ```text
//! <crawl>-<time>-<number>-<instance>.warc.gz.open   grows           ─┐ finished: sorted index written, both renamed
//! <crawl>-<time>-<number>-<instance>.cdxj.open      its index so far ─┘ to .warc.gz and .cdxj
//! crawl.jsonl, crawl-<instance>.jsonl               grows
//! ```
//!
//! Invariants: what a write was answered for is synced; a page's last record is the one with an index line, and its
//! line follows it to the disk, so the last whole line tells how far a file is good, whenever the process was killed.

use crate::crawl_log;
use crate::digests::Original;
use crate::index::{Line, REVISIT};
use crate::recent::KEPT;
use crate::record::{Digest, Record, Writer, record_id};
use crate::time::{date, timestamp};
use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Of the log's end that is read at a start.
const LOG_TAIL_BYTES: u64 = 32 << 20;
/// A file whose index has so many bytes is full: the index is sorted in memory.
const INDEX_BYTES_MAX: u64 = 64 << 20;
/// Lines of indexes that are read at a start, for each body to be remembered.
const LINES_PER_BODY: usize = 4;

/// How long a start waits for its files.
const LOCK_WAIT: Duration = Duration::from_secs(3);
const LOCK_LOOK: Duration = Duration::from_millis(50);

/// What a folder is made with.
#[derive(Clone, Debug)]
pub struct FolderSettings {
    /// Where.
    pub dir: PathBuf,
    /// Name of the crawl.
    pub crawl: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// Bodies that are remembered, over all finished files that are there.
    pub digests: usize,
    /// Where in the log the crawl's own lines begin, in bytes: what is before is of an earlier crawl in the same folder,
    /// whose outcomes have the same numbers. Of a crawl that begins it is not known yet.
    pub log_begun: Option<u64>,
    /// Of the `warcinfo` record, name and value each.
    pub about: Vec<(String, String)>,
}

/// What is written in one go.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Records, a gzip member each.
    pub(crate) members: Vec<u8>,
    /// The lines of those that are indexed, and where in `members` they are.
    pub(crate) entries: Vec<(Line, Range<usize>)>,
    /// Lines for the log.
    pub(crate) lines: String,
}

/// What an earlier life left.
#[derive(Default)]
pub struct Found {
    // The pages may be of an earlier crawl in the same folder: they tell when they came.
    /// Keys of the pages written last.
    pub(crate) pages: Vec<u64>,
    /// Keys of the outcomes written last.
    pub(crate) outcomes: Vec<u64>,
    /// Bodies, the oldest first.
    pub(crate) bodies: Vec<(Digest, Original)>,
}

/// The files.
pub struct Folder {
    settings: FolderSettings,
    open: Option<OpenFile>,
    /// Names of files that could not be finished.
    unfinished: Vec<String>,
    log: Grown,
    number: u32,
    writer: Writer,
    /// Held for the life of the process: nobody else writes these files.
    _lock: File,
}

struct OpenFile {
    name: String,
    /// Of the record that says what the file is.
    info_bytes: u64,
    warc: Grown,
    journal: Grown,
}

/// A file and how far it is good. What lies behind is of a write that failed, and is written over.
struct Grown {
    file: File,
    bytes: u64,
    /// Nothing lies behind.
    is_clean: bool,
}

impl Grown {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.clean()?;
        self.is_clean = false;
        self.file.write_all_at(bytes, self.bytes)?;
        self.file.sync_data()?;
        self.is_clean = true;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Cuts off what is not good.
    fn clean(&mut self) -> io::Result<()> {
        if !self.is_clean {
            self.file.set_len(self.bytes)?;
            self.file.sync_data()?;
            self.is_clean = true;
        }
        Ok(())
    }

    /// What was written since it had so many bytes does not count.
    fn take_back(&mut self, bytes: u64) {
        self.is_clean &= self.bytes == bytes;
        self.bytes = bytes;
    }
}

/// Identity of a page: its URL and when it came.
pub(crate) fn page_key(url: &str, date: &str) -> u64 {
    shared::url::fingerprint(&format!("{url} {date}"))
}

impl Folder {
    /// Opens the folder, which may be new, and finishes what an earlier life left.
    ///
    /// # Errors
    /// The folder cannot be made, read or written, or another process writes the instance's files.
    pub fn open(settings: FolderSettings) -> anyhow::Result<(Folder, Found)> {
        let dir = settings.dir.clone();
        fs::create_dir_all(&dir).with_context(|| format!("cannot create the archive's folder {}", dir.display()))?;
        let lock = own_lock(&dir, settings.instance)?;
        let mut found = Found::default();
        let (log, outcomes) = open_log(&dir.join(log_name(settings.instance)), settings.log_begun.unwrap_or(u64::MAX))?;
        found.outcomes = outcomes;
        let unfinished = Vec::new();
        let folder = Folder { settings, open: None, unfinished, log, number: 0, writer: Writer::new(0), _lock: lock };
        folder.finish_what_was_left()?;
        folder.read_indexes(&mut found)?;
        sync_dir(&dir).with_context(|| format!("cannot sync {}", dir.display()))?;
        Ok((folder, found))
    }

    /// Length of the log, in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes
    }

    /// Writes and syncs a batch; returns how many bytes the open file has then, the most there are when its index is
    /// full.
    ///
    /// # Errors
    /// Nothing of the batch counts as written; the same batch may be tried again.
    pub fn write(&mut self, batch: &Batch) -> anyhow::Result<u64> {
        let before = self.open.as_ref().map(|open| (open.warc.bytes, open.journal.bytes));
        let written = self.write_records(batch).and_then(|()| {
            let path = || self.settings.dir.join(log_name(self.settings.instance));
            self.log.append(batch.lines.as_bytes()).with_context(|| format!("cannot write {}", path().display()))
        });
        if let (Err(_), Some(open)) = (&written, &mut self.open) {
            let (warc, journal) = before.unwrap_or((open.info_bytes, 0));
            open.warc.take_back(warc);
            open.journal.take_back(journal);
        }
        written?;
        let bytes = |open: &OpenFile| if open.journal.bytes < INDEX_BYTES_MAX { open.warc.bytes } else { u64::MAX };
        Ok(self.open.as_ref().map_or(0, bytes))
    }

    fn write_records(&mut self, batch: &Batch) -> anyhow::Result<()> {
        if batch.members.is_empty() {
            return Ok(());
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let open = self.create()?;
                self.open.insert(open)
            }
        };
        let mut lines = String::new();
        for (line, place) in &batch.entries {
            let line = Line {
                length: place.len() as u64,
                offset: open.warc.bytes + place.start as u64,
                filename: format!("{}.warc.gz", open.name),
                ..line.clone()
            };
            lines.push_str(&line.text());
            lines.push('\n');
        }
        let error = || format!("cannot write {}.warc.gz.open in {}", open.name, self.settings.dir.display());
        // First the lines go of records that do not count, then the records.
        open.journal.clean().with_context(error)?;
        open.warc.append(&batch.members).with_context(error)?;
        open.journal.append(lines.as_bytes()).with_context(error)
    }

    /// A new file, with the record that says what it is.
    fn create(&mut self) -> anyhow::Result<OpenFile> {
        let now_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_millis() as u64);
        let FolderSettings { dir, crawl, instance, about, .. } = &self.settings;
        let name = loop {
            self.number += 1;
            let name = format!("{crawl}-{}-{:05}-{instance:03}", timestamp(now_ms), self.number);
            // An earlier life may have counted as far within this second.
            if !dir.join(format!("{name}.warc.gz")).exists() {
                break name;
            }
        };
        let create = |extension: &str| {
            let path = dir.join(format!("{name}.{extension}.open"));
            let file = File::options().create_new(true).read(true).write(true).open(&path);
            let file = file.with_context(|| format!("cannot create {}", path.display()))?;
            anyhow::Ok(Grown { file, bytes: 0, is_clean: true })
        };
        let journal = create("cdxj")?;
        let removed = |error| {
            // Nothing is in them; each try takes another name.
            for extension in ["cdxj", "warc.gz"] {
                let _ = fs::remove_file(dir.join(format!("{name}.{extension}.open")));
            }
            error
        };
        let warc = create("warc.gz").map_err(removed)?;
        let mut open = OpenFile { journal, warc, info_bytes: 0, name: name.clone() };
        let (filename, date) = (format!("{}.warc.gz", open.name), date(now_ms));
        let text: String = about.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let record = Record {
            kind: "warcinfo",
            id: &record_id("warcinfo", &filename, &date),
            date: &date,
            fields: &[("WARC-Filename", &filename)],
            content_type: "application/warc-fields",
            block: [text.as_bytes(), &[]],
            is_coded: false,
        };
        let mut member = Vec::new();
        self.writer.write(&record, &mut member);
        let written = open.warc.append(&member).and_then(|()| sync_dir(dir));
        written.with_context(|| format!("cannot write {filename}.open in {}", dir.display())).map_err(removed)?;
        open.info_bytes = open.warc.bytes;
        Ok(open)
    }

    /// Finishes the open file, if there is one, and those that could not be finished before.
    ///
    /// # Errors
    /// Nothing is lost: it may be tried again, and is at the next start.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.unfinished.extend(self.open.take().map(|open| open.name));
        while let Some(name) = self.unfinished.last() {
            finish(&self.settings.dir, name)?;
            self.unfinished.pop();
        }
        Ok(())
    }

    /// Cuts files that were open when the process died behind the last page that is whole, and finishes them.
    fn finish_what_was_left(&self) -> anyhow::Result<()> {
        let FolderSettings { dir, instance, .. } = &self.settings;
        for name in self.names(".cdxj.open")? {
            let name = name.trim_end_matches(".cdxj.open");
            let Some(of) = name.rsplit('-').next().and_then(|of| of.parse::<u16>().ok()) else { continue };
            if of == *instance {
                finish(dir, name)?;
            } else if let Ok(_lock) = lock(dir, of) {
                // Of an instance that does not run: there may be fewer than there were.
                finish(dir, name)?;
                open_log(&dir.join(log_name(of)), u64::MAX)?;
            }
        }
        Ok(())
    }

    /// Reads the indexes of finished files of all instances, the newest first, until enough is known.
    fn read_indexes(&self, found: &mut Found) -> anyhow::Result<()> {
        let digests = self.settings.digests;
        let lines_max = digests.saturating_mul(LINES_PER_BODY);
        let mut pages: Vec<(String, u64)> = Vec::new();
        let mut lines = 0;
        for name in self.names(".cdxj")?.iter().rev() {
            if lines >= KEPT && (found.bodies.len() >= digests || lines >= lines_max) {
                break;
            }
            let file = File::open(self.settings.dir.join(name)).with_context(|| format!("cannot read {name}"))?;
            for line in BufReader::new(file).lines() {
                let Some(line) = Line::parse(&line.with_context(|| format!("cannot read {name}"))?) else { continue };
                lines += 1;
                pages.push((line.date.clone(), page_key(&line.url, &line.date)));
                let is_original = line.mime != REVISIT && found.bodies.len() < digests;
                if let Some(digest) = Digest::parse(&line.digest).filter(|_| is_original) {
                    found.bodies.push((digest, Original { url: line.url, date: line.date }));
                }
            }
            pages.sort_unstable();
            pages.drain(..pages.len().saturating_sub(KEPT));
        }
        found.pages = pages.into_iter().map(|(_, key)| key).collect();
        found.bodies.sort_unstable_by(|(_, a), (_, b)| a.date.cmp(&b.date));
        Ok(())
    }

    /// The files of the crawl that end so, sorted.
    fn names(&self, suffix: &str) -> anyhow::Result<Vec<String>> {
        let dir = &self.settings.dir;
        let prefix = format!("{}-", self.settings.crawl);
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
            if let Ok(name) = entry?.file_name().into_string()
                && name.starts_with(&prefix)
                && name.ends_with(suffix)
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// The lock of the process's own files. Another instance may hold it for a moment, that finishes what was left.
fn own_lock(dir: &Path, instance: u16) -> anyhow::Result<File> {
    let end = Instant::now() + LOCK_WAIT;
    loop {
        match lock(dir, instance) {
            Err(_) if Instant::now() < end => std::thread::sleep(LOCK_LOOK),
            locked => return locked,
        }
    }
}

fn lock(dir: &Path, instance: u16) -> anyhow::Result<File> {
    let path = dir.join(format!(".lock-{instance:03}"));
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("cannot create {}", path.display()))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).with_context(|| {
        format!(
            "another archiver with instance {instance} writes to {}: give each crawl a folder of its own \
             (stages.archiver.dir), each process an instance of its own",
            dir.display()
        )
    })?;
    Ok(file)
}

fn log_name(instance: u16) -> String {
    if instance == 0 { "crawl.jsonl".into() } else { format!("crawl-{instance}.jsonl") }
}

/// Opens the log, without the half line that a killed process may have left, and reads which outcomes are at its end, in
/// the lines that begin at `begun` or later.
fn open_log(path: &Path, begun: u64) -> anyhow::Result<(Grown, Vec<u64>)> {
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
    Ok((Grown { file, bytes, is_clean: true }, keys.into()))
}

/// From an open file to a finished one; begun anew after any interruption, it comes to the same.
fn finish(dir: &Path, name: &str) -> anyhow::Result<()> {
    let path = |extension: &str| dir.join(format!("{name}.{extension}"));
    let [warc, journal] = [path("warc.gz.open"), path("cdxj.open")];
    let error = || format!("cannot finish {}", warc.display());
    let warc_bytes = [&warc, &path("warc.gz")].into_iter().find_map(|path| path.metadata().ok()).map_or(0, |m| m.len());
    let mut lines = read_journal(&journal).with_context(error)?;
    let mut good = 0;
    lines.retain(|line| {
        let end = Line::parse(line).map_or(u64::MAX, |line| line.offset + line.length);
        good = if end <= warc_bytes { end.max(good) } else { good };
        end <= warc_bytes
    });
    if warc.exists() {
        if good == 0 {
            // No page came to be whole.
            fs::remove_file(&warc).with_context(error)?;
        } else {
            let file = File::options().write(true).open(&warc).with_context(error)?;
            file.set_len(good).and_then(|()| file.sync_all()).with_context(error)?;
        }
    }
    if good > 0 {
        write_index(dir, name, lines).with_context(error)?;
        if warc.exists() {
            fs::rename(&warc, path("warc.gz")).with_context(error)?;
        }
    }
    sync_dir(dir).with_context(error)?;
    fs::remove_file(&journal).with_context(error)
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

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digests::Digests;
    use crate::page;
    use crate::page::tests::page;
    use shared::message::Page;

    fn settings(dir: &Path, instance: u16) -> FolderSettings {
        let about = vec![("software".to_owned(), "rhumb".to_owned())];
        FolderSettings { dir: dir.to_owned(), crawl: "c".into(), instance, digests: 100, log_begun: Some(0), about }
    }

    fn batch(pages: &[Page], lines: &str) -> Batch {
        let mut batch = Batch { lines: lines.to_owned(), ..Batch::default() };
        let (mut digests, mut writer) = (Digests::new(100), Writer::new(1));
        for page in pages {
            let written = page::write(page, &mut digests, &mut writer, &mut batch.members);
            batch.entries.push((written.line, written.response));
        }
        batch
    }

    fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = names.filter(|path| path.to_str().unwrap().ends_with(suffix)).collect();
        files.sort();
        files
    }

    /// `WARC-Type` of each record in a file that must be whole.
    fn kinds(path: &Path) -> Vec<String> {
        let mut text = Vec::new();
        flate2::read::MultiGzDecoder::new(File::open(path).unwrap()).read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().filter_map(|line| line.strip_prefix("WARC-Type: ")).map(str::to_owned).collect()
    }

    /// The urls of an index, each checked to point at its response.
    fn indexed(dir: &Path) -> Vec<String> {
        let mut urls = Vec::new();
        for index in files(dir, ".cdxj") {
            let lines: Vec<String> = fs::read_to_string(index).unwrap().lines().map(str::to_owned).collect();
            assert!(lines.is_sorted());
            for line in lines {
                let line = Line::parse(&line).unwrap();
                let warc = fs::read(dir.join(&line.filename)).unwrap();
                let member = &warc[line.offset as usize..(line.offset + line.length) as usize];
                let mut record = Vec::new();
                flate2::bufread::GzDecoder::new(member).read_to_end(&mut record).unwrap();
                let record = String::from_utf8_lossy(&record).into_owned();
                assert!(record.contains(&format!("WARC-Target-URI: {}\r\n", line.url)), "{record}");
                assert!(record.contains("WARC-Type: response\r\n"), "{record}");
                urls.push(line.url);
            }
        }
        urls
    }

    #[test]
    fn a_finished_file_has_an_index_that_leads_to_its_responses() {
        let dir = tempfile::tempdir().unwrap();
        let (mut folder, found) = Folder::open(settings(dir.path(), 0)).unwrap();
        assert!(found.pages.is_empty() && found.outcomes.is_empty() && found.bodies.is_empty());
        let two = batch(&[page("http://b.test/", 1, b"b"), page("http://a.test/", 2, b"a")], "");
        let bytes = folder.write(&two).unwrap();
        assert!(folder.write(&batch(&[page("http://a.test/2", 3, b"a2")], "")).unwrap() > bytes);
        assert!(files(dir.path(), ".warc.gz").is_empty(), "no final name before it is whole");
        folder.finish().unwrap();
        assert_eq!(indexed(dir.path()), ["http://a.test/", "http://a.test/2", "http://b.test/"]);
        let [warc] = &files(dir.path(), ".warc.gz")[..] else { panic!("one file") };
        assert_eq!(kinds(warc).join(" "), "warcinfo".to_owned() + &" request metadata response".repeat(3));
        assert!(files(dir.path(), ".open").is_empty());
        drop(folder);

        let (mut folder, found) = Folder::open(settings(dir.path(), 0)).unwrap();
        assert_eq!((found.pages.len(), found.bodies.len()), (3, 3));
        folder.write(&batch(&[page("http://c.test/", 4, b"c")], "")).unwrap();
        folder.finish().unwrap();
        assert_eq!(files(dir.path(), ".warc.gz").len(), 2, "another file");
    }

    #[test]
    fn whatever_a_kill_leaves_comes_to_whole_pages_and_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let (mut folder, _) = Folder::open(settings(dir.path(), 0)).unwrap();
        let pages: Vec<Page> = (0..6).map(|n| page(&format!("http://a.test/{n}"), n, &[n as u8; 500])).collect();
        let line = |n: u64| format!("{{\"url\":\"http://a.test/{n}\",\"serial\":{n}}}\n");
        folder.write(&batch(&pages[..3], &line(1))).unwrap();
        folder.write(&batch(&pages[3..], &line(2))).unwrap();
        drop(folder);
        let [warc] = &files(dir.path(), ".warc.gz.open")[..] else { panic!("one file") };
        let [journal] = &files(dir.path(), ".cdxj.open")[..] else { panic!("one file") };
        let log = dir.path().join("crawl.jsonl");
        let whole = [warc, journal, &log].map(|path| (path.clone(), fs::read(path).unwrap()));
        for cut in 0..60 {
            let dir = tempfile::tempdir().unwrap();
            // Each file loses so much at its end, down to nothing.
            for (path, bytes) in &whole {
                let kept = bytes.len() * (60 - cut) / 60;
                fs::write(dir.path().join(path.file_name().unwrap()), &bytes[..kept]).unwrap();
            }
            let (folder, found) = Folder::open(settings(dir.path(), 0)).unwrap();
            let urls = indexed(dir.path());
            let expected: Vec<String> = (0..urls.len()).map(|n| format!("http://a.test/{n}")).collect();
            assert_eq!(urls, expected, "{cut}: the first pages, none in between is missing");
            assert_eq!(found.pages.len(), urls.len());
            assert_eq!(urls.len() == 6, cut == 0, "{cut}");
            for warc in files(dir.path(), ".warc.gz") {
                assert_eq!(kinds(&warc).len(), 1 + 3 * urls.len(), "{cut}");
            }
            let text = fs::read_to_string(dir.path().join("crawl.jsonl")).unwrap();
            assert!(text.is_empty() || text.ends_with('\n'), "{cut}: {text}");
            assert_eq!(found.outcomes.len(), text.lines().count());
            assert!(files(dir.path(), ".open").is_empty(), "{cut}");
            drop(folder);
        }
    }

    #[test]
    fn a_finish_that_was_interrupted_is_taken_up() {
        for is_renamed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (mut folder, _) = Folder::open(settings(dir.path(), 0)).unwrap();
            folder.write(&batch(&[page("http://a.test/", 1, b"a")], "")).unwrap();
            drop(folder);
            if is_renamed {
                let warc = files(dir.path(), ".warc.gz.open").remove(0);
                fs::rename(&warc, warc.with_extension("")).unwrap();
            }
            let (_folder, found) = Folder::open(settings(dir.path(), 0)).unwrap();
            assert_eq!((indexed(dir.path()).len(), found.pages.len()), (1, 1));
        }
    }

    #[test]
    fn a_write_that_failed_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (mut folder, _) = Folder::open(settings(dir.path(), 0)).unwrap();
        let first = batch(&[page("http://a.test/1", 1, b"a")], "{\"url\":\"u\",\"serial\":1}\n");
        folder.write(&first).unwrap();
        let read_only = File::open(dir.path().join("crawl.jsonl")).unwrap();
        let log = std::mem::replace(&mut folder.log.file, read_only);
        let second = batch(&[page("http://a.test/2", 2, b"b")], "{\"url\":\"u\",\"serial\":2}\n");
        let error = folder.write(&second).unwrap_err();
        assert!(format!("{error:#}").contains("crawl.jsonl"), "{error:#}");
        folder.log.file = log;
        folder.write(&second).unwrap();
        folder.finish().unwrap();
        assert_eq!(indexed(dir.path()), ["http://a.test/1", "http://a.test/2"]);
        let [warc] = &files(dir.path(), ".warc.gz")[..] else { panic!("one file") };
        assert_eq!(kinds(warc).len(), 7);
        assert_eq!(fs::read_to_string(dir.path().join("crawl.jsonl")).unwrap().lines().count(), 2);
    }

    #[test]
    fn two_processes_do_not_write_the_same_files() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Folder::open(settings(dir.path(), 0)).unwrap();
        let error = Folder::open(settings(dir.path(), 0)).err().expect("the folder is taken");
        assert!(format!("{error:#}").contains("another archiver with instance 0"), "{error:#}");
        Folder::open(settings(dir.path(), 1)).unwrap();
    }

    #[test]
    fn lines_of_an_earlier_crawl_are_not_taken_for_those_of_this_one() {
        let dir = tempfile::tempdir().unwrap();
        let line = "{\"url\":\"http://a.test/\",\"serial\":1}\n";
        let open = |log_begun| Folder::open(FolderSettings { log_begun, ..settings(dir.path(), 0) }).unwrap();
        open(None).0.write(&batch(&[], line)).unwrap();
        let (mut folder, found) = open(None);
        assert_eq!((folder.log_bytes(), found.outcomes.len()), (line.len() as u64, 0));
        let begun = Some(folder.log_bytes());
        folder.write(&batch(&[], &(line.replace('1', "2") + line))).unwrap();
        drop(folder);
        let keys = [2, 1].map(|serial| crawl_log::key("http://a.test/", serial));
        assert_eq!(open(begun).1.outcomes, keys);
    }
}
