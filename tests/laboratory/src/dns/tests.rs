use super::hit_rates::Policy;
use super::lookups::Kind;
use super::*;
use crate::plot::tests::assert_well_formed;

fn small() -> Settings {
    Settings {
        names: 3_000,
        hosts: 800,
        latency_scale: 0.01,
        entries: vec![64, 256],
        table_names: vec![20, 50],
        rounds: 1,
        row: Duration::from_millis(350),
        ..Settings::default()
    }
}

/// The rows of a table, without its heading, which must be `heading`.
fn rows_of(folder: &std::path::Path, name: &str, heading: &str) -> Vec<Vec<String>> {
    let table = fs::read_to_string(folder.join(name)).unwrap();
    let (first, rows) = table.split_once('\n').unwrap();
    assert_eq!(first, heading);
    let rows: Vec<Vec<String>> = rows
        .lines()
        .map(|row| row.split(',').map(str::to_owned).collect())
        .collect();
    assert!(
        rows.iter()
            .all(|row| row.len() == heading.split(',').count()),
        "{table}"
    );
    rows
}

#[test]
fn a_run_writes_tables_and_figure_and_judges() {
    let made = tempfile::tempdir().unwrap();
    let folder = made.path().join("made").join("here");
    let mut lines = 0;
    let claims = run(
        &Settings {
            folder: folder.clone(),
            ..small()
        },
        &mut |_| lines += 1,
    )
    .unwrap();
    assert!(lines > 10);

    let arms = rows_of(
        &folder,
        "dns-arms.csv",
        "arm,time,window,names,lookups,hit_rate,seconds,names_per_s,seconds_before_tail,names_per_s_before_tail,lookup_ms,lookup_ms_modelled,bound_names_per_s,cpu_s,note",
    );
    assert_eq!(
        arms.iter()
            .map(|arm| arm[1].as_str())
            .filter(|time| *time == "real")
            .count(),
        2
    );
    assert_eq!(
        (arms.len(), arms[5][3].as_str(), arms[6][3].as_str()),
        (7, "600", "3000")
    );
    assert!(
        arms.iter()
            .all(|arm| arm[14].is_empty()
                != (arm[0] == "window 1024" || arm[0].ends_with("refresh")))
    );
    let rates = rows_of(
        &folder,
        "dns-hit-rates.csv",
        "policy,entries,names,hits,hit_rate",
    );
    assert_eq!(rates.len(), 1 + 2 * Policy::SIZED.len());
    let tables = rows_of(
        &folder,
        "dns-tables.csv",
        "table,names,slots_taken,candidates_per_lookup,characters_per_lookup,cpu_ns_per_lookup,lookups_per_cpu_s,bytes_per_name",
    );
    assert_eq!(tables.len(), 2 * Kind::ALL.len());
    let rows = rows_of(
        &folder,
        "dns-rows.csv",
        "sockets,dns_cache,workers,private_queues,pages_per_s,pages_per_s_least,pages_per_s_most,kilobytes_per_s,name_lookups,pages_per_s_of_the_paper",
    );
    assert_eq!(rows.len(), Row::ALL.len());

    let svg = fs::read_to_string(folder.join("dns.svg")).unwrap();
    assert_well_formed(&svg);
    assert_eq!(
        svg.matches("<polyline ").count(),
        Policy::ALL.len() + Kind::ALL.len()
    );
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");

    // Five factors, the bound, CLOCK, six comparisons and the order; what needs 50,000 names is not
    // judged.
    assert_eq!(claims.len(), 5 + 1 + 1 + 6 + 1, "{claims:?}");
}

#[test]
fn settings_without_sense_and_files_that_cannot_be_are_errors() {
    let error = |settings: Settings| format!("{:#}", run(&settings, &mut |_| ()).err().unwrap());
    assert!(
        error(Settings {
            names: 4,
            ..small()
        })
        .contains("at least 5 names")
    );
    assert!(
        error(Settings {
            hosts: 0,
            ..small()
        })
        .contains("1 to 10000000 hosts")
    );
    assert!(
        error(Settings {
            latency_scale: 0.0,
            ..small()
        })
        .contains("scale")
    );
    assert!(
        error(Settings {
            entries: vec![0],
            ..small()
        })
        .contains("room")
    );
    let made = tempfile::tempdir().unwrap();
    let file = made.path().join("not-a-folder");
    fs::write(&file, "").unwrap();
    assert!(
        error(Settings {
            folder: file,
            ..small()
        })
        .contains("not-a-folder")
    );
}
