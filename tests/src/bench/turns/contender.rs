//! Contender: something that fetches all pages of a web, in processes of its own.
//!
//! In: a web. Out: what it cost, all processes counted whole when they have ended. The web runs on
//! a thread of this process and is not counted.

use super::super::known_urls;
use super::round::{Round, What};
use super::watch::Watch;
use super::web::Web;
use super::wget2;
use crate::harness::{World, binaries};
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use synthetic_web::Profile;

/// How long a round may take.
pub(crate) const ROUND_AT_MOST: Duration = Duration::from_secs(600);

/// Something that fetches all pages of a web.
#[derive(Clone, Debug)]
pub enum Contender {
    /// A build of the crawler.
    Build {
        /// What its numbers stand under.
        name: String,
        /// The folder of its programs.
        programs: PathBuf,
        /// Keys of its configuration, beside those of all.
        set: Vec<String>,
    },
    /// The yardstick: a loop in one process with the same HTTP client and link extraction. It is
    /// given the list of URLs. It has no frontier, no URL-seen test, no robots.txt and no
    /// politeness.
    KnownUrls,
    /// `wget2 --recursive`, by its own rules; it keeps nothing.
    Wget2 {
        /// As many, each with a connection.
        threads: u32,
    },
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contender::Build { name, .. } => name,
            Contender::KnownUrls => "one process",
            Contender::Wget2 { .. } => "wget2",
        })
    }
}

/// What a crawl leaves in its summary, as far as all builds do.
#[derive(Debug, Deserialize)]
struct Told {
    pages: u64,
    complete: bool,
    processes: Vec<ToldOfProcess>,
}

#[derive(Debug, Deserialize)]
struct ToldOfProcess {
    stage: String,
    cpu_s: f64,
    peak_rss_bytes: u64,
}

impl Contender {
    /// The build of this program.
    pub fn this() -> Contender {
        Contender::Build {
            name: "this build".to_owned(),
            programs: binaries(),
            set: Vec::new(),
        }
    }

    /// The build of this program, configured otherwise.
    pub fn this_with(set: &[String]) -> Contender {
        Contender::Build {
            name: "other setting".to_owned(),
            programs: binaries(),
            set: set.to_owned(),
        }
    }

    /// Another build, with keys of its configuration.
    ///
    /// # Errors
    /// There is none in the folder.
    pub fn other(programs: &Path, set: &[String]) -> anyhow::Result<Contender> {
        ensure!(
            programs.join("rhumb").is_file(),
            "there is no rhumb in {}: name the folder of the programs of a build, such as \
             target/release",
            programs.display()
        );
        let programs = std::path::absolute(programs)?;
        Ok(Contender::Build {
            name: "other build".to_owned(),
            programs,
            set: set.to_owned(),
        })
    }

    /// `wget2`, with the threads that a web needs.
    ///
    /// # Errors
    /// It cannot run here: why.
    pub fn wget2(web: Web) -> anyhow::Result<Contender> {
        ensure!(
            web != Web::Modern,
            "it crashes where servers end connections in TLS (1.99)"
        );
        wget2::check()?;
        Ok(Contender::Wget2 {
            threads: web.wget2_threads(),
        })
    }

    /// Has it fetch a web of a profile; `set`: keys of the crawl's configuration, for a build.
    ///
    /// # Errors
    /// It cannot be run, or pages are missing.
    pub fn round(&self, profile: &Profile, set: &[String]) -> anyhow::Result<Round> {
        let port = if let Contender::Wget2 { .. } = self {
            wget2::PORT
        } else {
            profile.port
        };
        let world = World::alone(Profile {
            port,
            ..profile.clone()
        });
        let cpu_before = cpu_of_ended_processes()?;
        let mut round = match self {
            Contender::Build {
                programs, set: own, ..
            } => crawl(&world, programs, &[set, own].concat())?,
            Contender::KnownUrls => fetch_known_urls(&world)?,
            Contender::Wget2 { threads } => wget2::fetch(&world, *threads, ROUND_AT_MOST)?,
        };
        let cpu_ms = (cpu_of_ended_processes()? - cpu_before) * 1e3 / round.pages as f64;
        if let Some(parts) = round.numbers.get(&What::CpuMs) {
            let rest = cpu_ms - parts.values().sum::<f64>();
            round.put(What::CpuMs, "rhumb", rest);
        }
        round.put_all(What::CpuMs, cpu_ms);
        round.put_all(
            What::Connections,
            world.web.report().connections as f64 / round.pages as f64,
        );
        round.put_all(
            What::PagesPerS,
            round.pages as f64 / world.web.report().elapsed_s,
        );
        Ok(round)
    }
}

/// CPU seconds of all processes that this one started and that have ended, theirs included.
pub(crate) fn cpu_of_ended_processes() -> anyhow::Result<f64> {
    Ok(rhumb_telemetry::process::cpu_time(std::process::id())
        .context("no CPU time in /proc")?
        .ended_children_s)
}

/// Crawls the world from its first page.
fn crawl(world: &World, programs: &Path, set: &[String]) -> anyhow::Result<Round> {
    let watch = Watch::prepare(world.folder())?;
    let listen = format!("stages.scheduler.listen={}", watch.scheduler);
    let crawl = world
        .crawl()
        .programs(programs)
        .environment("PATH", &watch.path)
        .set(&listen);
    let started = Instant::now();
    let mut crawl = set
        .iter()
        .fold(crawl, |crawl, assignment| crawl.set(assignment))
        .start();
    let watch = watch.begin(crawl.pids("rhumb")[0]);
    let code = crawl.exit_code(ROUND_AT_MOST);
    let whole_s = started.elapsed().as_secs_f64();
    let seen = watch.end();
    ensure!(code == 0, "rhumb ended with {code}:\n{}", crawl.log());
    let summary = world.folder().join("summary.json");
    let summary =
        std::fs::read(&summary).with_context(|| format!("cannot read {}", summary.display()))?;
    let told: Told = serde_json::from_slice(&summary).context("the summary is not understood")?;
    let report = world.web.report();
    ensure!(
        report.ok,
        "the crawl was not perfect: {}",
        serde_json::to_string(&report)?
    );
    ensure!(
        told.complete && told.pages == report.pages.expected,
        "the crawl was not complete: {told:?}"
    );

    let mut round = Round::of(told.pages);
    round.put_all(What::WholeS, whole_s);
    for ToldOfProcess {
        stage,
        cpu_s,
        peak_rss_bytes,
    } in &told.processes
    {
        for (what, more) in [
            (What::CpuMs, cpu_s * 1e3 / told.pages as f64),
            (What::PeakMb, *peak_rss_bytes as f64 / 1e6),
        ] {
            let before = round.number(what, stage).unwrap_or(0.0);
            round.put(what, stage, before + more);
        }
    }
    round.add_up(What::PeakMb);
    seen.put(&mut round);
    Ok(round)
}

/// Fetches the pages of the world by a list, in a process of its own (this program again).
fn fetch_known_urls(world: &World) -> anyhow::Result<Round> {
    let started = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--known-urls")
        .envs(world.trust())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start this program again")?;
    let mut list = String::new();
    for host in 0..world.web.seed_urls().len() as u32 {
        list.push_str(&format!(
            "{} {}\n",
            world.web.host_name(host),
            world.web.host_address(host)
        ));
    }
    for url in world.web.truth().pages {
        list.push_str(&url);
        list.push('\n');
    }
    child
        .stdin
        .take()
        .context("no pipe")?
        .write_all(list.as_bytes())?;
    let output = child.wait_with_output()?;
    let whole_s = started.elapsed().as_secs_f64();
    let fetched: known_urls::Fetched =
        serde_json::from_slice(&output.stdout).context("the loop said nothing")?;
    let missing = world.web.report().missing.count;
    ensure!(missing == 0, "the loop missed {missing} pages");
    let mut round = Round::of(fetched.pages);
    round.put_all(What::WholeS, whole_s);
    round.put_all(What::PeakMb, fetched.peak_rss_bytes as f64 / 1e6);
    Ok(round)
}
