use super::*;
use crate::plot::tests::assert_well_formed;

fn small() -> Settings {
    Settings {
        pages: 200,
        servers: 10,
        seeds: 1,
        chosen_among: 0,
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
    (
        findings,
        FILES.map(|file| fs::read_to_string(folder.join(file)).unwrap()),
    )
}

#[test]
fn a_run_writes_tables_and_figure_and_judges_and_the_same_seed_gives_the_same() {
    let (findings, files) = run_into(&small());
    assert_eq!(findings.claims.len(), 3);
    // What is wanted and compared; visits; spreads, speeds and signals, known and learned; shares.
    assert_eq!(findings.lines.len(), 14 + 5 + 2 * (3 + 3 + 6 + 2) + 1);
    assert_eq!(files[0].lines().count(), 1 + 14);
    let columns = |text: &str| {
        let mut counts: Vec<usize> = text.lines().map(|row| row.split(',').count()).collect();
        counts.dedup();
        counts
    };
    assert_eq!([columns(&files[0]), columns(&files[1])], [[10], [13]]);
    assert_well_formed(&files[2]);
    assert_eq!(files[2].matches("<polyline ").count(), 3 + 2 + 3);
    assert!(!files[2].contains("NaN"));
    assert_eq!(run_into(&small()), (findings, files));
}

#[test]
fn the_largest_value_next_is_near_the_optimum_and_learning_is_not_far() {
    let (Findings { claims, lines }, _) = run_into(&Settings {
        pages: 500,
        ..small()
    });
    assert!(claims[0].holds, "{}", claims[0]);
    let way = |name: &str| {
        let line = lines.iter().find(|line| line.starts_with(name)).unwrap();
        let number = line.split(": ").nth(1).unwrap().split(' ').next().unwrap();
        number.parse::<f64>().unwrap()
    };
    assert!(way("rates learned from bits, after 40") > 0.5, "{lines:#?}");
    assert!(way("Nutch's rule, after 40") < 0.0, "{lines:#?}");
    assert!(way("rates known, two schedulers") > 0.9, "{lines:#?}");
}

#[test]
fn choices_are_quick() {
    let choices = speed::choices_per_second(5_000, 1);
    assert!(choices > 2_000.0, "{choices}");
}
