use super::shares::PARTS;
use super::*;
use crate::plot::tests::assert_well_formed;

fn small() -> Settings {
    Settings {
        lasts: Duration::from_secs(300),
        connections: 12,
        webs: 1,
        ..Settings::default()
    }
}

/// A run into a folder of its own: findings, table and figure.
fn run_into(settings: &Settings) -> (Findings, [String; 2]) {
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
    (
        findings,
        ["topics.csv", "topics.svg"].map(|file| fs::read_to_string(folder.join(file)).unwrap()),
    )
}

#[test]
fn a_run_writes_table_and_figure_and_judges_and_the_same_seed_gives_the_same() {
    let (findings, files) = run_into(&small());
    assert_eq!((findings.claims.len(), findings.lines.len()), (3, 6));
    let rows: Vec<Vec<&str>> = files[0]
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect())
        .collect();
    assert_eq!(rows.len(), 3 * 2 * PARTS * 3);
    // All connections are in use, but for the seconds in which the first pages are found.
    for way in ["FIFO", "turns"] {
        let rows = rows
            .iter()
            .filter(|row| row[0] == "dense is slow" && row[2] == way);
        let time: f64 = rows.map(|row| row[5].parse::<f64>().unwrap()).sum();
        assert!(
            (3_300.0..3_650.0).contains(&time),
            "{way}: {time} s of 12 connections in 300 s"
        );
    }
    assert_well_formed(&files[1]);
    assert_eq!(files[1].matches("<polyline ").count(), 6);
    assert_eq!(run_into(&small()), (findings, files));
}

#[test]
fn turns_share_the_time_and_fifo_does_not() {
    let (Findings { claims, .. }, _) = run_into(&small());
    assert!(claims[0].holds, "{}", claims[0]);
    assert!(claims[2].holds, "{}", claims[2]);
}
