//! Condition: what of web and crawl is other than chosen.
//!
//! In: a web and a setup. Out: the same with some levels changed. A level is one value of a factor:
//! of sizes, times, links, of the start, of the connections.
//!
//! Invariant: a condition has one level of a factor at most.

use super::super::setup::{Seeds, Setup};
use super::super::traits::{Depth, Spread, Targets, Which};
use super::super::web::Shape;
use std::fmt;

/// A value of a factor, and what it changes.
pub(super) struct Level {
    pub(super) factor: &'static str,
    pub(super) name: &'static str,
    /// Returns whether the paper leaves room for it.
    pub(super) open: bool,
    change: fn(&mut Shape, &mut Setup),
}

impl Level {
    const fn open(
        factor: &'static str,
        name: &'static str,
        change: fn(&mut Shape, &mut Setup),
    ) -> Self {
        Level {
            factor,
            name,
            open: true,
            change,
        }
    }

    /// The paper says otherwise.
    const fn against(
        factor: &'static str,
        name: &'static str,
        change: fn(&mut Shape, &mut Setup),
    ) -> Self {
        Level {
            factor,
            name,
            open: false,
            change,
        }
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        (self.factor, self.name) == (other.factor, other.name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.factor, self.name)
    }
}

/// All levels that are searched.
pub(super) static LEVELS: &[Level] = &[
    Level::open("sizes", "all equal", |shape, _| shape.pages_deviation = 0.0),
    Level::open("sizes", "of deviation 1", |shape, _| {
        shape.pages_deviation = 1.0
    }),
    Level::open("sizes", "of deviation 1.5", |shape, _| {
        shape.pages_deviation = 1.5
    }),
    Level::open("sizes", "with a main site of a tenth", |shape, _| {
        shape.traits.main_site = 0.1
    }),
    Level::open("sizes", "with a main site of a third", |shape, _| {
        shape.traits.main_site = 1.0 / 3.0
    }),
    Level::open("response times", "over one decade", |shape, _| {
        shape.decades = 1.0
    }),
    Level::open("response times", "over three decades", |shape, _| {
        shape.decades = 3.0
    }),
    Level::open("slow servers", "as many as fast ones", |shape, _| {
        shape.traits.spread = Spread::Even
    }),
    Level::open("fast servers", "the largest", |shape, _| {
        shape.traits.fast = Which::Largest
    }),
    Level::open("fast servers", "the smallest", |shape, _| {
        shape.traits.fast = Which::Smallest
    }),
    Level::open("times within a server", "of deviation 1", |shape, _| {
        shape.traits.response_deviation = 1.0
    }),
    Level::open("one-request servers", "the largest", |shape, _| {
        shape.traits.one_request = Which::Largest
    }),
    Level::open("one-request servers", "the smallest", |shape, _| {
        shape.traits.one_request = Which::Smallest
    }),
    Level::open("one-request servers", "the fastest", |shape, _| {
        shape.traits.one_request = Which::Fastest
    }),
    Level::open("one-request servers", "the slowest", |shape, _| {
        shape.traits.one_request = Which::Slowest
    }),
    Level::open("the other tenth", "allows one request", |shape, _| {
        shape.traits.other_limits = &[1]
    }),
    Level::open("the other tenth", "allows a thousand", |shape, _| {
        shape.traits.other_limits = &[1_000]
    }),
    Level::open(
        "connection time",
        "a quarter of the response time",
        |shape, _| shape.traits.connect_mean = 0.25,
    ),
    Level::open(
        "connection time",
        "1.5 times the response time",
        |shape, _| shape.traits.connect_mean = 1.5,
    ),
    Level::open("near servers", "the fastest", |shape, _| {
        shape.traits.near = Which::Fastest
    }),
    Level::open("links on the server", "60 %", |shape, _| {
        shape.locality = 0.6
    }),
    Level::open("links on the server", "70 %", |shape, _| {
        shape.locality = 0.7
    }),
    Level::open("links on the server", "90 %", |shape, _| {
        shape.locality = 0.9
    }),
    Level::open("links on the server", "95 %", |shape, _| {
        shape.locality = 0.95
    }),
    Level::open("links of a page", "4", |shape, _| {
        shape.traits.links_mean = 4.0
    }),
    Level::open("links of a page", "16", |shape, _| {
        shape.traits.links_mean = 16.0
    }),
    Level::open("links to others", "to home pages", |shape, _| {
        shape.traits.targets = Targets::HomePages
    }),
    Level::open("links to others", "to any page alike", |shape, _| {
        shape.traits.targets = Targets::Even
    }),
    Level::open("sites", "deep", |shape, _| shape.traits.depth = Depth::Deep),
    Level::open("sites", "flat", |shape, _| shape.traits.depth = Depth::Flat),
    Level::open("start", "all home pages", |_, setup| {
        setup.seeds = Seeds::HomePages
    }),
    Level::open("start", "all pages", |_, setup| {
        setup.seeds = Seeds::AllPages
    }),
    Level::open("end", "after half of a larger web", |shape, setup| {
        setup.pages_max = shape.pages;
        shape.pages *= 2;
    }),
    Level::against("connections", "8", |_, setup| setup.connections = 8),
    Level::against("connections", "16", |_, setup| setup.connections = 16),
    Level::against("connections", "32", |_, setup| setup.connections = 32),
    Level::against("connections", "96", |_, setup| setup.connections = 96),
    Level::against("Zipf exponent", "0.5", |shape, _| {
        shape.traits.zipf_exponent = 0.5
    }),
    Level::against("Zipf exponent", "1.5", |shape, _| {
        shape.traits.zipf_exponent = 1.5
    }),
    Level::against("Zipf quality", "by server", |shape, _| {
        shape.traits.zipf_by_server = true
    }),
];

/// Levels that hold at once; none: as chosen.
#[derive(Clone, Default)]
pub(super) struct Condition {
    pub(super) levels: Vec<&'static Level>,
}

impl Condition {
    /// The same with one more level; none when it has one of that factor.
    pub(super) fn with(&self, level: &'static Level) -> Option<Condition> {
        let is_free = self.levels.iter().all(|other| other.factor != level.factor);
        is_free.then(|| Condition {
            levels: [&self.levels[..], &[level]].concat(),
        })
    }

    /// Returns whether another one has the same levels, in any order.
    pub(super) fn is_same(&self, other: &Condition) -> bool {
        self.levels.len() == other.levels.len()
            && self.levels.iter().all(|level| other.levels.contains(level))
    }

    /// Returns whether the paper leaves room for all of it.
    pub(super) fn is_open(&self) -> bool {
        self.levels.iter().all(|level| level.open)
    }

    /// Web and setup under this condition.
    pub(super) fn apply(&self, mut shape: Shape, mut setup: Setup) -> (Shape, Setup) {
        self.levels
            .iter()
            .for_each(|level| (level.change)(&mut shape, &mut setup));
        (shape, setup)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.levels.is_empty() {
            return f.write_str("as chosen");
        }
        let names: Vec<String> = self.levels.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(" + "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::runs::breadth_first;
    use super::super::super::web::tests::SMALL;
    use super::*;

    #[test]
    fn each_level_changes_something_of_its_own() {
        let chosen = Condition::default();
        let base = (
            Shape {
                pages_deviation: 0.5,
                ..SMALL
            },
            breadth_first(64),
        );
        let mut seen = vec![chosen.apply(base.0, base.1)];
        assert_eq!(seen[0], base);
        for level in LEVELS {
            let changed = chosen.with(level).unwrap().apply(base.0, base.1);
            assert!(!seen.contains(&changed), "{level}");
            seen.push(changed);
        }
    }

    #[test]
    fn a_condition_has_one_level_of_a_factor() {
        let of = |factor: &str| {
            LEVELS
                .iter()
                .filter(|level| level.factor == factor)
                .collect::<Vec<_>>()
        };
        let sizes = of("sizes");
        let connections = of("connections");
        let equal = Condition::default().with(sizes[0]).unwrap();
        assert!(equal.with(sizes[1]).is_none() && equal.is_open());
        let both = equal.with(connections[1]).unwrap();
        assert!(!both.is_open());
        assert_eq!(both.to_string(), "sizes all equal + connections 16");
    }
}
