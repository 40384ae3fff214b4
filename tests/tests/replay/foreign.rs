//! Archives in the forms of other programs: plain files, a gzip member for each record, and all
//! records in one member; URLs in angle brackets, names that were resolved, chunks, content
//! codings, revisits.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// Where the crawl of them begins.
pub(crate) const SEED: &str = "http://wget.test/";

/// How its URLs end: outcome, status and title, in the order of the URLs.
pub(crate) const EXPECTED: [(&str, &str, u64, &str); 12] = [
    ("http://heritrix.test/", "fetched", 200, "chunks"),
    ("http://heritrix.test/private/x", "disallowed", 0, ""),
    ("http://nowhere.test/", "gone", 0, ""),
    ("http://pywb.test/a", "fetched", 200, "same"),
    ("http://pywb.test/b", "fetched", 200, "same"),
    ("http://pywb.test/c", "fetched", 200, "coded"),
    ("http://pywb.test/d", "gone", 0, ""),
    ("http://wget.test/", "fetched", 200, "wget"),
    ("http://wget.test/missing", "gone", 404, ""),
    ("http://wget.test/moved", "redirected", 301, ""),
    ("http://wget.test/~new", "fetched", 200, "new"),
    ("http://whole.test/", "fetched", 200, "whole"),
];

const DATE: &str = "2026-01-31T12:00:00Z";
const DIGEST: &str = "WARC-Payload-Digest: sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A\r\n";

fn record(kind: &str, url: &str, fields: &str, block: &[u8]) -> Vec<u8> {
    let id = "<urn:uuid:5a3f3a4e-33c4-4e2e-9f4e-1d3c1f0c2b11>";
    let head = format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {id}\r\nWARC-Target-URI: \
         {url}\r\nWARC-Date: {DATE}\r\n{fields}Content-Type: \
         application/http;msgtype=response\r\nContent-Length: {}\r\n\r\n",
        block.len()
    );
    [head.as_bytes(), block, b"\r\n\r\n"].concat()
}

fn html(title: &str, links: &[&str]) -> String {
    let links: String = links
        .iter()
        .map(|link| format!("<a href=\"{link}\">x</a>"))
        .collect();
    format!("<html><head><title>{title}</title></head><body>{links}</body></html>")
}

/// A response with these lines behind its status, and a body.
fn response(url: &str, status: &str, lines: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{lines}\r\n");
    record("response", url, "", &[head.as_bytes(), body].concat())
}

fn page(url: &str, title: &str, links: &[&str]) -> Vec<u8> {
    response(
        url,
        "200 OK",
        "Content-Type: text/html\r\n",
        html(title, links).as_bytes(),
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(bytes)
        .and_then(|()| encoder.finish())
        .expect("memory")
}

/// Writes the archives into a folder, and into one below it.
pub(crate) fn write(folder: &Path) {
    let below = folder.join("collections");
    fs::create_dir(&below).expect("a folder");
    let members = |records: &[Vec<u8>]| {
        records
            .iter()
            .flat_map(|record| gzip(record))
            .collect::<Vec<u8>>()
    };
    fs::write(folder.join("wget.warc"), wget().concat()).expect("a file");
    fs::write(
        folder.join("wget-00001.warc.gz"),
        members(&wget_compressed()),
    )
    .expect("a file");
    fs::write(below.join("heritrix.warc.gz"), members(&heritrix())).expect("a file");
    fs::write(below.join("pywb.warc.gz"), members(&pywb())).expect("a file");
    let whole = [
        record("warcinfo", "", "", b"software: x\r\n"),
        page("http://whole.test/", "whole", &[]),
    ];
    fs::write(below.join("whole.warc.gz"), gzip(&whole.concat())).expect("a file");
}

fn wget() -> Vec<Vec<u8>> {
    let links = [
        "/moved",
        "/missing",
        "http://heritrix.test/",
        "http://pywb.test/a",
        "http://nowhere.test/",
        "http://whole.test/",
    ];
    vec![
        record("warcinfo", "", "", b"software: Wget/1.21 (linux-gnu)\r\n"),
        record(
            "request",
            "<http://wget.test/>",
            "",
            b"GET / HTTP/1.1\r\nHost: wget.test\r\n\r\n",
        ),
        page("<http://wget.test/>", "wget", &links),
        record(
            "resource",
            "<metadata://gnu.org/software/wget/warc/wget.log>",
            "",
            b"a log",
        ),
    ]
}

fn wget_compressed() -> Vec<Vec<u8>> {
    vec![
        response(
            "<http://wget.test/moved>",
            "301 Moved",
            "Location: /~new\r\nContent-Length: 0\r\n",
            b"",
        ),
        // Another spelling of the same URL.
        page("<http://wget.test/%7Enew>", "new", &[]),
        response(
            "<http://wget.test/missing>",
            "404 Not Found",
            "Content-Type: text/html\r\n",
            b"no",
        ),
    ]
}

fn heritrix() -> Vec<Vec<u8>> {
    let body = html("chunks", &["/private/x"]);
    let (one, two) = body.split_at(30);
    let chunks = format!(
        "{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n",
        one.len(),
        two.len()
    );
    let lines = "Content-Type: text/html\r\nTransfer-Encoding: chunked\r\n";
    let rules = b"User-agent: *\nDisallow: /private/\n";
    vec![
        record(
            "response",
            "dns:heritrix.test",
            "",
            b"20260131120000\nheritrix.test. 60 IN A 192.0.2.7\n",
        ),
        response(
            "http://heritrix.test/robots.txt",
            "200 OK",
            "Content-Type: text/plain\r\n",
            rules,
        ),
        response("http://heritrix.test/", "200 OK", lines, chunks.as_bytes()),
    ]
}

fn pywb() -> Vec<Vec<u8>> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    let same = html("same", &["/b", "/c", "/d"]);
    let profile =
        "WARC-Profile: http://netpreserve.org/warc/1.0/revisit/identical-payload-digest\r\n";
    let refers = "WARC-Refers-To-Target-URI: http://pywb.test/a\r\nWARC-Refers-To-Date: \
                  2026-01-31T12:00:00Z\r\n";
    let coded = "Content-Type: text/html\r\nContent-Encoding: gzip\r\n";
    let of_nothing = "WARC-Payload-Digest: sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n";
    vec![
        record(
            "response",
            "http://pywb.test/a",
            DIGEST,
            format!("{head}{same}").as_bytes(),
        ),
        record(
            "revisit",
            "http://pywb.test/b",
            &format!("{DIGEST}{profile}{refers}"),
            head.as_bytes(),
        ),
        response(
            "http://pywb.test/c",
            "200 OK",
            coded,
            &gzip(html("coded", &[]).as_bytes()),
        ),
        // The record that it refers to is not there.
        record(
            "revisit",
            "http://pywb.test/d",
            &format!("{of_nothing}{profile}"),
            head.as_bytes(),
        ),
    ]
}
