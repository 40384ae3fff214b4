//! Node: the scheduler's own core and some connections in simulated time, for topics whose webs
//! have no end.
//!
//! In: themes, a way to share. Out: what each topic got.
//!
//! A connection takes the server's time to connect twice, as it is opened and closed, and between
//! them its requests follow one another. Each page leads to new ones of its topic, on servers drawn
//! at random, until many of the topic wait. A server serves up to 50 requests on a connection.
//!
//! Invariant, checked: a server never has two connections.

use super::shares::{PARTS, Part, Run};
use super::theme::{TOPICS, Themes, Way};
use super::{Settings, theme::Theme};
use crate::instance::{FETCHER, Instance, NewPage, origin, response, settings};
use crate::random::normal;
use anyhow::{Context as _, ensure};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Job, Quality, Report, RequestResult};
use scheduler::{Input, TopicLimits, Topics, TurnRules};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

/// A turn of a topic: connection time.
const SLICE: Duration = Duration::from_secs(1);
/// Pages of a topic that wait, at most: the web has more, and there is always work.
const WAITING_MAX: u64 = 20_000;
/// Seeds of each topic.
const SEEDS: u64 = 10;
/// How much the servers of a topic differ: the deviation of the logarithm of their times.
const SPREAD: f64 = 0.5;

/// What happens next at a connection.
enum Next {
    Page(usize),
    Closed,
}

struct Connection {
    job: Job,
    topic: usize,
    server: u64,
    next: Next,
    results: Vec<RequestResult>,
}

struct Node<'a> {
    themes: &'a Themes,
    lasts: Duration,
    random: Xoshiro256PlusPlus,
    now: Timestamp,
    scheduler: Instance,
    connections: BTreeMap<u64, Connection>,
    /// Servers that have one.
    connected: BTreeSet<(usize, u64)>,
    opened: u64,
    events: BinaryHeap<Reverse<(Timestamp, u64)>>,
    /// Times of the servers, to connect and to answer.
    times: Vec<Vec<[Duration; 2]>>,
    waiting: [u64; TOPICS],
    told: [u64; TOPICS],
    parts: [Part; PARTS],
}

/// Crawls the webs of some themes.
///
/// # Errors
/// The scheduler breaks a promise.
pub(super) fn crawl(themes: Themes, way: Way, seed: u64, of: &Settings) -> anyhow::Result<Run> {
    let rules = |theme: &Theme| TurnRules {
        name: Some(theme.name.to_owned()),
        priority: 0,
        slice: SLICE,
        pages_min: 0,
        limits: TopicLimits::default(),
    };
    let configured: Vec<TurnRules> = if way == Way::Turns {
        themes.topics.iter().map(rules).collect()
    } else {
        Vec::new()
    };
    let settings = scheduler::Settings {
        topics: Topics::new(configured, SLICE),
        ..settings(1)
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut drawn = |mean_ms: f64| {
        Duration::from_secs_f64(mean_ms / 1e3 * (SPREAD * normal(&mut random)).exp())
    };
    let servers = |theme: &Theme| {
        (0..theme.servers)
            .map(|_| [theme.connect_ms, theme.response_ms].map(&mut drawn))
            .collect()
    };
    let times = themes.topics.iter().map(servers).collect();
    let mut node = Node {
        themes: &themes,
        lasts: of.lasts,
        random,
        now: Timestamp::ZERO,
        scheduler: Instance::open(0, settings)?,
        connections: BTreeMap::new(),
        connected: BTreeSet::new(),
        opened: 0,
        events: BinaryHeap::new(),
        times,
        waiting: [0; TOPICS],
        told: [0; TOPICS],
        parts: [Part::default(); PARTS],
    };
    (0..TOPICS).try_for_each(|topic| node.discover(topic, SEEDS))?;
    let end = Timestamp::ZERO + of.lasts;
    loop {
        while node.connections.len() < of.connections {
            let Some(job) = node.scheduler.ask(node.now)? else {
                break;
            };
            node.open(job)?;
        }
        let Some(Reverse((at, connection))) = node.events.pop() else {
            break;
        };
        if at >= end {
            break;
        }
        node.now = at;
        node.advance(connection)?;
    }
    let names = themes.topics.map(|theme| theme.name);
    Ok(Run {
        kind: themes.name,
        names,
        way,
        seed,
        parts: node.parts,
    })
}

impl Node<'_> {
    /// The scheduler is told of new pages of a topic.
    fn discover(&mut self, topic: usize, pages: u64) -> anyhow::Result<()> {
        let theme = self.themes.topics[topic];
        let pages = pages.min(WAITING_MAX.saturating_sub(self.waiting[topic]));
        let mut new = Vec::new();
        for _ in 0..pages {
            let server = format!(
                "http://s{}.{}.test",
                self.random.random_range(0..theme.servers),
                theme.name
            );
            self.told[topic] += 1;
            let url = format!("{server}/{}", self.told[topic]);
            new.push(NewPage {
                url,
                server,
                origin: origin(theme.name, "", Quality::SEED),
            });
        }
        self.waiting[topic] += pages;
        let ready = self.scheduler.ready(new);
        let jobs = self.scheduler.step(self.now, Input::Ready(ready))?;
        ensure!(jobs.is_empty(), "a job that nobody asked for");
        Ok(())
    }

    fn open(&mut self, job: Job) -> anyhow::Result<()> {
        let host = job
            .server
            .strip_prefix("http://s")
            .context("a server of no topic")?;
        let (server, rest) = host.split_once('.').context("a server of no topic")?;
        let is_of = |theme: &Theme| rest.strip_suffix(".test") == Some(theme.name);
        let topic = self
            .themes
            .topics
            .iter()
            .position(is_of)
            .context("a server of no topic")?;
        let server = server.parse()?;
        ensure!(
            self.connected.insert((topic, server)),
            "a second connection to {}",
            job.server
        );
        self.opened += 1;
        let [connect, response] = self.times[topic][server as usize];
        self.spend(topic, connect + response);
        self.events
            .push(Reverse((self.now + connect + response, self.opened)));
        let connection = Connection {
            job,
            topic,
            server,
            next: Next::Page(0),
            results: Vec::new(),
        };
        self.connections.insert(self.opened, connection);
        Ok(())
    }

    /// A connection of a topic takes so long from now on.
    fn spend(&mut self, topic: usize, time: Duration) {
        let part = self.lasts / PARTS as u32;
        let mut from = self.now;
        let to = self.now + time;
        while from < to {
            let number = self.part(from);
            let until = if number + 1 < PARTS {
                (Timestamp::ZERO + part * (number as u32 + 1)).min(to)
            } else {
                to
            };
            self.parts[number].time[topic] += until.since(from);
            from = until;
        }
    }

    fn part(&self, at: Timestamp) -> usize {
        let part = at.as_micros() as f64 / self.lasts.as_micros() as f64 * PARTS as f64;
        (part as usize).min(PARTS - 1)
    }

    /// What a connection waited for has come.
    fn advance(&mut self, number: u64) -> anyhow::Result<()> {
        let mut connection = self
            .connections
            .remove(&number)
            .context("an event without a connection")?;
        let topic = connection.topic;
        let [connect, response_time] = self.times[connection.topic][connection.server as usize];
        let Next::Page(page) = connection.next else {
            return self.report(connection);
        };
        let end = response(response_time.as_micros() as u64);
        connection.results.push(RequestResult {
            slot: connection.job.requests[page].slot,
            end,
        });
        let part = self.part(self.now);
        self.parts[part].pages[topic] += 1;
        self.waiting[topic] -= 1;
        self.discover(topic, self.themes.topics[topic].links)?;
        let is_last = page + 1 == connection.job.requests.len();
        let (time, next) = if is_last {
            (connect, Next::Closed)
        } else {
            (response_time, Next::Page(page + 1))
        };
        connection.next = next;
        self.spend(topic, time);
        self.events.push(Reverse((self.now + time, number)));
        self.connections.insert(number, connection);
        Ok(())
    }

    fn report(&mut self, connection: Connection) -> anyhow::Result<()> {
        let Connection {
            job,
            topic,
            server,
            results,
            ..
        } = connection;
        self.connected.remove(&(topic, server));
        let report = Report {
            job: job.id,
            fetcher: FETCHER.to_owned(),
            partition: job.partition,
            server: job.server,
            sequence: 1,
            last: true,
            requests: u32::try_from(results.len())?,
            results,
            connect_us: Some(u32::try_from(
                self.times[topic][server as usize][0].as_micros(),
            )?),
            // Nothing is said of an overlap: the paper's is expected, and there is none here.
            busy_us: 0,
            ..Report::default()
        };
        let jobs = self.scheduler.step(self.now, Input::Report(report))?;
        ensure!(jobs.is_empty(), "a job that nobody asked for");
        Ok(())
    }
}
