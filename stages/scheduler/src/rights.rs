//! Rights: to have a job out in a circle. They divide what circles allow between several
//! schedulers.
//!
//! Each circle has a [`Ledger`] in a key-value bucket of the broker. It says how many rights each
//! scheduler holds. Who needs some takes them when they are free, and keeps them until another
//! scheduler calls for them. An entry has a number that no other entry of its scheduler has: one
//! that stays the same for long enough is of a scheduler that is gone, and others take it out.
//!
//! The text of a ledger is written and parsed by hand, like that of tokens: four numbers a line.
//!
//! Invariants: no right is given out while all schedulers together hold as many as the circle has;
//! a scheduler holds at least as many as it has jobs out that it has entered. They hold more for a
//! while when jobs move with their partition, because the earlier owner keeps its rights until the
//! next one has entered them.

use crate::keys::circle::Circle;
use std::collections::BTreeMap;
use std::fmt;

/// What a scheduler needs of a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The circle.
    pub circle: Circle,
    /// Jobs that may be out in it.
    pub max: u32,
    /// The scheduler that asks.
    pub instance: u16,
    /// Its epoch.
    pub epoch: u64,
    /// Number of the need, larger than those of earlier ones of the epoch.
    pub number: u64,
    /// Rights that its jobs have taken, with a pause that is not over.
    pub in_use: u32,
    /// Rights that it has use for.
    pub wanted: u32,
    /// Rights that it keeps at most; the others go back.
    pub keeps: u32,
    /// It takes nothing and gives nothing back yet: jobs that it gave away may not be entered by
    /// their next owner.
    pub is_settling: bool,
    /// Entries of schedulers that are gone.
    pub gone: Vec<Entry>,
}

/// The ledger after a need was entered; none when the broker did not answer.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The circle.
    pub circle: Circle,
    /// The ledger.
    pub ledger: Option<Ledger>,
}

/// What one scheduler holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub(crate) instance: u16,
    epoch: u64,
    pub(crate) rights: u32,
    number: u64,
}

/// Who holds how many rights in a circle, by scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger(BTreeMap<u16, Entry>);

impl Ledger {
    /// Enters what a scheduler needs. False when nothing changes.
    pub fn settle(&mut self, need: &Need) -> bool {
        let before = self.0.get(&need.instance).copied().unwrap_or_default();
        if before.epoch > need.epoch {
            return false;
        }
        let entries = self.0.len();
        self.0.retain(|_, entry| !need.gone.contains(entry));
        let is_shorter = self.0.len() < entries;
        let others: u32 = self.others(need.instance).map(|entry| entry.rights).sum();
        let left = need.max.saturating_sub(others);
        let rights = if need.is_settling {
            before.rights.max(need.in_use)
        } else {
            let held = before.rights.min(need.keeps).min(left).max(need.in_use);
            let wanted = need.wanted.min(need.keeps).saturating_sub(held);
            held + wanted.min(left.saturating_sub(held))
        };
        if rights == 0 {
            return self.0.remove(&need.instance).is_some() || is_shorter;
        }
        let Need {
            instance,
            epoch,
            number,
            ..
        } = *need;
        self.0.insert(
            instance,
            Entry {
                instance,
                epoch,
                rights,
                number,
            },
        );
        true
    }

    /// Rights that a scheduler holds.
    pub fn rights(&self, instance: u16) -> u32 {
        self.0.get(&instance).map_or(0, |entry| entry.rights)
    }

    /// What the other schedulers hold.
    pub fn others(&self, instance: u16) -> impl Iterator<Item = Entry> {
        self.0
            .values()
            .copied()
            .filter(move |entry| entry.instance != instance)
    }

    /// Parses a ledger as it lies in the bucket; none when the text is no ledger.
    pub fn parse(text: &str) -> Option<Self> {
        let line = |line: &str| {
            let mut numbers = line.split(' ').map(str::parse::<u64>);
            let mut next = || numbers.next()?.ok();
            let instance = u16::try_from(next()?).ok()?;
            let epoch = next()?;
            let rights = u32::try_from(next()?).ok()?;
            let number = next()?;
            Some((
                instance,
                Entry {
                    instance,
                    epoch,
                    rights,
                    number,
                },
            ))
        };
        text.lines().map(line).collect::<Option<_>>().map(Ledger)
    }
}

/// A line for each scheduler: instance, epoch, rights, number of its need.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry {
            instance,
            epoch,
            rights,
            number,
        } in self.0.values()
        {
            writeln!(f, "{instance} {epoch} {rights} {number}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn need(instance: u16, number: u64, in_use: u32, wanted: u32) -> Need {
        let circle = Circle::Address("192.0.2.1".parse().unwrap());
        let max = 3;
        let epoch = 5;
        let keeps = u32::MAX;
        Need {
            circle,
            max,
            instance,
            epoch,
            number,
            in_use,
            wanted,
            keeps,
            is_settling: false,
            gone: Vec::new(),
        }
    }

    #[test]
    fn rights_are_taken_while_some_are_free_and_kept_until_they_are_called_for() {
        let mut ledger = Ledger::default();
        assert!(ledger.settle(&need(0, 1, 0, 2)) && ledger.settle(&need(1, 1, 0, 2)));
        assert_eq!((ledger.rights(0), ledger.rights(1)), (2, 1));
        ledger.settle(&need(0, 2, 1, 1));
        assert_eq!(ledger.rights(0), 2, "nobody called for them");
        ledger.settle(&Need {
            keeps: 0,
            ..need(0, 3, 1, 1)
        });
        ledger.settle(&need(1, 2, 1, 3));
        assert_eq!((ledger.rights(0), ledger.rights(1)), (1, 2), "a job is out");
        assert_eq!(Ledger::parse(&ledger.to_string()), Some(ledger.clone()));
        assert!(ledger.settle(&Need {
            keeps: 0,
            ..need(0, 4, 0, 0)
        }));
        assert_eq!(ledger.others(1).count(), 0);
        assert!(!ledger.settle(&Need {
            keeps: 0,
            ..need(0, 5, 0, 0)
        }));
        for damaged in [
            "0 1 2",
            "x 1 2 3",
            "70000 1 2 3",
            "0 -1 2 3",
            "0 1 5000000000 3",
        ] {
            assert_eq!(Ledger::parse(damaged), None);
        }
    }

    #[test]
    fn jobs_that_moved_count_twice_until_their_earlier_owner_has_settled() {
        let mut ledger = Ledger::default();
        ledger.settle(&need(0, 1, 0, 3));
        // Two jobs move from 0, in its next life, to 1.
        let moved = Need {
            epoch: 6,
            is_settling: true,
            ..need(0, 1, 1, 3)
        };
        ledger.settle(&moved);
        assert_eq!(ledger.rights(0), 3);
        ledger.settle(&Need {
            is_settling: true,
            ..need(1, 1, 2, 3)
        });
        assert_eq!((ledger.rights(0), ledger.rights(1)), (3, 2));
        ledger.settle(&Need {
            epoch: 6,
            ..need(0, 2, 1, 3)
        });
        assert_eq!((ledger.rights(0), ledger.rights(1)), (1, 2));
        assert!(
            !ledger.settle(&need(0, 9, 0, 3)),
            "an earlier life changes nothing"
        );
    }

    #[test]
    fn an_entry_that_is_gone_leaves_its_rights_to_others_and_one_that_changed_stays() {
        let mut ledger = Ledger::default();
        ledger.settle(&need(0, 1, 3, 3));
        let gone: Vec<Entry> = ledger.others(1).collect();
        ledger.settle(&need(0, 2, 3, 3));
        ledger.settle(&Need {
            gone,
            ..need(1, 1, 0, 1)
        });
        assert_eq!((ledger.rights(0), ledger.rights(1)), (3, 0));
        let gone: Vec<Entry> = ledger.others(1).collect();
        ledger.settle(&Need {
            gone,
            ..need(1, 2, 0, 1)
        });
        assert_eq!((ledger.rights(0), ledger.rights(1)), (0, 1));
    }

    proptest! {
        /// Goal: who asks within its rights never makes all hold more than there are. Method:
        /// schedulers with random jobs and wants ask in random order; jobs are granted within
        /// rights alone.
        #[test]
        fn no_more_rights_are_given_out_than_there_are(
            asks in proptest::collection::vec((0u16..4, any::<u32>(), 0u32..5, 0u32..5), 0..60),
            max in 1u32..5,
        ) {
            let mut ledger = Ledger::default();
            for (number, (instance, in_use, wanted, keeps)) in asks.into_iter().enumerate() {
                let in_use = in_use % (ledger.rights(instance) + 1);
                ledger.settle(&Need { max, keeps, ..need(instance, number as u64, in_use, wanted) });
                prop_assert!(ledger.0.values().map(|entry| entry.rights).sum::<u32>() <= max);
                prop_assert!(ledger.rights(instance) >= in_use);
            }
        }
    }
}
