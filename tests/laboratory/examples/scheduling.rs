//! Runs the scheduling experiment into a folder and prints what came of it.
//!
//! `cargo run --release -p laboratory --example scheduling -- FOLDER`

use anyhow::Context as _;
use laboratory::scheduling::{Settings, run};

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).context("usage: scheduling FOLDER")?.into();
    let findings = run(&Settings { folder, ..Settings::default() }, &mut |line| eprintln!("{line}"))?;
    for claim in &findings.claims {
        println!("{claim}");
    }
    for lines in [&findings.throughput, &findings.sensitivity, &findings.defaults, &findings.order_lost] {
        lines.iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}
