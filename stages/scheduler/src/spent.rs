//! Spent: what all schedulers of a crawl have fetched of the budgets that they share, for a
//! checkpoint of it.
//!
//! In: the rows that each scheduler keeps of its own, and the ledgers, which know of schedulers
//! that are gone. Out: ledgers for the crawl that begins with the checkpoint. Invariant: a page
//! counts once, whoever else knows of it.

use crate::budget::shares::{DOMAINS, budget_of};
use crate::quota::Quota;
use crate::quota::ledger::{Holder, Ledger};
use std::collections::BTreeMap;

/// Stands for the birth of a scheduler that has asked no ledger yet.
const UNBORN: u64 = u64::MAX;

/// Pages fetched of each shared budget, by the budget's key and by who fetched them.
#[derive(Clone, Debug, Default)]
pub struct Spent(BTreeMap<(String, Holder), u64>);

/// A row that a scheduler keeps of its own: table, key, value.
pub type OwnRow = (String, Vec<u8>, Vec<u8>);

impl Spent {
    /// Takes in all rows that the scheduler of this ordinal keeps of its own.
    ///
    /// # Errors
    /// One is not understood: which.
    pub fn add_rows(&mut self, instance: u16, rows: &[OwnRow]) -> Result<(), String> {
        let mut birth = UNBORN;
        let mut fetched = Vec::new();
        for (table, key, value) in rows {
            let row = (table == DOMAINS).then(|| budget_of(key, value)).flatten();
            match row
                .ok_or_else(|| format!("a row of the scheduler's table '{table}' is unreadable"))?
            {
                (None, epoch) => birth = epoch,
                (Some(budget), pages) => fetched.push((budget, pages)),
            }
        }
        for (budget, pages) in fetched {
            self.enter(budget.key(), Holder { instance, birth }, pages);
        }
        Ok(())
    }

    /// Takes in the ledger under a key of the bucket. What is no ledger of pages tells nothing.
    pub fn add_ledger(&mut self, key: &str, text: &str) {
        let is_of_pages = Quota::of_key(key)
            .is_some_and(|quota| !matches!(quota, Quota::Circle(_) | Quota::Visits(_)));
        if let Some(ledger) = Ledger::parse(text).filter(|_| is_of_pages) {
            ledger
                .spent()
                .for_each(|(holder, pages)| self.enter(key.to_owned(), holder, pages));
        }
    }

    /// Who fetched them knows best, and never fewer than it has said.
    fn enter(&mut self, key: String, holder: Holder, pages: u64) {
        let known = self.0.entry((key, holder)).or_default();
        *known = pages.max(*known);
    }

    /// The ledgers of the crawl that goes on with it, by the keys of the bucket.
    pub fn ledgers(&self) -> BTreeMap<String, String> {
        let mut spent: BTreeMap<&str, u64> = BTreeMap::new();
        self.0
            .iter()
            .for_each(|((key, _), pages)| *spent.entry(key).or_default() += pages);
        spent
            .into_iter()
            .map(|(key, pages)| (key.to_owned(), Ledger::spent_before(pages).text()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::shares::{BIRTH, CRAWL};
    use crate::quota::ledger::{Claim, Takes};
    use crate::store::codec::Writer;

    fn row(key: &[u8], pages: u64, name: &str) -> OwnRow {
        let mut row = Writer::with_capacity(0);
        row.number(pages);
        row.text(name);
        (DOMAINS.to_owned(), key.to_vec(), row.finish())
    }

    #[test]
    fn pages_count_once_whether_their_scheduler_or_a_ledger_knows_of_them() {
        let mut spent = Spent::default();
        let topic = row(&[9; 13], 20, "news");
        spent
            .add_rows(
                0,
                &[
                    row(BIRTH, 3, ""),
                    row(CRAWL, 70, ""),
                    row(&[7; 8], 50, "a.test"),
                    topic,
                ],
            )
            .unwrap();
        spent.add_rows(1, &[row(CRAWL, 5, "")]).unwrap();
        // Of the first one, an earlier word; of one that is gone, the last.
        spent.add_ledger("crawl", "0 3 9 90 60 1\n4 1 9 11 10 1\n");
        spent.add_ledger("domain.a.test", "0 3 9 90 50 1\n");
        spent.add_ledger("topic.news", "1 3 9 30 30 1\n");
        spent.add_ledger("address.192.0.2.1", "0 3 9 90\n");
        spent.add_ledger("visits.news", "0 3 9 90\n");
        let ledgers = spent.ledgers();
        assert_eq!(
            ledgers.keys().collect::<Vec<_>>(),
            ["crawl", "domain.a.test", "topic.news"]
        );
        assert_eq!(
            Ledger::parse(&ledgers["topic.news"])
                .unwrap()
                .spent()
                .map(|(_, pages)| pages)
                .sum::<u64>(),
            50
        );

        let claim = Claim {
            quota: Quota::Crawl,
            max: 100,
            holder: Holder {
                instance: 0,
                birth: 1,
            },
            epoch: 1,
            number: 0,
            spent: 0,
            in_use: 0,
            counts_on: 0,
            wanted: 1000,
            keeps: 1000,
            takes: Takes::Blocks { schedulers: 1 },
            may_change: true,
            known: vec![0],
            since: 1,
            gone: Vec::new(),
        };
        let mut ledger = Ledger::parse(&ledgers["crawl"]).unwrap();
        assert!(ledger.settle(&claim));
        assert_eq!(ledger.held(claim.holder), 100 - 85, "what is left");
        let mut again = Spent::default();
        again.add_ledger("crawl", &ledgers["crawl"]);
        assert_eq!(again.ledgers()["crawl"], ledgers["crawl"]);
        assert!(
            spent
                .add_rows(2, &[("domains".into(), CRAWL.to_vec(), vec![9])])
                .is_err()
        );
    }
}
