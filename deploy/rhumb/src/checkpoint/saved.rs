//! What the manifest of a checkpoint says of a file.

use serde::{Deserialize, Serialize};

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedFile {
    /// Where it is, in the folder.
    pub(crate) path: String,
    /// Its length.
    pub(crate) bytes: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub(crate) sha256: String,
    /// Which partition it has, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<SavedPartition>,
}

/// A partition in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedPartition {
    /// Its stage.
    pub(crate) stage: String,
    /// Its id.
    pub(crate) partition: u16,
    /// The version of its ownership.
    pub(crate) version: u64,
}

/// In hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
