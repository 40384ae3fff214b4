//! How fast the sieve is, and how large: `sieve [N]... [folder=DIR] [buffer=BYTES] [sync]`.
//!
//! For each N: fills a new sieve with N URLs, then asks in batches of 256 of one partition, four fifths of them
//! repeats drawn evenly from all that is known (no locality, so no cache would help), commits after each batch as a
//! stage does, and opens the sieve again. Every answer is checked. One line per N.

use dedup::sieve::{Answer, Settings, Sieve, Verdict};
use shared::time::Timestamp;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

const PARTITIONS: u16 = 64;
const BATCH: u64 = 256;
const URLS_OF_HOST: u64 = 50;

fn main() -> ExitCode {
    let (mut sizes, mut folder, mut buffer_bytes, mut sync) = (Vec::new(), std::env::temp_dir(), 64 << 20, false);
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("folder", path)) => folder = PathBuf::from(path),
            Some(("buffer", bytes)) => buffer_bytes = bytes.parse().unwrap_or(buffer_bytes),
            _ if argument == "sync" => sync = true,
            _ => sizes.extend(argument.parse::<f64>().ok().map(|size| size as u64)),
        }
    }
    if sizes.is_empty() {
        sizes = vec![1_000_000];
    }
    for size in sizes {
        let path = folder.join(format!("sieve-{}-{size}", std::process::id()));
        let measured = measure(size, &path, buffer_bytes, sync);
        let removed = std::fs::remove_dir_all(&path);
        if let Err(error) = measured.and_then(|()| Ok(removed?)) {
            eprintln!("{size}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// A crawl that knows the first so many URLs of each partition.
struct Crawl {
    sieve: Sieve,
    committed: Option<Vec<u8>>,
    started: Instant,
    known: Vec<u64>,
    random: u64,
    /// Answers that are still to come, and those that came, by what they should be and were not.
    answers: Vec<Answer>,
    waiting: u64,
    wrong: u64,
    /// How often and how long it was flushed.
    flushes: u32,
    flushing: Duration,
    longest: Duration,
}

impl Crawl {
    /// Even, and the same in every run.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.random)
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    /// One batch with so many new URLs among its [`BATCH`], and what follows it.
    fn batch(&mut self, partition: u16, new: u64) -> Result<(), Failure> {
        let now = self.now();
        for place in 0..BATCH {
            let known = self.known[usize::from(partition)];
            // New ones are spread over the batch.
            let is_new = (place + 1) * new / BATCH > place * new / BATCH || known == 0;
            let number = if is_new { known } else { self.random() % known };
            self.known[usize::from(partition)] += u64::from(is_new);
            let host = mix((number / URLS_OF_HOST) << 16 | u64::from(partition));
            let url = mix(host ^ number);
            match self.sieve.ask(now, partition, host, url, u64::from(is_new))? {
                Verdict::New => self.wrong += u64::from(!is_new),
                Verdict::Repeated => self.wrong += u64::from(is_new),
                Verdict::Later => self.waiting += 1,
            }
        }
        if self.sieve.flush_at().is_some_and(|at| at <= now) {
            self.flush(false)?;
        }
        self.commit()
    }

    fn flush(&mut self, all: bool) -> Result<(), Failure> {
        let started = Instant::now();
        self.sieve.flush(self.now(), all, &mut self.answers)?;
        self.waiting -= self.answers.len() as u64;
        self.wrong += self.answers.iter().filter(|(token, new)| (*token == 1) != *new).count() as u64;
        self.answers.clear();
        self.flushes += 1;
        self.flushing += started.elapsed();
        self.longest = self.longest.max(started.elapsed());
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        if let Some(bytes) = self.sieve.stage()? {
            self.committed = Some(bytes);
            self.sieve.committed()?;
        }
        Ok(())
    }
}

fn measure(size: u64, folder: &Path, buffer_bytes: usize, sync: bool) -> Result<(), Failure> {
    let settings = Settings {
        folder: folder.into(),
        partitions: (0..PARTITIONS).collect(),
        buffer_bytes,
        flush_after: Duration::from_secs(60),
        filter_urls: 1_000_000,
        filter_bytes_max: usize::MAX,
        sync,
    };
    let mut crawl = Crawl {
        sieve: Sieve::open(settings.clone(), None)?,
        committed: None,
        started: Instant::now(),
        known: vec![0; usize::from(PARTITIONS)],
        random: 1,
        answers: Vec::new(),
        waiting: 0,
        wrong: 0,
        flushes: 0,
        flushing: Duration::ZERO,
        longest: Duration::ZERO,
    };
    for batch in 0..size.div_ceil(BATCH) {
        crawl.batch((batch % u64::from(PARTITIONS)) as u16, BATCH)?;
    }
    crawl.flush(true)?;
    crawl.commit()?;
    let fill = crawl.started.elapsed();

    (crawl.flushes, crawl.flushing, crawl.longest) = (0, Duration::ZERO, Duration::ZERO);
    let asks = size.clamp(8_000_000, 20_000_000);
    let started = Instant::now();
    for batch in 0..asks / BATCH {
        crawl.batch((batch % u64::from(PARTITIONS)) as u16, BATCH / 5)?;
    }
    crawl.flush(true)?;
    crawl.commit()?;
    let took = started.elapsed();

    let known: u64 = crawl.known.iter().sum();
    let found: u64 = (0..PARTITIONS).map(|partition| crawl.sieve.known(partition)).sum();
    if crawl.wrong > 0 || crawl.waiting > 0 || known != found {
        return Err(
            format!("{} wrong answers, {} without, {found} known of {known}", crawl.wrong, crawl.waiting).into()
        );
    }
    let sieve = &crawl.sieve;
    let per_url = |bytes: u64| bytes as f64 / known as f64;
    let per_merged = sieve.run_bytes() as f64 / sieve.merged().max(1) as f64;
    let (memory, filters) = (sieve.memory_bytes(), sieve.filter_bytes());
    let disk = sieve.disk_bytes();
    let Crawl { committed, sieve, flushes, flushing, longest, .. } = crawl;
    drop(sieve);
    let started = Instant::now();
    let again = Sieve::open(settings, committed.as_deref())?;
    let reopen = started.elapsed();
    let found: u64 = (0..PARTITIONS).map(|partition| again.known(partition)).sum();
    if found != known {
        return Err(format!("{found} known of {known} after a start").into());
    }
    println!(
        "known {known}: filled in {:.1} s; {:.2} million asks/s ({} flushes, {:.1} of {:.1} s, longest {:.2} s); memory {:.2} B/URL (filters {:.2}); disk {:.2} B/URL (runs {:.2} of each in them); opened again in {:.2} s",
        fill.as_secs_f64(),
        asks as f64 / took.as_secs_f64() / 1e6,
        flushes,
        flushing.as_secs_f64(),
        took.as_secs_f64(),
        longest.as_secs_f64(),
        per_url(memory as u64),
        per_url(filters as u64),
        per_url(disk),
        per_merged,
        reopen.as_secs_f64(),
    );
    Ok(())
}

/// A hash of 64 bits. Source: Steele, Lea and Flood 2014 (SplitMix).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
