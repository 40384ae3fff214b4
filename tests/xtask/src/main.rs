//! `cargo xtask`: the commands that people who change rhumb use. Each is a script that can be run
//! without it.
//!
//! In: a command's name, and arguments for its script. Out: what the script prints, and its exit
//! code.

use std::path::Path;
use std::process::{Command, ExitCode};

struct Task {
    name: &'static str,
    script: &'static str,
    help: &'static str,
}

const TASKS: [Task; 6] = [
    Task {
        name: "quick",
        script: "tests/quick",
        help: "format, lints, unit tests, one crawl",
    },
    Task {
        name: "test",
        script: "tests/run",
        help: "all tests that need nothing but Rust, Python and a C compiler",
    },
    Task {
        name: "generate",
        script: "tests/generate",
        help: "writes the files that are made of the sources",
    },
    Task {
        name: "faults",
        script: "tests/faults",
        help: "crawls under seeded faults, such as --seeds 1..20",
    },
    Task {
        name: "fuzz",
        script: "tests/fuzz/run",
        help: "all fuzz targets, a minute each, or as many seconds as you say",
    },
    Task {
        name: "ci",
        script: ".ci/run",
        help: "all that must hold before a change lands; installs packages",
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprint!("xtask: there is no command {name:?}\n\n{}", usage());
        return ExitCode::from(2);
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match Command::new(root.join(task.script))
        .args(rest)
        .current_dir(&root)
        .status()
    {
        Ok(status) => status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("xtask: {} cannot be run: {error}", task.script);
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let mut text = "Usage: cargo xtask COMMAND [ARGUMENTS]\n\n".to_owned();
    for Task { name, script, help } in TASKS {
        text += &format!("  {name:<8} {script:<16} {help}\n");
    }
    text += "\nExample: cargo xtask faults --seed 17\n";
    text
}
