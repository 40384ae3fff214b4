//! Recipe: the commands of a page of docs, run by a shell as they stand there.

use super::command::{Said, binaries, path_text, run};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const OPERATING: &str = include_str!("../../../docs/operating.md");
const FRESHNESS: &str = include_str!("../../../docs/freshness.md");
/// How long the commands of a block may take.
const BLOCK_AT_MOST: Duration = Duration::from_secs(120);

/// The blocks of commands of docs/operating.md between a heading of the third level and the next
/// heading.
///
/// # Panics
/// When there is no such heading.
pub fn recipe(heading: &str) -> Vec<String> {
    let below = OPERATING
        .split_once(&format!("\n### {heading}\n"))
        .expect("the recipe has a heading")
        .1;
    blocks(below.split("\n#").next().unwrap_or_default())
}

/// The blocks of commands of docs/freshness.md.
pub fn guide() -> Vec<String> {
    blocks(FRESHNESS)
}

fn blocks(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1);
    blocks
        .map(|block| {
            block
                .split("```")
                .next()
                .unwrap_or_default()
                .replace("\\\n", "")
        })
        .collect()
}

/// Runs commands by a shell, in this folder, up to the first that fails. `rhumb` is the program
/// that was built.
///
/// # Panics
/// When they do not end in time.
pub fn cook(commands: &str, folder: &Path) -> Said {
    let path = format!(
        "{}:{}",
        path_text(&binaries()),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut shell = Command::new("sh");
    run(
        shell
            .args(["-e", "-c", commands])
            .env("PATH", path)
            .current_dir(folder),
        BLOCK_AT_MOST,
    )
}
