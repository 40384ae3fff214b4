//! Taking: a crawl goes on beside its checkpoint, whoever dies while it is taken.

use super::{
    HOLD_OVER, MINUTE, assert_goes_on, begin, begin_heard, checkpoint, hurry, in_the_middle,
    manifest, requested, text, world,
};
use rhumb_tests::harness::{
    Cluster, Deployment, Finished, Running, World, assert_conserved, binaries, ended_within, json,
    run, signal,
};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use synthetic_web::Outage;

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

/// Goal: what is wrong with a folder is said by name, and the crawl goes on. Method: folders of
/// others, a file that may not grow, a process that stands still, and requests that nobody answers.
#[test]
fn a_checkpoint_that_cannot_be_written_is_refused_by_name_and_the_crawl_goes_on() {
    let world = world(200);
    let dir = world.folder().join("checkpoint");
    // Longer than the command takes on a busy machine to see what is in flight.
    let soon = [
        "limits.first_byte_timeout=20s",
        "stages.scheduler.retry_wait=1s",
    ];
    let mut crawl = in_the_middle(
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
    crawl.until(MINUTE, |summary| summary.in_flight > 0);
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
    world.assert_counted(&crawl.finish(2 * MINUTE));
}
