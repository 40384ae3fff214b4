//! What can go wrong with a URL-seen store, and the way out.

use rhumb_stage::store::StoreError;
use std::path::Path;

/// Why a call failed. The store is to be opened again, from what was committed last, unless it says
/// that it goes on.
#[derive(Debug, thiserror::Error)]
pub enum SeenError {
    /// A file could not be read or written.
    #[error("the URL-seen store cannot {action} {path}: {error}")]
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
        "{path} is damaged: {what}; restore the stage's whole folder (the URL-seen store and the \
         database beside it) from a copy, or delete the crawl"
    )]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The committed state is none of this store's.
    #[error(
        "the committed state of the URL-seen store in {folder} cannot be read: {what}; use the \
         version of the program that wrote it, restore the stage's whole folder from a copy, or \
         delete the crawl"
    )]
    State {
        /// The store's folder.
        folder: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The memory store is to go on with what the sieve made.
    #[error(
        "the URL-seen store in {folder} has runs on disk, which stages.dedup.store 'memory' does \
         not read; set it to 'disk' for the rest of this crawl"
    )]
    Runs {
        /// The store's folder.
        folder: String,
    },
    /// A question about a partition that the store was not opened for. The store goes on.
    #[error("partition {0} is none of this URL-seen store's")]
    Partition(u16),
    /// The keys that are to be imported are not in order. The import is over, and the store goes on
    /// without it.
    #[error(
        "the URL-seen keys that came for partition {0} do not ascend; none of them was taken over, \
         import them again"
    )]
    Unordered(u16),
    /// An earlier call failed.
    #[error("the URL-seen store stopped at an earlier error; open it again")]
    Stopped,
}

impl SeenError {
    pub(super) fn damaged(path: &Path, what: &'static str) -> Self {
        SeenError::Damaged {
            path: path.display().to_string(),
            what,
        }
    }
}

impl From<SeenError> for StoreError {
    fn from(error: SeenError) -> Self {
        match error {
            SeenError::Io {
                action,
                path,
                error,
            } => StoreError::Io {
                action,
                path,
                error: error.to_string(),
            },
            error => StoreError::Unusable(error.to_string()),
        }
    }
}
