//! Policy: the four of the paper, the crawler's own breadth-first, and capacity by a quality that
//! needs no table.
//!
//! The paper's queues, of servers and of the URLs of each, are both in the order of the policy:
//! breadth-first goes to the server of the URL that was found first, as quality goes to the server
//! of the best URL. The crawler's breadth-first lets servers take turns instead, which is fairer to
//! them. It is here to show how much depends on that.
//!
//! Source: Cao, Jiang and Singh 2003, section 3.

use rhumb_wire::message::Quality;
use std::fmt;

/// An order of servers and URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// The URL that was found first.
    BreadthFirst,
    /// The most pages a second.
    Performance,
    /// The best page.
    Quality,
    /// The most quality a second.
    Capacity,
    /// Servers in turn; of each, the URL that was found first.
    InTurn,
    /// The most quality a second, where a page is worth more the fewer links it is away from a
    /// seed.
    CapacityByDepth,
}

impl Policy {
    /// All policies, in the order of the paper; the crawler's own come last.
    pub(super) const ALL: [Policy; 6] = [
        Policy::BreadthFirst,
        Policy::Performance,
        Policy::Quality,
        Policy::Capacity,
        Policy::InTurn,
        Policy::CapacityByDepth,
    ];

    /// What the scheduler is configured to do. For the paper's breadth-first that is to prefer the
    /// pages that are worth more.
    pub(super) fn configured(self) -> rhumb_config::Policy {
        match self {
            Policy::BreadthFirst | Policy::Quality => rhumb_config::Policy::Quality,
            Policy::Performance => rhumb_config::Policy::Performance,
            Policy::Capacity | Policy::CapacityByDepth => rhumb_config::Policy::Capacity,
            Policy::InTurn => rhumb_config::Policy::BreadthFirst,
        }
    }

    /// Returns whether its order depends on what pages are worth by the paper's measures.
    pub(super) fn by_quality(self) -> bool {
        matches!(self, Policy::Quality | Policy::Capacity)
    }

    /// The worth that the scheduler is told of a page. The page is worth `quality`, was found as
    /// number `number`, and is `depth` links away from a seed.
    pub(super) fn worth(self, quality: Quality, number: u32, depth: u16) -> Quality {
        match self {
            Policy::BreadthFirst => found_first(number),
            Policy::CapacityByDepth => Quality::SEED.shared_among(1 + usize::from(depth)),
            Policy::Performance | Policy::Quality | Policy::Capacity | Policy::InTurn => quality,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Policy::BreadthFirst => "breadth-first",
            Policy::Performance => "performance",
            Policy::Quality => "quality",
            Policy::Capacity => "capacity",
            Policy::InTurn => "in turn",
            Policy::CapacityByDepth => "capacity by depth",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A little less than the page before it: by the least that the scheduler can tell apart.
fn found_first(number: u32) -> Quality {
    const STEP: u32 = 1 << 8;
    Quality::from_bits(1f32.to_bits().saturating_sub(number.saturating_mul(STEP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_later_or_deeper_is_worth_less_to_those_that_look_at_it() {
        let worth = |policy: Policy, number, depth| policy.worth(Quality::SEED, number, depth);
        assert!((0..30_000).all(|number| {
            let [this, next] = [number, number + 1]
                .map(|number| worth(Policy::BreadthFirst, number, 0).to_bits() >> 8);
            this > next
        }));
        assert!(worth(Policy::CapacityByDepth, 9, 1) > worth(Policy::CapacityByDepth, 3, 2));
        assert_eq!(worth(Policy::Capacity, 9, 1), Quality::SEED);
    }
}
