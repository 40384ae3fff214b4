//! Runs the URL-cache experiment into a folder and prints its claims with what was found.
//!
//! `cargo run --release -p laboratory --example url_cache -- FOLDER [TRACE]`

use anyhow::Context as _;
use laboratory::url_cache::{Settings, run};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().context("usage: url_cache FOLDER [TRACE]")?.into();
    let trace = arguments.next().map(Into::into);
    let settings = Settings { folder, trace, ..Settings::default() };
    for claim in run(&settings, &mut |line| eprintln!("{line}"))? {
        println!("{claim}");
    }
    Ok(())
}
