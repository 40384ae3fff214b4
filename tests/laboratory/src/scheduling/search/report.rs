//! Report: what the search found, as a table (CSV) and as lines for each claim that fails as
//! chosen.

use super::reading::Reading;
use super::row::{CLAIMS, Row, failing};

/// Conditions that a line names at most.
const NAMED: usize = 3;

/// A row for each condition and reading: of each claim the median over the webs, and on how many of
/// them it holds.
pub(super) fn csv(rows: &[Row]) -> String {
    let mut text = String::from("condition,open,reading,webs,claims_that_hold");
    for claim in &CLAIMS {
        text.push_str(&format!(",{0},{0}_least,{0}_most,{0}_holds", claim.column));
    }
    text.push('\n');
    for row in rows {
        let webs = row.measured[0].figures.len();
        text.push_str(&format!(
            "{},{},{},{webs},{}",
            row.condition,
            row.condition.is_open(),
            row.reading,
            row.held().0
        ));
        for measured in &row.measured {
            let least = measured.figures[0];
            let most = measured.figures[webs - 1];
            text.push_str(&format!(
                ",{:.4},{least:.4},{most:.4},{}",
                measured.median(),
                measured.holding
            ));
        }
        text.push('\n');
    }
    text
}

/// For each claim that fails as chosen: where it holds, or what is best, and what it depends on.
/// Then the conditions under which most claims hold.
pub(super) fn lines(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for (claim, sought) in failing() {
        let best_first = |chosen: &dyn Fn(&Row) -> bool| {
            let mut found: Vec<&Row> = rows.iter().filter(|row| chosen(row)).collect();
            found.sort_by(|one, other| one.cmp_for(claim, other));
            found
        };
        let line = |what: &str, found: Vec<&Row>| {
            let holding = found
                .iter()
                .filter(|row| row.measured[claim].holds())
                .count();
            let named: Vec<String> = found
                .iter()
                .take(NAMED)
                .map(|row| named(row, claim))
                .collect();
            format!(
                "{}, {what}: holds in {holding} of {}, best {}",
                sought.column,
                found.len(),
                named.join("; ")
            )
        };
        lines.push(format!("{}: {}", sought.column, sought.text));
        for (what, levels) in [
            ("as chosen", 0..1),
            ("one condition", 1..2),
            ("several conditions", 2..usize::MAX),
        ] {
            let is_so = |row: &Row| levels.contains(&row.condition.levels.len());
            lines.push(line(
                &format!("{what}, chosen reading"),
                best_first(&|row| is_so(row) && row.reading == Reading::CHOSEN),
            ));
            lines.push(line(&format!("{what}, any reading"), best_first(&is_so)));
        }
        lines.push(format!(
            "{}, by condition: {}",
            sought.column,
            sensitivity(rows, claim)
        ));
        lines.push(format!(
            "{}, with the others: {}",
            sought.column,
            company(rows, claim)
        ));
    }
    lines.extend(together(rows));
    lines
}

/// A row, as one claim sees it.
fn named(row: &Row, claim: usize) -> String {
    let Row {
        condition, reading, ..
    } = row;
    let against = if condition.is_open() {
        ""
    } else {
        ", against the paper"
    };
    let median = row.measured[claim].median();
    format!(
        "{median:.2} ({condition}; {reading}{against}; {} claims hold)",
        row.held().0
    )
}

/// The range of a claim's number over the levels of each factor alone, widest first.
fn sensitivity(rows: &[Row], claim: usize) -> String {
    let levels = |row: &Row| row.condition.levels.clone();
    let chosen = rows.iter().filter(|row| row.reading == Reading::CHOSEN);
    let alone: Vec<&Row> = chosen.filter(|row| levels(row).len() < 2).collect();
    let mut factors: Vec<&str> = alone
        .iter()
        .flat_map(|row| levels(row))
        .map(|level| level.factor)
        .collect();
    factors.dedup();
    let range = |factor: &'static str| {
        let of = alone
            .iter()
            .filter(|row| levels(row).iter().all(|level| level.factor == factor));
        let figures = of.map(|row| row.measured[claim].median());
        let ends = figures.fold((f64::MAX, f64::MIN), |(least, most), figure| {
            (least.min(figure), most.max(figure))
        });
        (factor, ends)
    };
    let mut ranges: Vec<(&str, (f64, f64))> = factors.into_iter().map(range).collect();
    ranges.sort_by(|(_, one), (_, other)| (other.1 - other.0).total_cmp(&(one.1 - one.0)));
    let texts = ranges
        .iter()
        .map(|(factor, (least, most))| format!("{factor} {least:.2} to {most:.2}"));
    texts.collect::<Vec<_>>().join(", ")
}

/// In how many of the rows in which a claim holds each other one holds too, of those that fail as
/// chosen.
fn company(rows: &[Row], claim: usize) -> String {
    let holding: Vec<&Row> = rows
        .iter()
        .filter(|row| row.measured[claim].holds())
        .collect();
    let others = failing()
        .filter(|&(other, _)| other != claim)
        .map(|(other, sought)| {
            let both = holding
                .iter()
                .filter(|row| row.measured[other].holds())
                .count();
            format!("{} {both}", sought.column)
        });
    format!(
        "of {} rows {}",
        holding.len(),
        others.collect::<Vec<_>>().join(", ")
    )
}

/// The rows in which most claims hold, of those that the paper leaves room for.
fn together(rows: &[Row]) -> Vec<String> {
    let mut open: Vec<&Row> = rows.iter().filter(|row| row.condition.is_open()).collect();
    open.sort_by_key(|row| std::cmp::Reverse(row.held()));
    let line = |row: &&Row| {
        let Row {
            condition, reading, ..
        } = row;
        let fail = CLAIMS
            .iter()
            .zip(&row.measured)
            .filter(|(_, measured)| !measured.holds());
        let fail: Vec<String> = fail
            .map(|(sought, measured)| format!("{} {:.2}", sought.column, measured.median()))
            .collect();
        format!(
            "together: {} of {} claims hold ({condition}; {reading}); not {}",
            row.held().0,
            CLAIMS.len(),
            fail.join(", ")
        )
    };
    open.iter().take(NAMED).map(line).collect()
}
