//! The dataflow in a terminal: a line for each stage, with what comes to it, and the short stage in
//! words.
//!
//! In: a look at a crawl, and what passed since earlier ones. Out: lines, which take the place of
//! the last ones in a terminal.

use crate::output::line;
use crate::status::rates::Rates;
use crate::status::words::{StageLook, short, stages};
use crate::status::{Snapshot, Summary};
use rhumb_config::Pipeline;
use rhumb_stage::Shares;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Goes to the upper left corner and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";
/// Letters of a bar.
const BAR: usize = 10;

/// Shows the picture.
pub(super) fn show(pipeline: &Pipeline, snapshot: &Snapshot, summary: &Summary, rates: &Rates) {
    let clear = if std::io::stdout().is_terminal() {
        CLEAR
    } else {
        ""
    };
    line(format_args!(
        "{clear}{}",
        text(pipeline, snapshot, summary, rates).trim_end()
    ));
}

fn text(pipeline: &Pipeline, snapshot: &Snapshot, summary: &Summary, rates: &Rates) -> String {
    let looks = stages(snapshot, pipeline);
    let rate = |name| rates.totals.get(name).copied().unwrap_or_default();
    let state = summary.state();
    let elapsed = humantime::format_duration(Duration::from_secs(summary.elapsed_s as u64));
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}  {state} for {elapsed}  {} pages, {:.1} a second, {} bytes a second",
        pipeline.crawl,
        summary.pages,
        rate("pages"),
        rate("bytes") as u64
    );
    let _ = writeln!(
        text,
        "found {}  new {}  waiting {}  in flight {}  restarts {}  dead {}",
        summary.urls_found,
        summary.urls_new,
        summary.waiting,
        summary.in_flight,
        summary.restarts,
        summary.dead
    );
    for silent in &summary.silent {
        let _ = writeln!(text, "silent: {silent}");
    }
    let _ = writeln!(text, "{}", summary.outcomes_text("  "));
    let _ = match short(&looks, snapshot, summary.deployed).filter(|_| state == "running") {
        Some(short) => {
            writeln!(
                text,
                "\n{} is what the crawl waits for: {}. {}",
                short.stage, short.reason, short.remedy
            )
        }
        None => writeln!(text, "\nno stage is short"),
    };
    let _ = writeln!(
        text,
        "\n{:<24} {:>9} {:>9}  {:<17} {:>6} {:>8}  {:<BAR$}  what it does",
        "edge", "a second", "backlog", "stage", "CPU", "memory", "time"
    );
    looks
        .iter()
        .for_each(|look| stage(&mut text, look, snapshot, rates));
    let _ = writeln!(text, "\ntime: # works  = is held back  . waits");
    text
}

/// A line for a stage and the first edge that it takes, and one for each further edge.
fn stage(text: &mut String, look: &StageLook<'_>, snapshot: &Snapshot, rates: &Rates) {
    let edges: Vec<&str> = look
        .row
        .inputs
        .iter()
        .map(|source| source.edge().name())
        .collect();
    let cpu: f64 = rates
        .cpu
        .iter()
        .filter(|((stage, _), _)| stage == look.row.name)
        .map(|(_, cores)| cores)
        .sum();
    let megabytes: u64 = look
        .processes
        .iter()
        .map(|process| process.peak_rss_bytes / 1_000_000)
        .sum();
    for (place, edge) in edges.iter().enumerate() {
        let passes = snapshot.streams.get(*edge).map(|stream| {
            (
                format!("{:.0}", rates.edges.get(*edge).copied().unwrap_or_default()),
                stream.behind.messages().to_string(),
            )
        });
        let (rate, backlog) = passes.unwrap_or_else(|| ("-".to_owned(), "-".to_owned()));
        let _ = write!(text, "{:<24} {rate:>9} {backlog:>9}", format!("{edge} ->"));
        if place == 0 {
            let name = format!("{} x{}", look.row.name, look.processes.len());
            let _ = write!(
                text,
                "  {name:<17} {:>4.0} % {megabytes:>5} MB  {:<BAR$}  {}",
                100.0 * cpu,
                bar(&look.shares),
                look.says()
            );
        }
        let _ = writeln!(text);
    }
}

/// Where the time of a stage goes.
fn bar(shares: &Shares) -> String {
    let letters = |share: f64| (share * BAR as f64).round() as usize;
    let busy = letters(shares.busy);
    let held = letters(shares.held_back.values().sum());
    let held = held.min(BAR.saturating_sub(busy));
    format!(
        "{}{}{}",
        "#".repeat(busy.min(BAR)),
        "=".repeat(held),
        ".".repeat(BAR.saturating_sub(busy + held))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_one_length_whatever_the_shares() {
        for (busy, held, expected) in [
            (0.0, 0.0, ".........."),
            (0.34, 0.2, "###==....."),
            (0.96, 0.3, "##########"),
            (2.0, 0.0, "##########"),
        ] {
            let shares = Shares {
                busy,
                waiting: 0.0,
                held_back: [("pages".to_owned(), held)].into(),
            };
            assert_eq!(bar(&shares), expected);
        }
    }

    #[test]
    fn the_picture_has_a_line_for_each_stage_with_what_comes_to_it() {
        let set = ["network.allow_private_addresses=true".to_owned()].into();
        let pipeline = rhumb_config::Layers { file: None, set }
            .load_with(std::iter::empty())
            .unwrap();
        let text = text(
            &pipeline,
            &Snapshot::default(),
            &Summary {
                pages: 7,
                ..Summary::default()
            },
            &Rates::default(),
        );
        for words in [
            "default  running for 0s  7 pages",
            "host-splitter is what the crawl waits for: no instance answers",
            "urls.found ->",
            "fetcher x0",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 120),
            "{text}"
        );
    }
}
