mod batches;
mod halves;

use super::*;
use crate::meta::{COUNTS, SERIALS, key};
use proptest::prelude::*;
use rhumb_config::DedupStore;
use rhumb_stage::store::{Changes, MemoryStore};
use rhumb_url::partition;
use rhumb_wire::message::{Body, NewUrls, Origin};
use std::collections::{HashMap, HashSet};

const PARTITIONS: u16 = 4;

fn settings(store: DedupStore) -> Settings {
    // Small, so that filters grow and cached fingerprints displace each other.
    Settings {
        directory: Directory::new(PARTITIONS),
        partition_urls_max: 0,
        generation: 1,
        seen: seen::Settings {
            store,
            buffer_bytes: 600,
            flush_after: Duration::from_secs(1),
            filter_urls: 8,
            filter_bytes_max: 64,
            sync: false,
        },
    }
}

fn cache() -> UrlCache {
    UrlCache::replacing(4, Box::new(rhumb_url::url_cache::Clock::new(4)))
}

/// The state of an instance, which outlives it.
struct State {
    store: Arc<MemoryStore>,
    seen: DedupStore,
    folder: tempfile::TempDir,
}

impl State {
    fn new() -> Self {
        State::with(DedupStore::Disk)
    }

    fn with(seen: DedupStore) -> Self {
        State {
            store: Arc::new(MemoryStore::default()),
            seen,
            folder: tempfile::tempdir().unwrap(),
        }
    }
}

fn opened(state: &State, settings: &Settings, partitions: &[u16]) -> Result<Dedup, StoreError> {
    let seen = MovingKeys::open(
        &settings.seen,
        state.store.as_ref(),
        state.folder.path().into(),
        partitions,
    )?;
    Dedup::open(settings, cache(), partitions, state.store.clone(), seen)
}

fn open(state: &State, partitions: &[u16]) -> Dedup {
    opened(state, &settings(state.seen), partitions).unwrap()
}

fn origin(page: &str) -> Origin {
    Origin {
        page: page.into(),
        topic: "t".into(),
        depth: 1,
        ..Origin::default()
    }
}

fn batch(urls: &[(&str, u32)], pages: &[&str]) -> SplitUrls {
    SplitUrls {
        origins: pages.iter().map(|page| origin(page)).collect(),
        urls: urls.iter().map(|(url, _)| url).collect(),
        origin_of: urls.iter().map(|(_, origin)| *origin).collect(),
        ..SplitUrls::default()
    }
}

fn step(core: &mut Dedup, input: SplitUrls) -> Output<Infallible> {
    let mut out = Output::default();
    core.step(
        Timestamp::ZERO,
        Event::Message {
            ticket: Ticket(1),
            input: Input::Split(input),
        },
        &mut out,
    )
    .unwrap();
    out
}

/// Steps and commits, as the loop does.
fn run(core: &mut Dedup, input: SplitUrls) -> Vec<NewUrls> {
    let mut outs = vec![step(core, input)];
    core.store.commit(&outs[0].changes).unwrap();
    core.committed().unwrap();
    // What the store has not answered at once it answers when nothing comes for a while.
    while let Some(at) = core.wake_at() {
        let mut out = Output::default();
        core.step(at.max(Timestamp::ZERO + IDLE), Event::Wake, &mut out)
            .unwrap();
        core.store.commit(&out.changes).unwrap();
        core.committed().unwrap();
        outs.push(out);
    }
    assert_eq!(
        outs.iter()
            .flat_map(|out| &out.finished)
            .collect::<Vec<_>>(),
        [&Ticket(1)]
    );
    outs.iter()
        .flat_map(|out| &out.publishes)
        .map(|publish| decode(&publish.payload).unwrap())
        .collect()
}

fn counts(core: &Dedup) -> HashMap<&'static str, u64> {
    core.counts().into_iter().collect()
}

fn assert_conserved(core: &Dedup) {
    let counts = counts(core);
    let judged = counts["repeated_total"] + counts["new_total"];
    let sum = counts["filtered_total"] + counts["misrouted_total"] + judged;
    assert_eq!(counts["found_total"], sum, "P3");
    assert_eq!(counts["new_in_generation"], counts["new_total"]);
}

#[test]
fn a_url_is_new_once_within_a_batch_and_across_batches() {
    let store = State::new();
    let mut core = open(&store, &[0, 1, 2, 3]);
    let urls = [
        ("http://a.test/1", 0),
        ("http://a.test/2", 1),
        ("http://a.test/1", 1),
    ];
    let [new] = &run(&mut core, batch(&urls, &["p0", "p1"]))[..] else {
        panic!("one message")
    };
    assert_eq!(
        new.urls.iter().collect::<Vec<_>>(),
        ["http://a.test/1", "http://a.test/2"]
    );
    assert_eq!(new.partition, partition("a.test", PARTITIONS));
    assert_eq!(run(&mut core, batch(&urls, &["p0", "p1"])), []);
    assert_eq!(
        (counts(&core)["new_total"], counts(&core)["repeated_total"]),
        (2, 4)
    );
}

#[test]
fn only_the_origins_of_new_urls_travel_on() {
    let store = State::new();
    let mut core = open(&store, &[0, 1, 2, 3]);
    run(&mut core, batch(&[("http://a.test/1", 0)], &["p0"]));
    let urls = [
        ("http://a.test/1", 0),
        ("http://a.test/2", 2),
        ("http://a.test/3", 1),
        ("http://a.test/4", 2),
    ];
    let new = run(&mut core, batch(&urls, &["p0", "p1", "p2"])).remove(0);
    assert_eq!(new.origins, [origin("p2"), origin("p1")]);
    assert_eq!(new.origin_of, [0, 1, 0]);
    assert_eq!(new.first_serial, 2);
}

#[test]
fn serials_tell_the_generation_and_begin_anew_in_each() {
    let state = State::new();
    let open = |generation| {
        let settings = Settings {
            generation,
            ..settings(state.seen)
        };
        opened(&state, &settings, &[0, 1, 2, 3]).unwrap()
    };
    let serials = |core: &mut Dedup, url| run(core, batch(&[(url, 0)], &["p"]))[0].first_serial;
    let mut core = open(1);
    assert_eq!(
        [
            serials(&mut core, "http://a.test/1"),
            serials(&mut core, "http://a.test/2")
        ],
        [1, 2]
    );
    drop(core);
    let mut core = open(3);
    let follow = rhumb_config::identity::serials_follow(3);
    assert_eq!(serials(&mut core, "http://a.test/3"), follow + 1);
    assert_eq!(
        run(&mut core, batch(&[("http://a.test/1", 0)], &["p"])),
        [],
        "what was known stays known"
    );
    drop(core);
    let mut core = open(3);
    assert_eq!(serials(&mut core, "http://a.test/4"), follow + 2);
    assert_eq!(
        (
            counts(&core)["new_total"],
            counts(&core)["new_in_generation"]
        ),
        (4, 2)
    );
}

#[test]
fn counts_made_upstream_are_taken_over() {
    let store = State::new();
    let mut core = open(&store, &[0]);
    run(
        &mut core,
        SplitUrls {
            filtered: [1, 2, 3, 4, 0, 0, 0],
            ..SplitUrls::default()
        },
    );
    let counts = counts(&core);
    assert_eq!(
        (
            counts["found_total"],
            counts["filtered_total"],
            counts["filtered_form_total"]
        ),
        (10, 10, 4)
    );
}

#[test]
fn urls_of_partitions_that_others_own_are_left_out_and_counted() {
    let store = State::new();
    let own = partition("a.test", PARTITIONS);
    let other = (0..)
        .map(|n| format!("h{n}.test"))
        .find(|host| partition(host, PARTITIONS) != own)
        .unwrap();
    let mut core = open(&store, &[own]);
    let new = run(
        &mut core,
        batch(
            &[(&format!("http://{other}/"), 0), ("http://a.test/", 0)],
            &["p"],
        ),
    );
    assert_eq!(new.len(), 1);
    assert_eq!(
        (
            counts(&core)["misrouted_total"],
            counts(&core)["found_total"]
        ),
        (1, 2)
    );
    assert_conserved(&core);
}

/// Goal: counts move with their partition, and a step writes one row of them. Method: the rows of
/// one partition alone are copied into another state.
#[test]
fn what_is_counted_counts_in_the_partition_of_its_batch() {
    let state = State::new();
    let own = partition("a.test", PARTITIONS);
    let other = (0..)
        .map(|n| format!("h{n}.test"))
        .find(|host| partition(host, PARTITIONS) != own)
        .unwrap();
    let mut core = open(&state, &[0, 1, 2, 3]);
    let counted = SplitUrls {
        filtered: [1; 7],
        repeated: 2,
        ..batch(&[("http://a.test/", 0)], &["p"])
    };
    let out = step(&mut core, counted);
    let rows: Vec<&[u8]> = out
        .changes
        .entries
        .iter()
        .map(|(_, key, _)| key.as_slice())
        .collect();
    assert_eq!(
        rows.iter()
            .filter(|row| row.len() == 3 && row[2] == COUNTS)
            .collect::<Vec<_>>(),
        [&key(own, COUNTS)]
    );
    core.store.commit(&out.changes).unwrap();
    let out = step(&mut core, SplitUrls::default());
    assert!(out.changes.entries.is_empty(), "nothing was counted");
    run(
        &mut core,
        batch(&[(&format!("http://{other}/"), 0)], &["p"]),
    );
    assert_conserved(&core);
    let moved = State::new();
    let mut changes = Changes::default();
    let row = state.store.get(META, &key(own, COUNTS)).unwrap().unwrap();
    changes.put(META, key(own, COUNTS), row);
    moved.store.commit(&changes).unwrap();
    let here = counts(&open(&moved, &[own]));
    let all = counts(&open(&state, &[0, 1, 2, 3]));
    let of = |counts: &HashMap<_, _>| {
        [
            "found_total",
            "filtered_total",
            "repeated_total",
            "new_total",
        ]
        .map(|n| counts[n])
    };
    assert_eq!((of(&here), of(&all)), ([10, 7, 2, 1], [11, 7, 2, 2]));
}

#[test]
fn a_url_without_an_origin_is_corrupt() {
    for broken in [
        batch(&[("http://a.test/", 1)], &["p"]),
        SplitUrls {
            origin_of: vec![0],
            ..batch(&[], &["p"])
        },
    ] {
        let payload = rhumb_wire::message::encode(&broken);
        assert!(matches!(
            Dedup::decode(Edge::UrlsSplit, &payload),
            Err(Undecodable::Corrupt(_))
        ));
    }
}

#[test]
fn a_step_that_was_not_committed_never_was() {
    let store = State::new();
    let mut core = open(&store, &[0, 1, 2, 3]);
    step(&mut core, batch(&[("http://a.test/", 0)], &["p"]));
    let mut core = open(&store, &[0, 1, 2, 3]);
    assert_eq!(counts(&core)["found_total"], 0);
    assert_eq!(
        run(&mut core, batch(&[("http://a.test/", 0)], &["p"])).len(),
        1
    );
}

/// The URLs of a batch as an injection wants them.
fn injected(again: u64, urls: &[&str]) -> SplitUrls {
    let urls: Vec<(&str, u32)> = urls.iter().map(|url| (*url, 0)).collect();
    SplitUrls {
        origins: vec![Origin {
            again,
            ..origin("")
        }],
        ..batch(&urls, &["p"])
    }
}

#[test]
fn a_url_that_is_injected_again_is_new_once_more_for_each_injection() {
    for kind in [DedupStore::Disk, DedupStore::Memory] {
        let state = State::with(kind);
        let mut core = open(&state, &[0, 1, 2, 3]);
        let news = |core: &mut Dedup, input| -> Vec<String> {
            let news = run(core, input);
            news.iter()
                .flat_map(|new| new.urls.iter().map(str::to_owned).collect::<Vec<_>>())
                .collect()
        };
        assert_eq!(
            news(&mut core, batch(&[("http://a.test/1", 0)], &["p"])),
            ["http://a.test/1"]
        );
        assert_eq!(
            news(&mut core, injected(7, &["http://a.test/1"])),
            ["http://a.test/1"]
        );
        // The same injection in another message, in this life and the next.
        assert!(
            news(
                &mut core,
                injected(7, &["http://a.test/1", "http://a.test/1"])
            )
            .is_empty()
        );
        let mut core = open(&state, &[0, 1, 2, 3]);
        assert!(news(&mut core, injected(7, &["http://a.test/1"])).is_empty());
        assert_eq!(
            news(&mut core, injected(8, &["http://a.test/1"])),
            ["http://a.test/1"]
        );
        // One that was not met before is known from then on.
        assert_eq!(
            news(&mut core, injected(8, &["http://a.test/2"])),
            ["http://a.test/2"]
        );
        assert!(news(&mut core, batch(&[("http://a.test/2", 0)], &["p"])).is_empty());
        assert_conserved(&core);
        assert_eq!(
            (counts(&core)["new_total"], counts(&core)["repeated_total"]),
            (4, 4)
        );
    }
}

proptest! {
    /// Goal: P3 and P4 across crashes. Method: random batches against a set; between any two steps
    /// the core may be dropped and opened again, before or after the commit of the step; the
    /// uncommitted step is given again.
    #[test]
    fn each_url_is_new_exactly_once_whatever_crashes(
        batches in proptest::collection::vec(
            (proptest::collection::vec((0u8..6, 0u8..20), 0..20), 0u8..3, 0u32..5), 0..40),
        in_memory in any::<bool>(),
    ) {
        let store = State::with(if in_memory { DedupStore::Memory } else { DedupStore::Disk });
        let all = [0, 1, 2, 3];
        let mut core = open(&store, &all);
        let mut model = HashSet::new();
        let mut next_serial = HashMap::new();
        let mut found = 0;
        let mut filtered = 0;
        for (links, crash, rejected) in batches {
            let urls: Vec<String> = links.iter().map(|(host, path)| format!("http://h{host}.test/{path}")).collect();
            let urls: Vec<(&str, u32)> = urls.iter().map(|url| (url.as_str(), 0)).collect();
            let input = SplitUrls { filtered: [rejected, 0, 0, 0, 0, 0, 0], ..batch(&urls, &["p"]) };
            if crash == 1 {
                step(&mut core, input.clone());
                core = open(&store, &all);
            }
            let news = run(&mut core, input);
            if crash == 2 {
                core = open(&store, &all);
            }
            let mut expected = HashSet::new();
            for (url, _) in &urls {
                if model.insert((*url).to_owned()) {
                    expected.insert((*url).to_owned());
                }
            }
            let mut given = HashSet::new();
            for new in news {
                let serial = next_serial.entry(new.partition).or_insert(1);
                prop_assert_eq!(new.first_serial, *serial);
                *serial += new.urls.len() as u64;
                for url in new.urls.iter() {
                    prop_assert_eq!(partition(host_of(url), PARTITIONS), new.partition);
                    prop_assert!(given.insert(url.to_owned()));
                }
            }
            prop_assert_eq!(given, expected);
            found += urls.len() as u64 + u64::from(rejected);
            filtered += u64::from(rejected);
            assert_conserved(&core);
            prop_assert_eq!((counts(&core)["found_total"], counts(&core)["filtered_total"]), (found, filtered));
        }
    }
}

#[test]
fn a_body_belongs_to_the_first_page_that_asked_for_ever() {
    let store = State::new();
    let mut core = open(&store, &[0, 1, 2, 3]);
    let body = |fingerprint, url| Body {
        fingerprint,
        at: Place { url, links: 5 },
    };
    let ask = |core: &mut Dedup, bodies: &[Body]| {
        let mut out = Output::default();
        let input = Input::Content(ContentAsk {
            bodies: bodies.to_vec(),
        });
        core.step(
            Timestamp::ZERO,
            Event::Message {
                ticket: Ticket(1),
                input,
            },
            &mut out,
        )
        .unwrap();
        core.store.commit(&out.changes).unwrap();
        assert_eq!(out.finished, [Ticket(1)]);
        let reply: ContentReply = decode(&out.replies[0].1).unwrap();
        reply
            .first
            .iter()
            .map(|first| first.map(|place| place.url))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ask(&mut core, &[body(1, 10), body(2, 11), body(1, 12)]),
        [None, None, Some(10)]
    );
    let mut reopened = open(&store, &[0, 1, 2, 3]);
    assert_eq!(
        ask(&mut reopened, &[body(1, 10), body(1, 13), body(2, 10)]),
        [None, Some(10), Some(11)]
    );
    let mut others = open(&store, &[1]);
    assert_eq!(
        ask(&mut others, &[body(1, 99)]),
        [None],
        "of a partition that it does not own it knows nothing"
    );
}

#[test]
fn a_state_that_does_not_say_what_was_seen_is_refused() {
    let state = State::new();
    let mut core = open(&state, &[0, 1, 2, 3]);
    let out = step(
        &mut core,
        batch(&[("http://a.test/1", 0)], &["http://a.test/"]),
    );
    state.store.commit(&out.changes).unwrap();
    drop(core);
    let reopen = || opened(&state, &settings(state.seen), &[0, 1, 2, 3]).err();
    assert!(reopen().is_none());
    let own = partition("a.test", PARTITIONS);
    let serials = key(own, SERIALS);
    let counts = key(own, COUNTS);
    let serials_earlier = own.to_be_bytes();
    let unreadable: [&[u8]; 4] = [&serials, &counts, &serials_earlier, b"counters"];
    for (key, value) in unreadable
        .map(|key| (key, Some(vec![1, 2, 3])))
        .into_iter()
        .chain([(SEEN, None)])
    {
        let before = state.store.get(META, key).unwrap();
        let mut changes = Changes::default();
        changes.entries.push((META, key.to_vec(), value));
        state.store.commit(&changes).unwrap();
        let error = reopen().expect("an error");
        assert!(
            matches!(error, StoreError::Unusable(_))
                && error.to_string().contains("delete the crawl"),
            "{error}"
        );
        let mut changes = Changes::default();
        changes.entries.push((META, key.to_vec(), before));
        state.store.commit(&changes).unwrap();
    }
}

/// P6: the text of URLs that wait is held once per batch, and no more of it than the buffer may
/// take.
#[test]
fn batches_that_wait_are_bounded_by_the_buffer() {
    let state = State::new();
    let mut large = settings(state.seen);
    large.seen.buffer_bytes = 1 << 20;
    let mut core = opened(&state, &large, &[0, 1, 2, 3]).unwrap();
    core.held_bytes_max = 150_000;
    let mut largest = 0;
    let urls: Vec<String> = (0..200)
        .map(|n| format!("http://a.test/{n}/{}", "x".repeat(500)))
        .collect();
    let all: Vec<(&str, u32)> = urls.iter().map(|url| (url.as_str(), 0)).collect();
    for round in 0..40 {
        let input = Input::Split(batch(&all[round..round + 100], &["http://a.test/"]));
        let mut out = Output::default();
        core.step(
            Timestamp::ZERO,
            Event::Message {
                ticket: Ticket(round as u64),
                input,
            },
            &mut out,
        )
        .unwrap();
        state.store.commit(&out.changes).unwrap();
        assert!(
            core.held.bytes() <= core.held_bytes_max,
            "{}",
            core.held.bytes()
        );
        assert_eq!(core.held.bytes(), core.held.bytes_counted());
        largest = largest.max(core.held.bytes());
    }
    assert!(largest > 50_000, "batches wait: {largest}");
}

#[test]
fn the_table_of_metrics_has_a_row_for_each_number_and_no_other() {
    let state = State::new();
    let core = open(&state, &[0]);
    assert_eq!(
        rhumb_telemetry::metrics::unlike(
            crate::metrics::METRICS,
            &core.counts(),
            &core.histograms()
        ),
        [""; 0]
    );
}
