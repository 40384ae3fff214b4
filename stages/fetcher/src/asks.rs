//! Asks schedulers for jobs: decides which scheduler is asked, when, and for how many connections.
//!
//! Invariant: the connections offered to all schedulers together are never more than are free, so
//! that no job comes that there is no connection for. An offer is what an ask named, less the jobs
//! received since; it is gone when the ask has run out.

use crate::effect::{Asked, Effect};
use rhumb_stage::Output;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Ask;
use std::collections::VecDeque;
use std::time::Duration;

/// How long connections that have become free wait for others, so that jobs that end together cost
/// one ask.
const COMPANY: Duration = Duration::from_millis(2);
/// How soon a scheduler that was not there is asked again: it may be about to start. The wait
/// doubles each time.
const RETRY_WAIT: Duration = Duration::from_millis(20);
/// Asks whose time of sending is remembered. A job granted for an older one is refused.
const ASKS_REMEMBERED: usize = 4096;

pub(crate) struct Asks {
    instance: String,
    life: u64,
    lifetime: Duration,
    schedulers: Vec<Scheduler>,
    /// Number of the next ask.
    next: u64,
    /// The asks sent, with consecutive numbers up to `next`: the scheduler and the time.
    sent: VecDeque<(u16, Timestamp)>,
    /// Until when connections that have become free wait for company.
    company_until: Option<Timestamp>,
    wake_at: Option<Timestamp>,
}

#[derive(Default)]
struct Scheduler {
    /// Jobs received in this life.
    received: u64,
    /// Connections it may grant jobs for.
    offered: u32,
    /// When what was offered is gone.
    offered_until: Timestamp,
    /// The ask that is on its way.
    in_flight: Option<InFlight>,
    /// When it is asked again in any case.
    due: Timestamp,
    /// It did not answer the last ask: nothing but `due` makes it asked again.
    silent: bool,
    /// How often in a row it was not there.
    absences: u32,
    /// It granted nothing since it was asked before.
    dry: bool,
    /// `received` when it was asked last.
    received_before: u64,
    /// Servers that it had ready when it answered last.
    ready: u32,
    /// It has partitions, and so servers to grant jobs for.
    has_partitions: bool,
}

struct InFlight {
    ask: u64,
    free: u32,
    received: u64,
}

impl Scheduler {
    /// Connections that it may grant jobs for, whichever of two asks it knows.
    fn held(&self) -> u32 {
        self.offered
            .max(self.in_flight.as_ref().map_or(0, |ask| ask.free))
    }
}

impl Asks {
    /// Creates the asks to these instances of the scheduler.
    pub(crate) fn new(instance: String, life: u64, schedulers: &[u16], lifetime: Duration) -> Self {
        let mut asks = Asks {
            instance,
            life,
            lifetime,
            schedulers: Vec::new(),
            next: 1,
            sent: VecDeque::new(),
            company_until: None,
            wake_at: Some(Timestamp::ZERO),
        };
        asks.ask_these(schedulers);
        asks
    }

    /// From now on these instances of the scheduler have partitions. Nothing more is offered to
    /// others.
    pub(crate) fn ask_these(&mut self, schedulers: &[u16]) {
        let count = schedulers
            .iter()
            .max()
            .map_or(0, |last| usize::from(*last) + 1);
        if self.schedulers.len() < count {
            self.schedulers.resize_with(count, Scheduler::default);
        }
        for (instance, scheduler) in (0..).zip(&mut self.schedulers) {
            scheduler.has_partitions = schedulers.contains(&instance);
        }
        self.wake_at = Some(Timestamp::ZERO);
    }

    /// When an ask was sent to that scheduler, if it was, in this life and not too long ago.
    pub(crate) fn sent_at(&self, scheduler: u16, ask: u64) -> Option<Timestamp> {
        let first = self.next.wrapping_sub(self.sent.len() as u64);
        let index = usize::try_from(ask.wrapping_sub(first)).ok()?;
        let &(asked, at) = self.sent.get(index)?;
        (asked == scheduler).then_some(at)
    }

    /// A job came that was granted for an ask of this life.
    pub(crate) fn received(&mut self, scheduler: u16) {
        if let Some(scheduler) = self.schedulers.get_mut(usize::from(scheduler)) {
            scheduler.received += 1;
            scheduler.offered = scheduler.offered.saturating_sub(1);
            scheduler.dry = false;
        }
    }

    /// What came of an ask.
    pub(crate) fn answered(&mut self, scheduler: u16, ask: u64, result: &Asked) {
        let sent_at = self.sent_at(scheduler, ask);
        let Some(scheduler) = self.schedulers.get_mut(usize::from(scheduler)) else {
            return;
        };
        let Some(sent) = scheduler.in_flight.take_if(|sent| sent.ask == ask) else {
            return;
        };
        let received_since = u32::try_from(scheduler.received - sent.received).unwrap_or(u32::MAX);
        let left = sent.free.saturating_sub(received_since);
        scheduler.silent = false;
        scheduler.absences = if matches!(result, Asked::NoScheduler) {
            scheduler.absences + 1
        } else {
            0
        };
        match result {
            Asked::Reply(reply) => {
                scheduler.offered = left;
                scheduler.dry &= reply.granted == 0;
                scheduler.ready = reply.ready;
            }
            Asked::NoScheduler => {
                scheduler.offered = 0;
                scheduler.silent = true;
                scheduler.dry = true;
                let wait = RETRY_WAIT.saturating_mul(1 << (scheduler.absences - 1).min(10));
                scheduler.due = scheduler
                    .due
                    .min(sent_at.map_or(scheduler.due, |sent| sent + wait));
            }
            Asked::NoAnswer => {
                scheduler.offered = scheduler.offered.max(left);
                scheduler.silent = true;
                scheduler.dry = true;
            }
        }
    }

    /// Sends the asks that are due now that `free` connections are free; returns how many.
    pub(crate) fn send(&mut self, now: Timestamp, free: u32, out: &mut Output<Effect>) -> u64 {
        for scheduler in &mut self.schedulers {
            if now >= scheduler.offered_until {
                scheduler.offered = 0;
            }
        }
        let company_came = self.company_until.is_some_and(|until| now >= until);
        let shares = self.shares(now, free);
        let mut asks = 0;
        let mut more_is_free = false;
        self.wake_at = None;
        for (index, share) in shares.into_iter().enumerate() {
            let held: u32 = self.schedulers.iter().map(Scheduler::held).sum();
            let scheduler = &self.schedulers[index];
            if scheduler.in_flight.is_some() {
                continue;
            }
            let others = held - scheduler.held();
            let offer = share.min(free.saturating_sub(others));
            let more = offer > scheduler.offered && !scheduler.silent;
            let is_due = now >= scheduler.due && (share > 0 || scheduler.offered > 0);
            if is_due || (more && company_came) {
                self.ask(now, index, offer, out);
                asks += 1;
            } else {
                more_is_free |= more;
                if share > 0 || scheduler.offered > 0 {
                    self.wake_by(self.schedulers[index].due);
                }
            }
        }
        self.wait_for_company(now, more_is_free, company_came);
        asks
    }

    /// Takes back all that was offered: no job is granted once these asks are answered. Returns how
    /// many were sent.
    pub(crate) fn withdraw(&mut self, now: Timestamp, out: &mut Output<Effect>) -> u64 {
        let offering: Vec<usize> = (0..self.schedulers.len())
            .filter(|&index| {
                self.schedulers[index].held() > 0 && now < self.schedulers[index].offered_until
            })
            .collect();
        for &index in &offering {
            self.ask(now, index, 0, out);
        }
        offering.len() as u64
    }

    /// Returns whether an ask is on its way.
    pub(crate) fn is_waiting(&self) -> bool {
        self.schedulers
            .iter()
            .any(|scheduler| scheduler.in_flight.is_some())
    }

    /// When to call [`Asks::send`] although nothing came.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at
    }

    fn wait_for_company(&mut self, now: Timestamp, more_is_free: bool, company_came: bool) {
        if !more_is_free || company_came {
            self.company_until = None;
        }
        if more_is_free {
            let until = *self.company_until.get_or_insert(now + COMPANY);
            self.wake_by(until);
        }
    }

    fn wake_by(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }

    fn ask(&mut self, now: Timestamp, index: usize, free: u32, out: &mut Output<Effect>) {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        // A stage has at most 4096 schedulers, one for each partition.
        let name = u16::try_from(index).unwrap_or(u16::MAX);
        self.sent.push_back((name, now));
        if self.sent.len() > ASKS_REMEMBERED {
            self.sent.pop_front();
        }
        let scheduler = &mut self.schedulers[index];
        scheduler.dry = scheduler.received == scheduler.received_before;
        scheduler.received_before = scheduler.received;
        scheduler.in_flight = Some(InFlight {
            ask: number,
            free,
            received: scheduler.received,
        });
        scheduler.due = now + self.lifetime / 2;
        scheduler.offered_until = now + self.lifetime;
        let received = scheduler.received;
        let ask = Ask {
            fetcher: self.instance.clone(),
            ask: number,
            free,
            received,
            life: self.life,
        };
        out.effect(Effect::Ask {
            scheduler: name,
            ask,
        });
    }

    /// Shares connections out over the schedulers: each gets one, and those that granted something
    /// lately get the rest, in proportion to the servers that they have ready; with fewer
    /// connections than schedulers, each in turn gets one.
    fn shares(&self, now: Timestamp, free: u32) -> Vec<u32> {
        let mut in_turn: Vec<usize> = (0..self.schedulers.len())
            .filter(|&index| self.schedulers[index].has_partitions)
            .collect();
        let count = in_turn.len();
        let free = free as usize;
        let period_us = self.lifetime.as_micros().max(1);
        in_turn.rotate_left((u128::from(now.as_micros()) / period_us) as usize % count.max(1));
        let mut shares = vec![0; self.schedulers.len()];
        if free <= count {
            for &index in in_turn.iter().take(free) {
                shares[index] = 1;
            }
            return shares;
        }
        let all_are_dry = in_turn.iter().all(|&index| self.schedulers[index].dry);
        let weight = |index: usize| match &self.schedulers[index] {
            scheduler if scheduler.dry && !all_are_dry => 0,
            scheduler => u64::from(scheduler.ready) + 1,
        };
        let rest = (free - count) as u64;
        let weights = in_turn
            .iter()
            .map(|&index| weight(index))
            .sum::<u64>()
            .max(1);
        // What is left after rounding down goes to the first in turn that have a weight.
        let mut left = rest;
        for &index in &in_turn {
            let more = rest * weight(index) / weights;
            shares[index] = 1 + more as u32;
            left -= more;
        }
        for index in in_turn
            .into_iter()
            .filter(|&index| weight(index) > 0)
            .take(left as usize)
        {
            shares[index] += 1;
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::message::AskReply;

    const LIFETIME: Duration = Duration::from_secs(1);

    fn at_ms(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1000)
    }

    fn asks(schedulers: u16) -> Asks {
        Asks::new(
            "f".into(),
            7,
            &(0..schedulers).collect::<Vec<_>>(),
            LIFETIME,
        )
    }

    fn send(asks: &mut Asks, ms: u64, free: u32) -> Vec<(u16, Ask)> {
        let mut out = Output::default();
        asks.send(at_ms(ms), free, &mut out);
        let ask = |effect| match effect {
            Effect::Ask { scheduler, ask } => (scheduler, ask),
            other => panic!("{other:?}"),
        };
        out.effects.into_iter().map(ask).collect()
    }

    fn granted(granted: u32) -> Asked {
        Asked::Reply(AskReply { granted, ready: 0 })
    }

    #[test]
    fn one_scheduler_is_asked_for_all_free_connections_at_once() {
        let mut asks = asks(1);
        let sent = send(&mut asks, 0, 64);
        assert_eq!(sent.len(), 1);
        assert_eq!(
            (sent[0].1.free, sent[0].1.received, sent[0].1.life),
            (64, 0, 7)
        );
        assert_eq!(asks.sent_at(0, sent[0].1.ask), Some(at_ms(0)));
    }

    #[test]
    fn a_scheduler_has_one_ask_in_flight_at_most() {
        let mut asks = asks(1);
        let first = send(&mut asks, 0, 4);
        assert!(send(&mut asks, 5000, 4).is_empty());
        asks.answered(0, first[0].1.ask, &granted(0));
        assert_eq!(send(&mut asks, 5000, 4).len(), 1);
    }

    #[test]
    fn connections_that_become_free_together_are_asked_for_together_after_two_milliseconds() {
        let mut asks = asks(1);
        let first = send(&mut asks, 0, 4);
        asks.answered(0, first[0].1.ask, &granted(4));
        for _ in 0..4 {
            asks.received(0);
        }
        assert!(send(&mut asks, 10, 0).is_empty());
        assert!(send(&mut asks, 100, 1).is_empty(), "waits for company");
        assert_eq!(asks.wake_at(), Some(at_ms(102)));
        assert!(send(&mut asks, 101, 2).is_empty());
        let second = send(&mut asks, 102, 3);
        assert_eq!((second[0].1.free, second[0].1.received), (3, 4));
    }

    #[test]
    fn an_ask_is_renewed_after_half_its_lifetime() {
        let mut asks = asks(1);
        let first = send(&mut asks, 0, 4);
        asks.answered(0, first[0].1.ask, &granted(0));
        assert!(send(&mut asks, 499, 4).is_empty());
        assert_eq!(asks.wake_at(), Some(at_ms(500)));
        assert_eq!(send(&mut asks, 500, 4).len(), 1);
    }

    #[test]
    fn nothing_is_asked_for_while_no_connection_is_free() {
        let mut asks = asks(1);
        assert!(send(&mut asks, 0, 0).is_empty());
        assert_eq!(asks.wake_at(), None);
    }

    #[test]
    fn several_schedulers_share_what_is_free_and_are_never_offered_more() {
        let mut asks = asks(3);
        let sent = send(&mut asks, 0, 10);
        let offered: Vec<u32> = sent.iter().map(|(_, ask)| ask.free).collect();
        assert_eq!(offered.iter().sum::<u32>(), 10);
        assert!(offered.iter().all(|&free| free >= 3));
    }

    #[test]
    fn a_scheduler_that_granted_nothing_is_asked_for_one() {
        let mut asks = asks(2);
        let first = send(&mut asks, 0, 10);
        asks.answered(0, first[0].1.ask, &granted(2));
        asks.received(0);
        asks.received(0);
        asks.answered(1, first[1].1.ask, &granted(0));
        // The second round: 8 free, 3 still offered to the first, 5 to the second.
        let second = send(&mut asks, 500, 8);
        let dry = second
            .iter()
            .find(|(scheduler, _)| *scheduler == 1)
            .expect("asked");
        assert_eq!(dry.1.free, 1);
        // What the second no longer holds goes to the first once the second has confirmed it.
        for (scheduler, ask) in &second {
            asks.answered(*scheduler, ask.ask, &granted(0));
        }
        asks.received(0);
        let mut total = None;
        for ms in [501, 503] {
            total = send(&mut asks, ms, 7)
                .first()
                .map(|(scheduler, ask)| (*scheduler, ask.free));
        }
        assert_eq!(total, Some((0, 6)));
    }

    #[test]
    fn schedulers_are_asked_in_proportion_to_the_servers_that_they_have_ready() {
        let mut asks = asks(3);
        for (scheduler, ask) in send(&mut asks, 0, 63) {
            let ready = [89, 9, 0][usize::from(scheduler)];
            asks.received(scheduler);
            asks.answered(
                scheduler,
                ask.ask,
                &Asked::Reply(AskReply { granted: 1, ready }),
            );
        }
        let shares = asks.shares(at_ms(0), 63);
        assert_eq!(
            (shares.iter().sum::<u32>(), shares[2]),
            (63, 1),
            "nobody is left out"
        );
        assert!(
            (54..=56).contains(&shares[0]) && (6..=8).contains(&shares[1]),
            "{shares:?}"
        );
        assert_eq!(asks.shares(at_ms(0), 0), [0, 0, 0]);
    }

    #[test]
    fn with_fewer_connections_than_schedulers_each_gets_its_turn() {
        let mut asks = asks(3);
        let mut asked = [0; 3];
        for round in 0..12 {
            let sent = send(&mut asks, round * 500, 1);
            let held: u32 = asks.schedulers.iter().map(Scheduler::held).sum();
            assert!(held <= 1, "round {round}");
            for (scheduler, ask) in sent {
                asked[usize::from(scheduler)] += ask.free;
                asks.answered(scheduler, ask.ask, &granted(0));
            }
        }
        assert!(asked.iter().all(|&times| times >= 2), "{asked:?}");
    }

    #[test]
    fn what_was_offered_is_taken_back_with_an_ask_for_nothing() {
        let mut asks = asks(2);
        let mut out = Output::default();
        assert_eq!(
            asks.withdraw(at_ms(0), &mut out),
            0,
            "nothing was offered yet"
        );
        let first = send(&mut asks, 0, 8);
        asks.answered(0, first[0].1.ask, &granted(0));
        assert_eq!(
            asks.withdraw(at_ms(10), &mut out),
            2,
            "one holds, one is on its way"
        );
        for effect in &out.effects {
            assert!(
                matches!(effect, Effect::Ask { ask, .. } if ask.free == 0 && ask.ask > first[1].1.ask),
                "{effect:?}"
            );
        }
        assert!(asks.is_waiting());
        for (scheduler, effect) in (0..).zip(out.effects) {
            let Effect::Ask { ask, .. } = effect else {
                panic!("{effect:?}")
            };
            asks.answered(scheduler, ask.ask, &granted(0));
        }
        assert!(!asks.is_waiting());
    }

    #[test]
    fn a_missing_scheduler_is_asked_again_soon_and_then_less_and_less_often() {
        let mut asks = asks(1);
        let mut asked = Vec::new();
        let mut ms = 0;
        while ms < 2100 {
            let sent = send(&mut asks, ms, 4);
            asked.push(ms);
            asks.answered(0, sent[0].1.ask, &Asked::NoScheduler);
            assert!(send(&mut asks, ms, 4).is_empty());
            ms = asks.wake_at().unwrap().as_micros() / 1000;
        }
        assert_eq!(asked, [0, 20, 60, 140, 300, 620, 1120, 1620]);
        let sent = send(&mut asks, ms, 4);
        asks.answered(0, sent[0].1.ask, &granted(0));
        let sent = send(&mut asks, ms + 500, 4);
        asks.answered(0, sent[0].1.ask, &Asked::NoScheduler);
        send(&mut asks, ms + 500, 4);
        assert_eq!(
            asks.wake_at(),
            Some(at_ms(ms + 520)),
            "it was there in between"
        );
    }

    #[test]
    fn an_ask_that_was_not_sent_or_to_another_scheduler_is_unknown() {
        let mut asks = asks(2);
        let sent = send(&mut asks, 0, 4);
        let (scheduler, ask) = &sent[0];
        assert!(asks.sent_at(*scheduler, ask.ask).is_some());
        assert!(asks.sent_at(1 - *scheduler, ask.ask).is_none());
        assert!(asks.sent_at(*scheduler, ask.ask + 100).is_none());
        assert!(asks.sent_at(*scheduler, ask.ask.wrapping_sub(1)).is_none());
    }
}
