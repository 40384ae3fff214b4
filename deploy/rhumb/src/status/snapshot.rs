//! What the processes of a crawl answer and what lies in its streams, at one moment.

use super::backlog::{Behind, backlog, owners_backlog};
use super::known::Silent;
use super::recrawled::{Copies, Recrawled, SignalsHeard};
use super::summary::{ConsumerUse, Parked, ProcessUse, ProcessWork, Summary, TopicUse};
use crate::control::{Awaited, ask_all};
use async_nats::jetstream::stream::{Info, Stream as JetStream};
use futures::TryStreamExt as _;
use rhumb_bus::{Bus, Interested, held_now, interested, required_consumers, spool};
use rhumb_config::{Pipeline, edges_by_interest};
use rhumb_stage::{ControlRequest, ProcessStatus};
use rhumb_wire::message::{Change, Outcome};
use rhumb_wire::topology::{self, DEAD, Edge, MOVES, PARKED, STAGES, Source, StageName};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the broker tells of the stream of an edge.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamUse {
    /// Messages that it has taken since it was made.
    pub(crate) published: u64,
    /// What lies in it.
    pub(crate) bytes: u64,
    /// Its limit; 0: none.
    pub(crate) bytes_max: u64,
    /// How far the consumers are behind that the crawl waits for.
    pub(crate) behind: Behind,
    /// When the oldest message in it was stored, since 1970; none when it is empty.
    pub(crate) oldest_at: Option<Duration>,
}

impl StreamUse {
    fn of(info: &Info, behind: Behind) -> StreamUse {
        let Info { state, config, .. } = info;
        let oldest_at = u64::try_from(state.first_timestamp.unix_timestamp())
            .ok()
            .map(Duration::from_secs);
        StreamUse {
            published: state.last_sequence,
            bytes: state.bytes + spool::bytes(config),
            bytes_max: u64::try_from(config.max_bytes).unwrap_or(0),
            behind,
            oldest_at: oldest_at.filter(|_| state.messages > 0),
        }
    }
}

/// The state of a crawl at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Answers of the processes, and of silent ones with state the last that are known.
    pub(crate) processes: Vec<ProcessStatus>,
    /// Processes with state that do not answer.
    pub(crate) silent: Vec<Silent>,
    /// Partitions are on their way: the numbers of processes with state are those from before.
    pub(crate) are_moving: bool,
    /// Last sequence of each stream, by edge.
    pub(crate) last_sequences: BTreeMap<String, u64>,
    /// Messages of each stream that a required consumer has not acked, by edge.
    pub(crate) backlog: BTreeMap<String, u64>,
    /// What the broker tells of each stream, by edge.
    pub(crate) streams: BTreeMap<String, StreamUse>,
    /// Messages that each stream held once and holds no more, by edge.
    pub(crate) taken: BTreeMap<String, u64>,
    /// Consumers of the streams that are kept by interest.
    pub(crate) consumers: Vec<Interested>,
    /// Messages in the dead letters.
    pub(crate) dead: u64,
    /// Those among them that may hold new URLs on their way to a scheduler.
    pub(crate) dead_with_new: u64,
    /// Messages that stages parked.
    pub(crate) parked: Vec<Parked>,
    /// Messages whose loss was accepted, by edge.
    pub(crate) lost_messages: BTreeMap<String, u64>,
}

impl Snapshot {
    /// Looks at all streams, and asks all processes.
    ///
    /// # Errors
    /// The broker does not take the request. A process or a stream that does not answer is missing
    /// in the snapshot.
    pub(crate) async fn take(
        bus: &Bus,
        pipeline: &Pipeline,
        awaited: impl Into<Awaited>,
    ) -> anyhow::Result<Snapshot> {
        let mut snapshot = Snapshot::of_streams(bus, pipeline).await?;
        snapshot.ask_processes(bus, awaited).await?;
        Ok(snapshot)
    }

    /// Looks at all streams.
    ///
    /// # Errors
    /// The broker does not tell what is parked.
    pub(crate) async fn of_streams(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<Snapshot> {
        let mut snapshot = Snapshot::default();
        for (key, _) in pipeline.edges.streams() {
            let Ok(stream) = bus.jetstream.get_stream(bus.subjects.stream(key)).await else {
                continue;
            };
            let state = &stream.cached_info().state;
            let Some(edge) = Edge::from_name(key) else {
                match key {
                    PARKED if state.messages > 0 => snapshot.parked = parked(bus, &stream).await?,
                    PARKED | MOVES => {}
                    _ if state.messages > 0 => {
                        snapshot.dead = state.messages;
                        snapshot.dead_with_new =
                            letters(bus, &stream, &["resolver", "scheduler"]).await?;
                    }
                    _ => {}
                }
                continue;
            };
            let Some(behind) = snapshot.backlog_of(&stream, edge, pipeline).await else {
                continue;
            };
            snapshot.backlog.insert(key.to_owned(), behind.messages());
            snapshot
                .streams
                .insert(key.to_owned(), StreamUse::of(stream.cached_info(), behind));
            snapshot
                .last_sequences
                .insert(key.to_owned(), state.last_sequence);
            snapshot.taken.insert(
                key.to_owned(),
                state.last_sequence.saturating_sub(state.messages),
            );
        }
        Ok(snapshot)
    }

    /// Asks all processes, after the streams: what these say is taken, the processes must know of.
    ///
    /// # Errors
    /// The broker does not take the request, or does not tell of which messages the loss was
    /// accepted.
    pub(crate) async fn ask_processes(
        &mut self,
        bus: &Bus,
        awaited: impl Into<Awaited>,
    ) -> anyhow::Result<()> {
        self.processes = ask_all(bus, &ControlRequest::Status, awaited).await?;
        self.processes
            .sort_by(|a, b| (&a.stage, a.instance).cmp(&(&b.stage, b.instance)));
        if self.has_lost()
            && let Some(identity) = held_now(bus).await?
        {
            self.lost_messages = identity.lost;
        }
        Ok(())
    }

    /// Counts what required consumers of a stream have not acked, and remembers all consumers of
    /// one that is kept by interest; none while the broker does not tell.
    async fn backlog_of(
        &mut self,
        stream: &JetStream,
        edge: Edge,
        pipeline: &Pipeline,
    ) -> Option<Behind> {
        let required = required_consumers(edge, pipeline);
        if !edges_by_interest().any(|kept| kept == edge) {
            // Not by the messages in it: after a full disk a work queue was seen to keep one that
            // is acked.
            let is_owned =
                topology::consumers(edge).any(|(_, source)| matches!(source, Source::Owned(_)));
            return if is_owned {
                owners_backlog(stream).await
            } else {
                Some(backlog(stream, &required).await)
            };
        }
        let consumers = interested(stream, edge, pipeline).await.ok()?;
        let is_there = |name: &String| consumers.iter().any(|consumer| consumer.name == *name);
        let absent = required.iter().filter(|name| !is_there(name)).count() as u64;
        let mut behind = Behind::all_of(absent * stream.cached_info().state.messages);
        consumers
            .iter()
            .filter(|one| one.is_required)
            .for_each(|one| behind += Behind::from(one));
        self.consumers.extend(consumers);
        Some(behind)
    }

    pub(crate) fn total(&self, stage: &str, count: &str) -> u64 {
        self.processes
            .iter()
            .filter(|p| p.stage == stage)
            .filter_map(|p| p.counts.get(count))
            .sum()
    }

    fn largest(&self, stage: &str, count: &str) -> u64 {
        let of_stage = self.processes.iter().filter(|p| p.stage == stage);
        of_stage
            .filter_map(|p| p.counts.get(count))
            .copied()
            .max()
            .unwrap_or(0)
    }

    /// The pages that are visited again; none where no page is known, or was given as such.
    fn recrawl(&self) -> Option<Recrawled> {
        let total = |count: &str| self.total("scheduler", count);
        let forgotten = total("pages_forgotten_total");
        let known = total("pages_known_total").saturating_sub(forgotten);
        let out = total("visits_out");
        let visits = Change::ALL.map(|change| {
            let name = change.name();
            (name.to_owned(), total(&format!("visits_{name}_total")))
        });
        let held = total("waiting_over_budget") + total("waiting_trapped");
        let in_hand = total("waiting") + total("in_flight");
        let resting = total("pages_rested_total").saturating_sub(total("pages_woken_total"));
        let new = [Edge::UrlsNew, Edge::UrlsReady].map(Edge::name);
        let on_their_way: u64 = new.iter().filter_map(|edge| self.backlog.get(*edge)).sum();
        let given = total("pages_given_total");
        (known + given > 0).then(|| Recrawled {
            known,
            given,
            given_again: total("pages_given_again_total"),
            forgotten,
            resting,
            planned: total("visits_planned_total"),
            withdrawn: total("visits_withdrawn_total"),
            out,
            visits: visits.into(),
            signals: self.signals(),
            copies: self.copies(),
            texts_changed: total("visits_text_changed_total"),
            texts_unchanged: total("visits_text_unchanged_total"),
            first_visits_done: in_hand.saturating_sub(held) <= out && on_their_way == 0,
        })
    }

    fn signals(&self) -> Option<SignalsHeard> {
        let total = |became: &str| self.total("scheduler", &format!("signals_{became}_total"));
        let heard = SignalsHeard {
            counted: total("counted"),
            old: total("old"),
            unknown: total("unknown"),
            unheeded: total("unheeded"),
        };
        (heard != SignalsHeard::default()).then_some(heard)
    }

    fn copies(&self) -> Option<Copies> {
        let total = |count: &str| self.total("scheduler", count);
        let pages = total("pages_compared");
        (pages > 0).then(|| Copies {
            pages,
            fresh_expected: total("pages_fresh_expected"),
            age_s: total("pages_age_seconds") / pages,
            changes_expected: total("changes_expected_total"),
            changes_found: total("changes_found_total"),
        })
    }

    /// Sums up what the processes answered.
    pub(crate) fn summary(&self) -> Summary {
        let outcomes: BTreeMap<String, u64> = Outcome::ALL
            .iter()
            .map(|outcome| {
                (
                    outcome.name().to_owned(),
                    self.total("scheduler", &outcome_count(*outcome)),
                )
            })
            .collect();
        let answered = self
            .processes
            .iter()
            .filter(|p| !self.silent.iter().any(|silent| silent.is(p)));
        let processes = answered.map(|p| ProcessUse {
            stage: p.stage.clone(),
            instance: p.instance,
            pid: p.pid,
            host: p.host.clone(),
            cpu_s: p.cpu_s,
            peak_rss_bytes: p.peak_rss_bytes,
            work: Some(ProcessWork {
                ready: p.ready,
                listen: p.listen.clone(),
                shares: p.shares.clone(),
            }),
        });
        Summary {
            pages: outcomes["fetched"],
            bytes: self.total("scheduler", "bytes_total"),
            urls_found: self.total("dedup", "found_total"),
            urls_filtered: self.total("dedup", "filtered_total"),
            urls_repeated: self.total("dedup", "repeated_total"),
            urls_new: self.total("dedup", "new_total"),
            outcomes,
            walls: self.total("scheduler", "walls_total"),
            recrawl: self.recrawl(),
            waiting: self.total("scheduler", "waiting"),
            waiting_over_budget: self.total("scheduler", "waiting_over_budget"),
            waiting_paused: self.total("scheduler", "waiting_paused"),
            waiting_trapped: self.total("scheduler", "waiting_trapped"),
            in_flight: self.total("scheduler", "in_flight"),
            topics: self.topics(),
            dead: self.dead,
            parked: self.parked.clone(),
            lost: self.lost(),
            lost_messages: self.lost_messages.clone(),
            refetched: self.total("scheduler", "refetched_total"),
            consumers: self.consumers.iter().map(ConsumerUse::of).collect(),
            processes: processes.collect(),
            silent: self.silent.clone(),
            unsplittable: self.processes.iter().flat_map(unsplittable).collect(),
            traps: self
                .processes
                .iter()
                .flat_map(|process| process.traps.clone())
                .collect(),
            ..Summary::default()
        }
    }

    fn topics(&self) -> BTreeMap<String, TopicUse> {
        let mut topics: BTreeMap<String, TopicUse> = BTreeMap::new();
        for (topic, counts) in self.processes.iter().flat_map(|process| &process.topics) {
            topics.entry(topic.clone()).or_default().add(counts);
        }
        topics
    }

    /// Whether an operator has paused the whole crawl.
    pub(crate) fn is_paused(&self) -> bool {
        self.total("scheduler", "crawl_paused") > 0
    }

    /// Whether nothing is in flight, in hand, parked or in a stream, and nothing waits except for a
    /// larger budget or in traps. All `expected` processes have to say so. Two such snapshots with
    /// the same last sequences show that the crawl is over.
    ///
    /// Where pages are visited again there is always something left to do, except where each known
    /// page has had `recrawl.visits_max` visits, or may not be asked.
    pub(crate) fn is_quiet(&self, pipeline: &Pipeline, expected: usize) -> bool {
        let is_endless = self.largest("scheduler", "visits_max") == 0;
        let nothing_waits = match self.visited_again() {
            Some(recrawl) => !is_endless && recrawl.has_all_visits(),
            None => self.summary().going() == 0,
        };
        self.processes.len() >= expected && nothing_waits && self.under_way(pipeline).is_empty()
    }

    /// The known pages, where they are visited again: by what schedulers do now, whatever the crawl
    /// began with.
    pub(crate) fn visited_again(&self) -> Option<Recrawled> {
        let are_visited = self.largest("scheduler", "visits_on") > 0;
        self.recrawl().filter(|_| are_visited)
    }

    /// What is in flight, in hand, parked or in a stream, in words; nothing when all that the crawl
    /// knows is in the stores of dedup and scheduler.
    pub(crate) fn under_way(&self, pipeline: &Pipeline) -> Vec<String> {
        let mut under_way = Vec::new();
        if !self.covers_partitions(pipeline) {
            under_way.push(
                "not every dedup and scheduler answers, or partitions are on their way".to_owned(),
            );
        }
        match self.total("scheduler", "in_flight") {
            0 => {}
            urls => under_way.push(format!("{urls} URLs are in flight")),
        }
        let busy = self.processes.iter().filter(|process| !process.idle);
        under_way.extend(busy.map(|process| {
            format!(
                "{}.{} has something in hand",
                process.stage, process.instance
            )
        }));
        if !self.has_all_streams(pipeline) {
            under_way.push("the broker does not tell of every stream".to_owned());
        }
        let waiting = self.backlog.iter().filter(|(_, messages)| **messages > 0);
        under_way
            .extend(waiting.map(|(edge, messages)| format!("{messages} messages wait on {edge}")));
        let parked = self
            .parked
            .iter()
            .filter(|parked| StageName::from_name(&parked.stage).is_some());
        under_way.extend(parked.map(|parked| {
            format!(
                "{} messages are parked for {}",
                parked.messages, parked.stage
            )
        }));
        under_way
    }

    /// Whether the broker told the backlog of every stream.
    fn has_all_streams(&self, pipeline: &Pipeline) -> bool {
        pipeline
            .edges
            .streams()
            .iter()
            .all(|(key, _)| [DEAD, PARKED, MOVES].contains(key) || self.backlog.contains_key(*key))
    }

    pub(crate) fn covers_partitions(&self, pipeline: &Pipeline) -> bool {
        // While one is on its way nobody has it, or two were asked before and after its move.
        let mut with_state = STAGES.iter().filter(|row| row.has_state);
        with_state.all(|row| {
            // More than at the beginning when some were split.
            let of_all = self
                .largest(row.name, "partitions_of_all")
                .max(u64::from(pipeline.partitions));
            self.total(row.name, "partitions") == of_all
        })
    }
}

/// What lies in the stream of parked messages.
async fn parked(bus: &Bus, stream: &JetStream) -> anyhow::Result<Vec<Parked>> {
    let subjects = stream.info_with_subjects(">").await?;
    let subjects: Vec<(String, usize)> = subjects.try_collect().await?;
    let parked = subjects.iter().filter_map(|(subject, messages)| {
        let under = bus.subjects.parked_under(subject)?;
        let stage = under.stage.to_owned();
        let edge = under.edge.to_owned();
        Some(Parked {
            stage,
            edge,
            version: under.version,
            messages: *messages as u64,
        })
    });
    let mut parked: Vec<Parked> = parked.collect();
    parked.sort_by(|a, b| (&a.stage, &a.edge, a.version).cmp(&(&b.stage, &b.edge, b.version)));
    Ok(parked)
}

/// How many dead letters these stages have.
async fn letters(bus: &Bus, stream: &JetStream, stages: &[&str]) -> anyhow::Result<u64> {
    let mut letters = 0;
    for stage in stages {
        let subjects = stream.info_with_subjects(bus.subjects.dead(stage)).await?;
        let subjects: Vec<(String, usize)> = subjects.try_collect().await?;
        letters += subjects
            .iter()
            .map(|(_, messages)| *messages as u64)
            .sum::<u64>();
    }
    Ok(letters)
}

/// The name of the scheduler's count of URLs with an outcome.
pub(super) fn outcome_count(outcome: Outcome) -> String {
    format!("outcome_{}_total", outcome.name().replace('-', "_"))
}

/// The partitions of a process that are too large and cannot be split, in words.
fn unsplittable(process: &ProcessStatus) -> impl Iterator<Item = String> {
    let ProcessStatus {
        stage,
        instance,
        unsplittable,
        ..
    } = process;
    unsplittable.iter().map(move |(partition, urls)| {
        format!(
            "partition {partition} of {stage}.{instance} knows {urls} URLs, most of them of one \
             host: it cannot be split"
        )
    })
}
