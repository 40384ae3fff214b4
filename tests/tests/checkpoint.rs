//! Checkpoints: a crawl is written down while it runs, and another one begins with it elsewhere,
//! whatever dies meanwhile.

use rhumb::status::Summary;
use rhumb_tests::harness::{
    Cluster, Deployment, Finished, Running, Said, World, assert_conserved, binaries, cook,
    ended_within, json, recipe, rhumb, run, signal,
};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use synthetic_web::{Latency, Outage, PagesPerHost, Profile};

const HOSTS: u32 = 20;
const PAGES: u32 = 60;
const MINUTE: Duration = Duration::from_secs(60);
/// `HOLD_LASTS`, and what processes take to notice that it is over.
const HOLD_OVER: Duration = Duration::from_secs(20);

fn world(ms: u64) -> World {
    let pages_per_host = PagesPerHost::Exactly(PAGES);
    World::new(Profile {
        hosts: HOSTS,
        pages_per_host,
        latency: Latency::Fixed { ms },
        ..Profile::raw()
    })
}

/// A crawl in the middle, with few connections: it does not end by itself soon.
fn in_the_middle(world: &World, settings: &[&str]) -> Running {
    let slow = world.crawl().set("stages.fetcher.connections=4");
    let mut crawl = settings
        .iter()
        .fold(slow, |crawl, setting| crawl.set(setting))
        .start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 10)
    });
    crawl
}

/// Lets a crawl end soon.
fn hurry(crawl: &Running) {
    let said = crawl.rhumb(&["scale", "fetcher=5"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Takes a checkpoint of a running crawl. Returns what the command told.
fn checkpoint(crawl: &Running, dir: &Path) -> Value {
    let Said { code, out, err } = crawl.rhumb(&["checkpoint", &text(dir), "--json"]);
    assert_eq!(code, 0, "{out}{err}\n{}", crawl.log());
    serde_json::from_str(&out).expect("JSON")
}

/// A checkpoint of a crawl that was killed when it was taken, and the data directory of that crawl.
fn killed_after_its_checkpoint(world: &World, settings: &[&str]) -> (PathBuf, PathBuf) {
    let dir = world.folder().join("checkpoint");
    let mut crawl = in_the_middle(world, settings);
    checkpoint(&crawl, &dir);
    crawl.signal(Signal::KILL);
    assert_eq!(crawl.exit_code(MINUTE), -1);
    (dir, crawl.data())
}

/// What a checkpoint says of itself.
fn manifest(dir: &Path) -> Value {
    let bytes = std::fs::read(dir.join("checkpoint.json")).expect("a manifest");
    let sealed: Value = serde_json::from_slice(&bytes).expect("JSON");
    sealed["checkpoint"].clone()
}

/// A command on a crawl that goes on beside the test.
fn begin(crawl: &Running, arguments: &[&str]) -> Child {
    begin_heard(crawl, arguments, Stdio::null())
}

/// The same, with what it says going there.
fn begin_heard(crawl: &Running, arguments: &[&str], says: Stdio) -> Child {
    let mut command = Command::new(binaries().join("rhumb"));
    command
        .args(arguments)
        .args(["--data", &text(&crawl.data())]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(says);
    command.spawn().expect("rhumb can be started")
}

/// Waits until the crawl is held.
fn until_held(crawl: &mut Running) {
    crawl.until(MINUTE, |summary| summary.held.is_some());
}

/// Begins a checkpoint whose hold lasts: answers wait until all processes heed the hold and the
/// parser stands still. So pages are on their way, and the parser keeps them. Gives the command and
/// the parser.
fn begin_that_waits(world: &World, crawl: &mut Running, dir: &Path) -> (Child, u32) {
    let parser = crawl.pids("parser")[0];
    world.web.hold_answers(true);
    let mut command = begin_heard(crawl, &["checkpoint", &text(dir)], Stdio::piped());
    let says = command.stderr.take().expect("a pipe");
    let mut lines = BufReader::new(says).lines().map_while(Result::ok);
    assert!(
        lines.any(|line| line.starts_with("draining: ")),
        "it drains"
    );
    std::thread::spawn(move || lines.for_each(drop));
    signal(parser, Signal::STOP);
    world.web.hold_answers(false);
    crawl.until(MINUTE, |summary| {
        let mut consumers = summary.consumers.iter();
        consumers
            .any(|consumer| consumer.name == "parser" && consumer.waiting + consumer.unacked > 0)
    });
    let is_held = crawl.status().is_some_and(|summary| summary.held.is_some());
    assert!(
        is_held && !dir.join("checkpoint.json").exists(),
        "the hold waits for the parser"
    );
    (command, parser)
}

/// URLs that were requested, but for robots.txt, in the order of the requests.
fn requested(world: &World) -> Vec<String> {
    let mut contacts = world.web.contacts();
    contacts.sort_by_key(|contact| contact.at);
    contacts
        .into_iter()
        .map(|contact| contact.url)
        .filter(|url| !url.ends_with("/robots.txt"))
        .collect()
}

/// Asserts that a crawl which began with a checkpoint is complete, and that both have fetched each
/// page once. `first`: what was requested until all of the first crawl had ended; `ended`: how many
/// URLs had ended in the checkpoint.
fn assert_goes_on(world: &World, first: &[String], ended: usize, summary: &Summary) {
    let truth = world.web.truth();
    assert!(summary.complete, "{}", json(summary));
    assert_eq!(
        (summary.pages, &summary.outcomes),
        (truth.pages.len() as u64, &truth.outcomes)
    );
    assert_conserved(summary);
    let before = first.iter().take(ended).collect::<BTreeSet<_>>();
    let second = requested(world);
    let after: BTreeSet<&String> = second.iter().collect();
    let again: Vec<_> = before.intersection(&after).collect();
    assert!(
        again.is_empty(),
        "fetched before the checkpoint, and after it: {again:?}"
    );
    assert_eq!(
        (before.len(), after.len()),
        (ended, second.len()),
        "each URL is requested once"
    );
    assert_eq!(
        before.len() + after.len(),
        truth.pages.len(),
        "and all of them"
    );
    let report = world.web.report();
    assert_eq!(
        report.hosts_without_robots_first,
        0,
        "robots.txt lapses: {}",
        json(&report)
    );
}

/// Goal: a checkpoint holds a crawl for a moment alone, and is all that another one needs: under
/// another name, on another broker, with other numbers of instances, started by `rhumb crawl` or
/// deployed one by one. Method: the web says what was requested.
#[test]
fn a_crawl_goes_on_beside_its_checkpoint_and_again_from_it_elsewhere() {
    let world = world(100);
    let dir = world.folder().join("checkpoints/one");
    let mut crawl = in_the_middle(&world, &["stages.scheduler.replicas=2", "partitions=16"]);
    let split = crawl.rhumb(&["split", "3"]);
    assert_eq!(split.code, 0, "{}{}", split.out, split.err);
    let taken = checkpoint(&crawl, &dir);
    let pause_s = taken["pause_s"].as_f64().expect("seconds");
    assert!(
        pause_s < 10.0 && taken["drain_s"].as_f64().is_some(),
        "{taken}"
    );
    assert!(!crawl.has_ended(), "too late to be a test");
    let second = crawl.rhumb(&["checkpoint", &text(&dir)]);
    assert!(
        second.code == 2 && second.err.contains("holds a checkpoint already"),
        "{}{}",
        second.out,
        second.err
    );
    hurry(&crawl);
    world.assert_whole(&crawl.finish(MINUTE));

    let manifest = manifest(&dir);
    let ended = manifest["known"]
        .as_u64()
        .zip(manifest["waiting"].as_u64())
        .map(|(known, waiting)| known - waiting);
    let first = requested(&world);
    let ended = ended.expect("numbers") as usize;
    assert!(
        ended < first.len() && ended > first.len() / 10,
        "too late to be a test: {ended}"
    );
    assert_eq!(
        manifest["owners"]["dedup"]["partitions"]
            .as_array()
            .map(Vec::len),
        Some(18),
        "with the halves"
    );
    world.web.reset();
    let others = [
        "crawl=again",
        "stages.dedup.replicas=3",
        "stages.scheduler.replicas=1",
        "stages.fetcher.replicas=5",
    ];
    let restored = others
        .iter()
        .fold(world.restored("again", &dir), |crawl, setting| {
            crawl.set(setting)
        });
    let Finished { code, summary } = restored.run(MINUTE);
    assert_eq!(code, 0);
    assert_goes_on(&world, &first, ended, &summary);

    world.web.reset();
    let broker = Cluster::start(1, None);
    let mut fleet = Deployment::new(&world, &broker)
        .set("crawl=fleet")
        .set("partitions=16");
    fleet = fleet
        .set("stages.scheduler.replicas=1")
        .set("stages.fetcher.connections=40");
    let init = fleet.configured(&["init", "--restore", &text(&dir)]);
    assert!(
        init.code == 0 && init.out.contains("the crawl 'fleet'"),
        "{}{}",
        init.out,
        init.err
    );
    // Nobody has taken anything of it yet: an init that was killed in the end is gone on with like
    // this.
    let again = fleet.configured(&["init", "--restore", &text(&dir)]);
    assert!(
        again.code == 0 && again.out.contains("the crawl 'fleet'"),
        "{}{}",
        again.out,
        again.err
    );
    fleet.start_stages();
    fleet.conduct("conductor", &["--until-complete"]);
    assert_eq!(fleet.ended("conductor", MINUTE), 0);
    assert_goes_on(&world, &first, ended, &fleet.summary());
    let again = fleet.configured(&["init", "--restore", &text(&dir)]);
    assert!(
        again.code == 2 && again.err.contains("there is a crawl 'fleet' already"),
        "{}{}",
        again.out,
        again.err
    );
}

/// Goal: whoever dies during a checkpoint, the crawl goes on and is exact, and there is a whole
/// checkpoint or none. Method: the command is killed while it holds the crawl, and stages while it
/// drains or is captured.
#[test]
fn kills_during_a_checkpoint_leave_a_crawl_that_goes_on_and_a_whole_checkpoint_or_none() {
    let world = world(500);
    let dir = world.folder().join("checkpoint");
    let mut crawl = in_the_middle(&world, &["stages.fetcher.connections=5"]);
    let (mut command, parser) = begin_that_waits(&world, &mut crawl, &dir);
    let refused = crawl.rhumb(&["checkpoint", &text(&world.folder().join("other"))]);
    assert!(
        refused.code == 1 && refused.err.contains("another checkpoint is being taken"),
        "{}",
        refused.err
    );
    command.kill().expect("a kill");
    command.wait().expect("an end");
    signal(parser, Signal::CONT);
    assert!(
        !dir.join("checkpoint.json").exists(),
        "too late to be a test"
    );
    let pages = crawl.status().expect("it runs").pages;
    let since = Instant::now();
    crawl.until(HOLD_OVER, |summary| summary.pages > pages + 20);
    assert!(since.elapsed() < HOLD_OVER, "{:?}", since.elapsed());

    for (stage, n) in [("scheduler", 1), ("dedup", 2)] {
        let dir = world.folder().join(format!("with-kill-{n}"));
        let mut command = begin(&crawl, &["checkpoint", &text(&dir), "--drain-max", "15s"]);
        until_held(&mut crawl);
        signal(crawl.pids(stage)[0], Signal::KILL);
        let status = ended_within(&mut command, MINUTE).expect("it ends");
        assert_eq!(
            status.success(),
            dir.join("checkpoint.json").exists(),
            "{stage}: {status}"
        );
        assert!(!dir.join("checkpoint.unfinished").exists(), "{stage}");
    }
    assert!(!crawl.has_ended(), "too short to be a test");
    // The folder with what the killed command has left is taken over.
    checkpoint(&crawl, &dir);
    assert_eq!(crawl.violations(), [""; 0]);
    let so_far = crawl.status().expect("it runs").pages;
    crawl.until(MINUTE, |summary| summary.pages > so_far);
    hurry(&crawl);
    world.assert_counted(&crawl.finish(2 * MINUTE));
    let restored = world
        .restored("again", &dir)
        .set("stages.fetcher.connections=20");
    let Finished { summary, .. } = restored.run(2 * MINUTE);
    assert!(
        summary.complete && summary.outcomes == world.web.truth().outcomes,
        "{}",
        json(&summary)
    );
    assert_conserved(&summary);
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

/// Goal: what is wrong with a folder is said by name, and the crawl goes on. Method: folders of
/// others, a file that may not grow, a process that stands still, and requests that nobody answers.
#[test]
fn a_checkpoint_that_cannot_be_written_is_refused_by_name_and_the_crawl_goes_on() {
    let world = world(200);
    let dir = world.folder().join("checkpoint");
    let soon = [
        "limits.first_byte_timeout=5s",
        "stages.scheduler.retry_wait=1s",
    ];
    let crawl = in_the_middle(
        &world,
        &[&["stages.fetcher.connections=8"], &soon[..]].concat(),
    );
    let file = world.folder().join("file");
    std::fs::write(&file, "text").expect("a file");
    let taken = |dir: &Path| crawl.rhumb(&["checkpoint", &text(dir)]);
    let no_folder = taken(&file.join("below"));
    assert!(
        no_folder.code == 1 && no_folder.err.contains("cannot make the folder"),
        "{}",
        no_folder.err
    );
    let other = taken(world.folder());
    assert!(
        other.code == 2 && other.err.contains("what is in it is no checkpoint"),
        "{}",
        other.err
    );
    // A file may not grow further, as on a full disk.
    let full = format!(
        "trap '' XFSZ; ulimit -f 1; exec {} checkpoint {} --data {}",
        text(&binaries().join("rhumb")),
        text(&dir),
        text(&crawl.data())
    );
    let full = run(Command::new("sh").args(["-c", &full]), MINUTE);
    assert!(
        full.code == 1 && full.err.contains("cannot write"),
        "{}{}",
        full.out,
        full.err
    );
    assert!(!dir.exists(), "nothing is left");
    let parser = crawl.pids("parser")[0];
    signal(parser, Signal::STOP);
    let not_heard = taken(&dir);
    signal(parser, Signal::CONT);
    assert!(
        not_heard.code == 1 && not_heard.err.contains("not heard yet by parser.0"),
        "{}",
        not_heard.err
    );
    // Requests that nobody answers are in flight.
    world.web.cut(Some(Outage::Silent));
    std::thread::sleep(Duration::from_secs(1));
    let drained = crawl.rhumb(&["checkpoint", &text(&dir), "--drain-max", "1s"]);
    world.web.cut(None);
    assert!(
        drained.code == 1 && drained.err.contains("has not drained within 1s: "),
        "{}",
        drained.err
    );
    assert!(
        !dir.exists() && crawl.status().is_some_and(|summary| summary.held.is_none()),
        "the crawl goes on"
    );
    hurry(&crawl);
    world.assert_counted(&crawl.finish(MINUTE));
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
