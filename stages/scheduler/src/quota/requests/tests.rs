use super::*;
use crate::quota::ledger::ClaimAnswer;
use proptest::prelude::*;
use rhumb_partition::Owners;

const RATE: u8 = 0;
const TICK: Duration = Duration::from_millis(250);

/// A scheduler that sends requests at a rate, and has use for so many a second.
struct Sender {
    requests: Requests<u8>,
    wanted: u64,
    /// Requests a second that it may send.
    rate: u64,
}

impl Sender {
    fn of(instance: u16, senders: u16) -> Self {
        let schedulers = Schedulers::of(&Owners::new(senders, senders), instance);
        let holder = Holder { instance, birth: 0 };
        Sender {
            requests: Requests::new(schedulers, holder, 1),
            wanted: 0,
            rate: 0,
        }
    }

    /// What it claims of all that there is, if anything. Whoever is called upon keeps its part.
    fn claim(&mut self, max: u64, now: Timestamp) -> Option<Claim> {
        if self.rate < self.wanted && self.requests.rests(RATE) {
            self.requests.look(RATE, now);
        }
        let id = self.requests.next(now)?;
        let fair = max / u64::from(self.requests.schedulers.count);
        let request = self.requests.get_mut(id);
        let is_called = std::mem::take(&mut request.is_called);
        let keeps = if is_called {
            self.wanted.min(fair)
        } else {
            u64::MAX
        };
        self.rate = self.rate.min(keeps);
        Some(Claim {
            max,
            wanted: self.wanted,
            keeps,
            may_change: true,
            ..self.requests.claim(id, Quota::Crawl, now)
        })
    }

    /// Takes the answer. Gives its calls upon others.
    fn answered(&mut self, answer: &ClaimAnswer, now: Timestamp) -> Vec<(u16, Errand)> {
        let is_heard = answer.ledger.is_some();
        assert!(self.requests.answered(RATE, is_heard, now).is_some());
        let Some(ledger) = &answer.ledger else {
            return Vec::new();
        };
        self.rate = ledger.held(self.requests.holder);
        if self.rate >= self.wanted {
            return Vec::new();
        }
        self.requests.look(RATE, now + ASK_EVERY);
        let others = ledger.others(self.requests.holder);
        let others: Vec<u16> = others.map(|(other, _)| other.instance).collect();
        self.requests
            .calls(RATE, &answer.claim.quota, others.into_iter(), now)
    }
}

proptest! {
    /// Goal: a rate is divided. All together never go faster than it, and whoever has use for some
    /// of it gets its part soon, whatever the others had before. Method: schedulers that send
    /// requests ask its ledger and call each other, while the broker loses some answers; what they
    /// have use for changes in between.
    #[test]
    fn a_rate_is_divided_among_those_that_have_use_for_it(
        phases in proptest::collection::vec(proptest::collection::vec(0u64..2000, 4), 1..4),
        senders in 2u16..5,
        max in 4u64..1000,
        losses in proptest::collection::vec(0u8..4, 64),
    ) {
        let mut all: Vec<Sender> = (0..senders).map(|instance| Sender::of(instance, senders)).collect();
        let partitions: Vec<_> = (0..senders).map(|instance| all[0].requests.schedulers.partition_of(instance)).collect();
        let mut losses = losses.into_iter().cycle();
        let mut ledger = String::new();
        let mut now = Timestamp::ZERO;
        for wants in phases {
            // The broker loses answers at first.
            for tick in 0..160 {
                now = now + TICK;
                for place in 0..all.len() {
                    let sender = &mut all[place];
                    sender.wanted = wants[place];
                    let Some(claim) = sender.claim(max, now) else { continue };
                    let entered = claim.enter(&ledger).expect("a ledger");
                    ledger = entered.text.unwrap_or(ledger);
                    let is_lost = losses.next() == Some(0) && tick < 80;
                    let answer = if is_lost { claim.unanswered() } else { entered.answer };
                    for (partition, _) in sender.answered(&answer, now) {
                        let other = partitions.iter().position(|of| *of == Some(partition));
                        all[other.expect("a scheduler")].requests.call(RATE, now);
                    }
                    let rate: u64 = all.iter().map(|sender| sender.rate).sum();
                    prop_assert!(rate <= max, "{rate} requests a second of {max}");
                }
            }
            for sender in &all {
                let part = sender.wanted.min(max / u64::from(senders));
                prop_assert!(sender.rate >= part, "{} of a part of {part}", sender.rate);
            }
        }
    }

    /// Goal: no more questions are out than may be, one about each quota, and none is forgotten.
    #[test]
    fn questions_out_at_once_are_few_and_each_quota_has_its_turn(looks in proptest::collection::vec((0u16..600, 0u64..9), 300..900)) {
        let holder = Holder { instance: 0, birth: 0 };
        let schedulers = Schedulers::of(&Owners::new(1, 1), 0);
        let mut requests: Requests<u16> = Requests::new(schedulers, holder, 1);
        let at = |second: u64| Timestamp::ZERO + Duration::from_secs(second);
        let mut wanted: BTreeSet<u16> = looks.iter().map(|(id, _)| *id).collect();
        for (id, second) in looks {
            requests.look(id, at(second));
        }
        while !requests.all_rest() {
            let mut out = Vec::new();
            while let Some(id) = requests.next(at(9)) {
                prop_assert!(requests.get(id).asked.is_none(), "{id} is asked for twice");
                requests.claim(id, Quota::Crawl, at(9));
                out.push(id);
            }
            prop_assert!(!out.is_empty() && out.len() <= QUESTIONS_MAX);
            for id in out {
                prop_assert!(wanted.remove(&id));
                requests.answered(id, true, at(9));
            }
        }
        prop_assert!(wanted.is_empty(), "{wanted:?} were not asked for");
    }
}
