//! Results: a file with a line of JSON for each trial. A later run of the same commit leaves out
//! the seeds that passed.

use super::kind::Kind;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A trial in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// What the schedule was drawn from.
    pub seed: u64,
    /// The commit whose programs ran; ends with `-dirty` when they were built from more than it
    /// has.
    pub commit: String,
    /// Kinds of faults that the schedule was drawn from.
    pub kinds: Vec<String>,
    /// The schedule, in words.
    pub schedule: String,
    /// `passed`, `refused` or `failed`.
    pub verdict: String,
    /// Why it failed; empty otherwise.
    pub reason: String,
    /// From the start of the trial to its verdict.
    pub seconds: f64,
    /// URLs of honest hosts that were requested more than once.
    pub repeats: u64,
    /// How many of them the faults allow.
    pub repeats_max: u64,
    /// The longest time without any request.
    pub pause_s: f64,
    /// From the last order of an operator to the end of all moves, where there were orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub even_after_s: Option<f64>,
}

/// The file, or none.
#[derive(Debug)]
pub struct Results {
    path: Option<PathBuf>,
    earlier: Vec<Line>,
}

impl Results {
    /// Reads what earlier runs found.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn open(path: Option<&Path>) -> io::Result<Results> {
        let text = match path.map(fs::read_to_string) {
            None => String::new(),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Some(read) => read?,
        };
        // A line that was cut off by a kill says nothing.
        let earlier = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        Ok(Results {
            path: path.map(Path::to_owned),
            earlier,
        })
    }

    /// Whether an earlier run of this commit passed this seed with these kinds.
    pub fn has_passed(&self, seed: u64, commit: &str, kinds: &[Kind]) -> bool {
        let kinds: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
        let is_it =
            |line: &&Line| line.seed == seed && line.commit == commit && line.kinds == kinds;
        !commit.ends_with("-dirty")
            && self
                .earlier
                .iter()
                .rfind(is_it)
                .is_some_and(|line| line.verdict != "failed")
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&self, line: &Line) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut file = File::options().create(true).append(true).open(path)?;
        writeln!(file, "{}", serde_json::to_string(line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seed: u64, commit: &str, verdict: &str) -> Line {
        Line {
            seed,
            commit: commit.to_owned(),
            kinds: vec!["kill".to_owned()],
            schedule: String::new(),
            verdict: verdict.to_owned(),
            reason: String::new(),
            seconds: 1.5,
            repeats: 0,
            repeats_max: 0,
            pause_s: 0.0,
            even_after_s: None,
        }
    }

    #[test]
    fn a_seed_is_left_out_when_it_passed_at_this_commit_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let results = Results::open(Some(&path)).unwrap();
        for (seed, commit, verdict) in [
            (1, "c", "passed"),
            (2, "c", "refused"),
            (3, "c", "failed"),
            (4, "b", "passed"),
            (5, "c-dirty", "passed"),
        ] {
            results.add(&line(seed, commit, verdict)).unwrap();
        }
        for (seed, verdict) in [(6, "passed"), (6, "failed"), (7, "failed"), (7, "passed")] {
            results.add(&line(seed, "c", verdict)).unwrap();
        }
        let results = Results::open(Some(&path)).unwrap();
        let passed = |seed, commit| results.has_passed(seed, commit, &[Kind::Kill]);
        assert_eq!(
            [1, 2, 3, 4, 6, 7].map(|seed| passed(seed, "c")),
            [true, true, false, false, false, true]
        );
        assert!(!passed(5, "c-dirty") && !results.has_passed(1, "c", &[Kind::Kill, Kind::Stop]));
    }
}
