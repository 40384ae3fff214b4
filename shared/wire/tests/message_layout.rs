//! Goal: a message that an earlier build wrote is read as what it was, so a change of a layout
//! comes with a new version, and the version before is read as well. Method: for each message and
//! version one payload is kept in a file, a seed of the fuzz targets besides; a file that is
//! missing is written, and fails the test once.
//!
//! Whoever changes the layout of a message
//! 1. raises its `VERSION`, and keeps the old layout as a type of its own, with the old version;
//! 2. says how an old message becomes a new one: `impl From<Old> for New`, and `BEFORE =
//!    Some(Before::of::<Old>())`;
//! 3. keeps the old file, runs this test twice, and commits the file that it wrote. The file of the
//!    version before that one goes, with its type.

use rhumb_usage::{Purpose, Signals, Verdict};
use rhumb_wire::message::*;
use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error as Rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The folder of payloads, and those of them that a message was compared with.
struct Kept {
    folder: PathBuf,
    read: BTreeSet<String>,
    written: BTreeSet<String>,
}

impl Kept {
    /// Reads the payload that was kept of a message.
    fn check<M>(&mut self, name: &str, message: &M)
    where
        M: EdgeMessage
            + PartialEq
            + Debug
            + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
        M::Archived: for<'a> CheckBytes<HighValidator<'a, Rancor>>
            + Deserialize<M, HighDeserializer<Rancor>>,
    {
        self.check_before::<M>(name);
        let name = format!("{}-{name}-{}", M::EDGE.name(), M::VERSION);
        let file = self.folder.join(&name);
        if !file.exists() {
            std::fs::write(&file, encode(message)).expect("the folder can be written");
            self.written.insert(name);
            return;
        }
        let read = decode::<M>(&std::fs::read(&file).expect("the file can be read"));
        assert_eq!(
            read.as_ref(),
            Ok(message),
            "{name}: another layout needs another version"
        );
        self.read.insert(name);
    }

    /// Reads the payload that was kept of the version before, if that is read.
    fn check_before<M>(&mut self, name: &str)
    where
        M: EdgeMessage + PartialEq + Debug,
        M::Archived: for<'a> CheckBytes<HighValidator<'a, Rancor>>
            + Deserialize<M, HighDeserializer<Rancor>>,
    {
        let Some(before) = M::BEFORE else { return };
        let name = format!("{}-{name}-{}", M::EDGE.name(), before.version);
        let kept = std::fs::read(self.folder.join(&name))
            .unwrap_or_else(|error| panic!("{name} was kept: {error}"));
        assert!(
            decode::<M>(&kept).is_ok(),
            "{name}: {:?}",
            decode::<M>(&kept)
        );
        self.read.insert(name);
    }
}

fn origin() -> Origin {
    Origin {
        page: "http://a.test/é".into(),
        topic: "t".into(),
        depth: 3,
        redirects: 1,
        seed: true,
        again: 4,
        flow: Quality::SEED,
    }
}

fn urls() -> UrlList {
    ["http://a.test/", "https://b.test:8443/x?y=%20"]
        .into_iter()
        .collect()
}

fn validators() -> Validators {
    Validators {
        etag: "\"x\"".into(),
        last_modified: "Thu, 01 Jan 1970 00:00:00 GMT".into(),
    }
}

fn job() -> JobId {
    JobId {
        scheduler: 1,
        epoch: 2,
        number: 3,
    }
}

fn robots() -> RobotsResponse {
    RobotsResponse {
        status: 301,
        location: Some("/r".into()),
        body: b"User-agent: *".to_vec(),
    }
}

fn addresses() -> Vec<IpAddr> {
    vec![
        "192.0.2.1".parse().expect("an address"),
        "2001:db8::1".parse().expect("an address"),
    ]
}

fn signals() -> Signals {
    Signals::of_robots_txt("content-signal: search=yes, ai-train=no\n")
}

#[test]
fn messages_of_earlier_builds_are_read_as_what_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/seeds/messages");
    let mut kept = Kept {
        folder,
        read: BTreeSet::new(),
        written: BTreeSet::new(),
    };
    check_lists_of_urls(&mut kept);
    check_jobs(&mut kept);
    check_reports(&mut kept);
    check_pages_and_outcomes(&mut kept);
    check_errands_and_content(&mut kept);
    check_signals(&mut kept);
    assert!(
        kept.written.is_empty(),
        "were missing and are written now: {:?}",
        kept.written
    );
    for row in &MESSAGES {
        for version in [Some(row.version), row.before].into_iter().flatten() {
            let is_of = |name: &String| {
                let of_edge = name.strip_prefix(row.edge.name());
                let rest = of_edge.and_then(|rest| rest.strip_suffix(&format!("-{version}")));
                rest.is_some_and(|rest| rest.starts_with('-'))
            };
            assert!(
                kept.read.iter().any(is_of),
                "no payload of {}, version {version}, is kept: this test makes none of it",
                row.name
            );
        }
    }
    let files = std::fs::read_dir(&kept.folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let unread: Vec<String> = files.filter(|name| !kept.read.contains(name)).collect();
    let what_to_do = "the version before the present one is read, too (see the head of this test); \
                      older files go";
    assert!(
        unread.is_empty(),
        "of a version that is not read: {unread:?}; {what_to_do}"
    );
}

fn check_lists_of_urls(kept: &mut Kept) {
    kept.check(
        "links",
        &FoundUrls {
            origin: origin(),
            urls: urls(),
            anchors: vec![
                Anchor {
                    text: "a".into(),
                    context: "an a".into(),
                },
                Anchor::default(),
            ],
            visit: 3,
        },
    );
    let reasons = vec![FilterReason::Scope, FilterReason::Parameters];
    kept.check(
        "reasons",
        &FilteredUrls {
            origin: origin(),
            urls: urls(),
            reasons,
        },
    );
    let boost = Boost {
        host: 1 << 60,
        url: 7,
        worth: Quality::SEED,
        is_cash: true,
    };
    kept.check(
        "boosts",
        &Boosts {
            partition: 17,
            boosts: vec![boost],
        },
    );
    kept.check(
        "batch",
        &SplitUrls {
            origins: vec![origin()],
            urls: urls(),
            origin_of: vec![0, 0],
            filtered: [1, 2, 3, 4, 5, 6, 7],
            repeated: 8,
            number: 9,
        },
    );
    let new = NewUrls {
        partition: 1,
        origins: vec![origin()],
        urls: urls(),
        origin_of: vec![0, 0],
        first_serial: 2,
    };
    kept.check("batch", &new);
    kept.check(
        "batch",
        &ReadyUrls {
            partition: 1,
            servers: vec![
                ServerResolution {
                    server: "http://a.test".into(),
                    resolution: Some(Resolution::Addresses {
                        addresses: addresses(),
                        ttl_s: 60,
                    }),
                },
                ServerResolution {
                    server: "https://b.test:8443".into(),
                    resolution: None,
                },
            ],
            origins: vec![origin()],
            urls: urls(),
            origin_of: vec![0, 0],
            server_of: vec![0, 1],
            serials: vec![2, 3],
            refresh: 0,
        },
    );
    kept.check(
        "servers",
        &DnsRefresh {
            partition: 1,
            servers: vec!["http://a.test".into()],
            number: 2,
        },
    );
}

fn known_text() -> KnownText {
    KnownText {
        body: 1 << 62,
        sketch: Some(1 << 61),
        noise: 48,
    }
}

fn check_jobs(kept: &mut Kept) {
    kept.check(
        "ask",
        &Ask {
            fetcher: "0".into(),
            ask: 1,
            free: 2,
            received: 3,
            life: 4,
        },
    );
    kept.check(
        "reply",
        &AskReply {
            granted: 1,
            ready: 2,
        },
    );
    kept.check(
        "job",
        &ToFetcher::Job(Job {
            id: job(),
            life: 4,
            ask: 1,
            partition: 1,
            lease_ms: 15_000,
            kind: JobKind::Pages,
            server: "http://a.test".into(),
            addresses: addresses(),
            gap_ms: 1_000,
            first_answer_ms: Some(15_000),
            requests: vec![Request {
                slot: 1,
                url: "http://a.test/".into(),
                origin: origin(),
                attempts: 0,
                validators: validators(),
                usage: signals(),
                visit: 2,
                body: 1 << 63,
                text: Some(Box::new(known_text())),
                visited_ms: 1 << 40,
            }],
        }),
    );
    kept.check(
        "renewed",
        &ToFetcher::Renewed {
            job: job(),
            sequence: 1,
        },
    );
}

fn check_reports(kept: &mut Kept) {
    let response = RequestEnd::Response(ResponseSummary {
        status: 200,
        bytes: 9,
        truncated: true,
        elapsed_us: 7,
        retry_after_s: Some(1),
        fetched_at_ms: 8,
        media_type: "text/html".into(),
        validators: validators(),
        lacks: Some(Lack::Length),
        wall: "cloudflare".into(),
        price: "USD 0.01".into(),
        says_usage: true,
        body: 1 << 63,
        fresh_s: 60,
    });
    kept.check(
        "report",
        &Report {
            job: job(),
            fetcher: "0".into(),
            partition: 1,
            server: "http://a.test".into(),
            sequence: 1,
            last: true,
            results: vec![
                RequestResult {
                    slot: 1,
                    end: response,
                },
                RequestResult {
                    slot: 2,
                    end: RequestEnd::Failure(FailureKind::NoLength),
                },
            ],
            connect_us: Some(5),
            requests: 2,
            busy_us: 6,
            elapsed_us: 7,
            closed_by_server: false,
            robots: Some(robots()),
        },
    );
}

fn check_pages_and_outcomes(kept: &mut Kept) {
    kept.check(
        "page",
        &Page {
            url: "http://a.test/".into(),
            origin: origin(),
            status: 200,
            fetched_at_ms: 1,
            elapsed_us: 2,
            address: addresses().first().copied(),
            http_version: HttpVersion::Http2,
            request_headers: vec![("user-agent".into(), b"rhumb".to_vec())],
            headers: vec![("content-type".into(), b"text/html".to_vec())],
            truncated: Some(Truncation::Time),
            body: b"<base href=/b/><a href=../y?z>".to_vec(),
            is_robots: true,
            wall: "cloudflare".into(),
            usage: signals(),
            visit: 2,
            is_unchanged: true,
            text: Some(known_text()),
            visited_ms: 1 << 40,
        },
    );
    let entry = OutcomeEntry {
        url: "http://a.test/".into(),
        serial: 1,
        origin: origin(),
        outcome: Outcome::Failed,
        status: 0,
        fetched_at_ms: 1,
        media_type: "text/html".into(),
        bytes: 0,
        truncated: false,
        elapsed_us: 2,
        attempts: 3,
        reason: "timeout".into(),
        wall: "cloudflare".into(),
        price: "USD 0.01".into(),
        usage: signals(),
        says_usage: true,
        visit: 2,
        change: Change::Back,
        before: PageState::Gone,
        is_final: true,
    };
    kept.check(
        "entries",
        &Outcomes {
            entries: vec![entry],
        },
    );
}

fn check_errands_and_content(kept: &mut Kept) {
    kept.check(
        "wanted",
        &Errand::Wanted {
            url: "http://b.test/robots.txt".into(),
            server: "http://a.test".into(),
        },
    );
    kept.check(
        "found",
        &Errand::Found {
            server: "http://a.test".into(),
            response: Some(robots()),
        },
    );
    // An earlier build had a call for each kind of quota.
    for (name, key) in [
        ("tokens", "domain.a.test"),
        ("topic_tokens", "topic.news"),
        ("rights", "address.192.0.2.1"),
    ] {
        kept.check(name, &Errand::Quota { key: key.into() });
    }

    let place = Place { url: 1, links: 2 };
    kept.check(
        "ask",
        &ContentAsk {
            bodies: vec![Body {
                fingerprint: 3,
                at: place,
            }],
        },
    );
    kept.check(
        "reply",
        &ContentReply {
            first: vec![None, Some(place)],
        },
    );

    let document = Document {
        url: "http://a.test/".into(),
        fetched_at_ms: 1,
        title: "A".into(),
        language: "en".into(),
        links: 2,
        cut: Some(Cut::SitemapLinks),
        usage: signals(),
        verdict: Verdict::Withheld(vec![Purpose::AiTrain]),
        text_changed: Some(true),
        similarity: Some(93),
    };
    kept.check(
        "entries",
        &Documents {
            entries: vec![document],
        },
    );
}

fn check_signals(kept: &mut Kept) {
    kept.check(
        "pages",
        &PageSignals {
            partition: 17,
            pages: vec![PageSignal {
                url: 7,
                host: 1 << 60,
                shape: 1 << 50,
                sketch: Some(3),
                usage: signals().stances,
                text: Some(SeenText {
                    visit: 2,
                    is_https: true,
                    port: 443,
                    is_changed: Some(false),
                    known: known_text(),
                }),
            }],
            dated: vec![DatedPage {
                url: 8,
                host: 1 << 61,
                is_https: true,
                port: 8443,
                at_ms: 1_700_000_000_000,
                kind: SignalKind::Feed,
                by: 9,
                waited_ms: 3_600_000,
            }],
        },
    );
}
