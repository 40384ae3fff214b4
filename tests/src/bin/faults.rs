//! The fault suite: crawls under seeded schedules of faults, each with a verdict. See
//! `tests/faults`.

use anyhow::Context as _;
use clap::{Parser, ValueEnum as _};
use rhumb_tests::faults::{
    Kind, Line, Passed, RECOVERIES, Recovery, Results, Schedule, recover, run,
};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Kinds of faults that every crawl survives without loss or refusal.
const USUAL: [Kind; 11] = [
    Kind::Kill,
    Kind::Stop,
    Kind::Broker,
    Kind::Rhumb,
    Kind::Disk,
    Kind::Scale,
    Kind::Cut,
    Kind::Consumer,
    Kind::Pause,
    Kind::Set,
    Kind::Drop,
];

/// Crawls the synthetic web with all its hazards under faults that a seed determines, and judges
/// what comes of it
#[derive(Parser)]
#[command(name = "tests/faults")]
struct Arguments {
    /// One seed
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Seeds from A to B, both included
    #[arg(long, value_name = "A..B", value_parser = seeds, default_value = "1..5")]
    seeds: RangeInclusive<u64>,
    /// Kinds of faults to draw from, separated by commas, or `all`: also scalings, restore, node,
    /// clock, web, names and state [default:
    /// kill,stop,broker,rhumb,disk,scale,cut,consumer,pause,set,drop]
    #[arg(long, value_name = "KINDS", value_parser = kinds)]
    faults: Option<Kinds>,
    /// Adds a line of JSON for each seed, and leaves out seeds that passed at this commit
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Shows the schedules and runs none
    #[arg(long)]
    show: bool,
    /// Measures how long after each of many single faults a crawl is as fast as before: some ten
    /// minutes
    #[arg(long, conflicts_with_all = ["seed", "seeds", "results", "show"])]
    recovery: bool,
}

/// Kinds of faults.
#[derive(Clone)]
struct Kinds(Vec<Kind>);

fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let ends = text
        .split_once("..")
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match ends {
        Some((from, to)) if from <= to => Ok(from..=to),
        _ => Err("two numbers are expected, the smaller one first, such as 1..200".to_owned()),
    }
}

fn kinds(text: &str) -> Result<Kinds, String> {
    if text == "all" {
        return Ok(Kinds(Kind::value_variants().to_vec()));
    }
    let known: Vec<String> = Kind::value_variants()
        .iter()
        .map(|kind| kind.name())
        .collect();
    let one = |name: &str| {
        Kind::from_str(name, false)
            .map_err(|_| format!("'{name}': known are all, {}", known.join(", ")))
    };
    text.split(',')
        .map(one)
        .collect::<Result<_, _>>()
        .map(Kinds)
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.recovery {
        return Ok(recoveries(
            arguments.faults.map(|Kinds(kinds)| kinds).as_deref(),
        ));
    }
    let kinds = arguments
        .faults
        .map_or_else(|| USUAL.to_vec(), |Kinds(kinds)| kinds);
    let names: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
    let seeds = arguments.seed.map_or(arguments.seeds, |seed| seed..=seed);
    let commit = commit().context("cannot tell the commit")?;
    let results = Results::open(arguments.results.as_deref()).context("cannot read the results")?;
    let mut failed = Vec::new();
    for seed in seeds {
        let schedule = Schedule::draw(seed, &kinds);
        if arguments.show || results.has_passed(seed, &commit, &kinds) {
            println!(
                "seed {seed}: {}{schedule}",
                if arguments.show {
                    ""
                } else {
                    "passed before: "
                }
            );
            continue;
        }
        let line = Line {
            commit: commit.clone(),
            kinds: names.clone(),
            ..tried(&schedule, seed)
        };
        results.add(&line).context("cannot write the results")?;
        println!(
            "seed {seed}: {} in {:.0} s, {} of {} repeats, pause {:.1} s: {}",
            line.verdict, line.seconds, line.repeats, line.repeats_max, line.pause_s, line.schedule
        );
        if line.verdict == "failed" {
            println!(
                "  {}\n  again: tests/faults --seed {seed} --faults {}",
                line.reason,
                names.join(",")
            );
            failed.push(seed);
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("failed: {failed:?}");
    Ok(ExitCode::FAILURE)
}

/// Measures what follows single faults, of these kinds if some are named.
fn recoveries(kinds: Option<&[Kind]>) -> ExitCode {
    let mut is_late = false;
    for (kind, target, lasts_ms) in RECOVERIES {
        if kinds.is_some_and(|kinds| !kinds.contains(&kind)) {
            continue;
        }
        let Recovery { rate, after, limit } = recover(kind, target, lasts_ms);
        is_late |= after.is_none_or(|after| after > limit);
        let name = kind.name();
        let lasts = lasts_ms as f64 / 1e3;
        let limit = limit.as_secs();
        let after = after.map(|after| after.as_secs_f64());
        let back = after.map_or_else(
            || "not for long".to_owned(),
            |after| format!("after {after:.1} s"),
        );
        println!(
            "{name} {target}, {lasts:.0} s long: {rate:.0} requests a second, again {back} \
             ({limit} s allowed)"
        );
    }
    if is_late {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Runs a schedule. It says in a thread of its own what is wrong, as a test does.
fn tried(schedule: &Schedule, seed: u64) -> Line {
    let started = Instant::now();
    let judged = std::thread::scope(|scope| scope.spawn(|| run(schedule)).join());
    let (verdict, reason, passed) = match judged {
        Ok(passed) => (
            if passed.refused { "refused" } else { "passed" },
            String::new(),
            passed,
        ),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let reason = text
                .unwrap_or_default()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            (
                "failed",
                reason,
                Passed {
                    elapsed: started.elapsed(),
                    ..Passed::default()
                },
            )
        }
    };
    Line {
        seed,
        commit: String::new(),
        kinds: Vec::new(),
        schedule: schedule.to_string(),
        verdict: verdict.to_owned(),
        reason,
        seconds: passed.elapsed.as_secs_f64().round(),
        repeats: passed.repeats,
        repeats_max: passed.repeats_max,
        pause_s: tenths(passed.pause),
        even_after_s: passed.even_after.map(tenths),
    }
}

/// Seconds, to a tenth.
fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

/// The commit that is checked out, and whether anything differs from it.
fn commit() -> anyhow::Result<String> {
    let said = Command::new("git")
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ])
        .output()?;
    anyhow::ensure!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
