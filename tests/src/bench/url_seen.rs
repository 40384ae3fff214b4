//! URL-seen stores: the questions they answer in a second, their size, and the time that a new URL
//! spends in dedup, by the number of URLs known.
//!
//! Everything runs on one core, with a commit per batch as in a stage. Repeats are drawn evenly
//! from all that is known: the URL caches have caught those with locality. Every answer is checked.

use super::process::{Progress, cpu_s, measured_apart, resident};
use anyhow::{Context as _, ensure};
use dedup::dedup::{Dedup, Settings, TABLES};
use dedup::moving::MovingKeys;
use dedup::seen::{self, Answer, Novelty, SeenStore, memory_store_bytes};
use rhumb_config::{DedupStore, Layers, Pipeline, open_url_cache};
use rhumb_node::disk::{DiskStore, StoreOptions};
use rhumb_stage::store::{Changes, Store, Table};
use rhumb_stage::{Core as _, Event, Output, Ticket};
use rhumb_url::partition;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Edge, NewUrls, Origin, SplitUrls, decode, encode};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PARTITIONS: u16 = 64;
const BATCH: u64 = 256;
/// Of a batch; the others are repeats.
const NEW_OF_BATCH: u64 = BATCH / 5;
const URLS_OF_HOST: u64 = 50;
/// Asked of the whole dedup while its latency is measured, and for how long.
const OFFERED_PER_S: u64 = 200_000;
const OFFERED_FOR: Duration = Duration::from_secs(10);
const OUTBOX: Table = "outbox";

/// A store with so many URLs known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// `disk` or `memory`.
    pub store: String,
    /// URLs known in the end.
    pub known: u64,
    /// Seconds to make them known.
    pub fill_s: f64,
    /// Questions a second of CPU time, in batches of one partition, four fifths of them repeats.
    pub asks_per_s: f64,
    /// The longest that one of the calls took, in seconds.
    pub longest_s: f64,
    /// Memory by the store's own count, in bytes per URL.
    pub memory_per_url: f64,
    /// Growth of the resident memory of this process, in bytes per URL.
    pub resident_per_url: f64,
    /// For the memory store: what its memory should be.
    pub calculated_per_url: Option<f64>,
    /// All files, in bytes per URL.
    pub disk_per_url: f64,
    /// The same when all is merged; for the sieve.
    pub merged_disk_per_url: Option<f64>,
    /// Seconds to open it again.
    pub open_s: f64,
    /// Seconds after that until its filters are filled; for the sieve.
    pub filters_s: Option<f64>,
    /// From the arrival of a new URL at dedup to the commit of the message that carries it on, in
    /// milliseconds.
    pub leaves_median_ms: f64,
    /// The same for the slowest hundredth.
    pub leaves_p99_ms: f64,
}

/// What the columns of a line are.
pub fn head() -> String {
    format!(
        "{:<7} {:>9} {:>8} {:>6}  bytes per URL\n\
         {:<7} {:>9} {:>8} {:>6} {:>7} {:>9} {:>7} {:>7} {:>7} {:>8}  new URLs leave after",
        "",
        "",
        "million",
        "time",
        "store",
        "known",
        "asks/s",
        "growth",
        "memory",
        "resident",
        "disk",
        "merged",
        "open s",
        "filled s"
    )
}

impl Measured {
    /// A line of the table. `growth`: of the time for a question, since the smallest store.
    pub fn line(&self, growth: f64) -> String {
        let or_none =
            |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.2}"));
        format!(
            "{:<7} {:>9} {:>8.2} {growth:>6.2} {:>7.2} {:>9.2} {:>7.2} {:>7} {:>7.2} {:>8}  \
             {:.2} ms, 99 % within {:.1} ms",
            self.store,
            self.known,
            self.asks_per_s / 1e6,
            self.memory_per_url,
            self.resident_per_url,
            self.disk_per_url,
            or_none(self.merged_disk_per_url),
            self.open_s,
            or_none(self.filters_s),
            self.leaves_median_ms,
            self.leaves_p99_ms,
        )
    }
}

/// Measures a store in a process of its own (this program again), so that its memory is nobody
/// else's.
///
/// # Errors
/// The program cannot be run, or fails.
pub fn measure_apart(store: DedupStore, known: u64, dir: &Path) -> anyhow::Result<Measured> {
    let known = known.to_string();
    measured_apart(&["--store", name(store), "--url-seen", &known], dir)
}

/// Measures a store with so many URLs known, in a new folder below `dir`.
///
/// # Errors
/// The folder cannot be written, or an answer was wrong.
pub fn measure(store: DedupStore, known: u64, dir: &Path) -> anyhow::Result<Measured> {
    let folder = tempfile::Builder::new()
        .prefix("url-seen-")
        .tempdir_in(dir)?;
    let mut measured = measure_store(store, known, folder.path().join("store"))?;
    let mut leaves_ms = measure_dedup(store, known, &folder.path().join("dedup"))?;
    leaves_ms.sort_by(f64::total_cmp);
    measured.leaves_median_ms = leaves_ms[leaves_ms.len() / 2];
    measured.leaves_p99_ms = leaves_ms[leaves_ms.len() * 99 / 100];
    Ok(measured)
}

fn measure_store(store: DedupStore, size: u64, folder: PathBuf) -> anyhow::Result<Measured> {
    // As long as may be: the size of the buffer alone decides when it is flushed.
    let settings: seen::Settings = (&pipeline(store, &["stages.dedup.flush_after=20s"])?).into();
    let partitions: Vec<u16> = (0..PARTITIONS).collect();
    let open = |settings: &seen::Settings, committed: Option<&[u8]>| {
        seen::open(settings, folder.clone(), &partitions, committed)
    };
    let resident_before = resident()?;
    let mut asker = Asker::new(open(&settings, None)?);
    asker.ask("filling the store", size, BATCH)?;
    let fill_s = asker.started.elapsed().as_secs_f64();

    asker.longest = Duration::ZERO;
    let asks = size.clamp(8_000_000, 20_000_000);
    let cpu_before = cpu_s()?;
    asker.ask("asking the store", asks, NEW_OF_BATCH)?;
    let asks_per_s = asks as f64 / (cpu_s()? - cpu_before);

    let known: u64 = asker.known.iter().sum();
    let Asker {
        seen,
        committed,
        waiting,
        wrong,
        longest,
        ..
    } = asker;
    ensure!(
        wrong == 0 && waiting == 0,
        "{wrong} wrong answers, {waiting} without"
    );
    let per_url = |bytes: u64| bytes as f64 / known as f64;
    let memory_per_url = per_url(seen.memory_bytes() as u64);
    let resident_per_url = per_url(resident()?.saturating_sub(resident_before));
    let disk_per_url = per_url(seen.disk_bytes());
    drop(seen);

    let is_sieve = store == DedupStore::Disk;
    let opened = Opened::measure(known, committed, is_sieve, &settings, open)?;
    Ok(Measured {
        store: name(store).to_owned(),
        known,
        fill_s,
        asks_per_s,
        longest_s: longest.as_secs_f64(),
        memory_per_url,
        resident_per_url,
        calculated_per_url: (!is_sieve).then(|| per_url(memory_store_bytes(known))),
        disk_per_url,
        merged_disk_per_url: opened.merged_disk_bytes.map(per_url),
        open_s: opened.open_s,
        filters_s: is_sieve.then_some(opened.filters_s),
        leaves_median_ms: 0.0,
        leaves_p99_ms: 0.0,
    })
}

/// What it takes to open a store again.
struct Opened {
    open_s: f64,
    /// Seconds after that until nothing is left to be done at once.
    filters_s: f64,
    /// All files of a sieve when all is merged.
    merged_disk_bytes: Option<u64>,
}

impl Opened {
    fn measure(
        known: u64,
        committed: Option<Vec<u8>>,
        is_sieve: bool,
        settings: &seen::Settings,
        open: impl Fn(&seen::Settings, Option<&[u8]>) -> Result<Box<dyn SeenStore>, seen::SeenError>,
    ) -> anyhow::Result<Opened> {
        let started = Instant::now();
        let mut seen = open(settings, committed.as_deref())?;
        let open_s = started.elapsed().as_secs_f64();
        let found: u64 = (0..PARTITIONS).map(|partition| seen.known(partition)).sum();
        ensure!(found == known, "{found} known of {known} after a start");
        let started = Instant::now();
        let committed = settle(seen.as_mut())?.or(committed);
        let filters_s = started.elapsed().as_secs_f64();
        drop(seen);
        let mut merged_disk_bytes = None;
        if is_sieve {
            // Without a buffer all that was in it becomes part of the runs.
            let mut seen = open(
                &seen::Settings {
                    buffer_bytes: 0,
                    ..settings.clone()
                },
                committed.as_deref(),
            )?;
            settle(seen.as_mut())?;
            merged_disk_bytes = Some(seen.disk_bytes());
        }
        Ok(Opened {
            open_s,
            filters_s,
            merged_disk_bytes,
        })
    }
}

/// Flushes until there is nothing to be done at once.
fn settle(seen: &mut dyn SeenStore) -> anyhow::Result<Option<Vec<u8>>> {
    let mut committed = None;
    while seen.flush_at() == Some(Timestamp::ZERO) {
        seen.flush(Timestamp::ZERO, false, &mut Vec::new())?;
        committed = seen.stage()?.or(committed);
        seen.committed()?;
    }
    Ok(committed)
}

/// Asks a store about URLs that are numbers: in each partition those below a number of its own are
/// known.
struct Asker {
    seen: Box<dyn SeenStore>,
    committed: Option<Vec<u8>>,
    started: Instant,
    known: Vec<u64>,
    dice: Dice,
    answers: Vec<Answer>,
    /// Questions without answer, and with a wrong one.
    waiting: u64,
    wrong: u64,
    longest: Duration,
}

impl Asker {
    fn new(seen: Box<dyn SeenStore>) -> Self {
        Asker {
            seen,
            committed: None,
            started: Instant::now(),
            known: vec![0; usize::from(PARTITIONS)],
            dice: Dice(1),
            answers: Vec::new(),
            waiting: 0,
            wrong: 0,
            longest: Duration::ZERO,
        }
    }

    /// Asks about a number of URLs in batches, each of one partition and with `new` URLs that are
    /// new, and commits.
    fn ask(&mut self, what: &'static str, urls: u64, new: u64) -> anyhow::Result<()> {
        let mut progress = Progress::new(what, urls);
        for batch in 0..urls.div_ceil(BATCH) {
            self.batch((batch % u64::from(PARTITIONS)) as u16, new)?;
            progress.tell(batch * BATCH);
        }
        self.flush(true)?;
        self.commit()
    }

    /// Asks about one batch with `new` URLs that are new, and flushes and commits what follows.
    fn batch(&mut self, partition: u16, new: u64) -> anyhow::Result<()> {
        let began = self.started.elapsed();
        let now = Timestamp::ZERO + began;
        for place in 0..BATCH {
            let known = &mut self.known[usize::from(partition)];
            let is_new = is_new(place, new) || *known == 0;
            let number = if is_new {
                *known
            } else {
                self.dice.below(*known)
            };
            *known += u64::from(is_new);
            let host = mix((number / URLS_OF_HOST) << 16 | u64::from(partition));
            let url = mix(host ^ number);
            match self
                .seen
                .ask(now, partition, host, url, u64::from(is_new))?
            {
                Novelty::New => self.wrong += u64::from(!is_new),
                Novelty::Repeated => self.wrong += u64::from(is_new),
                Novelty::Later => self.waiting += 1,
            }
        }
        if self.seen.flush_at().is_some_and(|at| at <= now) {
            self.flush(false)?;
        }
        self.commit()?;
        self.longest = self.longest.max(self.started.elapsed() - began);
        Ok(())
    }

    fn flush(&mut self, all: bool) -> anyhow::Result<()> {
        self.seen.flush(
            Timestamp::ZERO + self.started.elapsed(),
            all,
            &mut self.answers,
        )?;
        self.waiting -= self.answers.len() as u64;
        self.wrong += self
            .answers
            .iter()
            .filter(|(token, new)| (*token == 1) != *new)
            .count() as u64;
        self.answers.clear();
        Ok(())
    }

    fn commit(&mut self) -> anyhow::Result<()> {
        if let Some(bytes) = self.seen.stage()? {
            self.committed = Some(bytes);
        }
        Ok(self.seen.committed()?)
    }
}

/// Returns how long each new URL stays in dedup, in milliseconds, when batches arrive at a steady
/// rate. Dedup is driven as the stage loop drives it: each message is decoded, and what a step
/// makes is committed to a store on disk.
fn measure_dedup(store: DedupStore, size: u64, folder: &Path) -> anyhow::Result<Vec<f64>> {
    let pipeline = pipeline(store, &[])?;
    let mut process = Process::open(&pipeline, folder)?;
    let mut web = Web::default();
    let mut progress = Progress::new("filling dedup", size);
    for batch in 0..size.div_ceil(BATCH) {
        let urls = web.batch(batch, BATCH).0;
        process.step(Event::Message {
            ticket: Ticket(batch),
            input: Dedup::decode(Edge::UrlsSplit, &encode(&urls))?,
        })?;
        process.left.clear();
        progress.tell(batch * BATCH);
    }
    while process.core.wake_at().is_some() {
        process.step(Event::Wake)?;
    }
    process.left.clear();

    let every = Duration::from_nanos(BATCH * 1_000_000_000 / OFFERED_PER_S);
    let mut arrivals: HashMap<String, Duration> = HashMap::new();
    let mut payloads = Vec::new();
    for (batch, at) in (0..)
        .map(|n| (n, every * n))
        .take_while(|(_, at)| *at < OFFERED_FOR)
    {
        let (urls, new) = web.batch(u64::from(batch), NEW_OF_BATCH);
        arrivals.extend(new.into_iter().map(|url| (url, at)));
        payloads.push((at, encode(&urls)));
    }
    let began = process.started.elapsed();
    for (ticket, (at, payload)) in (size..).zip(&payloads) {
        process.wait_until(began + *at)?;
        process.step(Event::Message {
            ticket: Ticket(ticket),
            input: Dedup::decode(Edge::UrlsSplit, payload)?,
        })?;
    }
    process.step(Event::Drain)?;
    while process.core.wake_at().is_some() {
        process.step(Event::Wake)?;
    }

    let mut leaves_ms = Vec::new();
    for (at, payload) in &process.left {
        for url in decode::<NewUrls>(payload)?.urls.iter() {
            let arrived = arrivals
                .remove(url)
                .with_context(|| format!("{url} is new, and should not be"))?;
            leaves_ms.push((*at - began - arrived).as_secs_f64() * 1e3);
        }
    }
    ensure!(
        arrivals.is_empty(),
        "{} URLs were never new",
        arrivals.len()
    );
    Ok(leaves_ms)
}

/// Dedup with its store, as in a process.
struct Process {
    core: Dedup,
    store: Arc<dyn Store>,
    started: Instant,
    /// Messages that left, and when they were committed.
    left: Vec<(Duration, Vec<u8>)>,
    /// Keys in the outbox.
    outbox: Vec<[u8; 8]>,
    next_output: u64,
}

impl Process {
    fn open(pipeline: &Pipeline, folder: &Path) -> anyhow::Result<Self> {
        let dedup = &pipeline.stages.dedup;
        let options = StoreOptions {
            memtable_bytes: dedup.memtable_bytes,
            cache_bytes: dedup.store_cache_bytes,
            durability: pipeline.durability,
        };
        let tables: Vec<_> = TABLES
            .iter()
            .map(|(table, _)| *table)
            .chain([OUTBOX])
            .collect();
        let store: Arc<dyn Store> = Arc::new(DiskStore::open(folder, &tables, options)?);
        let cache = open_url_cache("stages.dedup.cache", &dedup.cache)?;
        let partitions: Vec<u16> = (0..PARTITIONS).collect();
        let settings = Settings::from(pipeline);
        let seen = MovingKeys::open(
            &settings.seen,
            store.as_ref(),
            folder.join("seen"),
            &partitions,
        )?;
        let core = Dedup::open(&settings, cache, &partitions, store.clone(), seen)?;
        let started = Instant::now();
        let left = Vec::new();
        let outbox = Vec::new();
        let next_output = 0;
        Ok(Process {
            core,
            store,
            started,
            left,
            outbox,
            next_output,
        })
    }

    /// One step and its commit, with the outbox; what was in it is stored by now.
    fn step(&mut self, event: Event<dedup::dedup::Input, Infallible>) -> anyhow::Result<()> {
        let mut out = Output::default();
        self.core
            .step(Timestamp::ZERO + self.started.elapsed(), event, &mut out)?;
        let mut changes: Changes = out.changes;
        self.outbox
            .drain(..)
            .for_each(|key| changes.remove(OUTBOX, key));
        for publish in &out.publishes {
            let key = self.next_output.to_be_bytes();
            changes.put(OUTBOX, key, publish.payload.to_vec());
            self.outbox.push(key);
            self.next_output += 1;
        }
        if !changes.is_empty() {
            self.store.commit(&changes)?;
            self.core.committed()?;
        }
        let at = self.started.elapsed();
        self.left.extend(
            out.publishes
                .into_iter()
                .map(|publish| (at, publish.payload.to_vec())),
        );
        Ok(())
    }

    /// Sleeps, but for when the core wants to be woken.
    fn wait_until(&mut self, end: Duration) -> anyhow::Result<()> {
        loop {
            let now = self.started.elapsed();
            let wake_at = self
                .core
                .wake_at()
                .map(|at| Duration::from_micros(at.as_micros()));
            match wake_at.filter(|at| *at <= end) {
                _ if end <= now => return Ok(()),
                Some(at) if at <= now => self.step(Event::Wake)?,
                at => std::thread::sleep(at.unwrap_or(end).saturating_sub(now)),
            }
        }
    }
}

/// URLs of hosts of which each partition has as many as it needs.
#[derive(Default)]
struct Web {
    /// By partition: its hosts, and how many URLs of them were given as new.
    hosts: Vec<Vec<u32>>,
    given: Vec<u64>,
    next_host: u32,
    dice: Dice,
}

impl Web {
    /// A batch of one partition, and its new URLs.
    fn batch(&mut self, number: u64, new: u64) -> (SplitUrls, Vec<String>) {
        self.hosts.resize(usize::from(PARTITIONS), Vec::new());
        self.given.resize(usize::from(PARTITIONS), 0);
        let of = (number % u64::from(PARTITIONS)) as usize;
        let mut urls = Vec::new();
        let mut news = Vec::new();
        for place in 0..BATCH {
            let given = self.given[of];
            let is_new = is_new(place, new) || given == 0;
            let url = if is_new {
                given
            } else {
                self.dice.below(given)
            };
            let url = format!(
                "http://{}/{url}",
                self.host(of, (url / URLS_OF_HOST) as usize)
            );
            if is_new {
                self.given[of] += 1;
                news.push(url.clone());
            }
            urls.push(url);
        }
        let origin = Origin {
            page: "http://a.test/".into(),
            topic: "t".into(),
            depth: 1,
            ..Origin::default()
        };
        let origin_of = vec![0; urls.len()];
        let urls = urls.iter().map(String::as_str).collect();
        (
            SplitUrls {
                origins: vec![origin],
                urls,
                origin_of,
                ..SplitUrls::default()
            },
            news,
        )
    }

    fn host(&mut self, of: usize, place: usize) -> String {
        while self.hosts[of].len() <= place {
            let owner = partition(&host_name(self.next_host), PARTITIONS);
            self.hosts[usize::from(owner)].push(self.next_host);
            self.next_host += 1;
        }
        host_name(self.hosts[of][place])
    }
}

fn host_name(host: u32) -> String {
    format!("www{host}.test")
}

/// New ones are spread over a batch.
fn is_new(place: u64, new: u64) -> bool {
    (place + 1) * new / BATCH > place * new / BATCH
}

fn pipeline(store: DedupStore, set: &[&str]) -> anyhow::Result<Pipeline> {
    let mut all = vec![
        format!("partitions={PARTITIONS}"),
        format!("stages.dedup.store={}", name(store)),
        "stages.dedup.cache.policy=none".to_owned(),
        "network.user_agent='rhumb/0 (+https://example.org/bench)'".to_owned(),
    ];
    all.extend(set.iter().map(|assignment| (*assignment).to_owned()));
    Ok(Layers {
        file: None,
        set: all,
    }
    .load_with(std::iter::empty())?)
}

fn name(store: DedupStore) -> &'static str {
    match store {
        DedupStore::Disk => "disk",
        DedupStore::Memory => "memory",
    }
}

/// Numbers that are even, and the same in every run.
#[derive(Default)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % end
    }
}

/// A hash of 64 bits. Source: Steele, Lea and Flood 2014 (SplitMix).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
