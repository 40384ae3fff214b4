//! Restoring: another crawl begins with a checkpoint, once, with all that belongs to it.

use super::{
    HOSTS, MINUTE, PAGES, assert_goes_on, checkpoint, in_the_middle, manifest, requested, text,
    world,
};
use rhumb::status::Summary;
use rhumb_tests::harness::{
    Cluster, Finished, World, assert_conserved, cook, json, recipe, rhumb, signal,
};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A checkpoint of a crawl that was killed when it was taken, and the data directory of that crawl.
fn killed_after_its_checkpoint(world: &World, settings: &[&str]) -> (PathBuf, PathBuf) {
    let dir = world.folder().join("checkpoint");
    let mut crawl = in_the_middle(world, settings);
    checkpoint(&crawl, &dir);
    crawl.signal(Signal::KILL);
    assert_eq!(crawl.exit_code(MINUTE), -1);
    (dir, crawl.data())
}

/// Goal: a restore that is cut short never runs as half a crawl, and goes on when it is begun
/// again. Method: `rhumb` is killed before all is at the broker; then instances while they take
/// their partitions in.
#[test]
fn a_restore_that_is_killed_goes_on_when_it_is_begun_again() {
    let world = world(100);
    let (dir, _) = killed_after_its_checkpoint(&world, &[]);

    let restore = || {
        let restored = world
            .restored("again", &dir)
            .set("crawl=again")
            .set("stages.dedup.replicas=2");
        restored.set("stages.fetcher.connections=20")
    };
    let mut restored = restore().start();
    let data = restored.data();
    let end = Instant::now() + MINUTE;
    while !data.join("configuration.json").exists() {
        assert!(
            Instant::now() < end && !restored.has_ended(),
            "{}",
            restored.log()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    restored.signal(Signal::KILL);
    assert_eq!(restored.exit_code(MINUTE), -1);
    let data_text = text(&data);
    for (command, words) in [
        ("up", "was being restored from checkpoint"),
        ("crawl --resume", "holds no crawl to resume"),
    ] {
        let arguments: Vec<&str> = command
            .split(' ')
            .chain(["--data", data_text.as_str()])
            .collect();
        let refused = rhumb(&arguments);
        assert!(
            refused.code == 2 && refused.err.contains(words),
            "{command}: {}{}",
            refused.out,
            refused.err
        );
    }

    world.web.reset();
    let mut restored = restore().start();
    for stage in ["dedup", "scheduler"] {
        while restored.pids(stage).is_empty() {
            assert!(
                Instant::now() < end && !restored.has_ended(),
                "{}",
                restored.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(restored.pids(stage)[0], Signal::KILL);
    }
    let Finished { code, summary } = restored.finish(MINUTE);
    assert!(code == 0 && summary.complete, "{}", json(&summary));
    assert_eq!(summary.outcomes, world.web.truth().outcomes);
    assert_conserved(&summary);
    let requests = requested(&world).len();
    let urls = requested(&world).into_iter().collect::<BTreeSet<_>>().len();
    assert!(
        requests - urls <= 20,
        "{requests} requests of {urls} URLs: only those in flight at a kill come twice"
    );
    let again = rhumb(&[
        "crawl",
        "--restore",
        &text(&dir),
        "--data",
        &text(&data),
        "--set",
        "crawl=again",
    ]);
    assert!(
        again.code == 2 && again.err.contains("there is a crawl 'again' already"),
        "{}{}",
        again.out,
        again.err
    );
}

/// Goal: a restore that is killed in its last moment goes on, too. Method: `rhumb` is killed when
/// all is at the broker, before or while the stages begin.
#[test]
fn a_restore_that_is_killed_when_all_is_at_the_broker_goes_on() {
    let world = world(100);
    let (dir, _) = killed_after_its_checkpoint(&world, &[]);

    let restore = || {
        world
            .restored("again", &dir)
            .set("crawl=again")
            .set("stages.fetcher.connections=20")
    };
    let mut restored = restore().start();
    let end = Instant::now() + MINUTE;
    while !restored.log().contains("the checkpoint is at the broker") {
        assert!(
            Instant::now() < end && !restored.has_ended(),
            "{}",
            restored.log()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    restored.signal(Signal::KILL);
    assert_eq!(restored.exit_code(MINUTE), -1);
    world.web.reset();
    let mut again = restore().start();
    while !again.has_ended() && again.status().is_none_or(|summary| summary.pages == 0) {
        assert!(Instant::now() < end, "{}", again.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    // An instance may have taken partitions before it ended: then the crawl is there.
    if again.log().contains("there is a crawl 'again' already") {
        let data = text(&again.data());
        let summary = text(&again.data().with_file_name("summary.json"));
        let resumed = rhumb(&["crawl", "--resume", "--data", &data, "--summary", &summary]);
        assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
        again = restored;
    }
    let Finished { summary, .. } = again.finish(MINUTE);
    assert!(
        summary.complete && summary.outcomes == world.web.truth().outcomes,
        "{}",
        json(&summary)
    );
    assert_conserved(&summary);
}

/// Goal: a restore that is refused leaves nothing that blocks its name. Method: a data directory of
/// another crawl, on a broker that both use.
#[test]
fn a_restore_into_the_data_directory_of_another_crawl_is_refused_before_anything_is_made() {
    let world = world(100);
    let broker = Cluster::start(1, None);
    let url = format!("broker.url={}", broker.url());
    let (dir, data) = killed_after_its_checkpoint(&world, &[&url]);
    let again = [
        "crawl",
        "--restore",
        &text(&dir),
        "--set",
        "crawl=again",
        "--set",
        &url,
    ];
    let refused = rhumb(&[&again[..], &["--data", &text(&data)]].concat());
    let words = "is that of a crawl already: take another (--data DIR)";
    assert!(
        refused.code == 2 && refused.err.contains(words),
        "{}{}",
        refused.out,
        refused.err
    );
    world.web.reset();
    let restored = world
        .restored("again", &dir)
        .set("crawl=again")
        .set(&url)
        .set("stages.fetcher.connections=20");
    let Finished { code, summary } = restored.run(MINUTE);
    assert!(code == 0 && summary.complete, "{}", json(&summary));
}

/// Goal: what is wrong with a checkpoint is said by name, and nothing is made. Method: each kind of
/// damage.
#[test]
fn a_checkpoint_that_is_damaged_or_incomplete_or_of_another_format_is_refused_by_name() {
    let world = world(200);
    let (dir, _) = killed_after_its_checkpoint(&world, &[]);
    let data = world.folder().join("again");
    let refused = |words: &str| {
        let said = rhumb(&["crawl", "--restore", &text(&dir), "--data", &text(&data)]);
        assert!(
            said.code == 2 && said.err.contains(words),
            "{words}: {} {}{}",
            said.code,
            said.out,
            said.err
        );
        assert!(!data.exists(), "{words}: nothing is made");
    };
    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>), words: &str| {
        let path = dir.join(name);
        let whole = std::fs::read(&path).expect("a file of the checkpoint");
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(&path, bytes).expect("a file");
        refused(words);
        std::fs::write(&path, whole).expect("a file");
    };
    let parts = "scheduler/00005.parts";
    changed(
        parts,
        &|bytes| bytes[20] ^= 1,
        "is damaged: its checksum is another",
    );
    changed(parts, &|bytes| bytes.truncate(20), "has 20 bytes, ");
    let replace = |from: &'static str, to: &'static str| {
        move |bytes: &mut Vec<u8>| {
            *bytes = String::from_utf8_lossy(bytes)
                .replacen(from, to, 1)
                .into_bytes()
        }
    };
    changed(
        "checkpoint.json",
        &replace("\"format\": 2", "\"format\": 7"),
        "is of format 7, this program reads formats 1 to 2",
    );
    changed(
        "checkpoint.json",
        &replace("\"known\": ", "\"known\": 1"),
        "is damaged (its checksum is another)",
    );
    changed(
        "pipeline.yaml",
        &|bytes| bytes.push(b' '),
        "pipeline.yaml has ",
    );
    for name in ["dedup/00000.parts", "checkpoint.json"] {
        std::fs::rename(dir.join(name), dir.join("aside")).expect("a file of the checkpoint");
        refused(if name == "checkpoint.json" {
            "holds no checkpoint"
        } else {
            "dedup/00000.parts is missing"
        });
        std::fs::rename(dir.join("aside"), dir.join(name)).expect("the same");
    }
    let arguments = [
        "crawl",
        "--restore",
        &text(&dir),
        "--data",
        &text(&data),
        "--set",
        "partitions=32",
    ];
    let said = rhumb(&arguments);
    assert!(
        said.code == 2 && said.err.contains("the checkpoint in") && said.err.contains("has 64"),
        "{}",
        said.err
    );
}

/// Goal: orders in force, and what was spent of budgets, go along. Method: a host is paused,
/// another dropped, and the crawl may have half of the pages; the restored one has fewer
/// schedulers.
#[test]
fn orders_and_budgets_go_along() {
    let world = world(100);
    let dir = world.folder().join("checkpoint");
    let paused = world.web.host_name(3);
    let dropped = world.web.host_name(4);
    let most = u64::from(HOSTS * PAGES / 2);
    let limits = format!("limits.max_pages={most}");
    let mut crawl = in_the_middle(&world, &[&limits, "stages.scheduler.replicas=2"]);
    for order in [
        &["pause", "--host", &paused][..],
        &["drop", "--host", &dropped, "--and-later", "--yes", "--yes"],
    ] {
        let said = crawl.rhumb(order);
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    }
    checkpoint(&crawl, &dir);
    assert!(!crawl.has_ended(), "too late to be a test");
    crawl.signal(Signal::KILL);
    crawl.exit_code(MINUTE);
    let before = manifest(&dir);
    assert_eq!(
        (
            before["orders"]["paused"].as_array().map(Vec::len),
            &before["orders"]["hold"]
        ),
        (Some(1), &Value::Null)
    );
    world.web.reset();
    let mut restored = world
        .restored("again", &dir)
        .set("stages.scheduler.replicas=1")
        .set("stages.fetcher.connections=20")
        .start();
    let summary = restored.until(MINUTE, |summary| summary.in_flight > 0);
    assert_eq!(
        (summary.paused.len(), summary.dropped.len()),
        (1, 1),
        "{}",
        json(&summary)
    );
    let Finished { code, summary } = restored.finish(MINUTE);
    assert_eq!((code, summary.pages), (0, most), "{}", json(&summary));
    let hosts: BTreeSet<u32> = world
        .web
        .contacts()
        .into_iter()
        .map(|contact| contact.host)
        .collect();
    assert!(!hosts.contains(&3) && !hosts.contains(&4), "{hosts:?}");
    let after = requested(&world).len() as u64;
    assert!(
        after < most && after > most / 8,
        "{after} pages in the second crawl"
    );
}

/// Goal: the recipe in the documentation works as it is written. Method: its commands are run, in
/// the folder of the crawl.
#[test]
fn a_crawl_moves_to_another_machine_by_the_recipe_of_the_documentation() {
    let world = world(60);
    let crawl = in_the_middle(&world, &["stages.fetcher.connections=10"]);
    let folder = world.folder();
    std::os::unix::fs::symlink(crawl.data(), folder.join("rhumb-data")).expect("a link");
    let [old, new, rest] = recipe("Move to another machine")
        .try_into()
        .expect("three blocks of commands");
    let shell = |commands: &str| {
        let said = cook(commands, folder);
        assert_eq!(said.code, 0, "{commands}: {}{}", said.out, said.err);
    };
    shell(&old);
    let first = requested(&world);
    world.web.reset();
    shell(&new);
    let summary = std::fs::read(folder.join("summary.json")).expect("a summary");
    let summary: Summary = serde_json::from_slice(&summary).expect("JSON");
    assert_goes_on(&world, &first, first.len(), &summary);
    drop(crawl);
    shell(&rest);
    assert!(!folder.join("data/dedup").exists() && folder.join("new-data").exists());
}
