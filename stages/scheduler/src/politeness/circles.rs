//! Circles: limits of jobs that servers share. Many servers may lie at one address, or be of one
//! group, and what lies behind them is spared as well.
//!
//! A job counts for the first of its server's addresses, the one that its fetcher tries first, and
//! for its server's group, from its grant to the end of its lease. A group with a delay has one job
//! out at a time, so its delay holds within the job, and from the end of a job to the next one.
//!
//! A scheduler that has all partitions decides alone. Several ones divide what a circle allows by
//! its ledger ([`crate::quota`]). Tokens count for [`VALID_FOR`] after they were entered; a
//! scheduler with jobs out enters them again in time. Others may take its entry out when that has
//! not changed for longer than that and a lease.
//!
//! Invariants: no more jobs are out in a circle than are allowed, over all schedulers (Boldi,
//! Marino, Santini and Vigna 2014 allow one to an address); no job is granted in a group before the
//! delay is over; tokens go back only when the delay is over, so whoever gets them has not to wait
//! for it. Circles are taken in one order, the group before the address, and what waits for an
//! address keeps its group for a while, so schedulers do not wait for each other. A job whose lease
//! was granted in an earlier life, or by another owner of its partition, is renewed only when it
//! has been entered. So a life that begins after partitions have moved takes nothing before all
//! such jobs have been entered, or have ended.

use crate::keys::circle::Circle;
use crate::quota::Quota;
use crate::quota::ledger::{Claim, ClaimAnswer, Holder, Holding};
use crate::quota::requests::{ASK_EVERY, Request, Requests};
use crate::settings::Settings;
use crate::step::staged::Staged;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_url::time::Timestamp;
use std::time::Duration;

/// How long tokens count after they were entered.
const VALID_FOR: Duration = Duration::from_secs(30);
/// Tokens in use are entered again when they have counted for this long.
const ENTER_EVERY: Duration = Duration::from_secs(15);
/// How long a scheduler keeps tokens that others call for, at least, while it has use for them: a
/// ledger is not changed for each job.
const KEEPS_FOR: Duration = Duration::from_secs(5);
/// All tokens are kept.
const ALL: u32 = u32::MAX;

/// What this scheduler knows of one circle.
#[derive(Clone, Debug, Default)]
struct State {
    /// Jobs that are out.
    jobs: u32,
    /// Servers that would have a job in it, now, when there is room, or when there is room in
    /// another circle as well.
    contenders: u32,
    /// No contact before then.
    next_contact: Timestamp,
    /// What it holds of a circle that others may have jobs in.
    tokens: u32,
    /// When the tokens were asked for that the ledger knows; none: it knows of no job of this life.
    entered: Option<Timestamp>,
    /// The ledger may hold no more for this scheduler than `tokens`.
    is_sure: bool,
    /// Until then tokens that others call for are kept, while there is use for them.
    kept_until: Timestamp,
    /// No more are asked for before then.
    ask_at: Timestamp,
    /// Entries of others, and since when they have not changed.
    others: HashMap<Holder, (Holding, Timestamp)>,
}

/// All circles that jobs are out in, or were a moment ago.
#[derive(Debug)]
pub(crate) struct Circles {
    opened: Timestamp,
    /// Until then, and for the delay of a group, jobs may be out that their owner has not entered.
    settled_at: Timestamp,
    /// Other schedulers have partitions. Who is alone stays it for the rest of its life, which ends
    /// before it gives one away.
    is_shared: bool,
    pub(crate) requests: Requests<Circle>,
    states: HashMap<Circle, State>,
}

impl Circles {
    /// Circles without jobs. The jobs that are out are told by [`restore`](Self::restore).
    pub(crate) fn open(settings: &Settings, (instance, epoch): (u16, u64), now: Timestamp) -> Self {
        let schedulers = settings.schedulers.clone();
        let settled_at = if schedulers.moved() {
            now + settings.lease_with_grace()
        } else {
            now
        };
        Circles {
            opened: now,
            settled_at,
            is_shared: schedulers.count > 1,
            requests: Requests::new(schedulers, Holder { instance, birth: 0 }, epoch),
            states: HashMap::new(),
        }
    }

    /// The state of a circle. After a start nobody knows when a group was contacted last.
    fn state(&mut self, circle: Circle, settings: &Settings) -> &mut State {
        let next_contact = self.opened + settings.delay_of(circle);
        self.states.entry(circle).or_insert_with(|| State {
            next_contact,
            ..State::default()
        })
    }

    /// Returns whether nothing is known of any circle.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty() && self.requests.all_rest()
    }

    /// Number of jobs that are out.
    #[cfg(test)]
    pub(crate) fn jobs(&self, circle: Circle) -> u32 {
        self.states.get(&circle).map_or(0, |state| state.jobs)
    }

    /// How long a circle is left alone from now on; none when that is not why there is no room.
    pub(crate) fn pause(
        &self,
        circle: Circle,
        now: Timestamp,
        settings: &Settings,
    ) -> Option<Duration> {
        let fresh = self.opened + settings.delay_of(circle);
        let state = self.states.get(&circle);
        let next = state.map_or(fresh, |state| state.next_contact);
        let is_free = state.is_none_or(|state| state.jobs == 0);
        (is_free && next > now).then(|| next.since(now))
    }

    /// Tokens that a scheduler keeps while others have none.
    fn fair(&self, circle: Circle, settings: &Settings) -> u32 {
        settings.jobs_max_of(circle) / u32::from(self.requests.schedulers.count)
    }

    /// Returns whether one more job may be granted.
    pub(crate) fn has_room(&self, circle: Circle, now: Timestamp, settings: &Settings) -> bool {
        let Some(state) = self.states.get(&circle) else {
            return !self.is_shared && now >= self.opened + settings.delay_of(circle);
        };
        let max = settings.jobs_max_of(circle);
        let tokens = if !self.is_shared {
            max
        } else if !state.is_valid(now) {
            0
        } else if now >= state.kept_until && self.requests.get(circle).is_called {
            state.tokens.min(self.fair(circle, settings))
        } else {
            state.tokens
        };
        state.jobs < max.min(tokens) && now >= state.next_contact
    }

    /// Returns whether the ledger knows of the jobs that are out: they may go on.
    pub(crate) fn are_entered(&self, circle: Circle, now: Timestamp) -> bool {
        let state = self.states.get(&circle);
        !self.is_shared || state.is_some_and(|state| state.is_valid(now))
    }

    /// A job is out.
    pub(crate) fn connect(&mut self, circle: Circle, settings: &Settings) {
        self.state(circle, settings).jobs += 1;
    }

    /// A job of an earlier life, or of another owner of its partition, is out.
    pub(crate) fn restore(&mut self, circle: Circle, settings: &Settings) {
        self.connect(circle, settings);
        self.requests.look(circle, self.opened);
    }

    /// A job has ended, and the last contact with it.
    pub(crate) fn close(&mut self, circle: Circle, now: Timestamp, settings: &Settings) {
        if let Some(state) = self.states.get_mut(&circle) {
            state.jobs = state.jobs.saturating_sub(1);
            state.next_contact = state.next_contact.max(now + settings.delay_of(circle));
            self.requests.look(circle, now);
        }
    }

    /// One more server would have a job in a circle.
    pub(crate) fn contend(&mut self, circle: Circle, settings: &Settings) {
        self.state(circle, settings).contenders += 1;
    }

    /// One server less would.
    pub(crate) fn withdraw(&mut self, circle: Circle, now: Timestamp) {
        if let Some(state) = self.states.get_mut(&circle) {
            state.contenders = state.contenders.saturating_sub(1);
            if state.contenders == 0 {
                self.requests.look(circle, now);
            }
        }
    }

    /// A server waits for room.
    pub(crate) fn want(&mut self, circle: Circle, now: Timestamp, settings: &Settings) {
        let at = self.state(circle, settings).next_contact.max(now);
        if at > now || self.is_shared && self.requests.get(circle).asked.is_none() {
            self.requests.look(circle, at);
        }
    }

    /// Another scheduler has no tokens left.
    pub(crate) fn call(&mut self, circle: Circle, now: Timestamp, settings: &Settings) {
        if self.is_shared {
            self.state(circle, settings);
            self.requests.call(circle, now);
        }
    }

    /// Looks at the circles that are to be looked at by now. Gives those with room for one more job
    /// that is wanted.
    pub(crate) fn tend(&mut self, staged: &mut Staged<'_>) -> Vec<Circle> {
        let mut with_room = Vec::new();
        while let Some(circle) = self.requests.next(staged.now) {
            let state = self.states.get(&circle);
            let is_wanted = state.is_some_and(|state| state.contenders > 0);
            if is_wanted && self.has_room(circle, staged.now, staged.settings) {
                with_room.push(circle);
            }
            self.see_to(circle, staged);
        }
        with_room
    }

    /// Asks the ledger of a circle if need be, and lets the circle leave memory when nothing is
    /// known of it.
    fn see_to(&mut self, circle: Circle, staged: &mut Staged<'_>) {
        let now = staged.now;
        let fair = self.fair(circle, staged.settings);
        let settled_at = self.settled_at + staged.settings.delay_of(circle);
        let Some(state) = self.states.get_mut(&circle) else {
            return;
        };
        let mut dues = vec![state.next_contact];
        let mut is_needed = state.jobs > 0 || state.contenders > 0 || state.next_contact > now;
        if self.is_shared {
            let max = staged.settings.jobs_max_of(circle);
            let fair = Some(fair).filter(|_| now >= settled_at);
            let request = self.requests.get_mut(circle);
            match state.next_entry(request, now, max, fair) {
                Next::At(at) => dues.extend(at),
                // The answer is looked at.
                Next::Enter(keeps) => {
                    dues.clear();
                    self.enter(circle, keeps, staged);
                }
            }
            dues.push(settled_at);
            let request = self.requests.get(circle);
            is_needed |= request.is_called || request.asked.is_some();
            let state = self.states.get(&circle);
            is_needed |= state.is_some_and(|state| state.is_valid(now));
        }
        if !is_needed {
            self.states.remove(&circle);
            self.requests.forget(circle);
        } else if let Some(at) = dues.into_iter().filter(|at| *at > now).min() {
            self.requests.look(circle, at);
        }
    }

    /// Tells the ledger what is needed now.
    fn enter(&mut self, circle: Circle, keeps: u32, staged: &mut Staged<'_>) {
        let now = staged.now;
        let settings = staged.settings;
        let delay = settings.delay_of(circle);
        let max = settings.jobs_max_of(circle);
        let Some(state) = self.states.get_mut(&circle) else {
            return;
        };
        let lease = settings.lease_with_grace();
        let patience = |holder: Holder| match self.requests.schedulers.partition_of(holder.instance)
        {
            // Twice as long, since a step may take long.
            Some(_) => 2 * VALID_FOR + lease,
            None => lease + delay,
        };
        let others = state.others.iter();
        let gone: Vec<_> = others
            .filter(|(holder, (_, since))| now.since(*since) >= patience(**holder))
            .map(|(holder, (holding, _))| (*holder, *holding))
            .collect();
        if !gone.is_empty() {
            state.next_contact = state.next_contact.max(now + delay);
        }
        let in_use = state.in_use(now);
        // From the question on, only those count that are kept.
        state.tokens = state.tokens.min(keeps.max(in_use));
        staged.messages.claim(Claim {
            max: max.into(),
            in_use: in_use.into(),
            wanted: state.wanted(max).into(),
            keeps: keeps.into(),
            may_change: now >= self.settled_at + delay,
            gone,
            ..self.requests.claim(circle, Quota::Circle(circle), now)
        });
    }

    /// Takes an answer of the ledger. While there are too few tokens here, those who hold some are
    /// called upon.
    pub(crate) fn answered(
        &mut self,
        circle: Circle,
        answer: &ClaimAnswer,
        staged: &mut Staged<'_>,
    ) {
        let now = staged.now;
        let max = staged.settings.jobs_max_of(circle);
        let is_heard = answer.ledger.is_some();
        let asked = self.requests.answered(circle, is_heard, now);
        let (Some(state), Some(asked)) = (self.states.get_mut(&circle), asked) else {
            return;
        };
        let Some(ledger) = &answer.ledger else {
            // It may have been entered or not.
            state.is_sure = false;
            return;
        };
        let claim = &answer.claim;
        let others: Vec<_> = ledger.others(claim.holder).collect();
        // Jobs of an earlier life are entered although others have the tokens by now. They leave
        // none behind.
        let of_others: u64 = others.iter().map(|(_, holding)| holding.held).sum();
        let entered = ledger.held(claim.holder);
        let tokens = entered.min(u64::from(max).saturating_sub(of_others)) as u32;
        if tokens > state.tokens {
            state.kept_until = now + KEEPS_FOR;
        }
        if claim.keeps < ALL.into() {
            // What went back is for others to take: they ask every so often, and call again if it
            // was not enough.
            self.requests.get_mut(circle).is_called = false;
            state.ask_at = now + 2 * ASK_EVERY;
        }
        state.is_sure = claim.may_change && u64::from(tokens) == entered;
        // Before they may change they are of jobs of an earlier life, or were given away with their
        // partition: none is for a new job.
        state.tokens = if claim.may_change { tokens } else { 0 };
        state.entered = Some(asked);
        let before = std::mem::take(&mut state.others);
        state.others.extend(others.iter().map(|&(holder, holding)| {
            let known = before.get(&holder).filter(|(known, _)| *known == holding);
            (holder, (holding, known.map_or(now, |known| known.1)))
        }));
        if claim.may_change && state.wanted(max) > state.tokens {
            state.ask_at = state.ask_at.max(now + ASK_EVERY);
            let others = others.iter().map(|(other, _)| other.instance);
            let calls = self.requests.calls(circle, &claim.quota, others, now);
            staged.messages.errands(calls);
        }
        self.requests.look(circle, now);
    }
}

/// What is to be done with the ledger.
enum Next {
    /// Nothing before then, if ever.
    At(Option<Timestamp>),
    /// Enter what is needed; tokens above these go back.
    Enter(u32),
}

impl State {
    /// Tokens for which there is use.
    fn wanted(&self, max: u32) -> u32 {
        self.jobs.saturating_add(self.contenders).min(max)
    }

    /// Tokens that cannot go back: the group's delay is waited for here.
    fn in_use(&self, now: Timestamp) -> u32 {
        let pauses = self.tokens > 0 && self.next_contact > now;
        self.jobs.max(u32::from(pauses))
    }

    /// Returns whether the ledger counts the tokens, and the jobs that are out.
    fn is_valid(&self, now: Timestamp) -> bool {
        self.entered.is_some_and(|at| now < at + VALID_FOR)
    }

    /// When the ledger is to be changed, and what is kept. `fair`: tokens that are kept while others
    /// have none; none while nothing may be taken or given back.
    fn next_entry(
        &self,
        request: &mut Request,
        now: Timestamp,
        max: u32,
        fair: Option<u32>,
    ) -> Next {
        if request.asked.is_some() {
            return Next::At(None);
        }
        if now < request.retry_at {
            return Next::At(Some(request.retry_at));
        }
        let enter_at = self.entered.map_or(now, |at| at + ENTER_EVERY);
        let again_at = Some(enter_at).filter(|_| self.jobs > 0);
        let has_to_enter = again_at.is_some_and(|at| at <= now);
        let wanted = self.wanted(max);
        if let Some(fair) = fair.filter(|_| request.is_called) {
            let owes = now >= self.kept_until;
            let may_keep = if owes { fair } else { self.tokens };
            let keeps = self.in_use(now).max(wanted.min(may_keep));
            if self.tokens > keeps || !self.is_sure {
                return Next::Enter(keeps);
            }
            request.is_called = !owes || self.tokens > fair;
        }
        let is_called = fair.is_some() && request.is_called;
        let is_missing = wanted > self.tokens || !self.is_valid(now);
        let is_short = fair.is_some() && !is_called && wanted > 0 && is_missing;
        if has_to_enter || is_short && self.ask_at <= now {
            return Next::Enter(if is_called { self.tokens } else { ALL });
        }
        let dues = [
            again_at,
            is_called.then_some(self.kept_until),
            is_short.then_some(self.ask_at),
            self.entered.map(|at| at + VALID_FOR),
        ];
        Next::At(dues.into_iter().flatten().filter(|at| *at > now).min())
    }
}
