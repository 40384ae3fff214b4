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
use crate::keys::schedulers::Schedulers;
use crate::quota::Quota;
use crate::quota::ledger::{Claim, ClaimAnswer, Holder, Holding, Ledger, Takes};
use crate::settings::Settings;
use crate::step::staged::Staged;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_url::time::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long tokens count after they were entered.
const VALID_FOR: Duration = Duration::from_secs(30);
/// Tokens in use are entered again when they have counted for this long.
const ENTER_EVERY: Duration = Duration::from_secs(15);
/// How long a scheduler keeps tokens that others call for, at least, while it has use for them: a
/// ledger is not changed for each job.
const KEEPS_FOR: Duration = Duration::from_secs(5);
/// Wait between two questions for tokens, when there were none.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Questions that are out at once, at most.
const QUESTIONS_MAX: usize = 256;

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
    /// When it is looked at next.
    look_at: Option<Timestamp>,
    held: Held,
}

/// What this scheduler holds of a circle that others may have jobs in.
#[derive(Clone, Debug, Default)]
struct Held {
    tokens: u32,
    /// When the tokens were asked for that the ledger knows; none: it knows of no job of this life.
    entered: Option<Timestamp>,
    /// The ledger may hold more for this scheduler than `tokens`.
    is_unsure: bool,
    /// Others call for them.
    is_called: bool,
    /// Until then they are kept, while there is use for them.
    kept_until: Timestamp,
    /// No more are asked for before then.
    ask_at: Timestamp,
    /// Nothing is asked before then: the last question was not answered.
    retry_at: Timestamp,
    /// The question that is out.
    asked: Option<Asked>,
    /// Entries of others, and since when they have not changed.
    others: HashMap<Holder, (Holding, Timestamp)>,
}

/// A question that is out.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Timestamp,
    /// Tokens that are kept; the others go back.
    keeps: u32,
}

/// The scheduler among others.
#[derive(Debug)]
struct Sharing {
    schedulers: Schedulers,
    holder: Holder,
    epoch: u64,
    /// Until then, and for the delay of a group, jobs may be out that their owner has not entered.
    settled_at: Timestamp,
    /// Claims on ledgers so far.
    claims: u64,
    /// Questions that are out.
    out: usize,
}

/// All circles that jobs are out in, or were a moment ago.
#[derive(Debug)]
pub(crate) struct Circles {
    opened: Timestamp,
    /// None: this scheduler has all partitions.
    sharing: Option<Sharing>,
    states: HashMap<Circle, State>,
    looks: BTreeSet<(Timestamp, Circle)>,
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
        let sharing = Sharing {
            schedulers,
            holder: Holder { instance, birth: 0 },
            epoch,
            settled_at,
            claims: 0,
            out: 0,
        };
        Circles {
            opened: now,
            sharing: Some(sharing).filter(|sharing| sharing.schedulers.count > 1),
            states: HashMap::new(),
            looks: BTreeSet::new(),
        }
    }

    /// Partitions have other owners. Who was alone stays it for the rest of its life, which ends
    /// before it gives one away.
    pub(crate) fn shared_by(&mut self, schedulers: Schedulers) {
        if let Some(sharing) = &mut self.sharing {
            sharing.schedulers = schedulers;
        }
    }

    /// The ledgers are asked under this epoch from now on.
    pub(crate) fn owned_since(&mut self, epoch: u64) {
        if let Some(sharing) = &mut self.sharing {
            sharing.epoch = epoch;
        }
    }

    /// When a circle is to be looked at.
    pub(crate) fn look_at(&self) -> Option<Timestamp> {
        let has_room = self
            .sharing
            .as_ref()
            .is_none_or(|sharing| sharing.out < QUESTIONS_MAX);
        self.looks.first().filter(|_| has_room).map(|&(at, _)| at)
    }

    /// Has a circle looked at then, if not earlier.
    fn look(&mut self, circle: Circle, at: Timestamp) {
        let Some(state) = self.states.get_mut(&circle) else {
            return;
        };
        if state.look_at.is_none_or(|earlier| earlier > at) {
            if let Some(later) = state.look_at.replace(at) {
                self.looks.remove(&(later, circle));
            }
            self.looks.insert((at, circle));
        }
    }

    /// The state of a circle. After a start nobody knows when a group was contacted last.
    fn state(&mut self, circle: Circle, settings: &Settings) -> &mut State {
        let next_contact = self.opened + settings.delay_of(circle);
        self.states.entry(circle).or_insert_with(|| State {
            next_contact,
            held: Held {
                is_unsure: true,
                ..Held::default()
            },
            ..State::default()
        })
    }

    /// Returns whether nothing is known of any circle.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty() && self.looks.is_empty()
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
        let (jobs, next) = self
            .states
            .get(&circle)
            .map_or((0, fresh), |state| (state.jobs, state.next_contact));
        (jobs == 0 && next > now).then(|| next.since(now))
    }

    /// Returns whether one more job may be granted.
    pub(crate) fn has_room(&self, circle: Circle, now: Timestamp, settings: &Settings) -> bool {
        let max = settings.jobs_max_of(circle);
        let Some(state) = self.states.get(&circle) else {
            return self.sharing.is_none() && now >= self.opened + settings.delay_of(circle);
        };
        let tokens = self.sharing.as_ref().map_or(max, |sharing| {
            let held = &state.held;
            match held.is_called && now >= held.kept_until {
                _ if !held.is_valid(now) => 0,
                true => held.tokens.min(fair(max, sharing)),
                false => held.tokens,
            }
        });
        state.jobs < max.min(tokens) && now >= state.next_contact
    }

    /// Returns whether the ledger knows of the jobs that are out: they may go on.
    pub(crate) fn are_entered(&self, circle: Circle, now: Timestamp) -> bool {
        self.sharing.is_none()
            || self
                .states
                .get(&circle)
                .is_some_and(|state| state.held.is_valid(now))
    }

    /// A job is out.
    pub(crate) fn connect(&mut self, circle: Circle, settings: &Settings) {
        self.state(circle, settings).jobs += 1;
    }

    /// A job of an earlier life, or of another owner of its partition, is out.
    pub(crate) fn restore(&mut self, circle: Circle, settings: &Settings) {
        self.connect(circle, settings);
        self.look(circle, self.opened);
    }

    /// A job has ended, and the last contact with it.
    pub(crate) fn close(&mut self, circle: Circle, now: Timestamp, settings: &Settings) {
        let delay = settings.delay_of(circle);
        if let Some(state) = self.states.get_mut(&circle) {
            state.jobs = state.jobs.saturating_sub(1);
            state.next_contact = state.next_contact.max(now + delay);
        }
        self.look(circle, now);
    }

    /// One more server would have a job in a circle.
    pub(crate) fn contend(&mut self, circle: Circle, settings: &Settings) {
        self.state(circle, settings).contenders += 1;
    }

    /// One server less would.
    pub(crate) fn withdraw(&mut self, circle: Circle, now: Timestamp) {
        let Some(state) = self.states.get_mut(&circle) else {
            return;
        };
        state.contenders = state.contenders.saturating_sub(1);
        if state.contenders == 0 {
            self.look(circle, now);
        }
    }

    /// A server waits for room.
    pub(crate) fn want(&mut self, circle: Circle, now: Timestamp, settings: &Settings) {
        let is_shared = self.sharing.is_some();
        let state = self.state(circle, settings);
        let at = state.next_contact.max(now);
        if at > now || is_shared && state.held.asked.is_none() {
            self.look(circle, at);
        }
    }

    /// Another scheduler has no tokens left.
    pub(crate) fn call(&mut self, circle: Circle, now: Timestamp, settings: &Settings) {
        if self.sharing.is_some() {
            self.state(circle, settings).held.is_called = true;
            self.look(circle, now);
        }
    }

    /// Looks at the circles that are to be looked at by now. Gives those with room for one more job
    /// that is wanted.
    pub(crate) fn tend(&mut self, staged: &mut Staged<'_>) -> Vec<Circle> {
        let mut with_room = Vec::new();
        while self.look_at().is_some_and(|at| at <= staged.now)
            && let Some((_, circle)) = self.looks.pop_first()
        {
            let is_wanted = self
                .states
                .get(&circle)
                .is_some_and(|state| state.contenders > 0);
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
        let settings = staged.settings;
        let max = settings.jobs_max_of(circle);
        let Some(state) = self.states.get_mut(&circle) else {
            return;
        };
        state.look_at = None;
        let mut next = (state.next_contact > now).then_some(state.next_contact);
        let mut is_needed = state.jobs > 0 || state.contenders > 0 || next.is_some();
        if let Some(sharing) = &mut self.sharing {
            let wanted = state.wanted(max);
            let is_settled = now >= sharing.settled_at + settings.delay_of(circle);
            let fair = if is_settled {
                Some(fair(max, sharing))
            } else {
                None
            };
            match state.next_entry(now, wanted, fair) {
                Next::Enter { keeps } => {
                    let claim = state.quota_claim(circle, wanted, keeps, sharing, staged);
                    staged.messages.claim(claim);
                    next = None;
                }
                Next::At(at) => next = next.into_iter().chain(at).min(),
            }
            if !is_settled {
                next = next
                    .into_iter()
                    .chain([sharing.settled_at + settings.delay_of(circle)])
                    .min();
            }
            let held = &state.held;
            is_needed |= held.is_called || held.asked.is_some() || held.is_valid(now);
        }
        if !is_needed {
            self.states.remove(&circle);
        } else if let Some(at) = next {
            self.look(circle, at);
        }
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
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        sharing.out = sharing.out.saturating_sub(1);
        let Some(state) = self.states.get_mut(&circle) else {
            return;
        };
        let Some(asked) = state.held.asked.take() else {
            return;
        };
        let Some(ledger) = &answer.ledger else {
            // It may have been entered or not.
            state.held.is_unsure = true;
            state.held.retry_at = now + ASK_EVERY;
            return self.look(circle, now + ASK_EVERY);
        };
        let is_settled = asked.at >= sharing.settled_at + staged.settings.delay_of(circle);
        let max = staged.settings.jobs_max_of(circle);
        state
            .held
            .answered(ledger, (sharing.holder, max), now, asked, is_settled);
        if !is_settled {
            // They are of jobs of an earlier life, or were given away with their partition: none is
            // for a new job.
            state.held.tokens = 0;
        }
        let wanted = state.wanted(max);
        if is_settled && wanted > state.held.tokens {
            state.held.ask_at = state.held.ask_at.max(now + ASK_EVERY);
            for (other, _) in ledger.others(sharing.holder) {
                // One without partitions has no use for its tokens: they are taken from it.
                if let Some(partition) = sharing.schedulers.partition_of(other.instance) {
                    staged
                        .messages
                        .errand(partition, Quota::Circle(circle).call());
                }
            }
        }
        self.look(circle, now);
    }
}

/// What is to be done with the ledger.
enum Next {
    /// Nothing before then, if ever.
    At(Option<Timestamp>),
    /// Enter what is needed; tokens above these go back.
    Enter { keeps: u32 },
}

impl State {
    /// Tokens for which there is use.
    fn wanted(&self, max: u32) -> u32 {
        self.jobs.saturating_add(self.contenders).min(max)
    }

    /// Tokens that cannot go back: the group's delay is waited for here.
    fn in_use(&self, now: Timestamp) -> u32 {
        let pauses = self.held.tokens > 0 && self.next_contact > now;
        self.jobs.max(u32::from(pauses))
    }

    /// When the ledger is to be changed, and what is kept. `wanted`: tokens for which there is use
    /// here. `fair`: those that are kept while others have none; none while nothing may be taken or
    /// given back.
    fn next_entry(&mut self, now: Timestamp, wanted: u32, fair: Option<u32>) -> Next {
        let in_use = self.in_use(now);
        let has_jobs = self.jobs > 0;
        let held = &mut self.held;
        if held.asked.is_some() {
            return Next::At(None);
        }
        if now < held.retry_at {
            return Next::At(Some(held.retry_at));
        }
        let enter_at = held.entered.map_or(now, |at| at + ENTER_EVERY);
        let has_to_enter = has_jobs && enter_at <= now;
        let again_at = Some(enter_at).filter(|_| has_jobs);
        let Some(fair) = fair else {
            return if has_to_enter {
                Next::Enter { keeps: u32::MAX }
            } else {
                Next::At(again_at)
            };
        };
        if held.is_called {
            let owes = now >= held.kept_until;
            let keeps = in_use.max(wanted.min(if owes { fair } else { held.tokens }));
            if held.tokens > keeps || held.is_unsure {
                return Next::Enter { keeps };
            }
            held.is_called = !owes || held.tokens > fair;
        }
        let is_short =
            !held.is_called && wanted > 0 && (wanted > held.tokens || !held.is_valid(now));
        if has_to_enter || is_short && held.ask_at <= now {
            return Next::Enter {
                keeps: if held.is_called {
                    held.tokens
                } else {
                    u32::MAX
                },
            };
        }
        let kept_until = Some(held.kept_until).filter(|&at| held.is_called && at > now);
        let ask_at = Some(held.ask_at).filter(|_| is_short);
        let forgotten_at = held.entered.map(|at| at + VALID_FOR).filter(|&at| at > now);
        Next::At(
            [again_at, kept_until, ask_at, forgotten_at]
                .into_iter()
                .flatten()
                .min(),
        )
    }

    /// What the ledger is to be told now.
    fn quota_claim(
        &mut self,
        circle: Circle,
        wanted: u32,
        keeps: u32,
        sharing: &mut Sharing,
        staged: &Staged<'_>,
    ) -> Claim {
        let now = staged.now;
        let settings = staged.settings;
        let max = settings.jobs_max_of(circle);
        let delay = settings.delay_of(circle);
        let lease = settings.lease_with_grace();
        let is_gone = |(&holder, &(holding, since)): (&Holder, &(Holding, Timestamp))| {
            let patience = match sharing.schedulers.partition_of(holder.instance) {
                // Twice as long, since a step may take long.
                Some(_) => 2 * VALID_FOR + lease,
                None => lease + delay,
            };
            (now.since(since) >= patience).then_some((holder, holding))
        };
        let gone: Vec<_> = self.held.others.iter().filter_map(is_gone).collect();
        if !gone.is_empty() {
            self.next_contact = self.next_contact.max(now + delay);
        }
        let in_use = self.in_use(now);
        sharing.claims += 1;
        sharing.out += 1;
        self.held.asked = Some(Asked { at: now, keeps });
        // From the question on, only those count that are kept.
        self.held.tokens = self.held.tokens.min(keeps.max(in_use));
        Claim {
            quota: Quota::Circle(circle),
            max: u64::from(max),
            holder: sharing.holder,
            epoch: sharing.epoch,
            number: sharing.claims,
            spent: 0,
            in_use: u64::from(in_use),
            counts_on: 0,
            wanted: u64::from(wanted),
            keeps: u64::from(keeps),
            takes: Takes::Missing,
            may_change: now >= sharing.settled_at + delay,
            known: Vec::new(),
            since: 0,
            gone,
        }
    }
}

impl Held {
    /// Returns whether the ledger counts the tokens, and the jobs that are out.
    fn is_valid(&self, now: Timestamp) -> bool {
        self.entered.is_some_and(|at| now < at + VALID_FOR)
    }

    /// Takes what the ledger says after a question.
    fn answered(
        &mut self,
        ledger: &Ledger,
        (holder, max): (Holder, u32),
        now: Timestamp,
        asked: Asked,
        is_settled: bool,
    ) {
        // Jobs of an earlier life are entered although others have the tokens by now. They leave
        // none behind.
        let others: u64 = ledger.others(holder).map(|(_, other)| other.held).sum();
        let entered = ledger.held(holder);
        let tokens = entered.min(u64::from(max).saturating_sub(others)) as u32;
        if tokens > self.tokens {
            self.kept_until = now + KEEPS_FOR;
        }
        if asked.keeps < u32::MAX {
            // What went back is for others to take: they ask every so often, and call again if it
            // was not enough.
            self.is_called = false;
            self.ask_at = now + 2 * ASK_EVERY;
        }
        self.tokens = tokens;
        self.is_unsure = !is_settled || u64::from(tokens) < entered;
        self.entered = Some(asked.at);
        let before = std::mem::take(&mut self.others);
        for (holder, holding) in ledger.others(holder) {
            let since = before
                .get(&holder)
                .filter(|(known, _)| *known == holding)
                .map_or(now, |known| known.1);
            self.others.insert(holder, (holding, since));
        }
    }
}

/// Tokens that a scheduler keeps while others have none.
fn fair(max: u32, sharing: &Sharing) -> u32 {
    max / u32::from(sharing.schedulers.count)
}
