//! Tokens: rights to fetch a page. They divide the budgets that several schedulers share: that of a registered domain,
//! and that of the crawl.
//!
//! Each budget has a [`Ledger`] in a key-value bucket of the broker. It says how many tokens each scheduler holds,
//! counted from the beginning of the crawl. A scheduler takes tokens in blocks and gives back what its URLs do not
//! need. It knows itself what it has spent: its pages fetched, kept with their outcomes. So nothing is lost when it
//! dies between a change of the ledger and the answer, because the ledger still says what it holds.
//!
//! The text of a ledger is written and parsed by hand: four numbers a line. A serializer would change what lies in the
//! bucket, which schedulers of an older version read.
//!
//! Invariants: no token is given out while all schedulers together hold as many as the budget has; no scheduler spends
//! more than it holds; a budget is used up only when that many pages were fetched. Schedulers may hold more when the
//! budget was made smaller, or the bucket was lost.

use std::collections::BTreeMap;
use std::fmt;

/// Tokens that a scheduler takes at least, while there are enough: one that has few URLs now will find more.
const TAKEN_MIN: u64 = 64;

/// A budget that schedulers share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedBudget {
    /// The crawl: `limits.max_pages`.
    Crawl,
    /// A registered domain: `limits.pages_per_domain`.
    Domain(String),
}

impl SharedBudget {
    /// The domain.
    pub(crate) fn domain(&self) -> Option<&str> {
        match self {
            SharedBudget::Crawl => None,
            SharedBudget::Domain(domain) => Some(domain),
        }
    }

    /// Its key in the bucket, of letters that are allowed there.
    pub fn key(&self) -> String {
        match self {
            SharedBudget::Crawl => "crawl".to_owned(),
            SharedBudget::Domain(domain) => format!("domain.{}", domain.replace(['[', ']'], "").replace(':', "=")),
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
    /// Those that must have said what they fetched before it takes tokens: a scheduler that was alone has entered nothing.
    pub known: Vec<u16>,
    /// The scheduler that asks.
    pub instance: u16,
    /// Its epoch.
    pub epoch: u64,
    /// Pages that it has fetched since the crawl began.
    pub fetched: u64,
    /// URLs in flight.
    pub in_flight: u64,
    /// URLs that wait.
    pub waiting: u64,
    /// Says whether tokens that no URL needs go back now.
    pub gives_back: bool,
}

/// The ledger after a need was entered; none when the broker did not answer.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The budget.
    pub budget: SharedBudget,
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
}

/// Who holds how many tokens of a budget, by scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger(BTreeMap<u16, Holding>);

impl Ledger {
    /// Enters what a scheduler needs: it takes tokens as long as there are some, or gives back those that its URLs do
    /// not need. False when nothing changes.
    pub fn settle(&mut self, need: &Need) -> bool {
        let others: u64 = self.others(need.instance).map(|(_, holding)| holding.tokens).sum();
        let before = self.0.get(&need.instance).copied().unwrap_or_default();
        if before.epoch > need.epoch {
            return false;
        }
        let spent = need.fetched + need.in_flight;
        // More than there are: the budget was made smaller. Fewer than were spent: the bucket was lost.
        let held = before.tokens.min(need.max.saturating_sub(others)).max(spent);
        let free = if self.knows_all(need) { need.max.saturating_sub(others + held) } else { 0 };
        // The last ones go in small blocks, so that each scheduler gets some.
        let block = free.div_ceil(2 * u64::from(need.schedulers));
        let tokens = match (spent + need.waiting).checked_sub(held) {
            Some(0) => held,
            Some(missing) => held + missing.max(TAKEN_MIN).min(block),
            None if need.gives_back => spent + need.waiting,
            None => held,
        };
        let after = Holding { epoch: need.epoch, tokens, fetched: need.fetched };
        self.0.insert(need.instance, after);
        after != before
    }

    /// Says whether all schedulers have said what they have fetched. For the crawl, each does so when it starts. For a
    /// domain, only those count that have something of it, until partitions move: then each is asked.
    fn knows_all(&self, need: &Need) -> bool {
        if self.silent(need.instance, &need.known).next().is_some() {
            return false;
        }
        need.budget != SharedBudget::Crawl || self.others(need.instance).count() + 1 >= usize::from(need.schedulers)
    }

    /// Those of these schedulers, but the one that asks, that have not said what they fetched.
    pub(crate) fn silent(&self, instance: u16, known: &[u16]) -> impl Iterator<Item = u16> {
        known.iter().copied().filter(move |other| *other != instance && !self.0.contains_key(other))
    }

    fn others(&self, instance: u16) -> impl Iterator<Item = (u16, Holding)> {
        self.0.iter().map(|(&other, &holding)| (other, holding)).filter(move |&(other, _)| other != instance)
    }

    /// Tokens that a scheduler holds.
    pub fn tokens(&self, instance: u16) -> u64 {
        self.0.get(&instance).map_or(0, |holding| holding.tokens)
    }

    /// Pages that the other schedulers had fetched when they last asked.
    pub fn fetched_elsewhere(&self, instance: u16) -> u64 {
        self.others(instance).map(|(_, holding)| holding.fetched).sum()
    }

    /// The other schedulers that may have tokens to give back, or pages to tell of.
    pub fn holders_elsewhere(&self, instance: u16) -> impl Iterator<Item = u16> {
        self.others(instance).filter(|(_, holding)| holding.tokens > holding.fetched).map(|(other, _)| other)
    }

    /// Parses a ledger as it lies in the bucket; none when the text is no ledger.
    pub fn parse(text: &str) -> Option<Self> {
        let line = |line: &str| {
            let mut numbers = line.split(' ').map(str::parse::<u64>);
            let mut next = || numbers.next()?.ok();
            let instance = u16::try_from(next()?).ok()?;
            Some((instance, Holding { epoch: next()?, tokens: next()?, fetched: next()? }))
        };
        text.lines().map(line).collect::<Option<_>>().map(Ledger)
    }
}

/// A line for each scheduler: instance, epoch, tokens, pages fetched.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (instance, Holding { epoch, tokens, fetched }) in &self.0 {
            writeln!(f, "{instance} {epoch} {tokens} {fetched}")?;
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
            instance,
            epoch: 5,
            fetched,
            in_flight,
            waiting,
            gives_back: true,
        }
    }

    #[test]
    fn tokens_are_taken_in_blocks_and_given_back() {
        let mut ledger = Ledger::default();
        assert!(ledger.settle(&need(0, 1000, 0, 0, 3)));
        assert_eq!(ledger.tokens(0), TAKEN_MIN, "more than it needs");
        assert!(ledger.settle(&need(1, 1000, 0, 0, 5000)));
        assert_eq!(ledger.tokens(1), 234, "a quarter of what is left");
        assert!(ledger.settle(&need(0, 1000, 2, 1, 4)));
        assert_eq!(ledger.tokens(0), 7, "but what its URLs need");
        assert!(!ledger.settle(&need(0, 1000, 2, 1, 4)));
        assert_eq!((ledger.fetched_elsewhere(1), ledger.holders_elsewhere(1).collect::<Vec<_>>()), (2, vec![0]));
        assert_eq!(Ledger::parse(&ledger.to_string()), Some(ledger));
    }

    #[test]
    fn who_was_alone_has_to_say_what_it_fetched_before_others_take_tokens() {
        let mut ledger = Ledger::default();
        let asks = |waiting| Need { known: vec![0, 1], ..need(1, 10, 0, 0, waiting) };
        ledger.settle(&asks(4));
        assert_eq!((ledger.tokens(1), ledger.silent(1, &[0, 1]).collect::<Vec<_>>()), (0, vec![0]));
        ledger.settle(&need(0, 10, 9, 0, 0));
        ledger.settle(&asks(4));
        assert_eq!((ledger.tokens(1), ledger.silent(1, &[0, 1]).count()), (1, 0));
    }

    #[test]
    fn the_crawl_s_tokens_are_given_out_when_all_have_said_what_they_fetched() {
        let mut ledger = Ledger::default();
        let of_crawl = |need: Need| Need { budget: SharedBudget::Crawl, ..need };
        ledger.settle(&of_crawl(need(0, 100, 30, 0, 200)));
        assert_eq!(ledger.tokens(0), 30);
        ledger.settle(&of_crawl(need(1, 100, 60, 0, 0)));
        ledger.settle(&of_crawl(need(0, 100, 30, 0, 200)));
        assert_eq!((ledger.tokens(0), ledger.tokens(1)), (33, 60), "a quarter of the ten that are left");
    }

    #[test]
    fn what_was_spent_is_held_and_an_earlier_life_changes_nothing() {
        let mut ledger = Ledger::default();
        assert!(ledger.settle(&need(0, 100, 40, 2, 0)), "the bucket was lost");
        assert_eq!(ledger.tokens(0), 42);
        assert!(!ledger.settle(&Need { epoch: 4, ..need(0, 100, 10, 0, 0) }));
        assert_eq!(ledger.tokens(0), 42);
        for damaged in ["0 1 2", "x 1 2 3", "70000 1 2 3", "0 -1 2 3"] {
            assert_eq!(Ledger::parse(damaged), None);
        }
    }

    #[test]
    fn keys_are_of_letters_that_a_bucket_takes() {
        for (domain, key) in [("example.co.uk", "domain.example.co.uk"), ("[2001:db8::1]", "domain.2001=db8==1")] {
            assert_eq!(SharedBudget::Domain(domain.to_owned()).key(), key);
        }
    }

    proptest! {
        /// Goal: as many pages are fetched as the budget has, or as there are URLs; never more. Method: schedulers with
        /// a random number of URLs each ask when they have no token left, and are called upon when another has none.
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
                if ledger.tokens(who) == fetched[place] {
                    enter(&mut ledger, who, &fetched);
                    for other in ledger.holders_elsewhere(who).collect::<Vec<_>>() {
                        enter(&mut ledger, other, &fetched);
                    }
                }
                if ledger.tokens(who) > fetched[place] {
                    fetched[place] += 1;
                }
                let held: u64 = (0..schedulers).map(|who| ledger.tokens(who)).sum();
                prop_assert!(held <= max, "{held} tokens of {max}");
            }
        }
    }
}
