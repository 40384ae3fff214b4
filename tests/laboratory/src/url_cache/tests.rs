use super::curves::Policy;
use super::*;

/// A small run into a folder of its own; the table's rows without the heading.
fn run_into(settings: Settings) -> (Vec<Claim>, Vec<Vec<String>>, String) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("made").join("here");
    let mut lines = 0;
    let claims = run(
        &Settings {
            folder: folder.clone(),
            ..settings
        },
        &mut |_| lines += 1,
    )
    .unwrap();
    assert!(lines > 0);
    let table = fs::read_to_string(folder.join("url-cache.csv")).unwrap();
    let (heading, rows) = table.split_once('\n').unwrap();
    assert_eq!(
        heading,
        "stream,hosts_in_flight,policy,entries,links,hits,hit_rate"
    );
    let rows = rows
        .lines()
        .map(|row| row.split(',').map(str::to_owned).collect())
        .collect();
    (
        claims,
        rows,
        fs::read_to_string(folder.join("url-cache.svg")).unwrap(),
    )
}

fn small() -> Settings {
    Settings {
        hosts_in_flight: vec![5, 20],
        entries: vec![64, 512, 256, 1_024, 128, 2_048],
        links: 60_000,
        ..Settings::default()
    }
}

#[test]
fn a_run_writes_table_and_figure_and_judges() {
    let (claims, rows, svg) = run_into(small());
    // Two numbers of hosts, two streams; five policies of six sizes, and INFINITE.
    assert_eq!(rows.len(), 2 * 2 * (5 * 6 + 1));
    for policy in Policy::ALL {
        let sizes = if policy == Policy::Infinite { 1 } else { 6 };
        assert_eq!(
            rows.iter().filter(|row| row[2] == policy.name()).count(),
            4 * sizes,
            "{policy}"
        );
    }
    for row in &rows {
        let [links, hits] = [&row[4], &row[5]].map(|number| number.parse::<u64>().unwrap());
        assert!(
            (row[0] == "full" || row[0] == "cross") && (row[1] == "5" || row[1] == "20"),
            "{row:?}"
        );
        assert!(hits <= links && links > 0, "{row:?}");
        assert!(
            (row[6].parse::<f64>().unwrap() - hits as f64 / links as f64).abs() < 1e-6,
            "{row:?}"
        );
        assert!(
            row[0] == "cross" || (40_000..41_500).contains(&links),
            "{row:?}"
        );
    }
    assert_eq!(svg.matches("<polyline ").count(), 4 * Policy::ALL.len());

    // A knee for each number of hosts, CLOCK against LRU twice, MIN and INFINITE.
    let statements: Vec<&str> = claims
        .iter()
        .map(|claim| claim.statement.as_str())
        .collect();
    assert_eq!(statements.len(), 6, "{statements:?}");
    let [five, twenty] = [statements[0], statements[1]];
    assert!(
        five.starts_with("with 5 hosts") && twenty.starts_with("with 20 hosts"),
        "{statements:?}"
    );
    assert!(claims[4].holds && claims[5].holds, "{claims:?}");
}

#[test]
fn the_same_settings_give_the_same_files() {
    assert_eq!(run_into(small()), run_into(small()));
}

#[test]
fn a_recorded_trace_takes_the_place_of_the_generated_ones() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("links.txt");
    let lines: Vec<String> = (0..900)
        .map(|n| format!("a.example\thttp://h{}.example/", n * n % 37))
        .collect();
    fs::write(&trace, lines.join("\n")).unwrap();
    let (claims, rows, svg) = run_into(Settings {
        trace: Some(trace),
        ..small()
    });
    assert_eq!(rows.len(), 2 * (5 * 6 + 1));
    assert!(rows.iter().all(|row| row[1].is_empty()));
    assert!(rows.iter().any(|row| row[0] == "cross") && rows.iter().any(|row| row[4] == "600"));
    assert!(svg.contains("recorded trace, full stream"));
    assert!(
        claims
            .iter()
            .all(|claim| !claim.statement.contains("hosts in flight")),
        "{claims:?}"
    );
    assert!(claims.iter().any(|claim| claim.statement.contains("MIN")));
}

#[test]
fn settings_without_sense_and_files_that_cannot_be_are_errors() {
    let error = |settings: Settings| format!("{:#}", run(&settings, &mut |_| ()).err().unwrap());
    assert!(
        error(Settings {
            entries: vec![],
            ..small()
        })
        .contains("cache size")
    );
    assert!(
        error(Settings {
            entries: vec![0, 1],
            ..small()
        })
        .contains("cache size")
    );
    assert!(
        error(Settings {
            entries: vec![1 << 31],
            ..small()
        })
        .contains("cache size")
    );
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_owned();
    assert!(
        error(Settings {
            hosts_in_flight: vec![],
            folder: folder.clone(),
            ..small()
        })
        .contains("hosts in flight")
    );
    assert!(
        error(Settings {
            hosts_in_flight: vec![0],
            folder: folder.clone(),
            ..small()
        })
        .contains("at least one")
    );
    let file = folder.join("not-a-folder");
    fs::create_dir_all(&folder).unwrap();
    fs::write(&file, "").unwrap();
    assert!(
        error(Settings {
            folder: file,
            ..small()
        })
        .contains("not-a-folder")
    );
    let trace = Some(folder.join("no-links.txt"));
    assert!(
        error(Settings {
            trace,
            folder,
            ..small()
        })
        .contains("no-links.txt")
    );
}
