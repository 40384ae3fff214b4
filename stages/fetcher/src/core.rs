//! The heart of the fetcher: which jobs are in hand, which ask is due, whose turn it is.
//!
//! In: messages of schedulers, ends of requests, confirmations that pages and reports are stored.
//! Out: asks, requests and closes for the shell; pages and reports for their streams. `job` has the
//! life of a job, `asks` that of an ask.
//!
//! Invariant: at most `connections` jobs are in hand; a job that comes without a connection for it
//! is refused at once.

use crate::absent::Absent;
use crate::asks::Asks;
use crate::effect::{Answer, Asked, Effect};
use crate::http11::Http11;
use crate::job::{Running, refuse};
use crate::settings::Settings;
use crate::surroundings::Surroundings;
use crate::tally::Tally;
use crate::uplink::Uplink;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_config::Pipeline;
use rhumb_config::orders::Orders;
use rhumb_partition::Owners;
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, LabelledCount, Output};
use rhumb_telemetry::metrics::Histogram;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Edge, Job, JobId, ToFetcher, Undecodable, decode};
use rhumb_wire::topology::StageName;
use std::collections::BTreeSet;
use std::time::Duration;

/// The core.
pub struct Fetcher {
    around: Surroundings,
    asks: Asks,
    uplink: Uplink,
    jobs: HashMap<JobId, Held>,
    /// When which job is advanced although nothing came for it.
    timers: BTreeSet<(Timestamp, JobId)>,
    /// The job of each page or report on its way to a stream, by its tag.
    tags: HashMap<u64, JobId>,
    drain: Drain,
    /// What operators want to be left alone: jobs for it stop, whoever granted them.
    orders: Orders,
    /// There are other orders than the jobs in hand know of.
    are_others: bool,
    source: Source,
}

/// Whether what answers requests can be asked. No job is asked for before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// An archive of which nothing is known yet.
    Unknown,
    /// It is being found out what is in it.
    Indexing,
    /// An archive whose content is known, or the web.
    Ready,
}

/// How far a fetcher has come with its end. It waits for jobs that are on their way to it: a job
/// that nobody receives blocks its server for a whole lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    NotBegun,
    /// Schedulers are told that no connection is free.
    Withdrawing,
    /// They know. Jobs that they granted before may come until then.
    Listening(Timestamp),
    /// No job will come any more.
    Complete,
}

/// How much later than a scheduler's answer a job may come that the scheduler sent before it.
const LATE_JOBS: Duration = Duration::from_millis(10);

struct Held {
    running: Running,
    begun: Timestamp,
    timer: Option<Timestamp>,
}

impl Fetcher {
    /// A fetcher without jobs.
    pub fn new(settings: Settings) -> Self {
        Fetcher {
            source: if settings.replays {
                Source::Unknown
            } else {
                Source::Ready
            },
            asks: Asks::new(
                settings.instance.clone(),
                settings.life,
                &settings.schedulers,
                settings.ask_lifetime,
            ),
            uplink: Uplink::new(settings.doubt_max, settings.past),
            around: Surroundings {
                settings,
                tally: Tally::default(),
                draining: false,
                tags: 0,
                asked: 0,
                absent: Absent::default(),
                http11: Http11::default(),
            },
            jobs: HashMap::new(),
            timers: BTreeSet::new(),
            tags: HashMap::new(),
            drain: Drain::NotBegun,
            orders: Orders::default(),
            are_others: false,
        }
    }

    fn free(&self) -> u32 {
        let in_hand = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        self.around.settings.connections.saturating_sub(in_hand)
    }

    /// Jobs in hand that were begun in doubt whether any server can be reached.
    fn tries(&self) -> usize {
        self.uplink.doubt_began().map_or(0, |began| {
            self.jobs
                .values()
                .filter(|held| held.begun >= began)
                .count()
        })
    }

    fn take(&mut self, now: Timestamp, job: Job, out: &mut Output<Effect>) {
        let id = job.id;
        if self.jobs.contains_key(&id) || job.life != self.around.settings.life {
            return;
        }
        let asked_at = self.asks.sent_at(id.scheduler, job.ask);
        if asked_at.is_some() {
            self.asks.received(id.scheduler);
        }
        self.around.tally.jobs += 1;
        let Some(asked_at) = asked_at.filter(|_| self.free() > 0 && !self.around.draining) else {
            self.around.tally.jobs_refused += 1;
            refuse(job, &mut self.around, out);
            return;
        };
        let deadline = asked_at + Duration::from_millis(job.lease_ms);
        let mut running = Running::new(job, now, deadline, &self.around);
        if self.orders.leaves_alone(running.server()) {
            running.revoke();
        }
        self.jobs.insert(
            id,
            Held {
                running,
                begun: now,
                timer: None,
            },
        );
        self.advance(now, id, out);
    }

    /// Does what a job can do now, and sets its timer anew.
    fn advance(&mut self, now: Timestamp, id: JobId, out: &mut Output<Effect>) {
        let Some(held) = self.jobs.get_mut(&id) else {
            return;
        };
        let over = held.running.advance(now, &mut self.around, out);
        self.tags
            .extend(held.running.take_tags().map(|tag| (tag, id)));
        let timer = if over { None } else { held.running.wake_at() };
        if held.timer != timer {
            if let Some(before) = held.timer {
                self.timers.remove(&(before, id));
            }
            if let Some(at) = timer {
                self.timers.insert((at, id));
            }
            held.timer = timer;
        }
        if over {
            self.jobs.remove(&id);
        }
    }

    fn answered(&mut self, now: Timestamp, answer: Answer, out: &mut Output<Effect>) {
        match answer {
            Answer::Asked {
                scheduler,
                ask,
                result,
            } => {
                self.around.tally.asks_unanswered += u64::from(!matches!(result, Asked::Reply(_)));
                self.asks.answered(scheduler, ask, &result);
            }
            Answer::Indexed {
                recordings,
                damaged,
            } => {
                (self.around.tally.recordings, self.source) = (recordings, Source::Ready);
                self.around.tally.damaged += damaged;
            }
            Answer::Response {
                job,
                index,
                connect_us,
                damaged,
                end,
            } => {
                self.around.tally.damaged += u64::from(damaged);
                if let Some(held) = self.jobs.get_mut(&job) {
                    let (end, doubt_begins) = self.uplink.judge(now, &held.running, end);
                    if doubt_begins && !self.around.draining {
                        self.around.tally.asks += self.asks.withdraw(now, out);
                    }
                    held.running
                        .ended(now, index, connect_us, end, &mut self.around, out);
                    self.advance(now, job, out);
                }
            }
            Answer::Closed { job } => self.tell(now, job, out, Running::closed),
        }
    }

    fn tell(
        &mut self,
        now: Timestamp,
        job: JobId,
        out: &mut Output<Effect>,
        news: impl FnOnce(&mut Running),
    ) {
        if let Some(held) = self.jobs.get_mut(&job) {
            news(&mut held.running);
            self.advance(now, job, out);
        }
    }

    /// Jobs for servers that are paused make no further request. Their schedulers tell so, too; not
    /// all may be heard of.
    fn stop_paused(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        let paused = self
            .jobs
            .iter()
            .filter(|(_, held)| self.orders.leaves_alone(held.running.server()));
        let mut jobs: Vec<JobId> = paused.map(|(id, _)| *id).collect();
        jobs.sort_unstable();
        for job in jobs {
            self.tell(now, job, out, Running::revoke);
        }
    }

    fn run_timers(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        // Each job once: one that is advanced has done all that it can at this time.
        let due: Vec<JobId> = self
            .timers
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, job)| *job)
            .collect();
        for job in due {
            self.advance(now, job, out);
        }
    }

    fn drain(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        self.around.draining = true;
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        for job in jobs {
            self.advance(now, job, out);
        }
        self.around.tally.asks += self.asks.withdraw(now, out);
        self.drain = Drain::Withdrawing;
    }

    fn go_on_draining(&mut self, now: Timestamp) {
        match self.drain {
            Drain::Withdrawing if !self.asks.is_waiting() => {
                self.drain = Drain::Listening(now + LATE_JOBS)
            }
            Drain::Listening(until) if now >= until => self.drain = Drain::Complete,
            _ => {}
        }
    }
}

impl Core for Fetcher {
    type Input = ToFetcher;
    type Effect = Effect;
    type Answer = Answer;

    fn decode(_edge: Edge, payload: &[u8]) -> Result<ToFetcher, Undecodable> {
        decode(payload)
    }

    fn step(
        &mut self,
        now: Timestamp,
        event: Event<ToFetcher, Answer>,
        out: &mut Output<Effect>,
    ) -> Result<(), StoreError> {
        if std::mem::take(&mut self.are_others) {
            self.stop_paused(now, out);
        }
        match event {
            Event::Message { ticket, input } => {
                // Soft state: what is lost here ends with its lease.
                out.finish(ticket);
                match input {
                    ToFetcher::Job(job) => self.take(now, job, out),
                    ToFetcher::Renewed { job, sequence } => {
                        self.tell(now, job, out, |running| running.renewed(sequence));
                    }
                    ToFetcher::Revoked { job } => {
                        self.around.tally.jobs_revoked += u64::from(self.jobs.contains_key(&job));
                        self.tell(now, job, out, Running::revoke);
                    }
                }
            }
            Event::Answer(answer) => self.answered(now, answer, out),
            Event::Stored(tag) => {
                if let Some(job) = self.tags.remove(&tag) {
                    self.tell(now, job, out, |running| running.stored(tag));
                }
            }
            Event::Wake | Event::HearsAgain => {}
            Event::Drain => self.drain(now, out),
        }
        self.run_timers(now, out);
        self.go_on_draining(now);
        self.uplink.look(now);
        if self.source == Source::Unknown {
            self.source = Source::Indexing;
            out.effect(Effect::Index);
        }
        if !self.around.draining && self.source == Source::Ready {
            let wanted = self.uplink.wanted(now, self.free(), self.tries());
            self.around.tally.asks += self.asks.send(now, wanted, out);
        }
        out.more_soon = self.around.asked > 0;
        Ok(())
    }

    fn owners(&mut self, stage: StageName, owners: &Owners) {
        if stage == StageName::Scheduler {
            self.asks.ask_these(&owners.instances());
        }
    }

    /// Connections stay open: their next requests go by it.
    fn configure(&mut self, pipeline: &Pipeline) -> bool {
        self.around.settings.configure(pipeline);
        let delay = self.around.settings.delay;
        self.jobs
            .values_mut()
            .for_each(|held| held.running.leave_at_least(delay));
        true
    }

    fn orders(&mut self, orders: &Orders) {
        (self.orders, self.are_others) = (orders.clone(), true);
    }

    fn wake_at(&self) -> Option<Timestamp> {
        if self.are_others || self.source == Source::Unknown {
            return Some(Timestamp::ZERO);
        }
        let timer = self.timers.first().map(|(at, _)| *at);
        let ask = self
            .asks
            .wake_at()
            .into_iter()
            .chain(self.uplink.wake_at(self.tries()))
            .min();
        let ask = ask.filter(|_| !self.around.draining && self.source == Source::Ready);
        let drained = if let Drain::Listening(until) = self.drain {
            Some(until)
        } else {
            None
        };
        [timer, ask, drained].into_iter().flatten().min()
    }

    fn is_idle(&self) -> bool {
        self.jobs.is_empty() && matches!(self.drain, Drain::NotBegun | Drain::Complete)
    }

    fn why(&self, now: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        if self.around.absent.has(url) {
            return Ok(Some("gone: not in the archive".to_owned()));
        }
        Ok(self.uplink.hindrance(now))
    }

    fn hindrance(&self, now: Timestamp) -> Option<String> {
        if self.source == Source::Indexing {
            return Some("finds out what is in the archive (stages.fetcher.archive)".to_owned());
        }
        self.uplink.hindrance(now)
    }

    fn counts(&self) -> Vec<Count> {
        let connections = self
            .jobs
            .values()
            .filter(|held| held.running.is_connected())
            .count();
        let unstored: usize = self.jobs.values().map(|held| held.running.unstored()).sum();
        let mut counts = vec![
            ("jobs", self.jobs.len() as u64),
            ("connections", connections as u64),
            ("connections_max", self.around.settings.connections.into()),
            ("pages_unstored", unstored as u64),
        ];
        counts.extend(self.uplink.counts());
        counts.extend(self.around.tally.counts());
        counts
    }

    fn labelled_counts(&self) -> Vec<LabelledCount> {
        self.around.tally.labelled_counts()
    }

    fn histograms(&self) -> Vec<(&'static str, &Histogram)> {
        let Tally {
            connects,
            responses,
            ..
        } = &self.around.tally;
        vec![
            ("connect_seconds", connects),
            ("response_seconds", responses),
        ]
    }
}
