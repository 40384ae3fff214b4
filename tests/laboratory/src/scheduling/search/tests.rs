use super::condition::Level;
use super::row::{CLAIMS, Measured};
use super::*;
use std::fs;

/// More servers than connections, so that policies differ.
fn small() -> Settings {
    Settings {
        servers: 130,
        pages: 650,
        ..Settings::default()
    }
}

/// A search of some levels in a folder of its own: its lines, and the rows of its table.
fn searched(levels: &'static [Level], settings: Settings) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let lines = search(
        &Settings {
            folder: folder.path().into(),
            ..settings
        },
        levels,
        &mut |_| (),
    )
    .unwrap();
    let table = fs::read_to_string(folder.path().join("scheduling-search.csv")).unwrap();
    (lines, table.lines().map(str::to_owned).collect())
}

/// The levels of a factor, which lie beside each other.
fn of(factor: &str) -> &'static [Level] {
    let first = LEVELS
        .iter()
        .position(|level| level.factor == factor)
        .unwrap();
    let count = LEVELS.iter().filter(|level| level.factor == factor).count();
    &LEVELS[first..first + count]
}

/// A row in which all claims have a number, and hold or fail, on one web.
fn row(levels: &[&'static Level], figure: f64, holding: usize) -> Row {
    let mut row = Row::new(
        Condition {
            levels: levels.to_vec(),
        },
        Reading::CHOSEN,
    );
    row.measured.fill(Measured {
        figures: vec![figure],
        holding,
    });
    row
}

#[test]
fn each_condition_has_a_row_for_each_reading_and_the_same_seed_gives_the_same() {
    let (lines, table) = searched(of("start"), small());
    // As chosen, and two levels that exclude each other; six readings.
    assert_eq!(table.len(), 1 + 3 * 6);
    let columns = table[0].split(',').count();
    assert!(
        table.iter().all(|row| row.split(',').count() == columns),
        "{table:#?}"
    );
    assert!(
        table[1].starts_with("as chosen,true,URL found first; breadth-first's time,3,"),
        "{}",
        table[1]
    );
    assert_eq!(
        (lines.clone(), table.clone()),
        searched(of("start"), small())
    );
    assert_ne!(
        table,
        searched(of("start"), Settings { seed: 7, ..small() }).1
    );
    for (_, sought) in failing() {
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with(&format!("{}, by condition: start ", sought.column)))
        );
    }
}

/// Goal: a condition is really crawled. When all pages are known at the start, a connection has all
/// of a server to fetch.
#[test]
fn keep_alive_brings_more_when_all_pages_are_known() {
    let (_, table) = searched(of("start"), small());
    let column = table[0]
        .split(',')
        .position(|name| name == "keep_alive")
        .unwrap();
    let figure = |condition: &str| {
        let row = table
            .iter()
            .find(|row| row.starts_with(&format!("{condition},")))
            .unwrap();
        row.split(',').nth(column).unwrap().parse::<f64>().unwrap()
    };
    assert!(
        figure("start all pages") > figure("as chosen") + 0.3,
        "{table:#?}"
    );
}

#[test]
fn a_search_measures_pairs_of_what_helps() {
    let (_, table) = searched(&LEVELS[..7], small());
    let rows_of = |row: &&String| row.contains("sizes") && row.contains(" + response times");
    assert!(table.iter().any(|row| rows_of(&row)), "{table:#?}");
    let mut conditions: Vec<&str> = table
        .iter()
        .filter_map(|row| row.split(',').next())
        .collect();
    conditions.dedup();
    let count = conditions.len();
    conditions.sort_unstable();
    conditions.dedup();
    assert_eq!(conditions.len(), count, "a condition was measured twice");
}

#[test]
fn columns_are_in_the_order_of_the_claims() {
    let base = base(&small());
    let mut runs = Runs::default();
    let setup = breadth_first(CONNECTIONS);
    runs.measure_condition(base, setup).unwrap();
    let mut findings: Vec<_> = keep_alive_twice_as_fast(&runs, base, setup)
        .into_iter()
        .collect();
    findings.extend(of_policies(&runs, base, setup));
    let starts = [
        ("keep_alive", "E1: keep-alive"),
        ("lead", "E3: performance"),
        ("quality_after_half", "E4: quality has"),
        (
            "capacity_after_half",
            "E4: capacity has 80 % of PageRank after",
        ),
        (
            "capacity_at_30_percent",
            "E4: capacity has 80 % of PageRank within 30",
        ),
        ("capacity_zipf_at_third", "E5: capacity has 60"),
        ("capacity_zipf_at_half", "E5: capacity has 80"),
        ("capacity_ahead", "E5: capacity is ahead"),
        ("quality_above", "E5: quality is only"),
        ("performance_above", "E5: performance is only"),
        (
            "behind_page_rank",
            "capacity is never behind quality by more than 2 points of PageRank",
        ),
        (
            "behind_zipf",
            "capacity is never behind quality by more than 2 points of Zipf",
        ),
    ];
    assert_eq!(findings.len(), CLAIMS.len());
    for ((claim, finding), (column, start)) in CLAIMS.iter().zip(&findings).zip(starts) {
        assert_eq!(claim.column, column);
        assert!(
            finding.statement.starts_with(start),
            "{}",
            finding.statement
        );
    }
}

#[test]
fn levels_that_help_a_claim_are_paired_and_the_best_open_condition_goes_on() {
    let sizes = of("sizes");
    let times = of("response times");
    let connections = of("connections");
    let rows = vec![
        row(&[], 20.0, 0),
        row(&[&sizes[0]], 30.0, 0),
        row(&[&sizes[1]], 40.0, 0),
        row(&[&times[0]], 21.0, 1),
        row(&[&times[1]], 15.0, 0),
        row(&[&connections[0]], 50.0, 1),
    ];
    let search = Search {
        webs: Vec::new(),
        rows,
        progress: &mut |_| (),
    };
    let names: Vec<String> = search.helping().iter().map(ToString::to_string).collect();
    // A claim that wants more: where it holds, then the best of the other factor. One that wants
    // less. Eight connections are against the paper.
    assert_eq!(
        names,
        [
            "response times over one decade",
            "sizes of deviation 1",
            "response times over three decades"
        ]
    );
    assert_eq!(
        search.best_open().unwrap().to_string(),
        "response times over one decade"
    );
}

#[test]
fn lines_say_where_a_claim_holds_and_what_it_depends_on() {
    let sizes = of("sizes");
    let connections = of("connections");
    let rows = [
        row(&[], 1.2, 0),
        row(&[&sizes[0]], 1.25, 0),
        row(&[&connections[1]], 1.6, 1),
    ];
    let lines = report::lines(&rows);
    let line = |start: &str| lines.iter().find(|line| line.starts_with(start)).unwrap();
    assert!(line("lead, one condition, chosen reading").contains(
        "holds in 1 of 2, best 1.60 (connections 16; URL found first; breadth-first's time, \
         against the paper; 12 claims hold); 1.25 (sizes all equal;"
    ));
    assert!(line("lead, by condition").contains(": connections 1.20 to 1.60, sizes 1.20 to 1.25"));
    assert!(line("lead, with the others").ends_with(
        ": of 1 rows quality_after_half 1, capacity_after_half 1, quality_above 1, \
         performance_above 1, behind_zipf 1"
    ));
    assert!(
        line("together").starts_with("together: 0 of 12 claims hold (as chosen; URL found first")
    );
}
