//! Bisect: which commit of a range made a page dearer, by what its builds cost in turn.
//!
//! In: a range of commits, a web. Out: the first commit whose build costs more than the middle
//! between the two ends; the middle is that of ratios. Only the first parents of merges are looked
//! at.
//!
//! Invariant: what is compared was measured in turn, each commit with the first one. Builds are
//! made in a folder of their own, in a worktree that is removed afterwards; no file of the checkout
//! changes.

use super::turns::{Contender, Spread, What, take_turns};
use anyhow::{Context as _, ensure};
use rhumb_wire::topology::StageName;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use synthetic_web::Profile;

/// With a smaller ratio between the ends there is nothing to look for: turns differ by as much.
const RATIO_MIN: f64 = 1.05;

/// What was looked for, and what was found.
#[derive(Debug)]
pub struct Found {
    /// The commit, and its subject.
    pub commit: String,
    /// CPU time per page of its build to that of the first one.
    pub ratio: f64,
    /// The same of the commit before it.
    pub before: f64,
    /// The same of the last commit.
    pub last: f64,
}

/// How the costs of commits are measured.
#[derive(Debug)]
pub struct Way<'a> {
    /// The web that is crawled.
    pub profile: &'a Profile,
    /// Keys of the crawl's configuration.
    pub set: &'a [String],
    /// Rounds of each pair.
    pub rounds: usize,
    /// Where builds are made and kept: one that is there is not made again.
    pub dir: &'a Path,
}

/// Looks for the commit in `GOOD..BAD` that made a page dearer. Tells on standard error how far it
/// is.
///
/// # Errors
/// There is no such range, the ends cost the same, a commit does not build, or a crawl fails.
pub fn bisect(range: &str, way: &Way<'_>) -> anyhow::Result<Found> {
    let (good, bad) = range
        .split_once("..")
        .context("--bisect takes a range of commits, such as v1..main")?;
    let mut commits = vec![git(&[
        "rev-parse",
        "--verify",
        &format!("{good}^{{commit}}"),
    ])?];
    let later = git(&[
        "rev-list",
        "--first-parent",
        "--reverse",
        &format!("{good}..{bad}"),
    ])?;
    commits.extend(later.lines().map(str::to_owned));
    ensure!(commits.len() > 1, "there is no commit in {range}");
    std::fs::create_dir_all(way.dir)
        .with_context(|| format!("cannot make {}", way.dir.display()))?;
    let builds = Builds {
        dir: std::path::absolute(way.dir)?,
    };
    let mut ratios = vec![None; commits.len()];
    ratios[0] = Some(1.0);
    let mut ratio_of = |at: usize, commits: &[String]| -> anyhow::Result<f64> {
        let ratio = builds.ratio(&commits[at], &commits[0], way)?;
        eprintln!("{}: {ratio:.3} times {good}", subject(&commits[at])?);
        ratios[at] = Some(ratio);
        Ok(ratio)
    };
    let end = commits.len() - 1;
    let last = ratio_of(end, &commits)?;
    ensure!(
        last >= RATIO_MIN,
        "{bad} costs {last:.3} times what {good} does: there is nothing to look for"
    );
    let at = first_dear(end, |at| Ok(ratio_of(at, &commits)? > last.sqrt()))?;
    let known = |at: usize| ratios[at].context("an end of the search was not measured");
    Ok(Found {
        commit: subject(&commits[at])?,
        ratio: known(at)?,
        before: known(at - 1)?,
        last,
    })
}

/// The first of the commits after the first up to `end` that is dear. The last one is. Asks only
/// for those between.
fn first_dear(
    end: usize,
    mut is_dear: impl FnMut(usize) -> anyhow::Result<bool>,
) -> anyhow::Result<usize> {
    let mut cheap = 0;
    let mut dear = end;
    while dear - cheap > 1 {
        let middle = cheap.midpoint(dear);
        if is_dear(middle)? {
            dear = middle
        } else {
            cheap = middle
        }
    }
    Ok(dear)
}

/// Builds of commits in a folder.
struct Builds {
    dir: PathBuf,
}

impl Builds {
    /// What a page costs one build to what it costs another, in turn.
    fn ratio(&self, commit: &str, to: &str, way: &Way<'_>) -> anyhow::Result<f64> {
        let contenders = [
            Contender::other(&self.programs(commit)?, &[])?,
            Contender::other(&self.programs(to)?, &[])?,
        ];
        let rounds = take_turns(&contenders, way.profile, way.set, way.rounds)?;
        let spread = Spread::of_ratios(What::CpuMs, (&rounds[0], "all"), (&rounds[1], "all"));
        Ok(spread.context("the turns have no CPU time")?.median)
    }

    /// The programs of a commit, which is built unless it was before.
    fn programs(&self, commit: &str) -> anyhow::Result<PathBuf> {
        let programs = self.dir.join(commit);
        if programs.join("rhumb").is_file() {
            return Ok(programs);
        }
        eprintln!("builds {}", subject(commit)?);
        let tree = self.dir.join("tree");
        let tree_path = tree.to_str().context("the folder's name is not UTF-8")?;
        git(&["worktree", "add", "--force", "--detach", tree_path, commit])?;
        let built = self.build(&tree);
        git(&["worktree", "remove", "--force", tree_path])?;
        built.with_context(|| format!("{commit} does not build"))?;
        // The one that says that all are there comes last.
        std::fs::create_dir_all(&programs)?;
        for name in StageName::ALL
            .into_iter()
            .map(StageName::name)
            .chain(["rhumb"])
        {
            let program = self.dir.join("target/release").join(name);
            std::fs::copy(&program, programs.join(name))
                .with_context(|| format!("no {}", program.display()))?;
        }
        Ok(programs)
    }

    fn build(&self, tree: &Path) -> anyhow::Result<()> {
        let status = Command::new("cargo")
            .args(["build", "--release", "--workspace", "--bins", "--quiet"])
            .current_dir(tree)
            .env("CARGO_TARGET_DIR", self.dir.join("target"))
            .stdin(Stdio::null())
            .status()
            .context("cannot run cargo")?;
        ensure!(status.success(), "cargo ended with {status}");
        Ok(())
    }
}

/// A commit in a line.
fn subject(commit: &str) -> anyhow::Result<String> {
    git(&["log", "-1", "--format=%h %s", commit])
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("cannot run git")?;
    let command = arguments.join(" ");
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {command}: {}", error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_dear_commit_is_found_with_few_builds() {
        for end in 1..40 {
            for dear in 1..=end {
                let mut asked = 0;
                let found = first_dear(end, |at| {
                    assert!(0 < at && at < end, "the ends are known");
                    asked += 1;
                    Ok(at >= dear)
                });
                assert_eq!(found.unwrap(), dear);
                assert!(asked <= end.ilog2() + 1, "{asked} of {end}");
            }
        }
        assert!(first_dear(9, |_| anyhow::bail!("does not build")).is_err());
    }
}
