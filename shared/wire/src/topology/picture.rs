//! The topology as a person reads it: a drawing with lists of its edges and stages, or a graph for
//! Graphviz.
//!
//! The lists and the graph are made from the tables. The drawing is written by hand, since no
//! program lays it out as well; a test holds its names against the tables, both ways. README begins
//! with the same drawing.

use super::edges::{DEAD, EDGES, EdgeRow, MOVES, PARKED};
use super::stages::{STAGES, Source, StageRow};
use super::words::{Kind, Party, Retention};
use std::fmt::Write as _;

/// The drawing: stages in capitals, edges by their names. `<l>` is a lane, `<p>` a partition;
/// `<d>`, `<s>` and `<f>` are instances of dedup, scheduler and fetcher.
pub const PICTURE: &str = include_str!("picture.txt");

/// The drawing, a list of the edges and a list of the stages.
pub fn text() -> String {
    let head = ["edge", "carried by", "per", "message", "from → to"].map(str::to_owned);
    let edges = std::iter::once(head)
        .chain(EDGES.iter().map(edge_line))
        .chain([dead_line(), parked_line(), moves_line()]);
    let head = ["stage", "replicas", "state", "takes"].map(str::to_owned);
    let stages = std::iter::once(head).chain(STAGES.iter().map(stage_line));
    format!(
        "{PICTURE}\n{}\n{}",
        columns(&edges.collect::<Vec<_>>()),
        columns(&stages.collect::<Vec<_>>())
    )
}

/// A graph of the stages for Graphviz (`dot -Tsvg`): streams as solid arrows, core NATS messages as
/// dashed ones.
pub fn dot() -> String {
    let mut graph = String::from("digraph rhumb {\n  rankdir=LR;\n  node [shape=box];\n");
    for row in &STAGES {
        let style = if row.has_state { " [style=bold]" } else { "" };
        let _ = writeln!(graph, "  \"{}\"{style};", row.name);
    }
    for party in [Party::Rhumb, Party::Tap] {
        let _ = writeln!(graph, "  \"{}\" [shape=plain];", party.name());
    }
    for row in &EDGES {
        let style = if row.kind == Kind::Core {
            "dashed"
        } else {
            "solid"
        };
        let label = row.reply.map_or_else(
            || subject(row),
            |reply| format!("{}\\n(answer: {reply})", subject(row)),
        );
        for (from, to) in row
            .producers
            .iter()
            .flat_map(|from| row.consumers.iter().map(move |to| (*from, *to)))
        {
            let from = from.name();
            let to = to.name();
            let _ = writeln!(
                graph,
                "  \"{from}\" -> \"{to}\" [label=\"{label}\", style={style}];"
            );
        }
    }
    graph.push_str("}\n");
    graph
}

/// An edge's name with the last token of its subjects.
fn subject(row: &EdgeRow) -> String {
    match row.division.per() {
        "" => row.name.to_owned(),
        division => format!("{}.<{division}>", row.name),
    }
}

const fn carrier(kind: Kind) -> &'static str {
    match kind {
        Kind::Stream(Retention::WorkQueue) => "stream, work-queue",
        Kind::Stream(Retention::Interest) => "stream, interest",
        Kind::Stream(Retention::Limits) => "stream, limits",
        Kind::Core => "core NATS",
    }
}

fn edge_line(row: &EdgeRow) -> [String; 5] {
    let message = row.reply.map_or_else(
        || row.message.to_owned(),
        |reply| format!("{} / {reply}", row.message),
    );
    let names = |parties: &[Party]| {
        parties
            .iter()
            .map(|party| party.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let others = if row.kind == Kind::Stream(Retention::Interest) {
        ", any other"
    } else {
        ""
    };
    let ends = format!(
        "{} → {}{others}",
        names(row.producers),
        names(row.consumers)
    );
    [
        row.name,
        carrier(row.kind),
        row.division.per(),
        &message,
        &ends,
    ]
    .map(str::to_owned)
}

fn dead_line() -> [String; 5] {
    [
        DEAD,
        carrier(Kind::Stream(Retention::Limits)),
        "stage",
        "(a corrupt message)",
        "every stage → rhumb",
    ]
    .map(str::to_owned)
}

fn parked_line() -> [String; 5] {
    let message = "(a message of another version)";
    [
        PARKED,
        carrier(Kind::Stream(Retention::Limits)),
        "stage",
        message,
        "every stage → the same",
    ]
    .map(str::to_owned)
}

fn moves_line() -> [String; 5] {
    let message = "(a part of a partition)";
    [
        MOVES,
        carrier(Kind::Stream(Retention::Limits)),
        "stage",
        message,
        "dedup, scheduler → the same",
    ]
    .map(str::to_owned)
}

fn stage_line(row: &StageRow) -> [String; 4] {
    let replicas = match (row.is_optional, row.has_state) {
        (true, _) => "0 or more",
        (false, _) => "1 or more",
    };
    let state = if row.has_state { "by partition" } else { "" };
    let takes: Vec<String> = row.inputs.iter().map(|source| taken(*source)).collect();
    [row.name, replicas, state, &takes.join(", ")].map(str::to_owned)
}

/// An input of a stage, and which instance takes a message of it.
fn taken(source: Source) -> String {
    let who = match source {
        Source::Shared(_) | Source::Any(_) => "any",
        Source::Owned(_) | Source::OwnedSoft(_) => "owner",
        Source::Addressed(_) => "addressee",
    };
    format!("{} ({who})", source.edge().name())
}

/// Lines of cells, as columns as wide as their widest cell.
fn columns<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |at: usize| {
        lines
            .iter()
            .map(|line| line[at].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::words::Division;
    use super::*;
    use std::collections::BTreeSet;

    /// Words of the drawing that look like names of edges or stages.
    fn words(is_name: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
        let words = PICTURE.split(|c: char| !(c.is_alphanumeric() || ".-<>".contains(c)));
        words
            .map(|word| word.split(".<").next().unwrap_or(word))
            .filter(|word| is_name(word))
            .collect()
    }

    #[test]
    fn the_drawing_has_every_stage_and_no_other() {
        let is_capital =
            |word: &str| word.len() > 4 && word.chars().all(|c| c.is_ascii_uppercase() || c == '-');
        let drawn: BTreeSet<String> = words(is_capital)
            .into_iter()
            .map(str::to_lowercase)
            .collect();
        assert_eq!(
            drawn,
            STAGES.iter().map(|row| row.name.to_owned()).collect()
        );
    }

    #[test]
    fn the_drawing_has_every_edge_and_no_other() {
        let names: BTreeSet<&str> = EDGES.iter().map(|row| row.name).collect();
        let is_edge =
            |word: &str| names.contains(word) || (word.contains('.') && !word.ends_with(".jsonl"));
        assert_eq!(words(is_edge), names);
    }

    #[test]
    fn the_drawing_divides_each_edge_as_the_table_does() {
        for row in &EDGES {
            let drawn = match row.division {
                Division::Whole => row.name.to_owned(),
                Division::Partition | Division::PartitionInLane => format!("{}.<p>", row.name),
                Division::Lane => format!("{}.<l>", row.name),
                Division::Instance => {
                    let consumer = row.consumers.first().map_or("", |party| party.name());
                    format!("{}.<{}>", row.name, &consumer[..1])
                }
            };
            let mut found = PICTURE
                .match_indices(&drawn)
                .map(|(at, _)| &PICTURE[at + drawn.len()..]);
            assert!(found.any(|rest| !rest.starts_with(['.', '<'])), "{drawn}");
        }
    }

    #[test]
    fn lists_and_graph_name_every_edge_and_stage() {
        let text = text();
        let graph = dot();
        let list = text
            .strip_prefix(PICTURE)
            .expect("the text begins with the drawing");
        for row in &EDGES {
            assert_eq!(
                list.lines()
                    .filter(|line| line.split(' ').next() == Some(row.name))
                    .count(),
                1,
                "{}",
                row.name
            );
            let arrows = graph
                .lines()
                .filter(|line| {
                    let label = format!("label=\"{}", subject(row));
                    let rest = line.split_once(&label).map(|(_, rest)| rest);
                    rest.is_some_and(|rest| rest.starts_with(['"', '\\']))
                })
                .count();
            assert_eq!(
                arrows,
                row.producers.len() * row.consumers.len(),
                "{}",
                row.name
            );
        }
        for row in &STAGES {
            assert_eq!(
                list.lines()
                    .filter(|line| line.split(' ').next() == Some(row.name))
                    .count(),
                1,
                "{}",
                row.name
            );
            assert!(
                graph.contains(&format!("\n  \"{}\"", row.name)),
                "{}",
                row.name
            );
        }
    }
}
