use super::*;
use crate::plot::tests::assert_well_formed;
use synthetic_web::PagesPerHost;

fn small() -> Settings {
    let profile = Profile {
        hosts: 12,
        pages_per_host: PagesPerHost::Exactly(40),
        ..Profile::raw()
    };
    Settings {
        profile,
        connections: 3,
        ..Settings::default()
    }
}

/// A run into a folder of its own: findings, tables and figure.
fn run_into(settings: &Settings) -> (Findings, [String; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("made").join("here");
    let findings = run(
        &Settings {
            folder: folder.clone(),
            ..settings.clone()
        },
        &mut |_| (),
    )
    .unwrap();
    let files = ["order.csv", "order-curves.csv", "order.svg"];
    (
        findings,
        files.map(|file| fs::read_to_string(folder.join(file)).unwrap()),
    )
}

#[test]
fn a_run_writes_tables_and_figure_and_judges_and_the_same_seed_gives_the_same() {
    let (findings, files) = run_into(&small());
    assert_eq!(
        (findings.claims.len(), findings.lines.len()),
        (9, 6 + 3 * 7 + 3 * 5 + 6)
    );
    // Four delays of three orders with seven factors and of three without; jobs and late lifts;
    // three ways to rank servers.
    assert_eq!(
        files[0].lines().count(),
        1 + 4 * (3 * 7 + 3) + 3 * (5 * 5 - 1) + 3 * (3 * 2 + 3)
    );
    assert_eq!(files[1].lines().count(), 1 + 6 * 101);
    assert_well_formed(&files[2]);
    assert_eq!(files[2].matches("<polyline ").count(), 6 + 3);
    assert_eq!(run_into(&small()), (findings, files));
}

#[test]
fn no_order_is_ahead_of_page_rank_and_what_is_found_first_is_a_bad_measure() {
    for seeds_everywhere in [false, true] {
        let (_, [runs, ..]) = run_into(&Settings {
            seeds_everywhere,
            ..small()
        });
        let rows: Vec<Vec<&str>> = runs
            .lines()
            .skip(1)
            .map(|row| row.split(',').collect())
            .collect();
        let way = |row: &[&str]| row[5].parse::<f64>().unwrap();
        for row in rows.iter().filter(|row| row[0] == "all" && row[3] == "0") {
            assert!(way(row) <= 1.0, "{row:?}");
        }
        let plain = |order| {
            rows.iter()
                .find(|row| row[..4] == ["all", order, "0", "0"])
                .map(|row| way(row))
                .unwrap()
        };
        assert_eq!([plain("discovery"), plain("PageRank")], [0.0, 1.0]);
        assert!(
            plain("links") > plain("discovery") && plain("discovery") > plain("flow"),
            "{runs}"
        );
        // The more must come together, the fewer lifts there are.
        let lifts: Vec<f64> = rows[..24]
            .iter()
            .filter(|row| row[1] == "cash")
            .map(|row| row[6].parse().unwrap())
            .collect();
        assert!(
            lifts.len() == 7 && lifts.is_sorted_by(|a, b| a > b),
            "{lifts:?}"
        );
    }
}
