use super::*;
use crate::plot::tests::assert_well_formed;

fn small() -> Settings {
    Settings {
        hosts: 2_000,
        partitions: 16,
        instances: 5,
        webs: 2,
        ..Settings::default()
    }
}

/// A run into a folder of its own: claims, both tables and the figure.
fn run_into(settings: Settings) -> (Vec<Claim>, [String; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("made").join("here");
    let claims = run(
        &Settings {
            folder: folder.clone(),
            ..settings
        },
        &mut |_| (),
    )
    .unwrap();
    let files = [
        "partitions-scaling.csv",
        "partitions-growth.csv",
        "partitions.svg",
    ];
    (
        claims,
        files.map(|file| fs::read_to_string(folder.join(file)).unwrap()),
    )
}

#[test]
fn a_run_writes_tables_and_figure_and_judges() {
    let (claims, [scaling, growth, svg]) = run_into(small());
    // Two kinds of two webs, split and not, three schemes, four joins and four leaves.
    let rows: Vec<Vec<&str>> = scaling
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect())
        .collect();
    assert_eq!(rows.len(), 2 * 2 * 2 * 3 * 8);
    for row in &rows {
        let number = |place: usize| row[place].parse::<f64>().unwrap();
        assert_eq!(row.len(), 11);
        assert!(
            (0.0..=1.0).contains(&number(7)) && (0.0..1.000_001).contains(&number(8)),
            "{row:?}"
        );
        if row[3] == "planner" {
            assert!(number(7) <= 1.6 * number(6), "few partitions move: {row:?}");
        }
    }
    // Of each web, four doublings in six steps.
    let rows: Vec<Vec<&str>> = growth
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect())
        .collect();
    assert_eq!(rows.len(), 4 * 25);
    for row in rows.iter().filter(|row| row[0] == "hosts alike") {
        let [urls, partitions] = [2, 3].map(|place| row[place].parse::<f64>().unwrap());
        assert!((0.9 * urls..2.2 * urls).contains(&partitions), "{row:?}");
    }
    assert_well_formed(&svg);
    assert_eq!(svg.matches("<polyline ").count(), 4 + 3 + 2);
    for points in svg.split("points=\"").skip(1) {
        for place in points.split('"').next().unwrap().split([' ', ',']) {
            assert!(
                (0.0..=300.0).contains(&place.parse::<f64>().unwrap()),
                "{place}"
            );
        }
    }
    assert_eq!(claims.len(), 14);
    assert!(
        claims.iter().all(|claim| !claim.measured.contains("NaN")),
        "{claims:?}"
    );
}

#[test]
fn the_same_settings_give_the_same_files() {
    assert_eq!(run_into(small()), run_into(small()));
}

#[test]
fn settings_without_sense_and_files_that_cannot_be_are_errors() {
    let error = |settings: Settings| format!("{:#}", run(&settings, &mut |_| ()).err().unwrap());
    assert!(
        error(Settings {
            hosts: 0,
            ..small()
        })
        .contains("a host in it")
    );
    assert!(error(Settings { webs: 0, ..small() }).contains("there must be a web"));
    assert!(
        error(Settings {
            partitions: 48,
            ..small()
        })
        .contains("power of two")
    );
    assert!(
        error(Settings {
            instances: 1,
            ..small()
        })
        .contains("two instances")
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("not-a-folder");
    fs::write(&file, "").unwrap();
    assert!(
        error(Settings {
            folder: file,
            ..small()
        })
        .contains("not-a-folder")
    );
}
