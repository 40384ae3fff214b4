//! The dispatcher: takes the event of a step, settles servers in their places, and grants jobs.
//!
//! In: messages, answers of ledgers, the passing of time. Out: the step's work, done, and what is
//! left for the next step. It acts at [`doors`](crate::core::doors) only: features are asked there.

use crate::core::doors::Doors;
use crate::core::grants::{Granted, Grants};
use crate::core::places::Places;
use crate::core::reports::Reports;
use crate::core::work::Work;
use crate::core::{errands, intake, placement, signals};
use crate::frontier::index::Index;
use crate::keys::room::Room;
use crate::keys::server_key::ServerKey;
use crate::quota::Quota;
use crate::quota::ledger::{Claim, ClaimAnswer};
use crate::servers::in_play::Servers;
use rhumb_stage::store::StoreError;
use rhumb_stage::{Event, Output, Ticket};
use rhumb_wire::message::{Ask, AskReply, Boosts, Errand, PageSignals, ReadyUrls, Report};

/// Servers that one step looks after because their wait is over, at most.
const DUE_PER_STEP: usize = 1000;
/// Jobs that one step grants, at most.
const JOBS_PER_STEP: usize = 64;

/// A message for the scheduler.
#[derive(Clone, Debug)]
pub enum Input {
    /// New URLs, or addresses that were asked for.
    Ready(ReadyUrls),
    /// What a job brought.
    Report(Report),
    /// A fetcher asks for jobs.
    Ask(Ask),
    /// From the scheduler of another partition.
    Errand(Errand),
    /// What later links add to URLs.
    Boosts(Boosts),
    /// What parsers learned of pages.
    Signals(PageSignals),
}

/// What acts in each step, and what it keeps from one to the next.
pub(crate) struct Dispatcher {
    pub(crate) epoch: u64,
    pub(crate) grants: Grants,
    pub(crate) doors: Doors,
    /// Servers that were read from the store, or are paused or not any more, and have no place yet.
    pub(crate) opened: Vec<ServerKey>,
    /// There is more to do than one step does.
    pub(crate) more: bool,
    /// There are other orders: jobs of servers that are paused are to stop.
    pub(crate) are_others_paused: bool,
    /// Requests for addresses sent in this epoch.
    refreshes: u64,
    /// Messages for partitions of other instances.
    pub(crate) foreign: u64,
    /// Messages, and parts of messages, that make no sense.
    pub(crate) malformed: u64,
}

impl Dispatcher {
    /// The dispatcher of a life that begins with these servers.
    pub(crate) fn new(instance: u16, epoch: u64, doors: Doors, opened: Vec<ServerKey>) -> Self {
        Dispatcher {
            epoch,
            grants: Grants::new(instance, epoch),
            doors,
            opened,
            more: true,
            are_others_paused: false,
            refreshes: 0,
            foreign: 0,
            malformed: 0,
        }
    }

    /// A step begins: servers that have no place yet are to be found one, and jobs of those that
    /// were paused stop.
    pub(crate) fn begin(&mut self, work: &mut Work<'_>) {
        self.more = false;
        for key in std::mem::take(&mut self.opened) {
            work.staged.unsettle(key);
        }
        if std::mem::take(&mut self.are_others_paused) {
            work.staged.stopped.extend(work.servers.stop_paused());
        }
    }

    /// Takes what the step is about. Gives the message and the fetcher of an ask, which is answered
    /// when it is known what was granted.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn take(
        &mut self,
        work: &mut Work<'_>,
        event: Event<Input, ClaimAnswer>,
        out: &mut Output<Claim>,
    ) -> Result<Option<(Ticket, String)>, StoreError> {
        match event {
            Event::Message { ticket, input } => {
                out.finish(ticket);
                let asker = self.message(work, input)?;
                return Ok(asker.map(|asker| (ticket, asker)));
            }
            Event::Drain => self.grants.drain(),
            Event::HearsAgain => work.servers.hear_again(&mut work.staged),
            Event::Answer(answer) => self.claimed(work, &answer),
            Event::Stored(_) | Event::Wake => {}
        }
        Ok(None)
    }

    /// The step ends: what changed becomes rows and messages. Gives the index back.
    pub(crate) fn end(&mut self, mut work: Work<'_>, out: &mut Output<Claim>) -> Index {
        self.grants.fetchers.stop_jobs(&mut work.staged);
        self.doors.saved(&mut work);
        work.servers.save(&mut work.staged);
        let epoch = self.epoch;
        let refreshes = &mut self.refreshes;
        work.staged.flush(out, || {
            *refreshes += 1;
            // The number differs in every life, so that no answer is taken for one to an earlier
            // life's request.
            (epoch << 32).wrapping_add(*refreshes)
        })
    }

    /// Takes a message. Gives the fetcher's name when it is an ask, which is answered at the end of
    /// the step.
    fn message(&mut self, work: &mut Work<'_>, input: Input) -> Result<Option<String>, StoreError> {
        match input {
            Input::Ready(ReadyUrls {
                partition, urls, ..
            }) if !work.servers.owns(partition) => {
                self.foreign += 1;
                work.servers.leave_out(urls.len() as u64, &mut work.staged);
            }
            // Its lease runs out, and its URLs are tried again.
            Input::Report(Report { partition, .. }) if !work.servers.owns(partition) => {
                self.foreign += 1
            }
            Input::Ready(ready) => {
                self.malformed += intake::take_on(work, &mut self.doors, &ready)?;
            }
            Input::Report(report) => match work.servers.key_of(&report.server) {
                Some(key) if !work.servers.covers(report.partition, key) => self.malformed += 1,
                Some(key) if work.servers.owns(key.partition) => {
                    self.reports(work).take(key, &report)?
                }
                // Its partition was split since the job was granted, and its half has another
                // owner.
                Some(key) => work.staged.messages.pass_on(key.partition, report),
                None => self.malformed += 1,
            },
            Input::Errand(errand) => self.errand(work, errand)?,
            Input::Boosts(boosts) => {
                let doors = &mut self.doors;
                doors.lifts.take(work, &doors.drops, &boosts)?;
            }
            Input::Signals(PageSignals { partition, .. }) if !work.servers.owns(partition) => {
                self.foreign += 1;
            }
            Input::Signals(signals) => signals::take(work, &mut self.doors, &signals)?,
            Input::Ask(ask) => {
                let lifetime = work.staged.settings.ask_lifetime;
                self.grants.fetchers.ask(work.staged.now, &ask, lifetime);
                return Ok(Some(ask.fetcher));
            }
        }
        Ok(None)
    }

    /// A message from the scheduler of another partition.
    fn errand(&mut self, work: &mut Work<'_>, errand: Errand) -> Result<(), StoreError> {
        let name = match &errand {
            Errand::Wanted { url, .. } => rhumb_url::server_of(url),
            Errand::Found { server, .. } => server,
            Errand::Quota { key } => return self.give_back(work, key),
        };
        let Some(key) = work.servers.key_of(name) else {
            self.malformed += 1;
            return Ok(());
        };
        if !work.servers.owns(key.partition) {
            match work.servers.had(key) {
                true => work.staged.messages.errand(key.partition, errand),
                false => self.foreign += 1,
            }
            return Ok(());
        }
        errands::take(work, key, errand)
    }

    /// Another scheduler has nothing left of a quota: what is not needed here goes back.
    fn give_back(&mut self, work: &mut Work<'_>, key: &str) -> Result<(), StoreError> {
        let now = work.staged.now;
        match Quota::of_key(key) {
            None => self.malformed += 1,
            Some(Quota::Circle(circle)) => {
                let settings = work.staged.settings;
                work.places.circles.call(circle, now, settings);
            }
            // Schedulers give back by themselves what is above their shares.
            Some(Quota::Visits(_)) => {}
            Some(pages) => work.servers.call_for_tokens(now, pages)?,
        }
        Ok(())
    }

    /// The ledger of a quota has answered.
    fn claimed(&mut self, work: &mut Work<'_>, answer: &ClaimAnswer) {
        let Work {
            servers,
            places,
            staged,
            ..
        } = work;
        match &answer.claim.quota {
            Quota::Circle(circle) => places.circles.answered(*circle, answer, staged),
            Quota::Visits(_) => self.doors.recrawl.answered(answer, staged),
            _ => {
                if let Some(domain) = servers.shares_mut().answered(answer, staged) {
                    places.pass_on(Room::Domain(domain), staged);
                }
            }
        }
    }

    fn reports<'a, 'w>(&'a mut self, work: &'a mut Work<'w>) -> Reports<'a, 'w> {
        Reports {
            work,
            doors: &mut self.doors,
            fetchers: &mut self.grants.fetchers,
        }
    }

    /// Looks after servers whose wait is over.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn look_after_due(&mut self, work: &mut Work<'_>) -> Result<(), StoreError> {
        let now = work.staged.now;
        for _ in 0..DUE_PER_STEP {
            let Some(key) = work.places.queue.first_due(now) else {
                return Ok(());
            };
            let lease = work
                .servers
                .get(key)
                .and_then(|server| server.lease.as_ref());
            if lease.is_some_and(|lease| lease.deadline <= now) {
                self.reports(work).expire(key)?;
            }
            placement::find(work, &mut self.doors, key)?;
        }
        self.more = true;
        Ok(())
    }

    /// Finds places, ends URLs and grants jobs until nothing more can be done now, or the step has
    /// done enough.
    ///
    /// Gives the fetchers that got a job, one entry for each.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn settle(&mut self, work: &mut Work<'_>) -> Result<Vec<String>, StoreError> {
        let mut granted = Vec::new();
        loop {
            let may_plan = !self.grants.is_draining() && !self.grants.is_stopped();
            self.doors.tended(work, may_plan)?;
            Doors::settling(work);
            while let Some(key) = work.staged.unsettled.pop_front() {
                placement::find(work, &mut self.doors, key)?;
            }
            if Doors::settled(work) {
                continue;
            }
            let may_end = work.staged.endings_left > 0;
            if let Some(key) = work.places.queue.first_ending().filter(|_| may_end) {
                placement::end_waiting(work, key)?;
                continue;
            }
            if granted.len() >= JOBS_PER_STEP || !may_end {
                self.more = true;
                return Ok(granted);
            }
            match self.grants.grant(work, &mut self.doors)? {
                Granted::Job(fetcher) => granted.push(fetcher),
                Granted::Nothing => {}
                Granted::NoFetcher => {
                    self.doors.crowded(work);
                    return Ok(granted);
                }
                Granted::NoneLeft => return Ok(granted),
            }
        }
    }
}

/// The answer to an ask, after all jobs of the step were granted.
pub(crate) fn reply_to(asker: &str, granted: &[String], work: &Work<'_>) -> AskReply {
    let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
    let granted = granted.iter().filter(|fetcher| *fetcher == asker).count();
    AskReply {
        granted: count(granted),
        ready: count(ready(work.servers, work.places)),
    }
}

/// Servers that may be given to a fetcher that asks.
pub(crate) fn ready(servers: &Servers, places: &Places) -> usize {
    if servers.paused().has_all() {
        0
    } else {
        places.queue.ready()
    }
}
