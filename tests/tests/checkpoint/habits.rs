//! Habits: checkpoints that are taken again and again, of which the newest stay.

use super::{HOLD_OVER, MINUTE, begin, hurry, in_the_middle, manifest, text, world};
use rhumb_tests::harness::ended_within;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The complete checkpoints in a folder, in order.
fn complete(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut complete: Vec<PathBuf> = entries
        .filter(|path| path.join("checkpoint.json").exists())
        .collect();
    complete.sort();
    complete
}

/// Goal: a habit takes checkpoints until the crawl ends, the newest stay, and what was left
/// unfinished goes. Method: one every two seconds, into a folder with what a killed command has
/// left and with what is somebody else's.
#[test]
fn a_habit_keeps_the_newest_checkpoints_until_the_crawl_ends() {
    let world = world(200);
    let dir = world.folder().join("checkpoints");
    for name in ["default-2001-01-01T000000Z", "letters"] {
        std::fs::create_dir_all(dir.join(name)).expect("a folder");
    }
    std::fs::write(
        dir.join("default-2001-01-01T000000Z/checkpoint.unfinished"),
        "",
    )
    .expect("a file");
    let mut crawl = in_the_middle(&world, &["stages.fetcher.connections=8"]);
    let mut habit = begin(
        &crawl,
        &["checkpoint", &text(&dir), "--every", "2s", "--keep", "2"],
    );
    let mut seen = BTreeSet::new();
    let end = Instant::now() + MINUTE;
    while seen.len() < 4 {
        seen.extend(complete(&dir));
        assert!(
            Instant::now() < end && !crawl.has_ended(),
            "{seen:?}\n{}",
            crawl.log()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    hurry(&crawl);
    world.assert_counted(&crawl.finish(2 * MINUTE));
    let status = ended_within(&mut habit, HOLD_OVER);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    let left = complete(&dir);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|path| manifest(path)["crawl"] == "default"));
    assert!(dir.join("letters").exists() && !dir.join("default-2001-01-01T000000Z").exists());
    assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 3);
}
