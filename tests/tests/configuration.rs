//! Bad configuration ends a command before anything starts; a broker that is not there ends
//! nothing.

use rhumb_tests::harness::{Said, World, binaries, ended_within, rhumb, run};
use rhumb_tests::stages::STAGES;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use synthetic_web::{PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);
const LOCAL: &str = "network.allow_private_addresses=true";

/// Asserts exit code 2, that the message holds all of `parts`, and that nothing was started.
fn assert_refused(said: &Said, data: &Path, parts: &[&str]) {
    assert_eq!(said.code, 2, "{parts:?}: {}", said.err);
    for part in parts {
        assert!(said.err.contains(part), "{part} is not in: {}", said.err);
    }
    assert!(!said.err.contains("panicked"), "{}", said.err);
    assert!(!data.exists(), "{parts:?}: a data directory was made");
}

#[test]
fn a_bad_setting_is_refused_with_key_value_and_what_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let directory = data.display().to_string();
    for (assignment, parts) in [
        (
            "partitons=8",
            ["partitons", "unknown", "partitions"].as_slice(),
        ),
        (
            "stages.fetcher.conections=8",
            &["stages.fetcher", "conections", "connections"],
        ),
        ("stages.archivist.replicas=1", &["stages", "archivist"]),
        ("partitions=0", &["partitions", "0", "1 to 4096"]),
        ("partitions=5000", &["partitions", "5000", "1 to 4096"]),
        (
            "partitions=100",
            &["partitions = 100", "powers of two", "the nearest is 128"],
        ),
        (
            "partitions=80",
            &[
                "partitions = 80",
                "powers of two from 1 to 4096",
                "the nearest is 64",
            ],
        ),
        ("partitions=2.7", &["partitions", "2.7"]),
        ("partitions=many", &["partitions", "many"]),
        ("politeness.delay=30", &["politeness.delay", "30", "suffix"]),
        ("politeness.delay=2h", &["politeness.delay", "2h", "1h"]),
        (
            "politeness.download_factor=200",
            &["politeness.download_factor", "200", "0 to 100"],
        ),
        (
            "politeness.connections_per_address=20000",
            &["politeness.connections_per_address", "20000", "0 to 10000"],
        ),
        (
            "politeness.groups=[{delay: 1s}]",
            &[
                "politeness.groups[0]",
                "either",
                "by: registered-domain",
                "hosts",
            ],
        ),
        (
            "politeness.groups=[{by: registered-domain, hosts: [a.test]}]",
            &["politeness.groups[0]", "either"],
        ),
        (
            "politeness.groups=[{by: registered-domain, jobs_max: 0}]",
            &["politeness.groups[0].jobs_max", "1 to 10000"],
        ),
        (
            "politeness.groups=[{by: registered-domain, delay: 2h}]",
            &["politeness.groups[0].delay", "2h", "1h"],
        ),
        (
            "politeness.groups=[{hosts: ['http://a.test']}]",
            &["politeness.groups", "http://a.test", "*.a.example"],
        ),
        (
            "politeness.groups=[{by: country}]",
            &["politeness.groups", "country", "registered-domain"],
        ),
        (
            "politeness.groups=[{by: registered-domain, jobs: 2}]",
            &["politeness.groups", "jobs", "jobs_max"],
        ),
        (
            "limits.sitemaps_per_server=101",
            &["limits.sitemaps_per_server", "101", "0 to 100"],
        ),
        (
            "stages.scheduler.robots_cache_bytes=2GiB",
            &["stages.scheduler.robots_cache_bytes", "2GiB", "1GiB"],
        ),
        (
            "politeness.respect_robots=maybe",
            &["politeness.respect_robots", "maybe"],
        ),
        (
            "scope.follow=hosts",
            &["scope.follow", "hosts", "host", "domain", "any"],
        ),
        (
            "limits.pages_per_host=2000000000",
            &["limits.pages_per_host", "2000000000", "0 to 1000000000"],
        ),
        (
            "limits.over_budget=drop",
            &["limits.over_budget", "drop", "end", "wait"],
        ),
        (
            "edges.urls.ready.bytes_max=64MiB",
            &[
                "edges.urls.ready.bytes_max",
                "64MiB",
                "0 (no bound)",
                "sitemaps",
            ],
        ),
        ("logs.bytes_max=1KiB", &["logs.bytes_max", "1KiB", "64KiB"]),
        ("logs.kept=0", &["logs.kept", "0", "1 to 100"]),
        ("broker.replicas=0", &["broker.replicas", "0", "1 to 5"]),
        (
            "broker.replicas=3",
            &["broker.replicas = 3", "private broker", "broker.url"],
        ),
        (
            "edges.pages.replicas=3",
            &["edges.pages.replicas = 3", "private broker"],
        ),
        (
            "edges.pages.retention=limits",
            &[
                "edges.pages.retention",
                "limits",
                "'interest'",
                "leave the key out",
            ],
        ),
        (
            "edges.pages.replicas=6",
            &["edges.pages.replicas", "6", "0 to 5"],
        ),
        (
            "limits.body_bytes_max=9MiB",
            &["limits.body_bytes_max", "9MiB"],
        ),
        (
            "network.nameservers=[nonsense]",
            &["network.nameservers", "nonsense"],
        ),
        (
            "network.nameservers=['tls://dns.example']",
            &["network.nameservers", "tls://dns.example", "tls://9.9.9.9#"],
        ),
        (
            "stages.fetcher.renew_every=15s",
            &["stages.fetcher.renew_every", "15s", "10s"],
        ),
        (
            "stages.scheduler.policy=best",
            &["stages.scheduler.policy", "best", "breadth-first"],
        ),
        (
            "stages.parser.nofollow=no",
            &["stages.parser.nofollow", "no", "obey", "ignore"],
        ),
        (
            "stages.parser.images=true",
            &["stages.parser", "images", "embedded"],
        ),
        ("stages.parser.forms=get", &["stages.parser.forms", "get"]),
        ("crawl=a.b", &["crawl", "a.b"]),
        ("crawl", &["--set", "crawl"]),
    ] {
        let said = rhumb(&[
            "crawl",
            "http://a.test/",
            "--data",
            &directory,
            "--set",
            LOCAL,
            "--set",
            assignment,
        ]);
        assert_refused(&said, &data, parts);
    }
}

#[test]
fn a_bad_file_or_environment_is_refused_like_a_bad_argument() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let directory = data.display().to_string();
    let file = folder.path().join("pipeline.yaml");
    let config = file.display().to_string();
    let crawl = [
        "crawl",
        "http://a.test/",
        "--data",
        &directory,
        "--set",
        LOCAL,
        "--config",
        &config,
    ];

    assert_refused(&rhumb(&crawl), &data, &["pipeline.yaml"]);
    std::fs::write(&file, "stages:\n  fetcher:\n    connections: 20000\n").expect("a file");
    assert_refused(
        &rhumb(&crawl),
        &data,
        &["stages.fetcher.connections", "20000", "1 to 10000"],
    );
    std::fs::write(&file, "stages: [unclosed\n").expect("a file");
    assert_refused(&rhumb(&crawl), &data, &["pipeline.yaml", "YAML"]);

    let mut command = Command::new(binaries().join("rhumb"));
    command
        .args(&crawl[..6])
        .env("RHUMB__STAGES__HOST_SPLITTER__BATCH_URLS_MAX", "0");
    let said = run(&mut command, Duration::from_secs(10));
    assert_refused(
        &said,
        &data,
        &["stages.host-splitter.batch_urls_max", "0", "1 to 4096"],
    );
}

#[test]
fn keys_of_an_earlier_version_are_read_with_one_warning() {
    let world = World::new(Profile {
        hosts: 2,
        pages_per_host: PagesPerHost::Exactly(5),
        ..Profile::raw()
    });
    let earlier = world
        .crawl()
        .set("edges.pages.retention=interest")
        .set("edges.errands.subject=errands.{partition}");
    let mut crawl = earlier.start();
    assert_eq!(crawl.exit_code(MINUTE), 0);
    let log = crawl.log();
    assert_eq!(log.matches("no keys any more").count(), 1, "{log}");
    assert!(
        log.contains("leave them out: edges.pages.retention, edges.errands.subject"),
        "{log}"
    );
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn a_public_crawl_without_a_contact_address_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let said = rhumb(&[
        "crawl",
        "http://example.org/",
        "--data",
        &data.display().to_string(),
    ]);
    assert_refused(&said, &data, &["network.user_agent", "contact"]);
}

#[test]
fn who_does_not_tell_its_name_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let directory = data.display().to_string();
    let long = format!(
        "network.user_agent=mybot/1.0 (+https://example.org/{})",
        "b".repeat(4096)
    );
    let browser = "network.user_agent=Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, \
                   like Gecko) Chrome/1 Safari/537";
    for (set, parts) in [
        (
            long.as_str(),
            [
                "network.user_agent = 'mybot/1.0 (+https",
                "4129 bytes",
                "at most 1024",
            ]
            .as_slice(),
        ),
        (
            "network.user_agent=(+https://example.org/bot) (x)",
            &["network.user_agent", "set network.product_token"],
        ),
        (
            browser,
            &[
                "network.user_agent",
                "but those of browsers",
                "set network.product_token",
            ],
        ),
        (
            "network.user_agent=my bot/1.0",
            &[
                "network.user_agent = \"my bot/1.0\"",
                "set network.product_token",
            ],
        ),
        (
            "network.product_token=my bot",
            &[
                "network.product_token = 'my bot'",
                "letters, digits, _ and -",
            ],
        ),
        (
            "network.product_token='*'",
            &["network.product_token = '*'", "letters, digits, _ and -"],
        ),
    ] {
        let crawl = [
            "crawl",
            "http://a.test/",
            "--data",
            &directory,
            "--set",
            LOCAL,
            "--set",
            set,
        ];
        assert_refused(&rhumb(&crawl), &data, parts);
    }
}

#[test]
fn a_bad_seed_is_refused_by_name_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let directory = data.display().to_string();
    let base = ["crawl", "--data", &directory, "--set", LOCAL];
    let with = |arguments: &[&str]| rhumb(&[&base[..], arguments].concat());

    assert_refused(
        &with(&["http://a.test/", "mailto:a@b.test"]),
        &data,
        &["mailto:a@b.test"],
    );
    assert_refused(&with(&[]), &data, &["seed", &directory]);
    assert_refused(
        &with(&["--resume"]),
        &data,
        &["no crawl to resume", &directory],
    );

    let file = folder.path().join("seeds.txt");
    let seeds = file.display().to_string();
    std::fs::write(&file, "# seeds\nhttp://a.test/\n\nhttp://[bad/\n").expect("a file");
    assert_refused(
        &with(&["--seeds", &seeds]),
        &data,
        &["seeds.txt:4", "http://[bad/"],
    );
    assert_refused(
        &with(&["--seeds", "/nowhere/seeds.txt"]),
        &data,
        &["/nowhere/seeds.txt"],
    );
}

#[test]
fn unknown_arguments_are_refused_and_help_is_not() {
    assert_eq!(rhumb(&["crawl", "--dat", "x"]).code, 2);
    assert_eq!(rhumb(&["krawl"]).code, 2);
    assert_eq!(rhumb(&["tap", "urls.old", "--set", LOCAL]).code, 2);
    let help = rhumb(&["--help"]);
    assert_eq!(help.code, 0);
    assert!(
        help.out.contains("crawl") && help.out.contains("status"),
        "{}",
        help.out
    );
    assert_eq!(rhumb(&["--version"]).code, 0);
}

#[test]
fn every_stage_refuses_bad_configuration() {
    for stage in STAGES {
        let stage_with = |assignments: &[&str]| {
            let mut command = Command::new(binaries().join(stage));
            for assignment in assignments {
                command.args(["--set", assignment]);
            }
            run(&mut command, Duration::from_secs(10))
        };
        let said = stage_with(&[LOCAL, "broker.url=nats://127.0.0.1:4222", "partitions=0"]);
        assert_eq!(said.code, 2, "{stage}: {}", said.err);
        assert!(
            said.err.contains("partitions = 0") && said.err.contains("1 to 4096"),
            "{stage}: {}",
            said.err
        );
        let said = stage_with(&[LOCAL]);
        assert_eq!(said.code, 2, "{stage}: {}", said.err);
        assert!(said.err.contains("broker.url"), "{stage}: {}", said.err);
    }
}

#[test]
fn a_stage_waits_for_a_broker_that_is_not_there_and_ends_when_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let nobody = TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a free port");
    let broker = format!("broker.url=nats://{nobody}");
    let data = format!("data={}", folder.path().join("data").display());
    for stage in ["dedup", "fetcher"] {
        let mut child = Command::new(binaries().join(stage))
            .args([
                "--set",
                LOCAL,
                "--set",
                &broker,
                "--set",
                &data,
                "--set",
                "broker.connect_report_every=1s",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a stage");
        assert!(
            ended_within(&mut child, Duration::from_secs(4)).is_none(),
            "{stage} gave up"
        );
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
        let status = ended_within(&mut child, Duration::from_secs(5));
        if status.is_none() {
            let _ = child.kill();
        }
        let mut log = String::new();
        child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut log)
            .expect("a log");
        let _ = child.wait();
        assert_eq!(
            status.and_then(|status| status.code()),
            Some(0),
            "{stage}: {log}"
        );
        let reports = log.lines().filter(|line| {
            line.contains("cannot be reached") && line.contains(&nobody.to_string())
        });
        assert!((2..=5).contains(&reports.count()), "{stage}: {log}");
        assert!(!log.contains("panicked"), "{stage}: {log}");
    }
}
