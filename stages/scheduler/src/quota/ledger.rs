//! The ledger of a quota: who has how much of it.
//!
//! Each quota has a ledger in a key-value bucket of the broker. A scheduler takes tokens while some
//! are free, and gives back those that it does not need. A token is a page that may be fetched, or a
//! job that may be out, or a part of a visit a second: nothing here depends on it.
//! What was *spent* never comes back; what is *in use* does.
//!
//! What is spent in time, such as visits a second, is divided by what each has at stake: every
//! scheduler takes its share as far as the others leave it, and gives back what is above.
//!
//! What a scheduler has in use moves with its partitions. Then two schedulers hold tokens for it: the
//! old owner until the new one has entered it. So nobody takes tokens or gives some back before all
//! have said what they have in use since partitions moved last.
//!
//! What was spent stays in the ledger when its scheduler is gone. One that begins with an empty
//! folder has a holding of its own, by the epoch of its birth; pages that it held before go back.
//! Others take out the jobs of a scheduler that is gone: its holding has had the same number for too
//! long.
//!
//! Invariants: no token is given out while all schedulers together hold as many as the quota has; a
//! scheduler holds at least what it has spent and has in use. They may hold more together when the
//! quota was made smaller, when what is in use has moved, or when the bucket was lost.

use super::Quota;
use crate::visits::{Stake, nearer, shares};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tokens that a scheduler takes at least, when it takes them in blocks.
const BLOCK_MIN: u64 = 64;

/// What a scheduler claims of a quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The quota.
    pub quota: Quota,
    /// Tokens of it, in all.
    pub max: u64,
    /// The scheduler.
    pub holder: Holder,
    /// Its epoch.
    pub epoch: u64,
    /// Differs in each claim of an epoch, so others see that the scheduler lives. 0: they know by
    /// other means.
    pub number: u64,
    /// Tokens that never come back.
    pub spent: u64,
    /// Tokens that it has in use.
    pub in_use: u64,
    /// Tokens that it counts on, and may use while it asks.
    pub counts_on: u64,
    /// Tokens that it has use for, those that are spent and in use among them.
    pub wanted: u64,
    /// Tokens that it keeps at most; the others go back.
    pub keeps: u64,
    /// How many it takes when some are missing.
    pub takes: Takes,
    /// It knows of nothing that keeps tokens from changing hands.
    pub may_change: bool,
    /// Those that must have said what they have in use before tokens change hands.
    pub known: Vec<u16>,
    /// Since when they must have said it. This claim says it since then, too. 0: it does not.
    pub since: u64,
    /// Holdings of schedulers that are gone.
    pub gone: Vec<(Holder, Holding)>,
}

/// How many tokens a scheduler takes when some are missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    /// Those that are missing.
    Missing,
    /// More, in blocks: it will find use for them. One of several leaves some for the others.
    Blocks {
        /// Number of schedulers of the crawl.
        schedulers: u16,
    },
    /// Its share of all, by what it has at stake beside the others. What is above goes back, by and
    /// by.
    Share(Stake),
}

/// A scheduler, with the folder in which it counts what it spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder {
    /// Its instance.
    pub instance: u16,
    /// The epoch in which its folder began; 0 where nothing is spent.
    pub birth: u64,
}

/// What one scheduler holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holding {
    /// Its epoch when it last claimed: an earlier life changes nothing any more.
    epoch: u64,
    /// Tokens, those that are spent among them.
    pub(crate) held: u64,
    /// Tokens spent when it last claimed.
    #[serde(default)]
    spent: u64,
    /// It has entered all that it has in use since then.
    #[serde(default)]
    since: u64,
    /// Of its last claim.
    #[serde(default)]
    number: u64,
    /// What it had at stake when it last claimed a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stake: Option<Stake>,
}

/// Who holds how many tokens of a quota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger(BTreeMap<Holder, Holding>);

/// What came of a claim.
#[derive(Clone, Debug)]
pub struct ClaimAnswer {
    /// What was claimed.
    pub claim: Claim,
    /// The ledger with the claim in it; none when the broker did not answer.
    pub ledger: Option<Ledger>,
}

/// A claim in its ledger.
#[derive(Debug)]
pub struct Entered {
    /// The ledger to be written; none when nothing changed.
    pub text: Option<String>,
    /// The answer, which holds once that is written.
    pub answer: ClaimAnswer,
}

/// Stands for all schedulers of a crawl before its checkpoint: no instance has this number.
const BEFORE: Holder = Holder {
    instance: u16::MAX,
    birth: 0,
};

impl Claim {
    /// Enters it into a ledger, of which this is the text; an empty one is new. None: the text is no
    /// ledger.
    pub fn enter(&self, text: &str) -> Option<Entered> {
        let mut ledger = Ledger::parse(text)?;
        let text = ledger.settle(self).then(|| ledger.text());
        let answer = ClaimAnswer {
            claim: self.clone(),
            ledger: Some(ledger),
        };
        Some(Entered { text, answer })
    }

    /// The answer when the broker gives none.
    pub fn unanswered(self) -> ClaimAnswer {
        ClaimAnswer {
            claim: self,
            ledger: None,
        }
    }
}

impl Ledger {
    /// Enters what a scheduler claims: it takes tokens as long as some are free, or gives back those
    /// that it does not keep. False when nothing changes.
    pub fn settle(&mut self, claim: &Claim) -> bool {
        let before = self.0.get(&claim.holder).copied().unwrap_or_default();
        if before.epoch > claim.epoch {
            return false;
        }
        let is_shorter = self.forget(&claim.gone);
        let is_buried = self.bury(claim.holder);
        let others: u64 = self
            .others(claim.holder)
            .map(|(_, holding)| holding.held)
            .sum();
        let after = Holding {
            epoch: claim.epoch,
            held: self.divide(claim, before.held, others),
            spent: claim.spent,
            since: claim.since,
            number: claim.number,
            stake: match claim.takes {
                Takes::Share(stake) => Some(stake),
                Takes::Missing | Takes::Blocks { .. } => None,
            },
        };
        let has_nothing = after.held == 0 && after.since == 0 && after.stake.is_none();
        if has_nothing {
            return self.0.remove(&claim.holder).is_some() || is_shorter || is_buried;
        }
        self.0.insert(claim.holder, after);
        after != before || is_shorter || is_buried
    }

    /// The tokens that a scheduler holds from now on.
    fn divide(&self, claim: &Claim, before: u64, others: u64) -> u64 {
        // What has come with a partition is in use here before the ledger knows of it. What is
        // counted on stays: if there are too many, another one has them.
        let least = (claim.spent + claim.in_use).max(claim.counts_on);
        if !self.may_change(claim) {
            // Some of it may be in use by a next owner that has not entered it yet.
            return before.max(least);
        }
        // There are too many when the quota was made smaller, or what was in use has gone.
        let left = claim.max.saturating_sub(others);
        let (wanted, keeps) = match claim.takes {
            Takes::Share(stake) => {
                let share = self.share(claim, before, stake);
                (share, share)
            }
            Takes::Missing | Takes::Blocks { .. } => (claim.wanted, claim.keeps),
        };
        let held = before.min(left).min(keeps).max(least);
        let missing = wanted.min(keeps).saturating_sub(held);
        if missing == 0 {
            return held;
        }
        let free = left.saturating_sub(held);
        let taken = match claim.takes {
            Takes::Missing | Takes::Share(_) => missing.min(free),
            Takes::Blocks { schedulers: 1 } => free,
            // The last ones go in small blocks, so that each scheduler gets some.
            Takes::Blocks { schedulers } => missing
                .max(BLOCK_MIN)
                .min(free.div_ceil(2 * u64::from(schedulers))),
        };
        held + taken
    }

    /// The tokens to which a stake comes beside those of the others, or some on the way to them.
    fn share(&self, claim: &Claim, before: u64, stake: Stake) -> u64 {
        let others = self.others(claim.holder);
        let others = others.filter_map(|(_, holding)| holding.stake);
        let stakes: Vec<Stake> = std::iter::once(stake).chain(others).collect();
        let share = shares(&stakes).first().copied().unwrap_or_default();
        let should = claim.max as f64 * share;
        let known = self.0.get(&claim.holder);
        let tokens = match known.and_then(|holding| holding.stake) {
            Some(_) => nearer(before as f64, should),
            None => should,
        };
        tokens.round() as u64
    }

    /// Takes out holdings of schedulers that are gone, if they are what they were. Returns whether
    /// there were any.
    fn forget(&mut self, gone: &[(Holder, Holding)]) -> bool {
        let holdings = self.0.len();
        self.0
            .retain(|&holder, &mut holding| !gone.contains(&(holder, holding)));
        self.0.len() < holdings
    }

    /// Nobody spends what an earlier folder of a scheduler held. Returns whether it held something.
    fn bury(&mut self, holder: Holder) -> bool {
        let earlier = Holder { birth: 0, ..holder }..holder;
        let mut held = false;
        for (_, holding) in self.0.range_mut(earlier) {
            held |= std::mem::replace(&mut holding.held, holding.spent) != holding.spent;
        }
        held
    }

    /// The ledger of a quota of which so many tokens were spent before the crawl was restored: nobody
    /// has some that are left.
    pub(crate) fn spent_before(spent: u64) -> Self {
        let holding = Holding {
            held: spent,
            spent,
            ..Holding::default()
        };
        Ledger([(BEFORE, holding)].into())
    }

    /// The tokens that each scheduler had spent when it last claimed, those that are gone among them.
    pub(crate) fn spent(&self) -> impl Iterator<Item = (Holder, u64)> {
        self.0
            .iter()
            .map(|(holder, holding)| (*holder, holding.spent))
    }

    /// Returns whether tokens may change hands: everybody has said what it has in use.
    pub(crate) fn may_change(&self, claim: &Claim) -> bool {
        claim.may_change
            && self
                .silent(claim.holder.instance, &claim.known, claim.since)
                .next()
                .is_none()
    }

    /// Those of these schedulers, but the one that asks, that have not said what they have in use
    /// since then.
    pub(crate) fn silent(
        &self,
        instance: u16,
        known: &[u16],
        since: u64,
    ) -> impl Iterator<Item = u16> {
        let says = move |other: u16| {
            self.0
                .iter()
                .any(|(holder, holding)| holder.instance == other && holding.since >= since)
        };
        known
            .iter()
            .copied()
            .filter(move |&other| other != instance && !says(other))
    }

    /// What the other schedulers hold.
    pub fn others(&self, holder: Holder) -> impl Iterator<Item = (Holder, Holding)> {
        self.0
            .iter()
            .map(|(&other, &holding)| (other, holding))
            .filter(move |&(other, _)| other != holder)
    }

    /// Returns whether a claim is the last one of its scheduler.
    pub(crate) fn has(&self, claim: &Claim) -> bool {
        let holding = self.0.get(&claim.holder);
        holding.is_some_and(|of| (of.epoch, of.number) == (claim.epoch, claim.number))
    }

    /// Tokens that a scheduler holds.
    pub fn held(&self, holder: Holder) -> u64 {
        self.0.get(&holder).map_or(0, |holding| holding.held)
    }

    /// Tokens that the other schedulers had spent when they last claimed.
    pub fn spent_elsewhere(&self, holder: Holder) -> u64 {
        self.others(holder).map(|(_, holding)| holding.spent).sum()
    }

    /// The other schedulers that may have tokens to give back, or something to tell of what they have
    /// spent.
    pub fn holders_elsewhere(&self, holder: Holder) -> impl Iterator<Item = u16> {
        self.others(holder)
            .filter(|(_, holding)| holding.held > holding.spent)
            .map(|(other, _)| other.instance)
    }

    /// The ledger as it lies in the bucket.
    pub fn text(&self) -> String {
        let holdings: Vec<_> = self.0.iter().collect();
        serde_json::to_string(&holdings).expect("numbers have a JSON form")
    }

    /// Parses a ledger as it lies in the bucket; none when the text is no ledger. An empty one has
    /// no holding.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.starts_with('[') {
            return Ledger::parse_lines(text);
        }
        let holdings: Vec<(Holder, Holding)> = serde_json::from_str(text).ok()?;
        Some(Ledger(holdings.into_iter().collect()))
    }

    /// Parses what builds before version 0.1 wrote, whose crawls and checkpoints may go on. A line for
    /// each scheduler: instance, birth, epoch, tokens, tokens spent, since when all in use is entered;
    /// or, of a circle, instance, epoch, tokens, number.
    fn parse_lines(text: &str) -> Option<Self> {
        let line = |line: &str| {
            let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
            let numbers = numbers.ok()?;
            let (birth, epoch, held, rest) = match *numbers.as_slice() {
                [_, birth, epoch, held, spent, since] => (birth, epoch, held, (spent, since, 0)),
                [_, epoch, held, number] => (0, epoch, held, (0, 0, number)),
                _ => return None,
            };
            let instance = u16::try_from(numbers[0]).ok()?;
            let (spent, since, number) = rest;
            let holding = Holding {
                epoch,
                held,
                spent,
                since,
                number,
                stake: None,
            };
            Some((Holder { instance, birth }, holding))
        };
        text.lines().map(line).collect::<Option<_>>().map(Ledger)
    }
}

#[cfg(test)]
mod tests;
