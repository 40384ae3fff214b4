//! wget2, a recursive downloader in one process, as a user would run it on the same web.
//!
//! In: a world. Out: the pages that it fetched. It keeps nothing of them, as a crawl without an
//! archiver. It asks the system's resolver: in a mount namespace of its own it sees a file of hosts
//! that is ours. It names no port in its requests (wget2 1.99), so the web is on that of HTTP.

use super::round::{Round, What};
use crate::harness::{Said, World, run};
use anyhow::{Context as _, ensure};
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

/// The port of a web for it.
pub(super) const PORT: u16 = 80;
/// How long a look at what is installed may take.
const CHECK_AT_MOST: Duration = Duration::from_secs(10);
/// It loses a few pages now and then; so many are taken for all.
const WHOLE: f64 = 0.999;
/// It says 8 when a server answered with an error, such as that there is no robots.txt.
const SERVER_ERRORS: i32 = 8;

/// Runs a program in a mount namespace in which `/etc/hosts` is another file.
const WITH_HOSTS: &str = r#"mount --bind "$1" /etc/hosts && shift && exec "$@""#;

/// Returns whether it can be run.
///
/// # Errors
/// It is not installed, or the system does not give it a namespace.
pub(super) fn check() -> anyhow::Result<()> {
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    ensure!(is_there("wget2"), "wget2 is not installed");
    ensure!(is_there("unshare"), "unshare (util-linux) is not installed");
    let said = run(&mut in_namespace(&["/etc/hosts", "true"]), CHECK_AT_MOST);
    ensure!(
        said.code == 0,
        "the system gives wget2 no file of hosts of its own: {}",
        said.err.trim()
    );
    TcpListener::bind(("127.0.0.1", PORT))
        .with_context(|| format!("its web cannot be on port {PORT}"))?;
    Ok(())
}

/// Has it fetch the whole web, with so many threads: a connection each.
///
/// # Errors
/// It cannot be run, or pages are missing.
pub(super) fn fetch(world: &World, threads: u32, at_most: Duration) -> anyhow::Result<Round> {
    let hosts = world.folder().join("hosts");
    let pages = world.folder().join("pages");
    let mut lines = String::from("127.0.0.1 localhost\n");
    let mut domains = Vec::new();
    for host in 0..world.web.seed_urls().len() as u32 {
        let name = world.web.host_name(host);
        lines.push_str(&format!("{} {name}\n", world.web.host_address(host).ip()));
        domains.push(name);
    }
    std::fs::write(&hosts, lines)?;
    let hosts = hosts.display().to_string();
    let pages = format!("--directory-prefix={}", pages.display());
    let domains = format!("--domains={}", domains.join(","));
    let threads = format!("--max-threads={threads}");
    let seed = &world.web.seed_urls()[0];
    let command = [
        &*hosts,
        "wget2",
        "--quiet",
        "--recursive",
        "--level=inf",
        "--no-config",
        "--delete-after",
        &domains,
        &threads,
        &pages,
        seed,
    ];
    let started = Instant::now();
    let Said { code, err, .. } = run(&mut in_namespace(&command), at_most);
    let whole_s = started.elapsed().as_secs_f64();
    ensure!(
        [0, SERVER_ERRORS].contains(&code),
        "wget2 ended with {code}: {err}"
    );
    let pages = world.web.report().pages;
    let fetched = pages.expected - world.web.report().missing.count;
    ensure!(
        fetched as f64 >= pages.expected as f64 * WHOLE,
        "wget2 fetched {fetched} of {} pages",
        pages.expected
    );
    let mut round = Round::of(fetched);
    round.put_all(What::WholeS, whole_s);
    Ok(round)
}

fn in_namespace(arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "bash", "-c", WITH_HOSTS, "-"])
        .args(arguments);
    command
}
