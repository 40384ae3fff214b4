//! Archives as rhumb, wget, Heritrix and warcio write them, in files.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use rhumb_wire::message::Truncation;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use tempfile::TempDir;

const DIGEST: &str = "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A record; `fields` end with a line's end each.
fn warc(kind: &str, url: &str, date: &str, fields: &str, block: &str) -> Vec<u8> {
    let length = block.len();
    format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: \
         {date}\r\n{fields}Content-Length: {length}\r\n\r\n{block}\r\n\r\n"
    )
    .into_bytes()
}

fn response(url: &str, second: u32, body: &str) -> Vec<u8> {
    let block = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{body}");
    warc(
        "response",
        url,
        &format!("2026-01-31T12:00:{second:02}Z"),
        "",
        &block,
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, Vec<u8>)]) -> Files {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("files")).unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join("files").join(name), bytes).unwrap();
        }
        Files(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("files").join(name)
    }

    fn open(&self) -> Archive {
        let paths = rhumb_warc::warc_files::in_folder(&self.path("")).unwrap();
        Archive::new(Index::open(&paths, &self.0.path().join("index")).unwrap())
    }
}

/// The body of a URL, as far as it is there.
fn body(archive: &Archive, url: &str) -> Option<String> {
    let (_, recording) = archive.find(url, 1 << 20).unwrap().response?;
    Some(String::from_utf8(recording.body).unwrap())
}

#[test]
fn of_several_responses_the_latest_answers_whatever_their_order() {
    let url = "http://a.test/";
    let records = [
        response(url, 1, "one"),
        response(url, 3, "three"),
        response(url, 2, "two"),
    ];
    let files = Files::new(&[
        ("a.warc", records.concat()),
        ("b.warc.gz", gzip(&response("<http://b.test/x>", 1, "b"))),
    ]);
    let archive = files.open();
    assert_eq!(body(&archive, url).as_deref(), Some("three"));
    assert_eq!(
        body(&archive, "http://b.test/x").as_deref(),
        Some("b"),
        "in angle brackets"
    );
    assert_eq!(body(&archive, "http://b.test/y"), None);
}

#[test]
fn another_spelling_of_a_url_answers_when_that_very_one_is_not_there() {
    let records = [
        response("HTTP://A.test:80/%7ex", 5, "spelled otherwise"),
        response("http://b.test/?", 5, "literal"),
    ];
    let exact = response("http://b.test/", 1, "exact");
    let files = Files::new(&[("a.warc", [records.concat(), exact].concat())]);
    let archive = files.open();
    assert_eq!(
        body(&archive, "http://a.test/~x").as_deref(),
        None,
        "a scheme in upper case is not looked at"
    );
    assert_eq!(body(&archive, "http://b.test/").as_deref(), Some("exact"));
    assert_eq!(
        body(&archive, "http://b.test/?").as_deref(),
        Some("literal")
    );
    let files = Files::new(&[(
        "a.warc",
        response("http://A.test:80/%7ex", 5, "spelled otherwise"),
    )]);
    let only = files.open();
    assert_eq!(
        body(&only, "http://a.test/~x").as_deref(),
        Some("spelled otherwise")
    );
}

#[test]
fn a_revisit_has_the_body_of_the_record_that_it_refers_to() {
    let digest = format!("WARC-Payload-Digest: {DIGEST}\r\n");
    let head = "HTTP/1.1 200 OK\r\nX-Own: yes\r\n\r\n";
    let date = "2026-01-31T12:00:01Z";
    let original = warc(
        "response",
        "http://a.test/1",
        date,
        &digest,
        "HTTP/1.1 200 OK\r\n\r\nsame",
    );
    let later = response("http://a.test/1", 9, "another");
    let refers =
        format!("WARC-Refers-To-Target-URI: http://a.test/1\r\nWARC-Refers-To-Date: {date}\r\n");
    let by_url = warc("revisit", "http://a.test/2", date, &refers, head);
    let by_digest = warc("revisit", "http://a.test/3", date, &digest, "");
    let nowhere = warc(
        "revisit",
        "http://a.test/4",
        date,
        "WARC-Payload-Digest: sha1:B\r\n",
        head,
    );
    let unchanged = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified\r\n";
    let not_modified = warc(
        "revisit",
        "http://a.test/1",
        "2026-02-01T12:00:00Z",
        unchanged,
        "HTTP/1.1 304 x\r\n\r\n",
    );
    let records = [original, later, by_url, by_digest, nowhere, not_modified];
    let files = Files::new(&[("a.warc.gz", records.map(|record| gzip(&record)).concat())]);
    let archive = files.open();
    let (_, recording) = archive
        .find("http://a.test/2", 1 << 20)
        .unwrap()
        .response
        .unwrap();
    assert_eq!(
        (recording.body.as_slice(), recording.headers[0].0.as_str()),
        (b"same".as_slice(), "x-own")
    );
    assert_eq!(body(&archive, "http://a.test/3").as_deref(), Some("same"));
    assert_eq!(
        body(&archive, "http://a.test/1").as_deref(),
        Some("another"),
        "not that nothing has changed"
    );
    let answered = archive.find("http://a.test/4", 1 << 20).unwrap();
    assert_eq!((answered.response.is_none(), answered.damaged), (true, 1));
}

#[test]
fn that_nothing_has_changed_stands_for_the_response_that_it_names() {
    let url = "http://a.test/";
    let unchanged = |fields: &str, block: &str| {
        let profile = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified";
        let fields = format!("{profile}\r\n{fields}");
        warc("revisit", url, "2026-02-01T12:00:00Z", &fields, block)
    };
    let names = |second: u32| {
        format!(
            "WARC-Refers-To-Target-URI: {url}\r\nWARC-Refers-To-Date: \
             2026-01-31T12:00:{second:02}Z\r\n"
        )
    };
    let gone = warc(
        "response",
        url,
        "2026-01-31T12:00:02Z",
        "",
        "HTTP/1.1 404 x\r\n\r\ngone",
    );
    let head = "HTTP/1.1 304 x\r\n\r\n";
    for (last, status, expected) in [
        (unchanged(&names(1), head), 200, "one"),
        (unchanged(&names(1), ""), 200, "one"),
        (unchanged("", head), 404, "gone"),
        // It is not there.
        (unchanged(&names(9), head), 404, "gone"),
    ] {
        let records = [response(url, 1, "one"), gone.clone(), last];
        let files = Files::new(&[("a.warc", records.concat())]);
        let answered = files.open().find(url, 1 << 20).unwrap();
        let (_, recording) = answered.response.unwrap();
        assert_eq!(
            (recording.status, recording.body.as_slice()),
            (status, expected.as_bytes())
        );
    }
}

#[test]
fn what_is_no_response_answers_nothing_and_a_resource_does() {
    let date = "2026-01-31T12:00:01Z";
    let page = "Content-Type: text/html\r\n";
    let records = [
        warc(
            "request",
            "http://a.test/",
            date,
            "",
            "GET / HTTP/1.1\r\n\r\n",
        ),
        warc("response", "dns:a.test", date, "", "a.test 127.0.0.1"),
        warc("resource", "http://a.test/r", date, page, "<p>r"),
        warc("response", "http://a.test/nothing", date, "", "not HTTP"),
    ];
    let files = Files::new(&[("a.warc", records.concat())]);
    let archive = files.open();
    assert_eq!(body(&archive, "http://a.test/"), None);
    let (_, recording) = archive
        .find("http://a.test/r", 1 << 20)
        .unwrap()
        .response
        .unwrap();
    assert_eq!(
        (recording.status, recording.headers[0].1.as_slice()),
        (200, b"text/html".as_slice())
    );
    for damaged in [1, 0] {
        let answered = archive.find("http://a.test/nothing", 1 << 20).unwrap();
        assert_eq!(
            (answered.response.is_none(), answered.damaged),
            (true, damaged),
            "counted once"
        );
    }
}

#[test]
fn a_file_that_is_compressed_as_one_is_read_like_a_plain_one() {
    let records =
        [1, 2, 3].map(|n| response(&format!("http://a.test/{n}"), n, &format!("body {n}")));
    let files = Files::new(&[("a.warc.gz", gzip(&records.concat()))]);
    for _ in 0..2 {
        let archive = files.open();
        assert_eq!(archive.index.files[0].of, files.path("a.warc.gz"));
        for n in 1..=3 {
            assert_eq!(
                body(&archive, &format!("http://a.test/{n}")),
                Some(format!("body {n}"))
            );
        }
    }
}

#[test]
fn an_index_is_kept_until_the_archive_changes() {
    let files = Files::new(&[("a.warc", response("http://a.test/", 1, "a"))]);
    let made = |files: &Files| {
        fs::metadata(files.0.path().join("index/index"))
            .unwrap()
            .modified()
            .unwrap()
    };
    files.open();
    let first = made(&files);
    files.open();
    assert_eq!(made(&files), first);
    fs::write(files.path("b.warc"), response("http://b.test/", 1, "b")).unwrap();
    assert_eq!(body(&files.open(), "http://b.test/").as_deref(), Some("b"));
}

#[test]
fn a_damaged_record_is_passed_over_for_an_earlier_one() {
    let records = ["old", "new"]
        .iter()
        .zip(1..)
        .map(|(body, second)| gzip(&response("http://a.test/", second, body)));
    let records: Vec<_> = records.collect();
    let mut bytes = records.concat();
    let files = Files::new(&[("a.warc.gz", bytes.clone())]);
    let archive = files.open();
    // Behind the index: it says where the record is, which is damaged now.
    let at = records[0].len() + records[1].len() / 2;
    bytes[at] ^= 0x55;
    fs::write(files.path("a.warc.gz"), bytes).unwrap();
    let answered = archive.find("http://a.test/", 1 << 20).unwrap();
    assert_eq!(answered.damaged, 1);
    assert_eq!(body(&archive, "http://a.test/").as_deref(), Some("old"));
    assert_eq!(
        files.open().index.table.about.damaged,
        1,
        "a new index counts it"
    );
}

#[test]
fn a_long_body_is_cut_where_no_more_is_wanted() {
    for (name, bytes) in [("a.warc", response("http://a.test/", 1, &"x".repeat(5000)))]
        .into_iter()
        .flat_map(|(name, bytes)| [(name, bytes.clone()), ("b.warc.gz", gzip(&bytes))])
    {
        let files = Files::new(&[(name, bytes)]);
        let archive = files.open();
        let (_, recording) = archive
            .find("http://a.test/", 1000)
            .unwrap()
            .response
            .unwrap();
        assert!(
            recording.truncated == Some(Truncation::Length) && recording.body.len() < 1000,
            "{name}"
        );
    }
}

#[test]
fn a_response_without_its_body_answers_nothing_that_another_one_answers() {
    let url = "http://a.test/";
    let at = |second: u32, block: &str| {
        warc(
            "response",
            url,
            &format!("2026-01-31T12:00:{second:02}Z"),
            "",
            block,
        )
    };
    let unchanged = at(2, "HTTP/1.1 304 Not Modified\r\n\r\n");
    let of_head = at(3, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n");
    let all = [
        response(url, 1, "whole"),
        unchanged.clone(),
        of_head.clone(),
    ]
    .concat();
    let files = Files::new(&[("a.warc", all)]);
    assert_eq!(body(&files.open(), url).as_deref(), Some("whole"));
    let files = Files::new(&[("a.warc", [of_head, unchanged.clone()].concat())]);
    assert_eq!(body(&files.open(), url).as_deref(), Some(""));
    let files = Files::new(&[("a.warc", unchanged)]);
    assert_eq!(body(&files.open(), url), None);
}

#[test]
fn a_last_record_without_its_empty_line_is_read() {
    let url = "http://a.test/";
    let mut record = response(url, 1, "whole");
    record.truncate(record.len() - 4);
    let files = Files::new(&[("a.warc", record)]);
    let archive = files.open();
    assert_eq!(
        (
            body(&archive, url).as_deref(),
            archive.index.table.about.damaged
        ),
        (Some("whole"), 0)
    );
}
