//! A crawl whose processes are deployed one by one, each with the credentials of its own user.

use super::{MINUTE, block_on};
use rhumb_tests::harness::{Finished, Guarded, World, binaries, ended_within, signal};
use rhumb_wire::topology::{StageName, User};
use rustix::process::Signal;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

/// Processes of a crawl, each with its name and its log; killed when dropped.
struct Fleet<'a> {
    broker: &'a Guarded,
    folder: &'a Path,
    settings: Vec<String>,
    running: Vec<(&'static str, Child)>,
}

impl<'a> Fleet<'a> {
    /// A crawl that was begun, and of which a resolver runs.
    fn of_a_resolver(broker: &'a Guarded, folder: &'a Path) -> Self {
        let data = format!("data={}", folder.join("data").display());
        let settings = vec!["network.allow_private_addresses=true".to_owned(), data];
        let mut fleet = Fleet {
            broker,
            folder,
            settings,
            running: Vec::new(),
        };
        assert_eq!(
            fleet.run("init", "rhumb", User::Init, &["init"]),
            0,
            "{}",
            fleet.logs()
        );
        fleet.start(
            "resolver",
            "resolver",
            User::Stage(StageName::Resolver),
            &["--instance", "0"],
        );
        fleet
    }

    /// Starts a program as a user.
    fn start(&mut self, name: &'static str, program: &str, user: User, arguments: &[&str]) {
        let log = File::create(self.folder.join(format!("{name}.log"))).expect("a log");
        let mut command = Command::new(binaries().join(program));
        command.args(arguments);
        for setting in self
            .broker
            .settings(user.name())
            .iter()
            .chain(&self.settings)
        {
            command.args(["--set", setting]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn();
        self.running
            .push((name, child.expect("a program that can be started")));
    }

    /// Runs a program to its end.
    fn run(&mut self, name: &'static str, program: &str, user: User, arguments: &[&str]) -> i32 {
        self.start(name, program, user, arguments);
        self.end(name, MINUTE)
    }

    fn end(&mut self, name: &str, at_most: Duration) -> i32 {
        let at = self
            .running
            .iter()
            .position(|(running, _)| *running == name)
            .expect("it was started");
        let (_, mut child) = self.running.remove(at);
        let status = ended_within(&mut child, at_most);
        if status.is_none() {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{name} has not ended within {at_most:?}:\n{}", self.logs());
        }
        status.and_then(|status| status.code()).unwrap_or(-1)
    }

    /// The last lines of all logs.
    fn logs(&self) -> String {
        let tail = |text: &str| {
            text.lines()
                .rev()
                .take(12)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join("\n  ")
        };
        let logs = std::fs::read_dir(self.folder)
            .expect("logs")
            .flatten()
            .filter(|entry| entry.path().is_file());
        logs.map(|entry| {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            format!(
                "{}:\n  {}\n",
                entry.file_name().to_string_lossy(),
                tail(&text)
            )
        })
        .collect()
    }

    /// What commands answer that look at the crawl.
    fn answers(&self, url: &str) -> String {
        let mut said = String::new();
        for user in ["tap", "operator"] {
            for command in [
                ["status", "--json"].as_slice(),
                &["why", url],
                &["consumers"],
                &["partitions"],
            ] {
                let answer = self.broker.rhumb(user, command);
                assert_eq!(
                    answer.code,
                    0,
                    "{command:?} of {user}: {}{}\n{}",
                    answer.out,
                    answer.err,
                    self.logs()
                );
                said.push_str(&(answer.out + &answer.err));
            }
        }
        said
    }

    /// What other users of the machine may see of the processes, and what these wrote.
    fn shown(&self) -> String {
        let mut shown = String::new();
        for (_, child) in &self.running {
            for file in ["cmdline", "environ"] {
                let bytes =
                    std::fs::read(format!("/proc/{}/{file}", child.id())).unwrap_or_default();
                shown.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        for entry in std::fs::read_dir(self.folder)
            .expect("logs")
            .flatten()
            .filter(|entry| entry.path().is_file())
        {
            shown.push_str(&std::fs::read_to_string(entry.path()).unwrap_or_default());
        }
        shown
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        for (_, child) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The settings of a crawl of a web, with an archiver.
fn settings(world: &World, folder: &Path) -> Vec<String> {
    let fixed = [
        "network.allow_private_addresses=true",
        "politeness.delay=0s",
        "scope.follow=any",
        "stages.archiver.replicas=1",
    ];
    let nameservers = format!("network.nameservers=[\"{}\"]", world.web.dns());
    let data = format!("data={}", folder.join("data").display());
    fixed
        .into_iter()
        .map(str::to_owned)
        .chain([nameservers, data])
        .collect()
}

/// Goal: the rights that come from the tables are enough for a whole crawl and for every command
/// that goes with it, and nobody sees a secret. Method: each process with the seed of its own user;
/// what the broker refused stands in its log.
#[test]
fn every_process_with_its_own_user_crawls_the_whole_web_and_is_refused_nothing() {
    let world = World::new(Profile {
        hosts: 8,
        pages_per_host: PagesPerHost::Exactly(150),
        latency: Latency::Fixed { ms: 60 },
        ..Profile::raw()
    });
    let broker = Guarded::start(None);
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(&world, folder.path());
    let mut fleet = Fleet {
        broker: &broker,
        folder: folder.path(),
        settings,
        running: Vec::new(),
    };
    // Stages wait for init.
    for stage in StageName::ALL {
        fleet.start(
            stage.name(),
            stage.name(),
            User::Stage(stage),
            &["--instance", "0"],
        );
    }
    assert_eq!(
        fleet.run("init", "rhumb", User::Init, &["init"]),
        0,
        "{}",
        fleet.logs()
    );
    assert_eq!(
        fleet.run("init again", "rhumb", User::Init, &["init"]),
        0,
        "{}",
        fleet.logs()
    );
    fleet.start(
        "tap",
        "rhumb",
        User::Tap,
        &[
            "tap",
            "pages",
            "--limit",
            "3",
            "--headers",
            "--format",
            "json",
        ],
    );
    let seed = world.web.seed_urls()[0].clone();
    assert_eq!(
        fleet.run("inject", "rhumb", User::Operator, &["inject", &seed]),
        0,
        "{}",
        fleet.logs()
    );
    let summary = folder.path().join("summary.json");
    let conduct = [
        "conduct",
        "--until-complete",
        "--summary",
        &summary.display().to_string(),
    ];
    fleet.start("conductor", "rhumb", User::Conductor, &conduct);

    assert_eq!(fleet.end("tap", MINUTE), 0, "{}", fleet.logs());
    let tapped = std::fs::read_to_string(folder.path().join("tap.log")).expect("a log");
    assert_eq!(
        tapped
            .lines()
            .filter(|line| line.contains("\"subject\":\"rhumb.default.pages\""))
            .count(),
        3,
        "{tapped}"
    );
    // Partitions move to further instances.
    for (name, stage) in [
        ("dedup.1", StageName::Dedup),
        ("scheduler.1", StageName::Scheduler),
    ] {
        fleet.start(name, stage.name(), User::Stage(stage), &["--instance", "1"]);
    }
    let scaled = broker.rhumb("operator", &["scale", "dedup=2", "scheduler=2"]);
    assert_eq!(
        scaled.code,
        0,
        "{}{}\n{}",
        scaled.out,
        scaled.err,
        fleet.logs()
    );
    let checkpoint = folder.path().join("checkpoint").display().to_string();
    let taken = broker.rhumb("operator", &["checkpoint", &checkpoint]);
    assert_eq!(
        taken.code,
        0,
        "{}{}\n{}",
        taken.out,
        taken.err,
        fleet.logs()
    );
    let mut said = fleet.shown();
    said.push_str(&fleet.answers(&seed));
    let code = fleet.end("conductor", 2 * MINUTE);
    said.push_str(&fleet.shown());
    let text = std::fs::read(&summary).expect("a summary");
    let finished = Finished {
        code,
        summary: serde_json::from_slice(&text).expect("JSON"),
    };
    world.assert_whole(&finished);
    fleet
        .running
        .iter()
        .for_each(|(_, child)| signal(child.id(), Signal::TERM));
    for name in StageName::ALL
        .map(StageName::name)
        .into_iter()
        .chain(["dedup.1", "scheduler.1"])
    {
        assert_eq!(fleet.end(name, MINUTE), 0, "{name}");
    }
    for arguments in [
        ["delete", "--yes"].as_slice(),
        &["init", "--restore", &checkpoint],
    ] {
        let done = broker.rhumb("operator", arguments);
        assert_eq!(done.code, 0, "{arguments:?}: {}{}", done.out, done.err);
    }
    assert_eq!(broker.violations(), [""; 0]);
    for user in User::ALL {
        assert!(
            !said.contains(&broker.seed(user.name())),
            "the seed of {} is shown",
            user.name()
        );
    }
    assert!(said.contains("fetcher.nk"), "paths are no secret");
}

/// Goal: a key is replaced while its process runs: the process is let in again with the new one,
/// and the old one is of no use. Method: the broker reads its configuration again, and the file of
/// the user is the new one by then.
#[test]
fn a_key_is_replaced_while_its_process_runs() {
    let broker = Guarded::start(None);
    let folder = tempfile::tempdir().expect("a folder");
    let _fleet = Fleet::of_a_resolver(&broker, folder.path());
    let answers = || {
        broker
            .rhumb("operator", &["status", "--json"])
            .out
            .contains("\"stage\":\"resolver\"")
    };
    let until_it_answers = || {
        let end = Instant::now() + MINUTE / 2;
        while !answers() {
            assert!(Instant::now() < end, "the resolver does not answer");
        }
    };
    until_it_answers();
    let old = broker.seed("resolver");
    broker.rotate("resolver");
    assert_ne!(broker.seed("resolver"), old);
    until_it_answers();
    assert_eq!(broker.violations(), [""; 0]);
}

/// Goal: who may only ask cannot have a process write for it: an answer goes to an inbox and
/// nowhere else. Method: the reply subject of a request is a key that the process itself may write;
/// what is asked after it in the same way is answered.
#[test]
fn an_answer_is_no_key() {
    let broker = Guarded::start(None);
    let folder = tempfile::tempdir().expect("a folder");
    let mut fleet = Fleet::of_a_resolver(&broker, folder.path());
    fleet.start("conductor", "rhumb", User::Conductor, &["conduct"]);

    let key = |user: &str, name: &str| format!("$KV.rhumb_default_leases.{user}.{name}");
    block_on(async {
        let tap = broker.client("tap").await.expect("the broker lets it in");
        let control = broker.pipeline("tap").subjects();
        for (to, own) in [
            ("all", key("resolver", "77")),
            ("supervision", key("supervisor", "77")),
        ] {
            let to = control.control(to);
            let question = "\"status\"";
            let end = Instant::now() + MINUTE / 2;
            loop {
                tap.publish_with_reply(to.clone(), own.clone(), question.into())
                    .await
                    .expect("a connection");
                let asked = tokio::time::timeout(
                    Duration::from_secs(1),
                    tap.request(to.clone(), question.into()),
                );
                if let Ok(Ok(answer)) = asked.await {
                    assert!(answer.payload.starts_with(b"{"), "{:?}", answer.payload);
                    break;
                }
                assert!(
                    Instant::now() < end,
                    "{to} does not answer\n{}",
                    fleet.logs()
                );
            }
        }
        // They may write such keys: an answer that was sent there would have been kept.
        for user in ["resolver", "conductor"] {
            let process = if user == "conductor" {
                "supervisor"
            } else {
                user
            };
            let client = broker.client(user).await.expect("the broker lets it in");
            client
                .request(key(process, "78"), "".into())
                .await
                .expect("the key is kept");
        }
        let operator = broker
            .client("operator")
            .await
            .expect("the broker lets it in");
        let leases = async_nats::jetstream::new(operator)
            .get_key_value("rhumb_default_leases")
            .await
            .expect("a bucket");
        for process in ["resolver", "supervisor"] {
            assert!(
                leases
                    .entry(format!("{process}.78"))
                    .await
                    .expect("an answer")
                    .is_some(),
                "{process}"
            );
            assert!(
                leases
                    .entry(format!("{process}.77"))
                    .await
                    .expect("an answer")
                    .is_none(),
                "{process}"
            );
        }
    });
}
