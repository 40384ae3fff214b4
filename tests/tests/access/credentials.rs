//! Credentials and certificates that are missing, broken or refused: a line that says so, and the
//! exit code.

use super::MINUTE;
use rhumb_tests::harness::{Cluster, Guarded, Said, binaries, ended_within, rhumb};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take to say what is wrong.
const SAYS_WITHIN: Duration = Duration::from_secs(10);

fn set(assignments: &[String]) -> Vec<String> {
    assignments
        .iter()
        .flat_map(|assignment| ["--set".to_owned(), assignment.clone()])
        .collect()
}

/// What a command and a stage say of settings that cannot be used: both end with exit code 2.
fn assert_unusable(settings: &[String], parts: &[&str]) {
    let arguments = [vec!["status".to_owned()], set(settings)].concat();
    let status = rhumb(&arguments);
    let mut stage = Command::new(binaries().join("fetcher"));
    stage
        .args([
            "--instance",
            "0",
            "--set",
            "network.allow_private_addresses=true",
        ])
        .args(set(settings));
    let stage = rhumb_tests::harness::run(&mut stage, SAYS_WITHIN);
    for Said { code, out, err } in [status, stage] {
        assert_eq!(code, 2, "{settings:?}: {out}{err}");
        for part in parts {
            assert!(err.contains(part), "{err} should name {part}");
        }
        assert!(!err.contains("swordfish"), "{err}");
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[test]
fn a_file_that_is_missing_or_broken_is_named_with_what_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = "broker.url=tls://127.0.0.1:4".to_owned();
    let with = |key: &str, path: &str| [url.clone(), format!("broker.{key}={path}")];
    let accepted = "accepted is a file with the seed of a user's nkey";
    let missing = folder.path().join("fetcher.nk").display().to_string();
    assert_unusable(
        &with("credentials", &missing),
        &["broker.credentials", &missing, "cannot be read", accepted],
    );
    let broken = write(folder.path(), "broken.nk", "swordfish\n");
    assert_unusable(
        &with("credentials", &broken),
        &[
            "broker.credentials",
            &broken,
            "no seed of an nkey",
            accepted,
        ],
    );
    let half = write(
        folder.path(),
        "half.creds",
        "-----BEGIN NATS USER JWT-----\nswordfish\n------END NATS USER JWT------\n",
    );
    assert_unusable(
        &with("credentials", &half),
        &["broker.credentials", &half, "a JWT and no seed", accepted],
    );
    let folder_text = folder.path().display().to_string();
    assert_unusable(
        &with("ca", &folder_text),
        &["broker.ca", &folder_text, "cannot be read", "PEM"],
    );
    assert_unusable(
        &with("ca", &broken),
        &["broker.ca", &broken, "has no certificate", "PEM"],
    );
}

/// Goal: who is not let in says so, and not that the broker is away; a command ends with it, and a
/// stage tries on and is let in when its file is put right. Method: a user whose file holds a seed
/// that the broker does not know.
#[test]
fn credentials_that_the_broker_refuses_are_said_within_seconds_and_may_be_put_right() {
    let broker = Guarded::start(None);
    let folder = tempfile::tempdir().expect("a folder");
    let strangers = folder.path().join("strangers").display().to_string();
    assert_eq!(rhumb(&["auth", "--out", &strangers]).code, 0);
    let seed = std::fs::read_to_string(format!("{strangers}/fetcher.nk"))
        .expect("a seed")
        .trim()
        .to_owned();
    let file = write(folder.path(), "fetcher.nk", &seed);
    let mut settings = broker.settings("fetcher");
    settings[1] = format!("broker.credentials={file}");
    for command in [
        "status",
        "tap pages",
        "why http://a.test/",
        "consumers",
        "inject http://a.test/",
    ] {
        let words = command.split(' ').map(str::to_owned).collect();
        let since = Instant::now();
        let said = rhumb(&[words, set(&settings)].concat());
        assert_eq!(said.code, 1, "{command}: {}{}", said.out, said.err);
        assert!(
            since.elapsed() < Duration::from_secs(5),
            "{command}: {:?}",
            since.elapsed()
        );
        assert!(
            said.err
                .contains("refuses the credentials of the user fetcher")
                && said.err.contains(&file),
            "{}",
            said.err
        );
        assert!(!said.err.contains(&seed), "{}", said.err);
    }
    let log_file = folder.path().join("fetcher.log");
    let mut stage = Command::new(binaries().join("fetcher"))
        .args([
            "--instance",
            "0",
            "--set",
            "network.allow_private_addresses=true",
        ])
        .args(set(&settings))
        .stdin(Stdio::null())
        .stderr(File::create(&log_file).expect("a log"))
        .spawn()
        .expect("a stage");
    let says = |part: &str| {
        let end = Instant::now() + SAYS_WITHIN;
        loop {
            let log = std::fs::read_to_string(&log_file).expect("a log");
            if log.contains(part) {
                return log;
            }
            assert!(Instant::now() < end, "{part}: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let log = says("refuses the credentials of the user fetcher");
    assert!(
        !log.contains("cannot be reached") && !log.contains(&seed),
        "{log}"
    );
    std::fs::copy(broker.seed_file("fetcher"), &file).expect("the right seed");
    says("waiting for `rhumb init`");
    rhumb_tests::harness::signal(stage.id(), rustix::process::Signal::TERM);
    assert_eq!(
        ended_within(&mut stage, MINUTE).and_then(|status| status.code()),
        Some(0)
    );
}

#[test]
fn a_broker_that_is_not_trusted_and_one_without_tls_are_said_to_be_so() {
    let broker = Guarded::start(Some("CRAWL"));
    let ca = |path: &str| {
        [
            broker.settings("operator")[0].clone(),
            broker.settings("operator")[1].clone(),
            path.to_owned(),
        ]
    };
    let other = broker.file("other-ca.pem").display().to_string();
    let says = |settings: &[String], parts: &[&str]| {
        let said = rhumb(&[vec!["status".to_owned()], set(settings)].concat());
        assert_eq!(said.code, 1, "{}{}", said.out, said.err);
        for part in parts {
            assert!(said.err.contains(part), "{} should name {part}", said.err);
        }
    };
    says(
        &ca(&format!("broker.ca={other}")),
        &["no TLS with the broker", &other, "certificate"],
    );
    says(
        &ca("broker.ca="),
        &["no TLS with the broker", "set broker.ca", "certificate"],
    );
    let without = [
        broker.settings("operator")[0].clone(),
        broker.settings("operator")[2].clone(),
    ];
    says(
        &without,
        &["lets in nobody without credentials", "broker.credentials"],
    );
    // The users are in an account: the right settings are let in there, too.
    let init = broker.rhumb(
        "init",
        &["init", "--set", "network.allow_private_addresses=true"],
    );
    assert_eq!(init.code, 0, "{}", init.err);
    assert_eq!(broker.rhumb("tap", &["consumers"]).code, 0);

    let open = Cluster::start(1, None);
    let plain = [
        format!("broker.url={}", open.url()),
        broker.settings("operator")[2].clone(),
    ];
    says(&plain, &["no TLS with the broker"]);
}
