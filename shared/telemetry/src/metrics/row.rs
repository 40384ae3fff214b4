//! A row of a table of metrics: name, kind, unit, and help that says what it means and what to do.
//!
//! In: constants. Out: rows for the exposition, and the page of the documentation that lists them.

use super::histogram::Histogram;
use std::fmt::Write as _;

/// What a number does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It grows, and begins again at nothing at most when the state of a stage is lost.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Durations, counted by how long they were.
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name without the prefix of the process: with `_total` in the end if it is a counter.
    pub name: &'static str,
    /// What its number does.
    pub kind: Kind,
    /// What is counted or measured, in the plural.
    pub unit: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means, and what to do about it.
    pub help: &'static str,
}

impl Row {
    /// A counter.
    pub const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Row {
        Row {
            name,
            kind: Kind::Counter,
            unit,
            labels: &[],
            help,
        }
    }

    /// A level.
    pub const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Row {
        Row {
            name,
            kind: Kind::Gauge,
            unit,
            labels: &[],
            help,
        }
    }

    /// Durations.
    pub const fn histogram(name: &'static str, help: &'static str) -> Row {
        Row {
            name,
            kind: Kind::Histogram,
            unit: "seconds",
            labels: &[],
            help,
        }
    }

    /// The same, by these labels.
    pub const fn by(self, labels: &'static [&'static str]) -> Row {
        Row { labels, ..self }
    }

    /// What is wrong with the row, by the rules of Prometheus for names.
    pub fn fault(&self) -> Option<String> {
        let Row {
            name,
            kind,
            unit,
            help,
            ..
        } = *self;
        let is_word = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_lowercase())
                && name
                    .chars()
                    .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_')
        };
        let stem = name.strip_suffix("_total").unwrap_or(name);
        let what = if !is_word(name) {
            "is no name of a metric"
        } else if name.ends_with("_total") != (kind == Kind::Counter) {
            "must end in _total if it is a counter, and only then"
        } else if ["bytes", "seconds"]
            .iter()
            .any(|of| (*of == unit) != stem.ends_with(of))
        {
            "must end in its unit if that is bytes or seconds, and only then"
        } else if help.len() < 20 || !help.ends_with('.') {
            "does not say in sentences what it means"
        } else {
            return None;
        };
        Some(format!("{name} {what}"))
    }
}

/// How a table and the numbers that it should describe differ, and which rows break a rule: for the
/// test of a stage. Nothing when all is well.
pub fn unlike(
    rows: &[Row],
    counts: &[(&str, u64)],
    histograms: &[(&str, &Histogram)],
) -> Vec<String> {
    let mut faults: Vec<String> = rows.iter().filter_map(Row::fault).collect();
    let of = |name: &str| {
        rows.iter()
            .filter(|row| row.name == name)
            .collect::<Vec<_>>()
    };
    let told = counts
        .iter()
        .map(|(name, _)| (*name, false))
        .chain(histograms.iter().map(|(name, _)| (*name, true)));
    let told: Vec<(&str, bool)> = told.collect();
    for (name, is_histogram) in &told {
        match of(name)[..] {
            [] => faults.push(format!("{name} has no row")),
            [row] if (row.kind == Kind::Histogram) == *is_histogram => {}
            [_] => faults.push(format!("the row of {name} is of another kind")),
            _ => faults.push(format!("{name} has several rows")),
        }
    }
    let is_told = |row: &&Row| told.iter().any(|(name, _)| *name == row.name);
    faults.extend(
        rows.iter()
            .filter(|row| !is_told(row))
            .map(|row| format!("nothing tells of {}", row.name)),
    );
    faults
}

/// A section of the page that lists all metrics.
pub fn page(title: &str, prefix: &str, rows: &[Row]) -> String {
    let mut text =
        format!("## {title}\n\n| metric | kind | unit | meaning |\n| --- | --- | --- | --- |\n");
    for Row {
        name,
        kind,
        unit,
        labels,
        help,
    } in rows
    {
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(
            text,
            "| `{prefix}_{name}{labels}` | {} | {unit} | {} |",
            kind.name(),
            help.replace('|', "\\|")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_breaks_a_rule_of_names_says_which() {
        const HELP: &str = "What it means, and what to do.";
        let faults = [
            (Row::counter("found", "URLs", HELP), "_total"),
            (Row::gauge("found_total", "URLs", HELP), "_total"),
            (Row::gauge("Found", "URLs", HELP), "no name"),
            (Row::gauge("memory", "bytes", HELP), "unit"),
            (Row::gauge("memory_bytes", "URLs", HELP), "unit"),
            (Row::gauge("waiting", "URLs", "URLs"), "sentences"),
        ];
        for (row, expected) in faults {
            let fault = row.fault().expect("it breaks a rule");
            assert!(fault.contains(expected), "{fault}");
        }
        for row in [
            Row::counter("sent_bytes_total", "bytes", HELP),
            Row::histogram("step_seconds", HELP),
        ] {
            assert_eq!(row.fault(), None);
        }
    }

    #[test]
    fn numbers_without_rows_and_rows_without_numbers_are_found() {
        const HELP: &str = "What it means, and what to do.";
        let rows = [
            Row::counter("a_total", "URLs", HELP),
            Row::histogram("b_seconds", HELP),
        ];
        let histogram = Histogram::default();
        assert_eq!(
            unlike(&rows, &[("a_total", 1)], &[("b_seconds", &histogram)]),
            [""; 0]
        );
        assert_eq!(
            unlike(&rows, &[("a_total", 1)], &[]),
            ["nothing tells of b_seconds"]
        );
        let faults = unlike(&rows, &[("b_seconds", 1), ("c", 1)], &[]);
        assert_eq!(
            faults,
            [
                "the row of b_seconds is of another kind",
                "c has no row",
                "nothing tells of a_total"
            ]
        );
        let twice = [rows[0], rows[0], Row::gauge("d", "URLs", "")];
        let faults = unlike(&twice, &[("a_total", 1), ("d", 1)], &[]);
        assert_eq!(
            faults,
            [
                "d does not say in sentences what it means",
                "a_total has several rows"
            ]
        );
    }

    #[test]
    fn a_page_has_a_line_for_each_row() {
        let row = Row::counter("seconds_total", "seconds", "By a|b.").by(&["state", "edge"]);
        let text = page("dedup", "rhumb_dedup", &[row]);
        assert!(text.starts_with("## dedup\n\n| metric |"), "{text}");
        assert!(
            text.ends_with(
                "| `rhumb_dedup_seconds_total{state,edge}` | counter | seconds | By a\\|b. |\n"
            ),
            "{text}"
        );
    }
}
