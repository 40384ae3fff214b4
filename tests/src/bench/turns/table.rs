//! Table: the rounds of contenders side by side, and how the first one's are to those of the
//! others.

use super::round::ALL;
use super::{Contender, Round, Spread, What};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// What is compared with the others, by process where one is named.
const COMPARED: [(What, &str); 5] = [
    (What::CpuMs, ALL),
    (What::CpuMs, "broker"),
    (What::PagesPerS, ALL),
    (What::PeakMb, ALL),
    (What::BrokerMessages, ALL),
];

/// Less is not shown: streams in which hardly anything lies.
const SHOWN_MIN: f64 = 0.0005;

/// Rounds of contenders.
#[derive(Debug, Serialize)]
pub struct Table {
    contenders: Vec<Column>,
    /// How the first contender is to the others.
    ratios: Vec<Ratio>,
}

#[derive(Debug, Serialize)]
struct Column {
    name: String,
    median: Round,
    rounds: Vec<Round>,
}

#[derive(Debug, Serialize)]
struct Ratio {
    what: What,
    /// Of the first contender's process; the others' number is that of all.
    of: &'static str,
    to: String,
    #[serde(flatten)]
    spread: Spread,
}

impl Table {
    /// Of the rounds of contenders, in their order.
    pub fn new(contenders: &[Contender], rounds: Vec<Vec<Round>>) -> Table {
        let columns = contenders
            .iter()
            .zip(rounds)
            .map(|(contender, rounds)| Column {
                name: contender.to_string(),
                median: Round::median(&rounds),
                rounds,
            });
        let contenders: Vec<Column> = columns.collect();
        let ratios = contenders
            .split_first()
            .map_or(Vec::new(), |(first, others)| {
                let pairs = COMPARED
                    .iter()
                    .flat_map(|compared| others.iter().map(move |other| (*compared, other)));
                pairs
                    .filter_map(|((what, of), other)| ratio(first, other, what, of))
                    .collect()
            });
        Table { contenders, ratios }
    }
}

/// A part of one is compared with the same part of another, or with all of one that is of one
/// piece.
fn ratio(first: &Column, other: &Column, what: What, of: &'static str) -> Option<Ratio> {
    let has_part = other.rounds.first()?.number(what, of).is_some();
    let spread = Spread::of_ratios(
        what,
        (&first.rounds, of),
        (&other.rounds, if has_part { of } else { ALL }),
    )?;
    Some(Ratio {
        what,
        of,
        to: other.name.clone(),
        spread,
    })
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<30}", "")?;
        self.contenders
            .iter()
            .try_for_each(|column| write!(f, " {:>16}", column.name))?;
        writeln!(f)?;
        let numbers = || {
            self.contenders
                .iter()
                .flat_map(|column| &column.median.numbers)
        };
        let rows: BTreeSet<(What, bool, &str)> = numbers()
            .flat_map(|(what, of)| {
                of.iter()
                    .filter(|(_, number)| **number >= SHOWN_MIN)
                    .map(|(of, _)| (*what, of != ALL, of.as_str()))
            })
            .collect();
        for (what, _, of) in rows {
            match of {
                ALL => write!(f, "{:<30}", what.title())?,
                of => write!(f, "  {of:<28}")?,
            }
            for column in &self.contenders {
                match column.median.number(what, of) {
                    Some(number) if number.abs() >= 100.0 => write!(f, " {number:>16.0}")?,
                    Some(number) => write!(f, " {number:>16.3}")?,
                    None => write!(f, " {:>16}", "-")?,
                }
            }
            writeln!(f)?;
        }
        for Ratio {
            what,
            of,
            to,
            spread:
                Spread {
                    median,
                    lower,
                    upper,
                    pairs,
                },
        } in &self.ratios
        {
            let of = if *of == ALL {
                String::new()
            } else {
                format!(" of {of}")
            };
            let first = self.contenders.first().map_or("", |column| &column.name);
            writeln!(
                f,
                "{}{of}, {first} to {to}: {median:.2} (a quarter of {pairs} pairs below \
                 {lower:.2}, one above {upper:.2})",
                what.title()
            )?;
        }
        Ok(())
    }
}
