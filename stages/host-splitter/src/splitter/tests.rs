use super::*;
use crate::batches::BATCH_BYTES_MAX;
use proptest::prelude::*;
use rhumb_config::Layers;
use rhumb_config::scope_entry::ScopeEntry;
use rhumb_stage::{Publish, Send};
use rhumb_url::host_of;
use rhumb_url::partition;
use rhumb_url::url_cache::Clock;
use rhumb_wire::message::{LastVisit, Origin, PageState, SplitUrls};
use std::collections::HashMap;

mod boosts;
mod elsewhere;

const LINGER: Duration = Duration::from_millis(50);

fn settings(follow: &str) -> Settings {
    settings_with(&[&format!("scope.follow={follow}")])
}

fn settings_with(set: &[&str]) -> Settings {
    let common = [
        "network.allow_private_addresses=true",
        "scope.max_depth=5",
        "limits.redirects=3",
        "limits.url_bytes_max=64",
    ];
    let common = common.into_iter().chain([
        "limits.segment_repeats=5",
        "limits.query_parameters=9",
        "partitions=8",
    ]);
    let set = common
        .chain(set.iter().copied())
        .map(str::to_owned)
        .collect();
    let pipeline = Layers { file: None, set }
        .load_with(std::iter::empty())
        .expect("a configuration");
    Settings {
        batch_urls_max: 4,
        linger: LINGER,
        ..Settings::from(&pipeline)
    }
}

fn found(seed: bool, urls: &[&str]) -> FoundUrls {
    let origin = Origin {
        page: if seed {
            String::new()
        } else {
            "http://page.test/".into()
        },
        topic: "t".into(),
        depth: u16::from(!seed),
        seed,
        ..Origin::default()
    };
    FoundUrls {
        origin,
        urls: urls.iter().collect(),
        ..FoundUrls::default()
    }
}

/// A page so many links from a seed that is given as known.
fn known(url: &str, depth: u16) -> FoundUrls {
    let last = LastVisit {
        at_ms: 1_769_860_800_000,
        number: 1,
        state: PageState::Page,
    };
    FoundUrls {
        origin: Origin::known("t", depth, last),
        ..found(true, &[url])
    }
}

/// A core with what it has put out so far.
struct Harness {
    core: Splitter,
    now: Timestamp,
    tickets: u64,
    publishes: Vec<Publish>,
    sends: Vec<Send>,
    finished: Vec<Ticket>,
    effects: Vec<Effect>,
}

impl Harness {
    fn new(settings: Settings) -> Self {
        Harness {
            core: Splitter::new(
                settings,
                UrlCache::replacing(6, Box::new(Clock::new(6))),
                1000,
            ),
            now: Timestamp::ZERO,
            tickets: 0,
            publishes: Vec::new(),
            sends: Vec::new(),
            finished: Vec::new(),
            effects: Vec::new(),
        }
    }

    fn step(&mut self, event: Event<FoundUrls, Answer>) {
        let mut out = Output::default();
        self.core.step(self.now, event, &mut out).unwrap();
        // Nothing is made from an input that was finished before (P3).
        let mut causes = out.publishes.iter().flat_map(|publish| &publish.causes);
        assert!(causes.all(|cause| !self.finished.contains(cause)));
        self.publishes.append(&mut out.publishes);
        self.sends.append(&mut out.sends);
        self.finished.append(&mut out.finished);
        self.effects.append(&mut out.effects);
    }

    fn input(&mut self, input: FoundUrls) -> Ticket {
        self.tickets += 1;
        self.step(Event::Message {
            ticket: Ticket(self.tickets),
            input,
        });
        Ticket(self.tickets)
    }

    /// Wakes the core whenever it wants to be, until it no longer does.
    fn settle(&mut self) {
        while let Some(at) = self.core.wake_at() {
            self.now = self.now.max(at);
            self.step(Event::Wake);
        }
    }

    /// All that was published is in its stream.
    fn store_all(&mut self) {
        let tags: Vec<u64> = self
            .publishes
            .iter()
            .filter_map(|publish| publish.tag)
            .collect();
        tags.into_iter()
            .for_each(|tag| self.step(Event::Stored(tag)));
    }

    fn batches(&self) -> Vec<SplitUrls> {
        self.publishes
            .iter()
            .map(|publish| decode(&publish.payload).unwrap())
            .collect()
    }

    fn urls(&self) -> Vec<String> {
        self.batches()
            .iter()
            .flat_map(|batch| batch.urls.iter().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    fn filtered(&self) -> [u32; FilterReason::ALL.len()] {
        let mut sum = [0; FilterReason::ALL.len()];
        for batch in self.batches() {
            for (sum, count) in sum.iter_mut().zip(batch.filtered) {
                *sum += count;
            }
        }
        sum
    }
}

fn followed(entry: &str) -> ScopeEntry {
    ScopeEntry {
        topic: "t".into(),
        entry: entry.into(),
    }
}

#[test]
fn what_was_handed_on_is_dropped_and_counted_once_it_is_stored_and_not_before() {
    let mut t = Harness::new(settings("any"));
    t.input(found(false, &["http://a.test/1"]));
    t.settle();
    t.input(found(false, &["http://a.test/1"]));
    t.settle();
    assert_eq!(
        t.urls().len(),
        2,
        "a batch that is not stored may be lost with the process"
    );
    t.store_all();
    let last = t.input(found(false, &["http://a.test/1", "http://a.test/2"]));
    assert!(
        !t.finished.contains(&last),
        "the count of what was dropped is not in a stream yet"
    );
    t.settle();
    assert!(t.finished.contains(&last));
    assert_eq!(t.urls()[2..], ["http://a.test/2"]);
    assert_eq!(
        t.batches()
            .iter()
            .map(|batch| batch.repeated)
            .collect::<Vec<_>>(),
        [0, 0, 1]
    );
    let counts: HashMap<_, _> = t.core.counts().into_iter().collect();
    assert_eq!((counts["found_total"], counts["repeated_total"]), (4, 1));
}

#[test]
fn urls_of_several_pages_travel_together_by_partition() {
    let mut t = Harness::new(settings("any"));
    let first = t.input(found(false, &["http://a.test/1", "http://a.test/2"]));
    let second = t.input(found(false, &["http://a.test/3"]));
    assert!(t.publishes.is_empty());
    assert!(
        t.finished.is_empty(),
        "what waits for company is not in a stream yet"
    );
    t.settle();
    assert_eq!(t.finished, [first, second]);
    let [batch] = &t.batches()[..] else {
        panic!("one batch")
    };
    assert_eq!(batch.origins.len(), 2);
    assert_eq!(batch.origin_of, [0, 0, 1]);
    assert_eq!(batch.number, 1000);
    assert_eq!(
        t.publishes[0].token,
        Token::Partition(partition("a.test", 8))
    );
    assert_eq!(t.publishes[0].causes, [first, second]);
    assert_eq!(t.now, Timestamp::ZERO + LINGER);
    assert!(t.core.is_idle());
}

#[test]
fn a_full_batch_leaves_at_once_and_the_rest_after_its_own_linger() {
    let mut t = Harness::new(settings("any"));
    t.input(found(
        false,
        &["http://a.test/1", "http://a.test/2", "http://a.test/3"],
    ));
    t.now = t.now + LINGER / 2;
    t.input(found(false, &["http://a.test/4", "http://a.test/5"]));
    assert_eq!(t.batches()[0].urls.len(), 4);
    assert_eq!(t.core.wake_at(), Some(t.now + LINGER));
    t.settle();
    assert_eq!(
        t.batches()[1].urls.iter().collect::<Vec<_>>(),
        ["http://a.test/5"]
    );
}

#[test]
fn each_reason_is_counted_in_the_order_of_the_filters() {
    let mut t = Harness::new(settings("any"));
    let long = format!("http://a.test/{}", "x".repeat(60));
    for bad in [
        long.as_str(),
        "ftp://a.test/",
        "http:///x",
        "http://?x",
        "http://A.test/",
        "http://u@a.test/",
        "http://a.test/ ",
        "http://a.test/\u{7f}",
        "http://a.test/é",
        "http:/a.test/",
        "",
        "httpss://a.test/",
        "http://a.test/%00",
    ] {
        t.input(found(false, &[bad]));
    }
    let mut hops = found(false, &["http://a.test/", "mailto:x"]);
    hops.origin.redirects = 4;
    hops.origin.depth = 6;
    t.input(hops);
    let mut deep = found(false, &["http://a.test/"]);
    deep.origin.depth = 6;
    t.input(deep);
    t.settle();
    assert_eq!(t.urls(), [""; 0]);
    assert_eq!(t.filtered(), [0, 1, 1, 14, 0, 0, 0]);
}

#[test]
fn hostile_urls_are_counted_and_those_beside_them_pass() {
    // No parser hands most of these on, but a message may hold anything that is a string.
    let hostile = [
        (
            format!("http://a.test/{}", "x".repeat(100_000)),
            FilterReason::Form,
        ),
        (
            format!("http://{}/", "x.".repeat(50_000)),
            FilterReason::Form,
        ),
        (
            format!("http://a.test/?{}", "a=1&".repeat(10_000)),
            FilterReason::Form,
        ),
        (
            format!("http://a.test/?{}", "a&".repeat(10)),
            FilterReason::Parameters,
        ),
        ("http://a.test/\0".to_owned(), FilterReason::Form),
        ("http://a\0.test/".to_owned(), FilterReason::Form),
        ("http://a.test/x%00y".to_owned(), FilterReason::Form),
        (
            String::from_utf8_lossy(b"http://a.test/\xFF").into_owned(),
            FilterReason::Form,
        ),
    ];
    let mut urls = vec!["http://a.test/first"];
    for (url, _) in &hostile {
        urls.extend([url.as_str(), "http://a.test/between"]);
    }
    for seed in [false, true] {
        let mut t = Harness::new(settings(if seed { "host" } else { "any" }));
        t.step(Event::Answer(Answer::Scope(followed("a.test"))));
        let ticket = t.input(found(seed, &urls));
        t.settle();
        assert_eq!(t.finished, [ticket]);
        assert_eq!(t.urls().len(), 1 + hostile.len());
        let filtered: Vec<FilteredUrls> = t
            .sends
            .iter()
            .map(|send| decode(&send.payload).unwrap())
            .collect();
        let told: Vec<(String, FilterReason)> = filtered
            .iter()
            .flat_map(|message| {
                message
                    .urls
                    .iter()
                    .map(str::to_owned)
                    .zip(message.reasons.iter().copied())
            })
            .collect();
        assert_eq!(told, hostile);
    }
}

#[test]
fn counts_of_rejected_urls_ride_in_the_next_batch_and_hold_their_inputs() {
    let mut t = Harness::new(settings("any"));
    let rejected = t.input(found(false, &["ftp://a.test/"]));
    let passed = t.input(found(false, &["http://a.test/", "ftp://a.test/"]));
    t.settle();
    let [batch] = &t.batches()[..] else {
        panic!("one batch")
    };
    assert_eq!(
        (batch.urls.len(), batch.filtered),
        (1, [0, 0, 0, 2, 0, 0, 0])
    );
    assert_eq!(t.publishes[0].causes, [rejected, passed]);
}

#[test]
fn counts_travel_alone_when_nothing_else_does() {
    let mut t = Harness::new(settings("any"));
    let ticket = t.input(found(false, &["ftp://a.test/"]));
    assert_eq!(t.core.wake_at(), Some(Timestamp::ZERO + LINGER));
    assert!(!t.core.is_idle());
    t.settle();
    assert_eq!(
        t.publishes[0].token,
        Token::Partition(partition("page.test", 8))
    );
    assert_eq!(t.publishes[0].causes, [ticket]);
    assert_eq!(t.filtered(), [0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn an_input_without_urls_is_finished_at_once() {
    let mut t = Harness::new(settings("any"));
    let ticket = t.input(found(false, &[]));
    assert_eq!((t.finished.clone(), t.core.wake_at()), (vec![ticket], None));
}

#[test]
fn nothing_is_judged_before_the_shared_scope_is_known() {
    let mut t = Harness::new(settings("host"));
    assert!(!t.core.wants_input());
    t.settle();
    assert_eq!(t.effects, [Effect::NextScope]);
    t.step(Event::Answer(Answer::Scope(followed("a.test"))));
    assert!(!t.core.wants_input());
    t.step(Event::Answer(Answer::ScopeCaughtUp));
    assert!(t.core.wants_input());
    assert_eq!(
        t.effects,
        [Effect::NextScope, Effect::NextScope, Effect::NextScope]
    );
    t.input(found(false, &["http://a.test/", "http://b.test/"]));
    let mut other_topic = found(false, &["http://a.test/"]);
    other_topic.origin.topic = "other".into();
    t.input(other_topic);
    t.settle();
    assert_eq!(t.urls(), ["http://a.test/"]);
    assert_eq!(t.filtered(), [2, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_seed_waits_until_all_its_hosts_have_joined() {
    let mut t = Harness::new(settings("domain"));
    t.step(Event::Answer(Answer::ScopeCaughtUp));
    t.effects.clear();
    let seed = t.input(found(
        true,
        &[
            "http://www.a.com/",
            "http://b.com/",
            "http://x.a.com/",
            "mailto:x",
        ],
    ));
    let join = |entry: &str| Effect::Join(followed(entry));
    assert_eq!(t.effects, [join("a.com"), join("b.com")]);
    let again = t.input(found(true, &["http://b.com/2"]));
    assert_eq!(t.effects.len(), 2, "it is joining already");
    t.settle();
    assert!(t.finished.is_empty() && !t.core.is_idle());
    // One by the watch before its own answer, which then means nothing.
    t.step(Event::Answer(Answer::Scope(followed("b.com"))));
    t.step(Event::Answer(Answer::Joined(followed("b.com"))));
    t.settle();
    assert_eq!(t.finished, [again]);
    t.step(Event::Answer(Answer::Joined(followed("a.com"))));
    t.settle();
    assert_eq!(t.finished, [again, seed]);
    assert_eq!(t.urls().len(), 4);
    assert_eq!(t.filtered(), [0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn a_seed_that_is_filtered_anyway_joins_nothing() {
    let mut t = Harness::new(settings("host"));
    t.step(Event::Answer(Answer::ScopeCaughtUp));
    t.effects.clear();
    let mut seed = found(true, &["http://a.test/"]);
    seed.origin.redirects = 4;
    t.input(seed);
    t.settle();
    assert_eq!((t.effects.len(), t.finished.len()), (0, 1));
}

#[test]
fn a_page_that_is_given_as_known_goes_on_whether_its_url_was_met_or_not() {
    let mut t = Harness::new(settings("host"));
    t.step(Event::Answer(Answer::ScopeCaughtUp));
    let url = "http://a.test/";
    t.input(known(url, 1));
    assert_eq!(t.effects.last(), Some(&Effect::Join(followed("a.test"))));
    t.step(Event::Answer(Answer::Joined(followed("a.test"))));
    t.settle();
    t.store_all();
    t.input(found(false, &[url]));
    t.input(known(url, 2));
    t.input(known(url, 6));
    t.settle();
    let depths = |batch: &SplitUrls| -> Vec<u16> {
        let last = |origin: &Origin| origin.last_visit().map(|_| origin.depth);
        batch.origins.iter().filter_map(last).collect()
    };
    let batches = t.batches();
    assert_eq!(batches.iter().map(depths).collect::<Vec<_>>(), [[1], [2]]);
    assert_eq!((batches[1].repeated, batches[1].filtered[1]), (1, 1));
}

#[test]
fn a_drain_passes_on_what_is_held_and_what_comes_late() {
    let mut t = Harness::new(settings("host"));
    t.step(Event::Answer(Answer::Scope(followed("a.test"))));
    t.step(Event::Answer(Answer::ScopeCaughtUp));
    t.input(found(false, &["http://a.test/"]));
    t.input(found(true, &["http://b.test/"]));
    t.step(Event::Drain);
    assert_eq!(t.urls(), ["http://a.test/"]);
    assert!(!t.core.is_idle());
    t.step(Event::Answer(Answer::Joined(followed("b.test"))));
    assert_eq!(t.urls(), ["http://a.test/", "http://b.test/"]);
    assert!(t.core.is_idle());
}

#[test]
fn each_topic_goes_by_its_own_scope_also_by_one_that_comes_later() {
    let of = |topic: &str, seed, urls: &[&str]| {
        let mut found = found(seed, urls);
        found.origin.topic = topic.into();
        found
    };
    let mut t = Harness::new(settings("any"));
    // Nothing is to be learned while all topics follow any host.
    assert!(t.core.wants_input());
    let set = [
        "scope.follow=any",
        "topics.news={scope: {follow: host, reject: ['/old/']}}",
        "topics.gone.removed=true",
    ];
    let pipeline = settings_with(&set);
    t.core.followed.configure(&pipeline.topics);
    t.core.settings = pipeline;
    assert!(!t.core.wants_input());
    t.step(Event::Wake);
    t.step(Event::Answer(Answer::Scope(ScopeEntry {
        topic: "news".into(),
        entry: "a.test".into(),
    })));
    t.step(Event::Answer(Answer::ScopeCaughtUp));
    assert!(t.core.wants_input());
    t.input(of(
        "news",
        false,
        &["http://a.test/1", "http://a.test/old/1", "http://b.test/1"],
    ));
    t.input(of("other", false, &["http://b.test/old/2"]));
    t.input(of("gone", true, &["http://c.test/"]));
    t.settle();
    assert_eq!(t.urls(), ["http://a.test/1", "http://b.test/old/2"]);
    let why = |url: &str| t.core.why(t.now, url).unwrap();
    assert_eq!(
        why("http://a.test/old/1"),
        None,
        "a topic that is not configured lets it pass"
    );
    let counts = t.core.counts();
    let filtered = |reason| {
        counts
            .iter()
            .find(|(name, _)| *name == reason)
            .map(|(_, count)| *count)
    };
    assert_eq!(
        (
            filtered("filtered_scope_total"),
            filtered("filtered_pattern_total")
        ),
        (Some(2), Some(1))
    );
    // No host joined for the topics that are not configured.
    let pipeline = settings_with(&[
        "scope.follow=host",
        "topics.news={scope: {reject: ['/old/']}}",
    ]);
    t.core.settings = pipeline;
    let why = |url: &str| t.core.why(t.now, url).unwrap().unwrap_or_default();
    assert_eq!(
        why("http://a.test/old/1"),
        "a link to it is filtered: pattern"
    );
    assert_eq!(why("http://b.test/1"), "a link to it is filtered: scope");
}

#[test]
fn a_batch_of_long_urls_stays_small() {
    let settings = settings_with(&["scope.follow=any", "limits.url_bytes_max=4096"]);
    let mut t = Harness::new(Settings {
        batch_urls_max: 4096,
        ..settings
    });
    let urls: Vec<String> = (0..1300)
        .map(|n| format!("http://a.test/{n}{}", "x".repeat(4000)))
        .collect();
    t.input(FoundUrls {
        urls: urls.iter().collect(),
        ..found(false, &[])
    });
    t.settle();
    assert!(
        t.publishes
            .iter()
            .all(|publish| publish.payload.len() < BATCH_BYTES_MAX + 200_000)
    );
    assert!(t.publishes.len() > 1 && t.urls().len() == 1300);
}

proptest! {
    /// Goal: P3 at this stage. Method: random pages with random pauses; all that came in leaves,
    /// each URL in the partition of its host, with its own origin, in a batch that its input is a
    /// cause of.
    #[test]
    fn every_url_is_placed_or_counted(
        pages in proptest::collection::vec(
            (proptest::collection::vec((0u8..12, 0u8..4), 0..9), 0u64..80), 0..40),
    ) {
        let mut t = Harness::new(settings("host"));
        for host in 0..8 {
            let entry = format!("h{host}.test");
            t.step(Event::Answer(Answer::Scope(followed(&entry))));
        }
        t.step(Event::Answer(Answer::ScopeCaughtUp));
        let mut expected = Vec::new();
        let mut expected_filtered = [0u32; FilterReason::ALL.len()];
        for (page, (links, pause_ms)) in pages.iter().enumerate() {
            t.now = t.now + Duration::from_millis(*pause_ms);
            t.step(Event::Wake);
            let mut urls = Vec::new();
            for (host, kind) in links {
                let scheme = if *kind == 0 { "ftp" } else { "http" };
                let url = format!("{scheme}://h{host}.test/{page}");
                match (*kind, *host) {
                    (0, _) => expected_filtered[FilterReason::Form as usize] += 1,
                    (_, 8..) => expected_filtered[FilterReason::Scope as usize] += 1,
                    _ => expected.push(url.clone()),
                }
                urls.push(url);
            }
            let mut input = found(false, &[]);
            input.origin.page = format!("http://page.test/{page}");
            input.urls = urls.iter().collect();
            t.input(input);
        }
        t.settle();
        prop_assert!(t.core.is_idle());
        prop_assert_eq!(t.finished.len(), pages.len());
        let mut urls = t.urls();
        urls.sort();
        expected.sort();
        prop_assert_eq!(urls, expected);
        prop_assert_eq!(t.filtered(), expected_filtered);
        let mut numbers = std::collections::HashSet::new();
        for (publish, batch) in t.publishes.iter().zip(t.batches()) {
            prop_assert!(numbers.insert(batch.number));
            prop_assert!(batch.urls.len() <= 4);
            prop_assert_eq!(batch.origin_of.len(), batch.urls.len());
            for (url, origin) in batch.urls.iter().zip(&batch.origin_of) {
                prop_assert_eq!(&publish.token, &Token::Partition(partition(host_of(url), 8)));
                let page = &batch.origins[*origin as usize].page;
                prop_assert_eq!(page.rsplit('/').next(), url.rsplit('/').next());
                let page: u64 = page.rsplit('/').next().unwrap().parse().unwrap();
                prop_assert!(publish.causes.contains(&Ticket(page + 1)));
            }
        }
        let counts: HashMap<_, _> = t.core.counts().into_iter().collect();
        let filtered: u64 = expected_filtered.iter().map(|&count| u64::from(count)).sum();
        prop_assert_eq!(counts["found_total"], filtered + t.urls().len() as u64);
    }
}

#[test]
fn the_table_of_metrics_has_a_row_for_each_number_and_no_other() {
    let core = Harness::new(settings("any")).core;
    assert_eq!(
        rhumb_telemetry::metrics::unlike(
            crate::metrics::METRICS,
            &core.counts(),
            &core.histograms()
        ),
        [""; 0]
    );
}
