//! How long a large partition takes to move from one instance to another while a crawl runs, how
//! long it stands still, and how long it takes to split.
//!
//! A crawl of a synthetic web with two dedups and two schedulers is begun and stopped. A partition
//! in which the web has no host is filled in the folders of its owners: known URLs in dedup,
//! waiting URLs in the scheduler, on servers that answer. The crawl goes on, and the partition is
//! moved to the other instance of each. The instances' logs tell the times. At last it is split.

use crate::harness::{Crawl, Running, World, binaries, run};
use anyhow::{Context as _, ensure};
use dedup::moving::MovingKeys;
use rhumb_config::{Layers, Pipeline};
use rhumb_node::disk::{DiskStore, StoreOptions};
use rhumb_partition::Owners;
use rhumb_stage::settlement::{LOOP, OUTBOX};
use rhumb_stage::store::{Changes, Store, Table};
use rhumb_stage::{Beside as _, Core as _, Event, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_url::{hashes_of, host_of, partition};
use rhumb_wire::message::{Edge, Origin, ReadyUrls, Resolution, ServerResolution, encode};
use rustix::process::Signal;
use scheduler::quality::Qualities;
use scheduler::{Scheduler, Settings};
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use synthetic_web::{Latency, PagesPerHost, Profile};

pub(super) const PARTITIONS: u16 = 64;
const SERVERS: u64 = 1000;
const URLS_OF_BATCH: u64 = 256;
const KEYS_OF_BLOCK: u64 = 4096;
const MINUTE: Duration = Duration::from_secs(60);
/// How long a command may take.
const COMMAND_AT_MOST: Duration = Duration::from_secs(300);
/// How long the rate is measured before and after.
const WINDOW: Duration = Duration::from_secs(10);

/// The move of the partition of a stage.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The stage.
    pub stage: String,
    /// What its partition has: known or waiting URLs.
    pub urls: u64,
    /// From the command until the other instance works with it, in seconds. The command ends later:
    /// another partition moves in return.
    pub moved_s: f64,
    /// Nobody used the partition for so long, in seconds.
    pub stood_still_s: f64,
    /// Bytes of the copy, and of what changed while it was made.
    pub copied_bytes: u64,
    /// The same.
    pub changed_bytes: u64,
    /// Processor seconds of the sender for the copy, and of the receiver to take it in: the rest of
    /// the time they rested.
    pub sender_worked_s: f64,
    /// The same.
    pub receiver_worked_s: f64,
    /// Pages a second of the crawl while the partition moved, and before that.
    pub pages_per_s: f64,
    /// The same.
    pub pages_per_s_before: f64,
}

/// The moves of a partition, and its split.
#[derive(Clone, Debug, Serialize)]
pub struct MovesAndSplit {
    /// Of dedup and of the scheduler.
    pub moves: Vec<Measured>,
    /// From the command until both stages have split the partition, in seconds.
    pub split_s: f64,
}

/// A world whose crawl was begun and stopped, with hosts that give pages for minutes.
///
/// # Errors
/// The crawl did not stop when it was asked to.
pub(super) fn begun_and_stopped(
    set: &[String],
    configured: impl FnOnce(Crawl) -> Crawl,
) -> anyhow::Result<World> {
    let world = World::alone(Profile {
        hosts: 100,
        pages_per_host: PagesPerHost::Exactly(2000),
        latency: Latency::Fixed { ms: 20 },
        ..Profile::raw()
    });
    let begun = set.iter().fold(world.crawl(), |crawl, set| crawl.set(set));
    let mut crawl = configured(begun)
        .set("stages.fetcher.connections=4")
        .start();
    crawl.until(MINUTE, |summary| summary.pages > 500);
    crawl.signal(Signal::TERM);
    ensure!(crawl.exit_code(MINUTE) == 130, "the crawl did not stop");
    drop(crawl);
    Ok(world)
}

/// Moves a partition with so many known and waiting URLs, and splits it.
///
/// # Errors
/// The folders cannot be written, or a command fails.
pub fn measure(known: u64, waiting: u64, set: &[String]) -> anyhow::Result<MovesAndSplit> {
    let world = begun_and_stopped(set, |crawl| {
        crawl
            .set("stages.dedup.replicas=2")
            .set("stages.scheduler.replicas=2")
    })?;
    let free = partition_without_hosts(&world)?;
    let owners = Owners::new(PARTITIONS, 2);
    let owner = owners.by_partition()[usize::from(free)];
    fill_dedup(&world.data().join(format!("dedup/{owner}")), free, known)?;
    let scheduler = world.data().join(format!("scheduler/{owner}"));
    fill_scheduler(
        &scheduler,
        owner,
        &owners.used_by(owner),
        free,
        waiting,
        world.web.host_address(0),
    )?;

    let mut crawl = world.resume().start();
    crawl.until(MINUTE, |summary| summary.pages > 1000);
    let mut moves = Vec::new();
    for (stage, urls) in [("dedup", known), ("scheduler", waiting)] {
        moves.push(move_partition(&crawl, stage, free, urls)?);
    }
    let asked = Instant::now();
    command(&crawl, &["split", &free.to_string()])?;
    let split_s = asked.elapsed().as_secs_f64();
    ensure!(!crawl.has_ended(), "the crawl was too short");
    crawl.signal(Signal::TERM);
    ensure!(crawl.exit_code(MINUTE) == 130, "the crawl did not stop");
    Ok(MovesAndSplit { moves, split_s })
}

pub(super) fn partition_without_hosts(world: &World) -> anyhow::Result<u16> {
    let truth = world.web.truth();
    let used: BTreeSet<u16> = truth
        .pages
        .iter()
        .map(|url| partition(host_of(url), PARTITIONS))
        .collect();
    (0..PARTITIONS)
        .find(|partition| !used.contains(partition))
        .context("each partition has a host")
}

fn store(path: &Path, tables: &[Table], pipeline: &Pipeline) -> anyhow::Result<Arc<dyn Store>> {
    let dedup = &pipeline.stages.dedup;
    let options = StoreOptions {
        memtable_bytes: dedup.memtable_bytes,
        cache_bytes: dedup.store_cache_bytes,
        durability: pipeline.durability,
    };
    let tables: Vec<Table> = tables.iter().copied().chain([LOOP, OUTBOX]).collect();
    Ok(Arc::new(DiskStore::open(path, &tables, options)?))
}

fn pipeline() -> anyhow::Result<Pipeline> {
    let set = vec![
        "network.allow_private_addresses=true".to_owned(),
        format!("partitions={PARTITIONS}"),
    ];
    Ok(Layers { file: None, set }.load_with(std::iter::empty())?)
}

pub(super) fn fill_dedup(path: &Path, of: u16, known: u64) -> anyhow::Result<()> {
    let pipeline = pipeline()?;
    let tables = dedup::dedup::TABLES.map(|(table, _)| table);
    let store = store(path, &tables, &pipeline)?;
    let mut seen = MovingKeys::open(
        &(&pipeline).into(),
        store.as_ref(),
        path.join("seen"),
        &[of],
    )?;
    let hashes = hashes_of(of, PARTITIONS);
    let mut importing = seen.importer(of)?;
    let first = *hashes.start();
    let step = (hashes.end() - hashes.start()) / known.max(1);
    for from in (0..known).step_by(KEYS_OF_BLOCK as usize) {
        let key = |n: u64| [(first + n * step).to_be_bytes(), n.to_be_bytes()];
        let block: Vec<u8> = (from..known.min(from + KEYS_OF_BLOCK))
            .flat_map(key)
            .flatten()
            .collect();
        importing.take(&block, false)?;
    }
    seen.import(importing)?;
    let mut changes = Changes::default();
    seen.stage(&mut changes)?;
    store.commit(&changes)?;
    Ok(seen.committed()?)
}

/// Servers of the partition, with URLs in turn.
pub(super) fn fill_scheduler(
    path: &Path,
    owner: u16,
    its: &[u16],
    of: u16,
    waiting: u64,
    at: SocketAddr,
) -> anyhow::Result<()> {
    let pipeline = pipeline()?;
    let store = store(path, &scheduler::TABLES.map(|(table, _)| table), &pipeline)?;
    let settings = Settings::new(&pipeline, Qualities::open(&pipeline)?);
    let epoch = u64::from(u32::MAX);
    let mut core = Scheduler::open(settings, owner, epoch, its, store.clone(), Timestamp::ZERO)?;
    let hosts = (0u64..)
        .map(|n| format!("www{n}.example.test"))
        .filter(|host| partition(host, PARTITIONS) == of);
    let hosts: Vec<String> = hosts.take(SERVERS as usize).collect();
    let mut serial = 0;
    let port = at.port();
    while serial < waiting {
        let host = &hosts[(serial / URLS_OF_BATCH % SERVERS) as usize];
        let mut ready = ReadyUrls {
            partition: of,
            ..ReadyUrls::default()
        };
        ready.origins.push(Origin {
            page: format!("http://{host}:{port}/"),
            ..Origin::default()
        });
        for _ in 0..URLS_OF_BATCH.min(waiting - serial) {
            serial += 1;
            ready.urls.push(&format!(
                "http://{host}:{port}/section/{}/page-{serial}.html",
                serial % 97
            ));
            ready.origin_of.push(0);
            ready.server_of.push(0);
            ready.serials.push(serial);
        }
        let addresses = vec![at.ip()];
        let resolution = Some(Resolution::Addresses {
            addresses,
            ttl_s: 86_400,
        });
        ready.servers.push(ServerResolution {
            server: format!("http://{host}:{port}"),
            resolution,
        });
        let input = Scheduler::decode(Edge::UrlsReady, &encode(&ready))?;
        let mut out = Output::default();
        core.step(
            Timestamp::ZERO,
            Event::Message {
                ticket: Ticket(serial),
                input,
            },
            &mut out,
        )?;
        store.commit(&out.changes)?;
    }
    Ok(())
}

fn command(crawl: &Running, arguments: &[&str]) -> anyhow::Result<()> {
    let mut rhumb = Command::new(binaries().join("rhumb"));
    let said = run(
        rhumb.args(arguments).arg("--data").arg(crawl.data()),
        COMMAND_AT_MOST,
    );
    ensure!(
        said.code == 0,
        "{arguments:?}: {}{}\n{}",
        said.out,
        said.err,
        crawl.log()
    );
    Ok(())
}

fn move_partition(crawl: &Running, stage: &str, of: u16, urls: u64) -> anyhow::Result<Measured> {
    let said = crawl.rhumb(&["partitions", "--json"]);
    let lines = said
        .out
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut found = lines.filter(|line| line["stage"] == stage && line["partition"] == of);
    let owner = found
        .next()
        .and_then(|line| line["owner"].as_u64())
        .context("the partition has an owner")?;
    let pages = || {
        crawl
            .status()
            .map(|summary| summary.pages)
            .context("no status")
    };
    let before = pages()?;
    let began = Instant::now();
    std::thread::sleep(WINDOW);
    let at_begin = pages()?;
    let rate_before = began.elapsed();
    let began = Instant::now();
    let asked_s = seconds_of_day()?;
    command(
        crawl,
        &[
            "move",
            &of.to_string(),
            "--to",
            &format!("{stage}.{}", 1 - owner),
        ],
    )?;
    let at_end = pages()?;
    let rate_meanwhile = began.elapsed();
    let logs = [owner, 1 - owner]
        .map(|of| std::fs::read_to_string(crawl.data().join(format!("logs/{stage}-{of}.log"))));
    let [giver, taker] = logs;
    let giver = giver?;
    let taker = taker?;
    let gives = last(
        &giver,
        &["gives a partition away", &format!(" partition={of} ")],
    )?;
    let stops = next_running(&giver, gives)?;
    let stopped_s = seconds(stops)? - number(stops, "stood_still_ms")? / 1e3;
    let takes = last(
        &taker,
        &["takes a partition over", &format!(" partition={of} ")],
    )?;
    let has_it_s = seconds(next_running(&taker, takes)?)?;
    Ok(Measured {
        stage: stage.to_owned(),
        urls,
        moved_s: has_it_s - asked_s,
        stood_still_s: has_it_s - stopped_s,
        copied_bytes: number(gives, "copied_bytes")? as u64,
        changed_bytes: number(gives, " bytes")? as u64,
        sender_worked_s: number(gives, "worked_ms")? / 1e3,
        receiver_worked_s: number(takes, "worked_ms")? / 1e3,
        pages_per_s: (at_end - at_begin) as f64 / rate_meanwhile.as_secs_f64(),
        pages_per_s_before: (at_begin - before) as f64 / rate_before.as_secs_f64(),
    })
}

/// The last line with all these words.
fn last<'a>(log: &'a str, words: &[&str]) -> anyhow::Result<&'a str> {
    let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
    log.lines()
        .rfind(has_all)
        .with_context(|| format!("no line with {words:?} in the log"))
}

/// The line after it that says that the next life begins.
fn next_running<'a>(log: &'a str, line: &str) -> anyhow::Result<&'a str> {
    let mut after = log.lines().skip_while(|of| *of != line);
    after
        .find(|line| line.contains(" running "))
        .context("no life follows")
}

/// A number in a line of a log.
fn number(line: &str, name: &str) -> anyhow::Result<f64> {
    let (_, rest) = line
        .split_once(&format!("{name}="))
        .with_context(|| format!("no {name} in: {line}"))?;
    let digits: String = rest
        .chars()
        .take_while(|letter| letter.is_ascii_digit() || *letter == '.')
        .collect();
    digits
        .parse()
        .with_context(|| format!("no number {name} in: {line}"))
}

/// The time now, in seconds of its day (UTC, as in logs).
fn seconds_of_day() -> anyhow::Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() % 86_400.0)
}

/// The time of a line, in seconds of its day.
fn seconds(line: &str) -> anyhow::Result<f64> {
    let time = line
        .split_once('T')
        .and_then(|(_, rest)| rest.split_once('Z'))
        .context("no time")?
        .0;
    let mut seconds = 0.0;
    for part in time.split(':') {
        seconds = seconds * 60.0 + part.parse::<f64>()?;
    }
    Ok(seconds)
}
