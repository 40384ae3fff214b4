//! What can go wrong with a sieve, and the way out.

use std::path::Path;

/// The sieve cannot go on. After any of these but [`SieveError::Partition`] it refuses all work until it is opened
/// again, from what was committed last.
#[derive(Debug, thiserror::Error)]
pub enum SieveError {
    /// A file could not be read or written.
    #[error(
        "the sieve cannot {action} {path}: {error}; free space or repair the disk, then start the stage again: nothing that was committed is lost"
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: String,
        /// Why it failed.
        error: std::io::Error,
    },
    /// A file does not hold what was written to it. To go on without it would be to forget URLs.
    #[error(
        "{path} is damaged: {what}; restore the stage's whole folder (the sieve and the database beside it) from a copy, or delete the crawl"
    )]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The committed state is none of this sieve's.
    #[error(
        "the committed state of the sieve in {folder} cannot be read: {what}; use the version of the program that wrote it, restore the stage's whole folder from a copy, or delete the crawl"
    )]
    State {
        /// The sieve's folder.
        folder: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A question about a partition that the sieve was not opened for. The sieve goes on.
    #[error("partition {0} is none of this sieve's")]
    Partition(u16),
    /// An earlier call failed.
    #[error("the sieve stopped at an earlier error; open it again")]
    Stopped,
}

impl SieveError {
    pub(super) fn damaged(path: &Path, what: &'static str) -> Self {
        SieveError::Damaged { path: path.display().to_string(), what }
    }
}
