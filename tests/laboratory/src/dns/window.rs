//! Window: resolving with many lookups at once, in real time, by the crawler's own parts.
//!
//! Without a cache every name of the trace is a lookup by [`Queries`]. With a cache, batches of
//! URLs, one for each name, go through the resolver's core as they would in its process, and
//! `Queries` do its lookups. Only the broker is missing. Both ways resolve on one thread; the name
//! server has another.
//!
//! Lookups of one name that are under way at once share an answer in the DNS library. So without a
//! cache most lookups of a popular name come while it is slow, and take longer in the mean than the
//! model says of one lookup. The resolver's core never asks twice at once.
//!
//! Invariant: a lookup begins as soon as the window has room and a name is wanted.

use super::arm::{Arm, Clock, Way};
use super::latency::{Latency, Patience};
use super::name_server::NameServer;
use super::trace::Trace;
use crate::cpu;
use anyhow::{Context as _, ensure};
use futures::future::{BoxFuture, ready};
use futures::stream::{FuturesUnordered, StreamExt as _};
use resolver::effect::{Answer, Effect};
use resolver::query::{self, Queries};
use resolver::resolver::{Input, Resolver, Settings};
use rhumb_config::{Layers, Pipeline};
use rhumb_stage::{Core as _, Event, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{NewUrls, Origin, ReadyUrls, UrlList, decode};
use std::collections::HashMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Lookups under way, and names in the cache: as shipped.
pub(super) const WINDOW: usize = 1_024;
const ENTRIES: usize = 50_000;
/// With more URLs pending, the resolver gets no more. This is fewer than it may have waiting.
const PENDING_MAX: u64 = 15_000;
/// URLs of a batch.
const BATCH: usize = 256;
/// Lines of progress.
const LINES: usize = 5;

/// What the crawler's resolver is configured with, all times of a query multiplied by `scale`.
pub(super) fn pipeline(scale: f64) -> anyhow::Result<Pipeline> {
    let set = vec![
        "network.allow_private_addresses=true".to_owned(),
        format!("stages.resolver.window={WINDOW}"),
        format!("stages.resolver.cache.entries={ENTRIES}"),
    ];
    let mut pipeline = Layers { file: None, set }.load_with(std::iter::empty())?;
    let timeout = &mut pipeline.stages.resolver.timeout;
    *timeout = timeout.mul_f64(scale);
    Ok(pipeline)
}

/// How long the crawler's queries wait for an answer.
pub(super) fn patience(pipeline: &Pipeline) -> Patience {
    let resolver = &pipeline.stages.resolver;
    Patience {
        timeout: resolver.timeout,
        attempts: u32::try_from(resolver.attempts).unwrap_or(u32::MAX),
    }
}

/// Resolves a trace by the crawler's parts, with its cache or without.
pub(super) fn resolve(
    way: Way,
    trace: &Trace,
    latency: Latency,
    pipeline: &Pipeline,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Arm> {
    let server = NameServer::start(
        trace.names.clone(),
        latency,
        pipeline.stages.resolver.timeout,
    )?;
    let settings = query::Settings {
        nameservers: vec![server.address().into()],
        ..query::Settings::from(pipeline)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let resolving = std::thread::Builder::new()
            .name("resolving".to_owned())
            .spawn_scoped(scope, move || {
                runtime.block_on(async {
                    let queries = Queries::new(&settings)?;
                    let lookups = Lookups::new(queries, trace, latency, patience(pipeline), tell);
                    match way {
                        Way::WindowCached => {
                            cached(lookups, Resolver::new(Settings::from(pipeline))).await
                        }
                        _ => uncached(lookups).await,
                    }
                })
            })?;
        for line in told {
            progress(&format!("{}: {line}", way.name()));
        }
        let arm = resolving
            .join()
            .ok()
            .context("the resolving thread panicked")?;
        arm.map(|arm| Arm { way, ..arm })
    })
}

/// A lookup that has ended: its answer and how long it took; no time when it was no lookup.
type Ended = (Answer, Option<Duration>);

/// Lookups under way, and what is counted of them.
struct Lookups<'a> {
    queries: Queries,
    trace: &'a Trace,
    under_way: FuturesUnordered<BoxFuture<'static, Ended>>,
    begun: Instant,
    cpu_before: Duration,
    model: Latency,
    patience: Patience,
    /// How often each name was asked for.
    asked: Vec<u32>,
    count: u64,
    latency: Duration,
    latency_modelled: Duration,
    before_tail: Option<(u64, Duration)>,
    tell: mpsc::Sender<String>,
    told: usize,
}

impl<'a> Lookups<'a> {
    fn new(
        queries: Queries,
        trace: &'a Trace,
        model: Latency,
        patience: Patience,
        tell: mpsc::Sender<String>,
    ) -> Self {
        Lookups {
            queries,
            trace,
            under_way: FuturesUnordered::new(),
            begun: Instant::now(),
            cpu_before: cpu::of_this_thread(),
            model,
            patience,
            asked: vec![0; trace.names.all().len()],
            count: 0,
            latency: Duration::ZERO,
            latency_modelled: Duration::ZERO,
            before_tail: None,
            tell,
            told: 0,
        }
    }

    /// Begins a lookup. `resolved` names need nothing any more by now.
    fn begin(&mut self, name: String, resolved: u64) {
        if let Some(number) = self.trace.names.number(&name) {
            let asked = &mut self.asked[number as usize];
            let cost = self.model.cost(number, *asked, self.patience);
            *asked = cost.asked;
            self.latency_modelled += cost.took;
        }
        self.count += 1;
        self.before_tail = Some((resolved, self.begun.elapsed()));
        let lookup = self.queries.resolve(name);
        self.under_way.push(Box::pin(async move {
            let begun = Instant::now();
            let answer = lookup.await;
            (answer, Some(begun.elapsed()))
        }));
    }

    /// The next lookup that ends.
    async fn end(&mut self) -> Option<Answer> {
        let (answer, took) = self.under_way.next().await?;
        self.latency += took.unwrap_or_default();
        Some(answer)
    }

    /// Tells how far the work is, a few times in all.
    fn tell(&mut self, resolved: u64) {
        let all = self.trace.draws.len();
        if resolved as usize * LINES >= (self.told + 1) * all {
            self.told += 1;
            // Nobody may listen.
            let _ = self.tell.send(format!(
                "{resolved} of {all} names after {:.0} s",
                self.begun.elapsed().as_secs_f64()
            ));
        }
    }

    fn into_arm(self) -> Arm {
        Arm {
            way: Way::Window,
            clock: Clock::Real,
            names: self.trace.draws.len() as u64,
            queries: self.count,
            elapsed: self.begun.elapsed(),
            latency: self.latency,
            latency_modelled: self.latency_modelled,
            window: WINDOW,
            before_tail: self.before_tail,
            cpu: Some(cpu::of_this_thread().saturating_sub(self.cpu_before)),
        }
    }
}

async fn uncached(mut lookups: Lookups<'_>) -> anyhow::Result<Arm> {
    let trace = lookups.trace;
    let mut resolved = 0;
    for &draw in &trace.draws {
        if lookups.under_way.len() == WINDOW && lookups.end().await.is_some() {
            resolved += 1;
        }
        lookups.begin(trace.name(draw).to_owned(), resolved);
        lookups.tell(resolved);
    }
    while lookups.end().await.is_some() {}
    Ok(lookups.into_arm())
}

async fn cached(mut lookups: Lookups<'_>, mut core: Resolver) -> anyhow::Result<Arm> {
    let trace = lookups.trace;
    let mut batches = trace.draws.chunks(BATCH).zip(0..);
    let mut wanted = 0;
    let mut pending = Pending::default();
    loop {
        let mut out = Output::default();
        let batch = if pending.all < PENDING_MAX {
            batches.next()
        } else {
            None
        };
        let event = match batch {
            Some((draws, number)) => {
                wanted += draws.len() as u64;
                Event::Message {
                    ticket: Ticket(number),
                    input: Input::New(urls(trace, draws)),
                }
            }
            None if core.is_idle() => break,
            None => {
                let begun = lookups.begun;
                let wake_at = core
                    .wake_at()
                    .map(|at| begun + Duration::from_micros(at.as_micros()));
                tokio::select! {
                    Some(answer) = lookups.end() => Event::Answer(answer),
                    () = tokio::time::sleep_until(wake_at.unwrap_or(begun).into()), if wake_at.is_some() => {
                        Event::Wake
                    }
                }
            }
        };
        let now = Timestamp::from_micros(lookups.begun.elapsed().as_micros() as u64);
        core.step(now, event, &mut out)
            .context("the resolver failed")?;
        for publish in &out.publishes {
            pending.follow(
                &decode(&publish.payload).context("the resolver says what cannot be read")?,
            );
        }
        let resolved = wanted - pending.all;
        for effect in out.effects {
            match effect {
                Effect::Query { name } => lookups.begin(name, resolved),
                Effect::Keep { .. } => lookups
                    .under_way
                    .push(Box::pin(ready((Answer::Kept, None)))),
            }
        }
        lookups.tell(resolved);
    }
    ensure!(
        pending.all == 0,
        "{} URLs were left without an answer",
        pending.all
    );
    Ok(lookups.into_arm())
}

/// URLs whose addresses are pending, by server.
#[derive(Default)]
struct Pending {
    urls: HashMap<String, u64>,
    all: u64,
}

impl Pending {
    /// Takes note of what the resolver says.
    fn follow(&mut self, message: &ReadyUrls) {
        for &server in &message.server_of {
            let found = &message.servers[server as usize];
            if found.resolution.is_none() {
                *self.urls.entry(found.server.clone()).or_default() += 1;
                self.all += 1;
            }
        }
        for found in message
            .servers
            .iter()
            .filter(|found| found.resolution.is_some())
        {
            self.all -= self.urls.remove(&found.server).unwrap_or(0);
        }
    }
}

/// A batch as dedup would send it.
fn urls(trace: &Trace, draws: &[u32]) -> NewUrls {
    let mut urls = UrlList::new();
    draws
        .iter()
        .for_each(|&draw| urls.push(&format!("http://{}/", trace.name(draw))));
    let origin = Origin {
        page: "http://page.example/".to_owned(),
        topic: "laboratory".to_owned(),
        depth: 1,
        ..Origin::default()
    };
    NewUrls {
        origins: vec![origin],
        origin_of: vec![0; draws.len()],
        urls,
        first_serial: 1,
        ..NewUrls::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Latency = Latency {
        seed: 3,
        scale: 0.01,
    };

    #[test]
    fn lookups_of_the_shipped_resolver_wait_five_seconds_twice() {
        let twice = Patience {
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        assert_eq!(patience(&pipeline(1.0).unwrap()), twice);
        assert_eq!(pipeline(1.0).unwrap().stages.resolver.window, WINDOW);
    }

    #[test]
    fn both_resolve_the_trace_and_the_cache_saves_lookups() {
        let trace = Trace::new(3_000, 300, 0.9, 1);
        let pipeline = pipeline(LATENCY.scale).unwrap();
        let mut lines = 0;
        let all = resolve(Way::Window, &trace, LATENCY, &pipeline, &mut |_| lines += 1).unwrap();
        assert_eq!(
            (all.names, all.queries, all.way),
            (3_000, 3_000, Way::Window)
        );
        let cached = resolve(Way::WindowCached, &trace, LATENCY, &pipeline, &mut |_| {
            lines += 1
        })
        .unwrap();
        // Each name once; those without an answer count as failures for a while.
        let distinct = trace
            .draws
            .iter()
            .collect::<std::collections::HashSet<_>>()
            .len() as u64;
        assert_eq!(
            (cached.names, cached.queries, cached.way),
            (3_000, distinct, Way::WindowCached)
        );
        for arm in [all, cached] {
            assert!(
                arm.elapsed >= arm.latency_modelled / WINDOW as u32
                    && arm.latency >= arm.latency_modelled,
                "{arm:?}"
            );
            let (names, elapsed) = arm.before_tail.unwrap();
            // With the cache all lookups begin at once: none has ended when the last one begins.
            assert!(
                names < arm.names && elapsed <= arm.elapsed && arm.cpu.unwrap() > Duration::ZERO,
                "{arm:?}"
            );
        }
        assert!(lines > 2);
    }
}
