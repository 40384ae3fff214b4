//! Recipe: the commands below a heading of docs/operating.md, run by a shell as they stand there.

use super::command::{Said, binaries, path_text, run};
use super::running::Running;
use std::process::Command;
use std::time::Duration;

const PAGE: &str = include_str!("../../../docs/operating.md");
/// How long a command of a recipe may take.
const COMMAND_AT_MOST: Duration = Duration::from_secs(60);

/// The lines of the first block of commands below a heading.
///
/// # Panics
/// When there is no such heading, or no block below it.
pub fn recipe(heading: &str) -> Vec<String> {
    let below = PAGE.split_once(&format!("\n### {heading}\n")).expect("the recipe has a heading").1;
    let (_, block) = below.split_once("```sh\n").expect("the recipe has commands");
    block.split_once("```").expect("its commands end").0.lines().map(str::to_owned).collect()
}

impl Running {
    /// Runs a line of a recipe by a shell, for this crawl. Whatever stands in `replaced` on the left becomes what stands on the
    /// right.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn cook(&self, line: &str, replaced: &[(&str, &str)]) -> Said {
        let line = replaced.iter().fold(line.to_owned(), |line, (from, to)| line.replace(from, to));
        let rhumb = format!("rhumb() {{ '{}' \"$@\" --data '{}'; }}", path_text(&binaries().join("rhumb")), {
            path_text(&self.data())
        });
        run(Command::new("sh").args(["-c", &format!("{rhumb}\n{line}")]), COMMAND_AT_MOST)
    }
}
