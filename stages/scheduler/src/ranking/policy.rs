//! Which server next, and which of its URLs: the four policies of Cao, Jiang and Singh 2003.
//!
//! | policy | URLs of a server | servers |
//! | --- | --- | --- |
//! | breadth-first | first in, first out | first in, first out |
//! | performance | first in, first out | pages a second of the next connection: `R = P / T` |
//! | quality | the best first | the best URL |
//! | capacity | the best first | quality a second of the next connection: `C = (Q1 + … + QP) / T` |
//!
//! `P` is the number of pages of the next connection, `T` its time ([`Connection`]).

use crate::keys::slot::{Order, quality_of};
use rhumb_wire::message::Quality;
use std::cmp::Reverse;

/// What the next connection to a server is expected to bring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection<'a> {
    /// P: what a connection serves and a visit has time for, but no more than there is to fetch.
    pub(crate) pages: u64,
    /// T: two connection times (it is opened and closed), the response times, and the gaps between
    /// the requests.
    pub(crate) seconds: f64,
    /// Slots of the best of its URLs, at most P; empty when URLs go first in, first out.
    pub(crate) best: &'a [u64],
}

/// The rank of a server. The higher number sorts first. Equal ones go in the order in which they
/// became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(Reverse<u32>);

impl Default for Rank {
    /// That of all servers where nothing tells them apart.
    fn default() -> Self {
        Rank::of(0.0)
    }
}

impl Rank {
    /// Before all others.
    pub(crate) const FIRST: Rank = Rank(Reverse(u32::MAX));
    /// After all others: that of a server at which only such URLs wait as lie behind all others.
    pub(crate) const BEHIND: Rank = Rank(Reverse(0));

    /// The number that it was made from.
    pub(crate) fn value(self) -> f64 {
        f32::from_bits(self.0.0.saturating_sub(1)).into()
    }

    /// From a number that is not negative.
    fn of(value: f64) -> Self {
        // Floats that are not negative are in the order of their bits.
        Rank(Reverse((value as f32).max(0.0).to_bits() + 1))
    }
}

/// An order of servers, and of the URLs of each.
pub(crate) trait Policy: Send + Sync {
    /// Returns whether the best URLs of a server go first.
    fn by_quality(&self) -> bool;

    /// The rank of a server.
    fn rank(&self, next: Connection<'_>) -> Rank;
}

/// The place of a URL of that quality among those of its server.
pub(crate) fn order(policy: &dyn Policy, quality: Quality) -> Order {
    if policy.by_quality() {
        Order::of(quality)
    } else {
        Order::LAST
    }
}

/// The policy of that name.
pub(crate) fn of(name: rhumb_config::Policy) -> &'static dyn Policy {
    match name {
        rhumb_config::Policy::BreadthFirst => &BreadthFirst,
        rhumb_config::Policy::Performance => &Performance,
        rhumb_config::Policy::Quality => &BestQuality,
        rhumb_config::Policy::Capacity => &Capacity,
    }
}

struct BreadthFirst;

impl Policy for BreadthFirst {
    fn by_quality(&self) -> bool {
        false
    }

    fn rank(&self, _: Connection<'_>) -> Rank {
        Rank::default()
    }
}

struct Performance;

impl Policy for Performance {
    fn by_quality(&self) -> bool {
        false
    }

    fn rank(&self, next: Connection<'_>) -> Rank {
        Rank::of(next.pages as f64 / next.seconds)
    }
}

struct BestQuality;

impl Policy for BestQuality {
    fn by_quality(&self) -> bool {
        true
    }

    fn rank(&self, next: Connection<'_>) -> Rank {
        Rank::of(
            next.best
                .first()
                .map_or(0.0, |&slot| f64::from(quality_of(slot).get())),
        )
    }
}

struct Capacity;

impl Policy for Capacity {
    fn by_quality(&self) -> bool {
        true
    }

    fn rank(&self, next: Connection<'_>) -> Rank {
        let sum: f64 = next
            .best
            .iter()
            .map(|&slot| f64::from(quality_of(slot).get()))
            .sum();
        Rank::of(sum / next.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::topic::TopicNumber;

    fn slots(qualities: &[f32]) -> Vec<u64> {
        qualities
            .iter()
            .map(|&quality| Order::of(Quality::new(quality).unwrap()).slot(TopicNumber(3), 7))
            .collect()
    }

    fn rank(name: rhumb_config::Policy, pages: u64, seconds: f64, best: &[f32]) -> Rank {
        of(name).rank(Connection {
            pages,
            seconds,
            best: &slots(best),
        })
    }

    #[test]
    fn each_policy_prefers_what_it_is_for() {
        use rhumb_config::Policy::{BreadthFirst, Capacity, Performance, Quality};
        // One server has many good pages and is slow, one has few very good pages, one has many bad
        // pages and is fast.
        let slow = (10, 20.0, vec![2.0; 10]);
        let few = (1, 2.0, vec![9.0]);
        let fast = (50, 5.0, vec![0.5; 50]);
        let best = |name| {
            let servers = [("slow", &slow), ("few", &few), ("fast", &fast)];
            servers
                .into_iter()
                .min_by_key(|(_, (pages, seconds, best))| rank(name, *pages, *seconds, best))
                .unwrap()
                .0
        };
        assert_eq!(
            (best(Performance), best(Quality), best(Capacity)),
            ("fast", "few", "fast")
        );
        assert_eq!(best(BreadthFirst), "slow", "all are equal: the first");
        assert!(rank(Capacity, 10, 2.0, &[2.0; 10]) < rank(Capacity, 50, 5.0, &[0.5; 50]));
    }

    #[test]
    fn equal_numbers_are_equal_ranks_and_none_is_last() {
        assert_eq!(
            rank(rhumb_config::Policy::Performance, 4, 2.0, &[]),
            rank(rhumb_config::Policy::Performance, 2, 1.0, &[])
        );
        assert!(
            rank(rhumb_config::Policy::Quality, 1, 1.0, &[0.1])
                < rank(rhumb_config::Policy::Quality, 1, 1.0, &[])
        );
        assert!(
            rank(rhumb_config::Policy::Quality, 1, 1.0, &[]) < Rank::BEHIND
                && Rank::default() < Rank::BEHIND
        );
        assert_eq!(
            rank(rhumb_config::Policy::Performance, 3, 2.0, &[]).value(),
            1.5
        );
    }
}
