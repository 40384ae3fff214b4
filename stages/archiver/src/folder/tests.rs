use super::*;
use crate::compressor::tests::plain;
use crate::crawl_log;
use crate::index::Line;
use crate::originals::Originals;
use crate::page;
use crate::page::tests::page;
use crate::record::Digest;
use crate::usage::Usage;
use rhumb_wire::message::Page;
use std::path::Path;

fn settings(dir: &Path, instance: u16) -> FolderSettings {
    FolderSettings {
        dir: dir.to_owned(),
        crawl: "c".into(),
        instance,
        format: WarcFormat::Gzip,
        digests: 100,
        pages: 100,
        log_begun: Some(0),
        about: vec![("software".to_owned(), "rhumb".to_owned())],
    }
}

fn batch(pages: &[Page], lines: &str) -> Batch {
    batch_of(WarcFormat::Gzip, pages, lines)
}

fn batch_of(format: WarcFormat, pages: &[Page], lines: &str) -> Batch {
    let mut batch = Batch {
        lines: lines.to_owned(),
        ..Batch::default()
    };
    let mut originals = Originals::new(100, 100);
    let mut writer = Writer::new(format, 1);
    for page in pages {
        let records = batch.records.entry(String::new()).or_default();
        let written = page::write(
            page,
            &Usage::default(),
            &mut originals,
            &mut writer,
            &mut records.members,
        );
        records.entries.push((written.line, written.response));
    }
    batch
}

fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = names
        .filter(|path| path.to_str().unwrap().ends_with(suffix))
        .collect();
    files.sort();
    files
}

/// `WARC-Type` of each record in a file that must be whole.
fn kinds(path: &Path) -> Vec<String> {
    let text =
        String::from_utf8_lossy(&plain(format_of(path), &fs::read(path).unwrap())).into_owned();
    text.lines()
        .filter_map(|line| line.strip_prefix("WARC-Type: "))
        .map(str::to_owned)
        .collect()
}

fn format_of(path: &Path) -> WarcFormat {
    let is_of = |format: &WarcFormat| path.to_str().unwrap().ends_with(format.extension());
    WarcFormat::ALL.into_iter().find(is_of).unwrap()
}

/// The urls of an index, each checked to point at its response.
fn indexed(dir: &Path) -> Vec<String> {
    let mut urls = Vec::new();
    for index in files(dir, ".cdxj") {
        let lines: Vec<String> = fs::read_to_string(index)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        assert!(lines.is_sorted());
        for line in lines {
            let line = Line::parse(&line).unwrap();
            let warc = fs::read(dir.join(&line.filename)).unwrap();
            let member = &warc[line.offset as usize..(line.offset + line.length) as usize];
            let record = plain(format_of(Path::new(&line.filename)), member);
            let record = String::from_utf8_lossy(&record).into_owned();
            assert!(
                record.contains(&format!("WARC-Target-URI: {}\r\n", line.url)),
                "{record}"
            );
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
    let two = batch(
        &[
            page("http://b.test/", 1, b"b"),
            page("http://a.test/", 2, b"a"),
        ],
        "",
    );
    let bytes = folder.write(&two).unwrap();
    assert!(
        folder
            .write(&batch(&[page("http://a.test/2", 3, b"a2")], ""))
            .unwrap()
            > bytes
    );
    assert!(
        files(dir.path(), ".warc.gz").is_empty(),
        "no final name before it is whole"
    );
    folder.finish().unwrap();
    assert_eq!(
        indexed(dir.path()),
        ["http://a.test/", "http://a.test/2", "http://b.test/"]
    );
    let [warc] = &files(dir.path(), ".warc.gz")[..] else {
        panic!("one file")
    };
    assert_eq!(
        kinds(warc).join(" "),
        "warcinfo".to_owned() + &" request metadata response".repeat(3)
    );
    assert!(files(dir.path(), ".open").is_empty());
    drop(folder);

    let (mut folder, found) = Folder::open(settings(dir.path(), 0)).unwrap();
    assert_eq!((found.pages.len(), found.bodies.len()), (3, 3));
    folder
        .write(&batch(&[page("http://c.test/", 4, b"c")], ""))
        .unwrap();
    folder.finish().unwrap();
    assert_eq!(files(dir.path(), ".warc.gz").len(), 2, "another file");
}

#[test]
fn whatever_a_kill_leaves_comes_to_whole_pages_and_whole_lines() {
    let dir = tempfile::tempdir().unwrap();
    let (mut folder, _) = Folder::open(settings(dir.path(), 0)).unwrap();
    let pages: Vec<Page> = (0..6)
        .map(|n| page(&format!("http://a.test/{n}"), n, &[n as u8; 500]))
        .collect();
    let line = |n: u64| format!("{{\"url\":\"http://a.test/{n}\",\"serial\":{n}}}\n");
    folder.write(&batch(&pages[..3], &line(1))).unwrap();
    folder.write(&batch(&pages[3..], &line(2))).unwrap();
    drop(folder);
    let [warc] = &files(dir.path(), ".warc.gz.open")[..] else {
        panic!("one file")
    };
    let [journal] = &files(dir.path(), ".cdxj.open")[..] else {
        panic!("one file")
    };
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
        let expected: Vec<String> = (0..urls.len())
            .map(|n| format!("http://a.test/{n}"))
            .collect();
        assert_eq!(
            urls, expected,
            "{cut}: the first pages, none in between is missing"
        );
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

/// Also by a process that writes the other format.
#[test]
fn a_finish_that_was_interrupted_is_taken_up() {
    for (format, is_renamed) in WarcFormat::ALL
        .into_iter()
        .flat_map(|format| [(format, false), (format, true)])
    {
        let dir = tempfile::tempdir().unwrap();
        let open = |format| {
            Folder::open(FolderSettings {
                format,
                ..settings(dir.path(), 0)
            })
            .unwrap()
        };
        let (mut folder, _) = open(format);
        folder
            .write(&batch_of(format, &[page("http://a.test/", 1, b"a")], ""))
            .unwrap();
        drop(folder);
        if is_renamed {
            let warc = files(dir.path(), &format!(".{}.open", format.extension())).remove(0);
            fs::rename(&warc, warc.with_extension("")).unwrap();
        }
        for other in WarcFormat::ALL {
            let (_folder, found) = open(other);
            assert_eq!((indexed(dir.path()).len(), found.pages.len()), (1, 1));
        }
        let [warc] = &files(dir.path(), &format!(".{}", format.extension()))[..] else {
            panic!("one file")
        };
        assert_eq!(kinds(warc), ["warcinfo", "request", "metadata", "response"]);
    }
}

#[test]
fn a_write_that_failed_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (mut folder, _) = Folder::open(settings(dir.path(), 0)).unwrap();
    let first = batch(
        &[page("http://a.test/1", 1, b"a")],
        "{\"url\":\"u\",\"serial\":1}\n",
    );
    folder.write(&first).unwrap();
    let read_only = File::open(dir.path().join("crawl.jsonl")).unwrap();
    let log = std::mem::replace(&mut folder.log.file, read_only);
    let second = batch(
        &[page("http://a.test/2", 2, b"b")],
        "{\"url\":\"u\",\"serial\":2}\n",
    );
    let error = folder.write(&second).unwrap_err();
    assert!(format!("{error:#}").contains("crawl.jsonl"), "{error:#}");
    folder.log.file = log;
    folder.write(&second).unwrap();
    folder.finish().unwrap();
    assert_eq!(indexed(dir.path()), ["http://a.test/1", "http://a.test/2"]);
    let [warc] = &files(dir.path(), ".warc.gz")[..] else {
        panic!("one file")
    };
    assert_eq!(kinds(warc).len(), 7);
    assert_eq!(
        fs::read_to_string(dir.path().join("crawl.jsonl"))
            .unwrap()
            .lines()
            .count(),
        2
    );
}

#[test]
fn a_start_finds_how_pages_were_written_the_latest_last() {
    let dir = tempfile::tempdir().unwrap();
    let (mut folder, _) = Folder::open(settings(dir.path(), 0)).unwrap();
    let gone = Page {
        status: 404,
        ..page("http://a.test/gone", 4, b"nothing")
    };
    let unchanged = Page {
        status: 304,
        ..page("http://a.test/", 5, b"")
    };
    let late = [page("http://a.test/", 3, b"one"), gone, unchanged];
    folder.write(&batch(&late, "")).unwrap();
    folder.finish().unwrap();
    let early = [
        page("http://a.test/", 1, b"one"),
        page("http://a.test/", 2, b"one"),
    ];
    folder.write(&batch(&early, "")).unwrap();
    // The last file is left open, as by a kill.
    drop(folder);
    let (folder, found) = Folder::open(settings(dir.path(), 0)).unwrap();
    let records = found.page_records.iter();
    let seen: Vec<_> = records
        .map(|record| (record.fetched_at_ms, record.is_revisit))
        .collect();
    assert_eq!(seen, [(1, false), (2, true), (3, false)]);
    assert!(
        found
            .page_records
            .iter()
            .all(|record| record.body == Some(Digest::of(&[b"one"]))
                && record.page == rhumb_url::fingerprint("http://a.test/"))
    );
    drop(folder);
    let none = FolderSettings {
        pages: 0,
        ..settings(dir.path(), 0)
    };
    assert!(Folder::open(none).unwrap().1.page_records.is_empty());
}

#[test]
fn two_processes_do_not_write_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    let _first = Folder::open(settings(dir.path(), 0)).unwrap();
    let error = Folder::open(settings(dir.path(), 0))
        .err()
        .expect("the folder is taken");
    assert!(
        format!("{error:#}").contains("another archiver with instance 0"),
        "{error:#}"
    );
    Folder::open(settings(dir.path(), 1)).unwrap();
}

#[test]
fn lines_of_an_earlier_crawl_are_not_taken_for_those_of_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let line = "{\"url\":\"http://a.test/\",\"serial\":1}\n";
    let open = |log_begun| {
        Folder::open(FolderSettings {
            log_begun,
            ..settings(dir.path(), 0)
        })
        .unwrap()
    };
    open(None).0.write(&batch(&[], line)).unwrap();
    let (mut folder, found) = open(None);
    assert_eq!(
        (folder.log_bytes(), found.outcomes.len()),
        (line.len() as u64, 0)
    );
    let begun = Some(folder.log_bytes());
    folder
        .write(&batch(&[], &(line.replace('1', "2") + line)))
        .unwrap();
    drop(folder);
    let keys = [2, 1].map(|serial| crawl_log::key("http://a.test/", serial, 1));
    assert_eq!(open(begun).1.outcomes, keys);
}

/// A batch of a page for each of these series.
fn batch_by_series(series: &[(&str, &str)]) -> Batch {
    let mut all = Batch::default();
    for (series, url) in series {
        let records = batch(&[page(url, 1, url.as_bytes())], "")
            .records
            .remove("")
            .unwrap();
        all.records.insert((*series).to_owned(), records);
    }
    all
}

#[test]
fn each_series_has_files_of_its_own_also_after_a_kill_and_a_write_that_failed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut folder, _) = Folder::open(settings(dir.path(), 0)).unwrap();
    folder
        .write(&batch_by_series(&[
            ("", "http://a.test/0"),
            ("news", "http://a.test/1"),
        ]))
        .unwrap();
    folder
        .write(&batch_by_series(&[
            ("docs", "http://a.test/2"),
            ("news", "http://a.test/3"),
        ]))
        .unwrap();
    assert_eq!(files(dir.path(), ".warc.gz.open").len(), 3);
    // The log takes no more: nothing of the batch counts, in any series, old or new.
    let log = std::mem::replace(
        &mut folder.log.file,
        File::open(dir.path().join("crawl.jsonl")).unwrap(),
    );
    let mut failing = batch_by_series(&[("docs", "http://a.test/4"), ("new", "http://a.test/5")]);
    failing.lines = "{}\n".into();
    folder.write(&failing).unwrap_err();
    folder.log.file = log;
    folder.write(&failing).unwrap();
    drop(folder);
    let (mut folder, found) = Folder::open(settings(dir.path(), 0)).unwrap();
    assert_eq!(
        (found.pages.len(), files(dir.path(), ".open").len()),
        (6, 0)
    );
    let of = |series: &str| -> Vec<String> {
        let is_of = |path: &&PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.matches('-').count() == if series.is_empty() { 3 } else { 4 }
                && name.starts_with(&format!("c-{series}"))
        };
        let indexes = files(dir.path(), ".cdxj");
        let lines = indexes.iter().filter(is_of).flat_map(|path| {
            fs::read_to_string(path)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        lines.map(|line| Line::parse(&line).unwrap().url).collect()
    };
    assert_eq!(of("news-"), ["http://a.test/1", "http://a.test/3"]);
    assert_eq!(
        (of("docs"), of("new-")),
        (
            vec!["http://a.test/2".to_owned(), "http://a.test/4".to_owned()],
            vec!["http://a.test/5".to_owned()]
        )
    );
    assert_eq!(of(""), ["http://a.test/0"]);
    folder
        .write(&batch_by_series(&[("docs", "http://a.test/6")]))
        .unwrap();
    folder.finish().unwrap();
    assert_eq!(indexed(dir.path()).len(), 7);
}
