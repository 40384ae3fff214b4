//! Tokens: rights to fetch a page. They divide the budgets that several schedulers share: that of a
//! registered domain, that of a topic, and that of the crawl.
//!
//! Each budget has a [`Ledger`] in a key-value bucket of the broker. It says how many tokens each
//! scheduler holds, counted from the beginning of the crawl. A scheduler takes tokens in blocks and
//! gives back what its URLs do not need; one that is alone takes all. It knows itself what it has
//! spent: its pages fetched, kept with their outcomes. So nothing is lost when it dies between a
//! change of the ledger and the answer, because the ledger still says what it holds.
//!
//! URLs in flight move with their partition. Then two schedulers hold tokens for them: the old
//! owner until the new one has entered them. So nobody takes tokens or gives some back before all
//! have said what they have in hand since partitions moved last. They say so in the crawl's ledger,
//! after those of all domains.
//!
//! What a scheduler has spent stays in the ledger when its folder is gone. One that begins with an
//! empty folder has entries of its own, by the epoch of its birth.
//!
//! The text of a ledger is written and parsed by hand: six numbers a line.
//!
//! Invariants: no token is given out while all schedulers together hold as many as the budget has;
//! no scheduler spends more than it holds; a budget is used up only when that many pages were
//! fetched. Schedulers may hold more when the budget was made smaller, or the bucket was lost.

use rhumb_wire::message::Errand;
use std::collections::BTreeMap;
use std::fmt;

/// Tokens that a scheduler takes at least, while there are enough: one that has few URLs now will
/// find more.
const TAKEN_MIN: u64 = 64;

/// A budget that schedulers share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedBudget {
    /// The crawl: `limits.max_pages`.
    Crawl,
    /// A registered domain: `limits.pages_per_domain`.
    Domain(String),
    /// A topic: `topics.*.pages_max`.
    Topic(String),
}

impl SharedBudget {
    /// The name of the domain or the topic.
    pub(crate) fn name(&self) -> &str {
        match self {
            SharedBudget::Crawl => "",
            SharedBudget::Domain(name) | SharedBudget::Topic(name) => name,
        }
    }

    /// A call upon another scheduler for tokens of it.
    pub(crate) fn call(&self) -> Errand {
        match self.clone() {
            SharedBudget::Crawl => Errand::Tokens { domain: None },
            SharedBudget::Domain(domain) => Errand::Tokens {
                domain: Some(domain),
            },
            SharedBudget::Topic(topic) => Errand::TopicTokens { topic },
        }
    }

    /// The budget for whose tokens another scheduler calls; none when it wants something else.
    pub(crate) fn called_for(errand: &Errand) -> Option<Self> {
        match errand {
            Errand::Tokens { domain } => Some(
                domain
                    .clone()
                    .map_or(SharedBudget::Crawl, SharedBudget::Domain),
            ),
            Errand::TopicTokens { topic } => Some(SharedBudget::Topic(topic.clone())),
            _ => None,
        }
    }

    /// Its key in the bucket, of letters that are allowed there.
    pub fn key(&self) -> String {
        match self {
            SharedBudget::Crawl => "crawl".to_owned(),
            SharedBudget::Domain(domain) => format!(
                "domain.{}",
                domain.replace(['[', ']'], "").replace(':', "=")
            ),
            SharedBudget::Topic(topic) => format!("topic.{topic}"),
        }
    }
}

/// What a scheduler needs of a shared budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The budget.
    pub budget: SharedBudget,
    /// Tokens of the budget, in all.
    pub max: u64,
    /// Number of schedulers of the crawl.
    pub schedulers: u16,
    /// Those that must have said what they have in hand before tokens change hands.
    pub known: Vec<u16>,
    /// Since when they must have said it; and since when this one says it.
    pub since: u64,
    /// Returns whether this one knows of nothing that keeps tokens from changing hands.
    pub may_change: bool,
    /// The scheduler that asks.
    pub holder: Holder,
    /// Its epoch.
    pub epoch: u64,
    /// Pages that it has fetched since the crawl began.
    pub fetched: u64,
    /// URLs in flight.
    pub in_flight: u64,
    /// URLs that wait.
    pub waiting: u64,
    /// Tokens that it counts on, and may spend while it is asked.
    pub counts_on: u64,
}

/// A scheduler, with the folder in which it counts what it spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Its instance.
    pub instance: u16,
    /// The epoch in which its folder began.
    pub birth: u64,
}

/// The ledger after a need was entered; none when the broker did not answer.
#[derive(Clone, Debug)]
pub struct Settled {
    /// What was entered.
    pub need: Need,
    /// The ledger.
    pub ledger: Option<Ledger>,
}

/// What one scheduler holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holding {
    /// Its epoch when it last asked: an earlier life changes nothing any more.
    epoch: u64,
    /// Since the crawl began.
    tokens: u64,
    /// Pages fetched when it last asked.
    fetched: u64,
    /// It has entered all that it has in hand since then.
    since: u64,
}

/// Who holds how many tokens of a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger(BTreeMap<Holder, Holding>);

/// Stands for all schedulers of a crawl before its checkpoint: no instance has this number.
const BEFORE: Holder = Holder {
    instance: u16::MAX,
    birth: 0,
};

impl Ledger {
    /// Enters what a scheduler needs: it takes tokens as long as there are some, or gives back
    /// those that its URLs do not need. False when nothing changes.
    pub fn settle(&mut self, need: &Need) -> bool {
        let before = self.0.get(&need.holder).copied().unwrap_or_default();
        if before.epoch > need.epoch {
            return false;
        }
        let buried = self.bury(need.holder);
        let others: u64 = self
            .others(need.holder)
            .map(|(_, holding)| holding.tokens)
            .sum();
        let spent = need.fetched + need.in_flight;
        // More than there are: the budget was made smaller, or URLs in flight have gone with a
        // partition. Fewer than were spent: the bucket was lost, or URLs in flight have come. What
        // is counted on stays: another one has too many.
        let held = before
            .tokens
            .min(need.max.saturating_sub(others))
            .max(spent)
            .max(need.counts_on);
        let free = need.max.saturating_sub(others + held);
        // The last ones go in small blocks, so that each scheduler gets some.
        let block = if need.schedulers == 1 {
            free
        } else {
            free.div_ceil(2 * u64::from(need.schedulers))
        };
        let wanted = if need.schedulers == 1 {
            free
        } else {
            TAKEN_MIN
        };
        let tokens = match (spent + need.waiting).checked_sub(held) {
            _ if !self.may_change(need) => held,
            Some(0) => held,
            Some(missing) => held + missing.max(wanted).min(block),
            None => spent + need.waiting,
        };
        let after = Holding {
            epoch: need.epoch,
            tokens,
            fetched: need.fetched,
            since: need.since,
        };
        self.0.insert(need.holder, after);
        buried || after != before
    }

    /// The ledger of a budget of which so many pages were fetched before the crawl was restored:
    /// nobody has tokens that are left.
    pub(crate) fn spent(fetched: u64) -> Self {
        Ledger(
            [(
                BEFORE,
                Holding {
                    tokens: fetched,
                    fetched,
                    ..Holding::default()
                },
            )]
            .into(),
        )
    }

    /// The pages that each scheduler had fetched when it last asked, those that are gone among
    /// them.
    pub(crate) fn fetched(&self) -> impl Iterator<Item = (Holder, u64)> {
        self.0
            .iter()
            .map(|(holder, holding)| (*holder, holding.fetched))
    }

    /// Nobody spends what an earlier folder of a scheduler held. Returns whether it held something.
    fn bury(&mut self, holder: Holder) -> bool {
        let earlier = Holder { birth: 0, ..holder }..holder;
        let mut held = false;
        for (_, holding) in self.0.range_mut(earlier) {
            held |= std::mem::replace(&mut holding.tokens, holding.fetched) != holding.fetched;
        }
        held
    }

    /// Returns whether tokens may change hands: everybody has said what it has in hand.
    pub(crate) fn may_change(&self, need: &Need) -> bool {
        need.may_change
            && self
                .silent(need.holder.instance, &need.known, need.since)
                .next()
                .is_none()
    }

    /// Those of these schedulers, but the one that asks, that have not said what they have in hand
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
                .any(|(holder, of)| holder.instance == other && of.since >= since)
        };
        known
            .iter()
            .copied()
            .filter(move |&other| other != instance && !says(other))
    }

    fn others(&self, holder: Holder) -> impl Iterator<Item = (Holder, Holding)> {
        self.0
            .iter()
            .map(|(&other, &holding)| (other, holding))
            .filter(move |&(other, _)| other != holder)
    }

    /// Tokens that a scheduler holds.
    pub fn tokens(&self, holder: Holder) -> u64 {
        self.0.get(&holder).map_or(0, |holding| holding.tokens)
    }

    /// Pages that the other schedulers had fetched when they last asked.
    pub fn fetched_elsewhere(&self, holder: Holder) -> u64 {
        self.others(holder)
            .map(|(_, holding)| holding.fetched)
            .sum()
    }

    /// The other schedulers that may have tokens to give back, or pages to tell of.
    pub fn holders_elsewhere(&self, holder: Holder) -> impl Iterator<Item = u16> {
        self.others(holder)
            .filter(|(_, holding)| holding.tokens > holding.fetched)
            .map(|(other, _)| other.instance)
    }

    /// Parses a ledger as it lies in the bucket; none when the text is no ledger.
    pub fn parse(text: &str) -> Option<Self> {
        let line = |line: &str| {
            let mut numbers = line.split(' ').map(str::parse::<u64>);
            let mut next = || numbers.next()?.ok();
            let holder = Holder {
                instance: u16::try_from(next()?).ok()?,
                birth: next()?,
            };
            Some((
                holder,
                Holding {
                    epoch: next()?,
                    tokens: next()?,
                    fetched: next()?,
                    since: next()?,
                },
            ))
        };
        text.lines().map(line).collect::<Option<_>>().map(Ledger)
    }
}

/// A line for each scheduler: instance, birth, epoch, tokens, pages fetched, since when all that it
/// has in hand is entered.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (
            Holder { instance, birth },
            Holding {
                epoch,
                tokens,
                fetched,
                since,
            },
        ) in &self.0
        {
            writeln!(f, "{instance} {birth} {epoch} {tokens} {fetched} {since}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn need(instance: u16, max: u64, fetched: u64, in_flight: u64, waiting: u64) -> Need {
        let budget = SharedBudget::Domain("a.test".into());
        Need {
            budget,
            max,
            schedulers: 2,
            known: Vec::new(),
            since: 0,
            may_change: true,
            holder: of(instance),
            epoch: 5,
            fetched,
            in_flight,
            waiting,
            counts_on: 0,
        }
    }

    const fn of(instance: u16) -> Holder {
        Holder { instance, birth: 1 }
    }

    #[test]
    fn tokens_are_taken_in_blocks_and_given_back() {
        let mut ledger = Ledger::default();
        assert!(ledger.settle(&need(0, 1000, 0, 0, 3)));
        assert_eq!(ledger.tokens(of(0)), TAKEN_MIN, "more than it needs");
        assert!(ledger.settle(&need(1, 1000, 0, 0, 5000)));
        assert_eq!(ledger.tokens(of(1)), 234, "a quarter of what is left");
        assert!(ledger.settle(&need(0, 1000, 2, 1, 4)));
        assert_eq!(ledger.tokens(of(0)), 7, "but what its URLs need");
        assert!(!ledger.settle(&need(0, 1000, 2, 1, 4)));
        assert_eq!(
            (
                ledger.fetched_elsewhere(of(1)),
                ledger.holders_elsewhere(of(1)).collect::<Vec<_>>()
            ),
            (2, vec![0])
        );
        assert_eq!(Ledger::parse(&ledger.to_string()), Some(ledger));
    }

    #[test]
    fn one_that_is_alone_takes_all_and_gives_it_back_to_the_next() {
        let mut ledger = Ledger::default();
        ledger.settle(&Need {
            schedulers: 1,
            ..need(0, 1000, 0, 0, 3)
        });
        assert_eq!(ledger.tokens(of(0)), 1000);
        ledger.settle(&need(1, 1000, 0, 0, 9));
        assert_eq!(
            (
                ledger.tokens(of(1)),
                ledger.holders_elsewhere(of(1)).collect::<Vec<_>>()
            ),
            (0, vec![0])
        );
        ledger.settle(&need(0, 1000, 10, 2, 8));
        ledger.settle(&need(1, 1000, 0, 0, 9));
        assert_eq!(
            (ledger.tokens(of(0)), ledger.tokens(of(1))),
            (20, TAKEN_MIN)
        );
    }

    #[test]
    fn tokens_change_hands_when_all_have_said_what_they_have_in_hand() {
        let mut ledger = Ledger::default();
        let says = |need: Need, since| Need {
            known: vec![0, 1],
            since,
            ..need
        };
        ledger.settle(&says(need(0, 100, 30, 0, 200), 4));
        assert_eq!(
            (
                ledger.tokens(of(0)),
                ledger.silent(0, &[0, 1], 4).collect::<Vec<_>>()
            ),
            (30, vec![1])
        );
        ledger.settle(&says(need(1, 100, 60, 0, 0), 4));
        ledger.settle(&says(need(0, 100, 30, 0, 200), 4));
        assert_eq!(
            (ledger.tokens(of(0)), ledger.tokens(of(1))),
            (33, 60),
            "a quarter of the ten that are left"
        );
        // Two URLs in flight move to the other, which had none left: nobody takes or gives back
        // anything meanwhile.
        ledger.settle(&says(need(0, 100, 31, 0, 0), 5));
        assert_eq!((ledger.tokens(of(0)), ledger.tokens(of(1))), (33, 60));
        ledger.settle(&says(need(1, 100, 60, 2, 9), 5));
        assert_eq!(
            (ledger.tokens(of(0)), ledger.tokens(of(1))),
            (33, 64),
            "two for what came, a quarter of the five left"
        );
        ledger.settle(&says(need(0, 100, 31, 0, 0), 5));
        assert_eq!((ledger.tokens(of(0)), ledger.tokens(of(1))), (31, 64));
    }

    /// Three schedulers hold all tokens; URLs in flight move from the first to the second, which
    /// has to hold more for them.
    #[test]
    fn what_one_counts_on_is_not_what_another_has_too_many() {
        let mut ledger = Ledger::default();
        for (instance, spent) in [(0, 4), (1, 3), (2, 3)] {
            ledger.settle(&need(instance, 10, spent, 0, 0));
        }
        ledger.settle(&need(1, 10, 3, 2, 0));
        ledger.settle(&Need {
            counts_on: 3,
            ..need(2, 10, 1, 0, 2)
        });
        assert_eq!(
            [0, 1, 2].map(|instance| ledger.tokens(of(instance))),
            [4, 5, 3]
        );
        ledger.settle(&need(0, 10, 2, 0, 5));
        assert_eq!(
            [0, 1, 2].map(|instance| ledger.tokens(of(instance))),
            [2, 5, 3]
        );
    }

    #[test]
    fn what_an_earlier_folder_spent_stays_and_what_it_held_goes_back() {
        let mut ledger = Ledger::default();
        ledger.settle(&need(0, 10, 2, 0, 5));
        let reborn = Holder {
            instance: 0,
            birth: 7,
        };
        ledger.settle(&Need {
            holder: reborn,
            epoch: 7,
            ..need(0, 10, 0, 0, 100)
        });
        assert_eq!(
            (ledger.tokens(of(0)), ledger.fetched_elsewhere(reborn)),
            (2, 2)
        );
        assert_eq!(
            ledger.tokens(reborn),
            2,
            "a quarter of the eight that are left"
        );
    }

    #[test]
    fn what_was_spent_is_held_and_an_earlier_life_changes_nothing() {
        let mut ledger = Ledger::default();
        assert!(
            ledger.settle(&need(0, 100, 40, 2, 0)),
            "the bucket was lost"
        );
        assert_eq!(ledger.tokens(of(0)), 42);
        assert!(!ledger.settle(&Need {
            epoch: 4,
            ..need(0, 100, 10, 0, 0)
        }));
        assert_eq!(ledger.tokens(of(0)), 42);
        for damaged in [
            "0 1 2 3 4",
            "x 1 1 2 3 4",
            "70000 1 1 2 3 4",
            "0 1 -1 2 3 4",
        ] {
            assert_eq!(Ledger::parse(damaged), None);
        }
    }

    #[test]
    fn keys_are_of_letters_that_a_bucket_takes() {
        for (domain, key) in [
            ("example.co.uk", "domain.example.co.uk"),
            ("[2001:db8::1]", "domain.2001=db8==1"),
        ] {
            assert_eq!(SharedBudget::Domain(domain.to_owned()).key(), key);
        }
    }

    proptest! {
        /// Goal: as many pages are fetched as the budget has, or as there are URLs; never more.
        /// Method: schedulers with a random number of URLs each ask when they have no token left,
        /// and are called upon when another has none.
        #[test]
        fn a_budget_is_used_up_exactly(
            urls in proptest::collection::vec(0u64..300, 1..5),
            max in 1u64..500,
            turns in proptest::collection::vec(any::<u16>(), 200),
        ) {
            let schedulers = urls.len() as u16;
            let mut ledger = Ledger::default();
            let mut fetched = vec![0; urls.len()];
            let mut turns = turns.into_iter().cycle();
            let mut rounds = 0;
            while fetched.iter().sum::<u64>() < max.min(urls.iter().sum()) {
                rounds += 1;
                prop_assert!(rounds < 10_000, "nobody gets on");
                let who = turns.next().unwrap_or_default() % schedulers;
                let enter = |ledger: &mut Ledger, who: u16, fetched: &[u64]| {
                    let place = usize::from(who);
                    let waiting = urls[place] - fetched[place];
                    ledger.settle(&Need { schedulers, ..need(who, max, fetched[place], 0, waiting) });
                };
                let place = usize::from(who);
                if fetched[place] == urls[place] {
                    continue;
                }
                if ledger.tokens(of(who)) == fetched[place] {
                    enter(&mut ledger, who, &fetched);
                    for other in ledger.holders_elsewhere(of(who)).collect::<Vec<_>>() {
                        enter(&mut ledger, other, &fetched);
                    }
                }
                if ledger.tokens(of(who)) > fetched[place] {
                    fetched[place] += 1;
                }
                let held: u64 = (0..schedulers).map(|who| ledger.tokens(of(who))).sum();
                prop_assert!(held <= max, "{held} tokens of {max}");
            }
        }
    }
}
