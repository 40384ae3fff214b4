//! Where the programs of rhumb lie: all in one folder.

use anyhow::Context as _;
use std::path::PathBuf;

/// Returns the folder of the running program, where the stages and the laboratory lie too.
///
/// # Errors
/// The system does not tell where this program lies.
pub fn folder() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the folder of this program")?;
    let folder = own.parent().context("this program lies in no folder")?;
    // Cargo puts the programs of tests into a folder below.
    let folder = if folder.ends_with("deps") {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    Ok(folder.to_owned())
}
