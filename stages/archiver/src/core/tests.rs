//! Examples of the core: what is written when, and what waits for what.

use super::*;
use crate::page::tests::page;
use crate::settings::{DOCUMENT_WAIT_MAX, OUTCOME_WAIT};
use crate::usage::tests::{reader, with_header};
use rhumb_config::{Unwanted, WarcFormat};
use rhumb_usage::Signals;
use rhumb_wire::message::Origin;
use std::path::PathBuf;

const LINGER: Duration = Duration::from_millis(200);

struct Bench {
    core: Archiver,
    now: Timestamp,
    tickets: u64,
    out: Output<Effect>,
}

impl Bench {
    fn new() -> Bench {
        let settings = Settings {
            file_bytes_max: 1000,
            file_age_max: Duration::from_secs(60),
            linger: LINGER,
            format: WarcFormat::Gzip,
            compression: 1,
            by_topic: false,
            outcome_wait: OUTCOME_WAIT,
            document_wait_max: DOCUMENT_WAIT_MAX,
            usage: reader(Unwanted::Withhold),
            digests: 10,
            pages: 10,
            log: (PathBuf::new(), 0),
            origin_ms: 0,
        };
        let core = Archiver::new(settings, Found::default());
        Bench {
            core,
            now: Timestamp::ZERO,
            tickets: 0,
            out: Output::default(),
        }
    }

    fn step(&mut self, event: Event<Input, Answer>) {
        self.core.step(self.now, event, &mut self.out).unwrap();
    }

    fn input(&mut self, input: Input) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.step(Event::Message { ticket, input });
        ticket
    }

    fn page(&mut self, url: &str, at: u64) -> Ticket {
        self.input(Input::Page(Box::new(page(url, at, url.as_bytes()))))
    }

    fn outcome(&mut self, urls: &[(&str, u64, Outcome)]) -> Ticket {
        let entries = urls
            .iter()
            .map(|(url, at, outcome)| entry(url, *at, *outcome))
            .collect();
        self.input(Input::Outcomes(Outcomes { entries }))
    }

    fn document(&mut self, url: &str, at: u64) -> Ticket {
        let document = Document {
            url: url.into(),
            fetched_at_ms: at,
            title: format!("title {url}"),
            ..Document::default()
        };
        self.input(Input::Documents(Documents {
            entries: vec![document],
        }))
    }

    fn wait(&mut self, wait: Duration) {
        self.now = self.now + wait;
        self.step(Event::Wake);
    }

    /// The batch that is to be written: URLs of its pages, its lines.
    fn batch(&mut self) -> Option<(Vec<String>, String)> {
        let effect = self.out.effects.pop()?;
        assert!(self.out.effects.is_empty(), "one thing at a time");
        let Effect::Write(batch) = effect else {
            panic!("{effect:?}")
        };
        let entries = batch.records.values().flat_map(|records| &records.entries);
        Some((
            entries.map(|(line, _)| line.url.clone()).collect(),
            batch.lines.clone(),
        ))
    }

    fn written(&mut self, bytes: u64) -> Vec<Ticket> {
        self.step(Event::Answer(Answer::Written(Some(bytes))));
        std::mem::take(&mut self.out.finished)
    }
}

fn entry(url: &str, fetched_at_ms: u64, outcome: Outcome) -> OutcomeEntry {
    OutcomeEntry {
        url: url.into(),
        serial: fetched_at_ms,
        origin: Origin::seed("t"),
        outcome,
        status: 200,
        fetched_at_ms,
        media_type: "text/html".into(),
        bytes: 1,
        elapsed_us: 1,
        attempts: 1,
        ..OutcomeEntry::default()
    }
}

#[test]
fn pages_are_written_together_and_finished_when_they_are_on_the_disk() {
    let mut bench = Bench::new();
    let first = bench.page("http://a.test/1", 1);
    assert!(bench.batch().is_none() && bench.core.wake_at() == Some(bench.now + LINGER));
    let second = bench.page("http://a.test/2", 2);
    bench.wait(LINGER);
    let (urls, _) = bench.batch().expect("a batch");
    assert_eq!(urls, ["http://a.test/1", "http://a.test/2"]);
    let third = bench.page("http://a.test/3", 3);
    bench.wait(LINGER);
    assert!(
        bench.batch().is_none() && bench.out.finished.is_empty(),
        "one is being written"
    );
    assert_eq!(bench.written(500), [first, second]);
    assert_eq!(
        bench.batch().expect("the next batch").0,
        ["http://a.test/3"]
    );
    assert_eq!(bench.written(600), [third]);
}

#[test]
fn what_comes_again_is_not_written_again_nor_finished_before_it_is_written() {
    let mut bench = Bench::new();
    let first = bench.page("http://a.test/", 1);
    bench.wait(LINGER);
    bench.batch().expect("a batch");
    let again = bench.page("http://a.test/", 1);
    assert!(
        bench.out.finished.is_empty(),
        "the page is not on the disk yet"
    );
    assert_eq!(bench.written(500), [first]);
    bench.wait(LINGER);
    assert_eq!(bench.batch(), Some((vec![], String::new())));
    assert_eq!(bench.written(500), [again]);
    let later = bench.page("http://a.test/", 2);
    bench.wait(LINGER);
    assert_eq!(
        bench.batch().expect("another response of the URL").0.len(),
        1
    );
    assert_eq!(bench.written(600), [later]);

    for expected in [1, 0] {
        let ticket = bench.outcome(&[("http://a.test/", 0, Outcome::Gone)]);
        bench.wait(LINGER);
        assert_eq!(bench.batch().expect("a batch").1.lines().count(), expected);
        assert_eq!(bench.written(600), [ticket]);
    }
}

#[test]
fn a_write_that_fails_is_tried_again_and_nothing_is_lost() {
    let mut bench = Bench::new();
    let ticket = bench.page("http://a.test/", 1);
    bench.wait(LINGER);
    let batch = bench.batch();
    assert_eq!(bench.core.hindrance(bench.now), None);
    bench.step(Event::Answer(Answer::Written(None)));
    assert!(
        bench
            .core
            .hindrance(bench.now)
            .is_some_and(|why| why.contains("free space")),
        "it is not ready"
    );
    assert!(bench.out.finished.is_empty() && bench.batch().is_none());
    assert!(!bench.core.is_idle());
    bench.wait(RETRY_WAIT);
    assert_eq!(bench.batch(), batch);
    assert_eq!(bench.written(500), [ticket]);

    bench.step(Event::Drain);
    for is_finished in [false, true] {
        assert!(matches!(bench.out.effects.pop(), Some(Effect::Finish)));
        assert!(!bench.core.is_idle());
        bench.step(Event::Answer(Answer::Finished(is_finished)));
        bench.wait(RETRY_WAIT);
    }
    assert!(bench.core.is_idle());
}

#[test]
fn an_outcome_waits_for_the_title_of_its_page_but_not_for_long() {
    let mut bench = Bench::new();
    // The document first, the outcome first, no document at all, and one that has none.
    let document = bench.document("http://a.test/1", 1);
    let known = bench.outcome(&[("http://a.test/1", 1, Outcome::Fetched)]);
    let both = bench.outcome(&[
        ("http://a.test/2", 2, Outcome::Fetched),
        ("http://a.test/3", 3, Outcome::Fetched),
    ]);
    let gone = bench.outcome(&[("http://a.test/4", 4, Outcome::Gone)]);
    let late = bench.document("http://a.test/2", 2);
    bench.wait(LINGER);
    let (_, lines) = bench.batch().expect("a batch");
    let titles: Vec<bool> = lines
        .lines()
        .map(|line| line.contains("\"title\":\"title http://a.test/"))
        .collect();
    assert_eq!(titles, [true, false, true], "{lines}");
    assert_eq!(bench.written(0), [document, known, gone, late]);
    assert!(!bench.core.is_idle());
    bench.wait(DOCUMENT_WAIT);
    bench.wait(LINGER);
    assert!(bench.batch().expect("a batch").1.contains("a.test/3"));
    assert_eq!(bench.written(0), [both]);
    assert!(bench.core.is_idle());

    // A document that comes too late holds nothing up.
    let late = bench.document("http://a.test/3", 3);
    bench.wait(LINGER);
    assert_eq!(bench.batch(), Some((vec![], String::new())));
    assert_eq!(bench.written(0), [late]);

    // A document whose outcome never comes.
    let alone = bench.document("http://a.test/5", 5);
    bench.wait(OUTCOME_WAIT);
    bench.wait(LINGER);
    assert_eq!(bench.batch(), Some((vec![], String::new())));
    assert_eq!(bench.written(0), [alone]);
}

/// Goal: all outcomes wait whose documents the parser may tell of, and no others.
#[test]
fn outcomes_wait_whose_bodies_are_read_for_links() {
    for (outcome, status, media_type, may_be) in [
        (Outcome::Fetched, 200, "text/html", true),
        (Outcome::Fetched, 300, "text/html", true),
        (Outcome::Fetched, 200, "", true),
        (Outcome::Fetched, 200, "application/rss+xml", true),
        (Outcome::Fetched, 200, "application/gzip", true),
        (Outcome::Fetched, 200, "application/x-gzip", true),
        (Outcome::Fetched, 200, "image/png", false),
        (Outcome::Failed, 302, "text/html", true),
        (Outcome::Failed, 302, "image/png", false),
        (Outcome::Failed, 500, "text/html", false),
        (Outcome::Failed, 0, "", false),
        (Outcome::Redirected, 302, "text/html", false),
        (Outcome::NotModified, 304, "text/html", false),
        (Outcome::Gone, 404, "text/html", false),
    ] {
        let entry = OutcomeEntry {
            status,
            media_type: media_type.into(),
            ..entry("http://a.test/", 1, outcome)
        };
        assert_eq!(
            may_be_document(&entry),
            may_be,
            "{outcome:?} {status} {media_type}"
        );
    }
    let mut sitemap = OutcomeEntry {
        media_type: "image/png".into(),
        ..entry("http://a.test/s", 1, Outcome::Fetched)
    };
    sitemap.origin.page = Origin::page_of_sitemaps("http://a.test/robots.txt", "http://a.test");
    assert!(may_be_document(&sitemap), "named, whatever its type");
}

#[test]
fn an_outcome_waits_for_what_is_said_of_the_use_of_its_page_whatever_it_is() {
    let image = OutcomeEntry {
        media_type: "image/png".into(),
        ..entry("http://a.test/", 1, Outcome::Fetched)
    };
    assert!(!may_be_document(&image));
    assert!(may_be_document(&OutcomeEntry {
        says_usage: true,
        ..image
    }));
}

/// Goal: what becomes of a page is what is configured at the moment, for the page and for its line.
#[test]
fn the_body_and_the_title_of_an_unwilling_owner_are_not_written() {
    let mut bench = Bench::new();
    let url = "http://a.test/";
    let refusing = with_header(page(url, 1, b"their text"), "content-signal", "ai-train=no");
    bench.input(Input::Page(Box::new(refusing)));
    let usage = Signals::of_robots_txt("content-signal: ai-train=no\n");
    let document = Document {
        url: url.into(),
        fetched_at_ms: 1,
        title: "their title".into(),
        usage,
        ..Document::default()
    };
    bench.input(Input::Documents(Documents {
        entries: vec![document],
    }));
    bench.outcome(&[(url, 1, Outcome::Fetched)]);
    bench.wait(LINGER);
    let Some(Effect::Write(batch)) = bench.out.effects.pop() else {
        panic!("a batch is written")
    };
    assert!(
        batch
            .lines
            .contains(r#""verdict":"withheld","refused":["ai-train"]"#)
    );
    assert!(batch.lines.contains("\"title\":\"\","), "{}", batch.lines);
    let members = &batch.records[""].members;
    let plain = crate::page::tests::members(members).concat();
    assert!(plain.contains("usage-verdict: withheld") && !plain.contains("their text"));
    let withheld = bench.core.counts();
    assert!(withheld.contains(&("withheld_total", 1)), "{withheld:?}");
}

/// Goal: a parser that is behind costs no title, and an outcome without a document does not wait
/// for ever.
#[test]
fn an_outcome_waits_longer_while_documents_come() {
    let mut bench = Bench::new();
    bench.outcome(&[
        ("http://a.test/1", 1, Outcome::Fetched),
        ("http://a.test/never", 2, Outcome::Fetched),
    ]);
    let mut lines = String::new();
    let begun = bench.now;
    for other in 10.. {
        bench.wait(Duration::from_secs(2));
        bench.document(&format!("http://b.test/{other}"), other);
        if other == 15 {
            bench.document("http://a.test/1", 1);
        }
        if let Some((_, more)) = bench.batch() {
            lines.push_str(&more);
            bench.written(0);
        }
        if lines.contains("a.test/never") {
            break;
        }
    }
    assert!(
        lines.contains("\"title\":\"title http://a.test/1\""),
        "{lines}"
    );
    let waited = bench.now.since(begun);
    assert!(
        (DOCUMENT_WAIT_MAX..DOCUMENT_WAIT_MAX + DOCUMENT_WAIT).contains(&waited),
        "{waited:?}"
    );
}

#[test]
fn a_file_is_finished_when_it_is_large_or_old_or_the_end_has_come() {
    let mut bench = Bench::new();
    let finishes = |bench: &mut Bench| {
        let effect = bench.out.effects.pop();
        let is_finish = matches!(effect, Some(Effect::Finish));
        if is_finish {
            bench.step(Event::Answer(Answer::Finished(true)));
        }
        is_finish
    };
    bench.page("http://a.test/1", 1);
    bench.wait(LINGER);
    bench.batch().expect("a batch");
    bench.written(1000);
    assert!(finishes(&mut bench), "large");

    bench.page("http://a.test/2", 2);
    bench.wait(LINGER);
    bench.batch().expect("a batch");
    bench.written(500);
    assert!(!finishes(&mut bench));
    assert_eq!(
        bench.core.wake_at(),
        Some(bench.now + Duration::from_secs(60))
    );
    bench.wait(Duration::from_secs(60));
    assert!(finishes(&mut bench), "old");

    bench.page("http://a.test/3", 3);
    bench.outcome(&[("http://a.test/9", 9, Outcome::Fetched)]);
    bench.step(Event::Drain);
    let (urls, lines) = bench.batch().expect("what is held");
    assert_eq!((urls.len(), lines.lines().count()), (1, 1));
    assert!(!bench.core.is_idle());
    bench.written(500);
    assert!(finishes(&mut bench), "the end");
    assert!(bench.core.is_idle());
}

#[test]
fn the_table_of_metrics_has_a_row_for_each_number_and_no_other() {
    let core = Bench::new().core;
    assert_eq!(
        rhumb_telemetry::metrics::unlike(
            crate::metrics::METRICS,
            &core.counts(),
            &core.histograms()
        ),
        [""; 0]
    );
}

#[test]
fn topics_have_series_of_their_own_where_they_are_to_and_names_that_are_none_go_with_what_has_no_topic()
 {
    for (by_topic, expected) in [(true, vec!["", "docs", "news"]), (false, vec![""])] {
        let mut bench = Bench::new();
        bench.core.settings.by_topic = by_topic;
        for (number, topic) in ["news", "docs", "", "../x", "news"].into_iter().enumerate() {
            let mut page = page(
                &format!("http://a.test/{number}"),
                1,
                format!("{number}").as_bytes(),
            );
            page.origin.topic = topic.into();
            bench.input(Input::Page(Box::new(page)));
        }
        bench.wait(LINGER);
        let Some(Effect::Write(batch)) = bench.out.effects.pop() else {
            panic!("nothing is written")
        };
        assert_eq!(batch.records.keys().collect::<Vec<_>>(), expected);
        assert_eq!(
            batch
                .records
                .values()
                .map(|records| records.entries.len())
                .sum::<usize>(),
            5
        );
    }
}
