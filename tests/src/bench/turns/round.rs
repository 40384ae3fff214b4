//! Round: what it cost one contender to fetch a web, in numbers per page.

use super::super::median;
use serde::Serialize;
use std::collections::BTreeMap;

/// The name of what is of all processes, edges or directions together.
pub(super) const ALL: &str = "all";

/// What a number tells, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// CPU milliseconds per page, user and system, by process.
    CpuMs,
    /// Pages a second, from the first request that the web saw to the last.
    PagesPerS,
    /// Seconds from the start of the program to its end.
    WholeS,
    /// Connections per page that the web took.
    Connections,
    /// Largest resident memory in megabytes, by process.
    PeakMb,
    /// Messages per page that the broker took, and gave, acks included.
    BrokerMessages,
    /// Kilobytes per page that the broker took, and gave.
    BrokerKb,
    /// Messages per page that streams stored, by stream. Each is acked to who published it.
    Stored,
    /// Kilobytes per page that streams stored, by stream: the number of its messages, and the mean
    /// size of those seen in it.
    StoredKb,
    /// Milliseconds from the last byte of a page until its new links are in the frontier: the
    /// median, and what 95 % do not exceed. A build may not tell.
    LinksMs,
    /// Context switches per page, by process: how often it was woken, or had to give way.
    Switches,
}

impl What {
    /// As the head of its rows.
    pub fn title(self) -> &'static str {
        match self {
            What::CpuMs => "CPU ms per page",
            What::PagesPerS => "pages a second",
            What::WholeS => "start to end, s",
            What::Connections => "connections per page",
            What::PeakMb => "peak memory, MB",
            What::BrokerMessages => "broker's messages per page",
            What::BrokerKb => "broker's kB per page",
            What::Stored => "stored messages per page",
            What::StoredKb => "stored kB per page, about",
            What::LinksMs => "links to the frontier, ms",
            What::Switches => "context switches per page",
        }
    }
}

/// One round of one contender.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Round {
    /// Pages fetched.
    pub pages: u64,
    /// The numbers, by what they tell and what they are of.
    pub numbers: BTreeMap<What, BTreeMap<String, f64>>,
}

impl Round {
    pub(super) fn of(pages: u64) -> Round {
        Round {
            pages,
            numbers: BTreeMap::new(),
        }
    }

    pub(super) fn put(&mut self, what: What, of: &str, number: f64) {
        self.numbers
            .entry(what)
            .or_default()
            .insert(of.to_owned(), number);
    }

    pub(super) fn put_all(&mut self, what: What, number: f64) {
        self.put(what, ALL, number);
    }

    /// Puts what all that is there comes to.
    pub(super) fn add_up(&mut self, what: What) {
        let sum = self.numbers.get(&what).map(|of| of.values().sum());
        if let Some(sum) = sum {
            self.put_all(what, sum);
        }
    }

    /// A number; none where it is not known.
    pub fn number(&self, what: What, of: &str) -> Option<f64> {
        self.numbers.get(&what)?.get(of).copied()
    }

    /// The number of all together; 0 where it is not known.
    pub fn all(&self, what: What) -> f64 {
        self.number(what, ALL).unwrap_or(0.0)
    }

    /// Medians of all numbers of some rounds.
    pub fn median(rounds: &[Round]) -> Round {
        let mut lists: BTreeMap<(What, &str), Vec<f64>> = BTreeMap::new();
        for (what, numbers) in rounds.iter().flat_map(|round| &round.numbers) {
            for (of, number) in numbers {
                lists.entry((*what, of)).or_default().push(*number);
            }
        }
        let mut all =
            Round::of(median(rounds.iter().map(|round| round.pages as f64).collect()) as u64);
        lists
            .into_iter()
            .for_each(|((what, of), numbers)| all.put(what, of, median(numbers)));
        all
    }
}

/// How numbers lie: the ratios of pairs, or what rounds told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half are less.
    pub median: f64,
    /// A quarter is less.
    pub lower: f64,
    /// A quarter is more.
    pub upper: f64,
    /// How many they are.
    pub pairs: usize,
}

impl Spread {
    /// How a number of one contender, `of` something, is to that of another, round by round; none
    /// where one of them does not tell it.
    pub fn of_ratios(
        what: What,
        one: (&[Round], &str),
        another: (&[Round], &str),
    ) -> Option<Spread> {
        let ratio =
            |(a, b): (&Round, &Round)| Some(a.number(what, one.1)? / b.number(what, another.1)?);
        let ratios: Option<Vec<f64>> = one.0.iter().zip(another.0).map(ratio).collect();
        Spread::of(ratios?)
    }

    /// How a number of a contender lies; none where it is not told.
    pub fn of_numbers(what: What, rounds: &[Round]) -> Option<Spread> {
        let numbers: Option<Vec<f64>> =
            rounds.iter().map(|round| round.number(what, ALL)).collect();
        Spread::of(numbers?)
    }

    fn of(mut numbers: Vec<f64>) -> Option<Spread> {
        numbers.retain(|number| number.is_finite());
        numbers.sort_by(f64::total_cmp);
        let last = numbers.len().checked_sub(1)?;
        let at = |quarter: usize| numbers[(last * quarter + 2) / 4];
        Some(Spread {
            median: at(2),
            lower: at(1),
            upper: at(3),
            pairs: numbers.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(numbers: &[(&str, f64)]) -> Round {
        let mut round = Round::of(10);
        numbers
            .iter()
            .for_each(|(of, number)| round.put(What::CpuMs, of, *number));
        round
    }

    #[test]
    fn rounds_have_medians_and_what_is_of_some_counts_where_it_is() {
        let rounds = [
            round(&[("broker", 3.0), ("parser", 1.0)]),
            round(&[("broker", 1.0)]),
            round(&[("broker", 2.0)]),
        ];
        let median = Round::median(&rounds);
        assert_eq!(
            (median.pages, median.number(What::CpuMs, "broker")),
            (10, Some(2.0))
        );
        assert_eq!(
            (
                median.number(What::CpuMs, "parser"),
                median.number(What::PeakMb, "all")
            ),
            (Some(1.0), None)
        );
        let mut sum = rounds[0].clone();
        sum.add_up(What::CpuMs);
        assert_eq!(sum.all(What::CpuMs), 4.0);
    }

    #[test]
    fn pairs_are_compared_round_by_round() {
        let of = |numbers: &[f64]| {
            numbers
                .iter()
                .map(|number| round(&[("all", *number)]))
                .collect::<Vec<_>>()
        };
        let one = of(&[2.0, 30.0, 8.0, 10.0, 6.0]);
        let another = of(&[1.0, 10.0, 2.0, 2.0, 1.0]);
        let ratios = |what, another: &[Round]| Spread::of_ratios(what, (&one, ALL), (another, ALL));
        let spread = ratios(What::CpuMs, &another).unwrap();
        assert_eq!(
            spread,
            Spread {
                median: 4.0,
                lower: 3.0,
                upper: 5.0,
                pairs: 5
            }
        );
        assert_eq!(ratios(What::PeakMb, &another), None);
        assert_eq!(ratios(What::CpuMs, &[]), None);
    }
}
