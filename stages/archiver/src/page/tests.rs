//! Examples of records: what a page becomes, and what it refers to.

use super::*;
use crate::usage::tests::reader;
use rhumb_config::{Unwanted, WarcFormat};
use rhumb_usage::Signals;
use rhumb_wire::message::Origin;
use std::io::Read as _;

pub(crate) fn page(url: &str, fetched_at_ms: u64, body: &[u8]) -> Page {
    Page {
        url: url.into(),
        origin: Origin {
            page: "http://a.test/".into(),
            topic: "default".into(),
            depth: 2,
            redirects: 1,
            ..Origin::default()
        },
        status: 200,
        fetched_at_ms,
        elapsed_us: 12_345,
        address: Some([127, 1, 0, 1].into()),
        request_headers: vec![("user-agent".into(), b"rhumb".to_vec())],
        headers: vec![
            ("content-type".into(), b"Text/HTML; charset=utf-8".to_vec()),
            ("transfer-encoding".into(), b"chunked".to_vec()),
        ],
        body: body.to_vec(),
        ..Page::default()
    }
}

/// What each member holds.
pub(crate) fn members(mut bytes: &[u8]) -> Vec<String> {
    let mut members = Vec::new();
    while !bytes.is_empty() {
        let mut decoder = flate2::bufread::GzDecoder::new(bytes);
        let mut text = Vec::new();
        decoder.read_to_end(&mut text).unwrap();
        members.push(String::from_utf8(text).unwrap());
        bytes = decoder.into_inner();
    }
    members
}

fn written(page: &Page, originals: &mut Originals) -> (Written, Vec<String>) {
    written_by(page, &Usage::default(), originals)
}

fn written_by(page: &Page, usage: &Usage, originals: &mut Originals) -> (Written, Vec<String>) {
    let mut out = Vec::new();
    let written = write(
        page,
        usage,
        originals,
        &mut Writer::new(WarcFormat::Gzip, 1),
        &mut out,
    );
    assert_eq!(
        written.response.end,
        out.len(),
        "the response is last: its end is the page's"
    );
    (written, members(&out))
}

#[test]
fn a_page_is_a_request_what_is_known_of_it_and_its_response() {
    let (written, members) = written(
        &page("http://a.test:81/x?y", 1000, b"<p>hi"),
        &mut Originals::new(10, 0),
    );
    let [request, metadata, response] = &members[..] else {
        panic!("{members:?}")
    };
    assert!(request.contains("WARC-Type: request\r\n"), "{request}");
    assert!(
        request
            .contains("\r\n\r\nGET /x?y HTTP/1.1\r\nhost: a.test:81\r\nuser-agent: rhumb\r\n\r\n"),
        "{request}"
    );
    let about = "\r\n\r\nvia: http://a.test/\r\nhopsFromSeed: LLR\r\nfetchTimeMs: 12\r\ntopic: \
                 default\r\n";
    assert!(metadata.contains(about), "{metadata}");
    assert!(response.contains("WARC-Type: response\r\n"), "{response}");
    assert!(
        response.contains("WARC-IP-Address: 127.1.0.1\r\n"),
        "{response}"
    );
    let digest = Digest::of(&[b"<p>hi"]).text();
    assert!(
        response.contains(&format!("WARC-Payload-Digest: {digest}\r\n")),
        "{response}"
    );
    let has_digest = |record: &String| {
        record.contains("WARC-Block-Digest: ") != record.contains("WARC-Payload-Digest: ")
    };
    assert!(members.iter().all(has_digest), "validators want one");
    let block = "\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\n\
                 x-crawler-transfer-encoding: chunked\r\ncontent-length: \
                 5\r\n\r\n<p>hi\r\n\r\n";
    assert!(response.ends_with(block), "{response}");
    let id = record_id(
        "response",
        "http://a.test:81/x?y",
        "1970-01-01T00:00:01.000Z",
    );
    assert!(response.contains(&format!("WARC-Record-ID: {id}\r\n")));
    assert!(
        [request, metadata]
            .iter()
            .all(|other| other.contains(&format!("WARC-Concurrent-To: {id}\r\n")))
    );
    assert_eq!(
        (written.line.mime.as_str(), written.line.status.as_str()),
        ("text/html", "200")
    );
    assert!(!written.is_revisit);
}

#[test]
fn a_length_beside_a_coding_does_not_count() {
    let mut page = page("http://a.test/", 1000, b"<p>hi");
    page.headers.push(("content-length".into(), b"3".to_vec()));
    let (_, members) = written(&page, &mut Originals::new(10, 0));
    let head = "\r\nx-crawler-content-length: 3\r\ncontent-length: 5\r\n\r\n<p>hi";
    assert!(members[2].contains(head), "{}", members[2]);
}

#[test]
fn a_body_that_comes_again_or_has_not_changed_is_referred_to() {
    let mut originals = Originals::new(10, 0);
    written(&page("http://a.test/1", 1000, b"same"), &mut originals);
    let (again, members) = written(&page("http://a.test/2", 2000, b"same"), &mut originals);
    assert_eq!(
        (again.is_revisit, again.line.mime.as_str()),
        (true, "warc/revisit")
    );
    let revisit = &members[2];
    for expected in [
        "WARC-Type: revisit\r\n",
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n",
        "WARC-Refers-To-Target-URI: http://a.test/1\r\nWARC-Refers-To-Date: \
         1970-01-01T00:00:01.000Z\r\n",
    ] {
        assert!(revisit.contains(expected), "{revisit}");
    }
    assert!(
        revisit.ends_with("content-length: 4\r\n\r\n\r\n\r\n"),
        "no body: {revisit}"
    );

    let (same, members) = written(
        &Page {
            status: 304,
            ..page("http://a.test/1", 3000, b"")
        },
        &mut originals,
    );
    assert!(
        same.is_revisit && members[2].contains("server-not-modified\r\n"),
        "{}",
        members[2]
    );
    assert!(
        !members[2].contains("Payload-Digest") && same.line.digest == "-",
        "{}",
        members[2]
    );
    assert!(
        members[2].contains("WARC-Refers-To-Target-URI: http://a.test/1\r\n"),
        "{}",
        members[2]
    );

    for other in [
        Page {
            truncated: Some(Truncation::Time),
            ..page("http://a.test/3", 4000, b"same")
        },
        page("http://a.test/4", 4000, b""),
        page("http://a.test/5", 4000, b""),
    ] {
        let (written, members) = written(&other, &mut originals);
        assert!(!written.is_revisit, "{}", members[2]);
        assert_eq!(
            members[2].contains("WARC-Truncated"),
            other.truncated.is_some()
        );
    }
}

#[test]
fn a_visit_of_a_page_refers_to_the_pages_own_record_while_that_has_the_latest_body() {
    let mut originals = Originals::new(10, 10);
    let at = |seconds: u64, body: &[u8]| page("http://a.test/1", seconds * 1000, body);
    let unchanged = |seconds: u64| Page {
        status: 304,
        ..at(seconds, b"")
    };
    let refers = |second: u64| {
        let date = date(second * 1000);
        let id = record_id("response", "http://a.test/1", &date);
        format!(
            "WARC-Refers-To: {id}\r\nWARC-Refers-To-Target-URI: http://a.test/1\r\n\
             WARC-Refers-To-Date: {date}\r\n"
        )
    };
    let (whole, _) = written(&at(1, b"one"), &mut originals);
    for (visit, profile, second) in [
        (unchanged(2), NOT_MODIFIED, 1),
        (at(3, b"one"), SAME_BODY, 1),
        (unchanged(4), NOT_MODIFIED, 1),
    ] {
        let (again, members) = written(&visit, &mut originals);
        let revisit = &members[2];
        assert!(revisit.contains(&refers(second)), "{revisit}");
        assert!(revisit.contains(&format!("WARC-Profile: {profile}\r\n")));
        assert_eq!(revisit.matches("WARC-Refers-To-Target-URI").count(), 1);
        assert!(again.is_revisit && again.line.digest == whole.line.digest);
    }

    // What is not the page leaves its record as it is.
    let gone = Page {
        status: 404,
        ..at(5, b"nothing is here")
    };
    let wall = Page {
        wall: "a wall".into(),
        ..at(6, b"a challenge")
    };
    written(&gone, &mut originals);
    written(&wall, &mut originals);
    let (_, members) = written(&unchanged(7), &mut originals);
    assert!(members[2].contains(&refers(1)), "{}", members[2]);

    written(&at(8, b"two"), &mut originals);
    let (_, members) = written(&unchanged(9), &mut originals);
    assert!(members[2].contains(&refers(8)), "{}", members[2]);

    // Of a body that is in another page's record, or not whole, the page has none.
    let cut = Page {
        truncated: Some(Truncation::Time),
        ..at(13, b"cu")
    };
    written(&page("http://a.test/2", 10_000, b"other"), &mut originals);
    for (visit, seconds) in [(at(11, b"other"), 12), (cut, 14)] {
        written(&visit, &mut originals);
        let (again, members) = written(&unchanged(seconds), &mut originals);
        assert!(
            !members[2].contains("WARC-Refers-To-Date"),
            "{}",
            members[2]
        );
        assert_eq!(again.line.digest, "-");
        written(
            &at(seconds, format!("{seconds}").as_bytes()),
            &mut originals,
        );
    }
}

#[test]
fn what_is_said_of_use_is_in_the_metadata_and_a_body_that_is_withheld_nowhere() {
    let mut originals = Originals::new(10, 0);
    written(&page("http://b.test/", 1, b"their text"), &mut originals);
    let page = Page {
        truncated: Some(Truncation::Time),
        usage: Signals::of_robots_txt("content-signal: search=yes, ai-train=no\n"),
        ..page("http://a.test/", 1000, b"their text")
    };
    let of = |unwanted| reader(unwanted).read(&page);
    let said = "usage-version: 1\r\nusage: search=allowed, ai-input=unsaid, ai-train=refused, \
                archive=unsaid\r\nusage-statement: robots.txt content-signal: search=yes, \
                ai-train=no\r\n";
    let (_, members) = written_by(&page, &of(Unwanted::Record), &mut originals);
    assert!(members[1].contains(said) && !members[1].contains("usage-verdict"));
    let (_, members) = written_by(&page, &of(Unwanted::Mark), &mut originals);
    let marked = format!("{said}usage-verdict: marked\r\nusage-refused: ai-train\r\n");
    assert!(members[1].contains(&marked), "{}", members[1]);
    assert!(members[2].contains("their text"));

    let (written, members) = written_by(&page, &of(Unwanted::Withhold), &mut originals);
    let withheld = format!("{said}usage-verdict: withheld\r\nusage-refused: ai-train\r\n");
    assert!(members[1].contains(&withheld), "{}", members[1]);
    let response = &members[2];
    assert!(response.starts_with("WARC/1.1\r\nWARC-Type: response\r\n"));
    assert_eq!(
        response.matches("WARC-Truncated: unspecified\r\n").count(),
        1
    );
    assert_eq!(response.matches("WARC-Truncated").count(), 1);
    assert!(
        response.contains("content-type: Text/HTML; charset=utf-8\r\n"),
        "{response}"
    );
    assert!(!response.contains("WARC-Payload-Digest") && !response.contains("their text"));
    assert_eq!(
        (written.is_revisit, written.line.digest.as_str()),
        (false, "-")
    );
}

#[test]
fn a_body_that_is_withheld_is_none_that_others_refer_to() {
    let mut originals = Originals::new(10, 0);
    let page = page("http://a.test/1", 1000, b"<meta name=robots content=noai>");
    let usage = reader(Unwanted::Withhold).read(&page);
    written_by(&page, &usage, &mut originals);
    let again = Page {
        url: "http://a.test/2".into(),
        ..page
    };
    assert!(!written(&again, &mut originals).0.is_revisit);
}

#[test]
fn a_response_says_why_its_body_is_not_whole() {
    let reasons = [
        (Truncation::Length, "length"),
        (Truncation::Time, "time"),
        (Truncation::Disconnect, "disconnect"),
        (Truncation::Unspecified, "unspecified"),
    ];
    for (reason, word) in reasons {
        let cut = Page {
            truncated: Some(reason),
            ..page("http://a.test/", 1000, b"<p>h")
        };
        let (_, members) = written(&cut, &mut Originals::new(10, 0));
        assert!(
            members[2].contains(&format!("\r\nWARC-Truncated: {word}\r\n")),
            "{}",
            members[2]
        );
    }
}
