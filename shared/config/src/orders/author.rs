//! Who asked for something, when and why.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Who asked for something, when and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// Who.
    pub by: String,
    /// When, in seconds since 1970.
    pub since_s: u64,
    /// Why, in the words of who asked; empty when nothing was said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Author { by, since_s, note } = self;
        write!(
            f,
            "by {by} since {}",
            humantime::format_rfc3339_seconds(since(*since_s))
        )?;
        if note.is_empty() {
            Ok(())
        } else {
            write!(f, ": {note}")
        }
    }
}

fn since(seconds: u64) -> SystemTime {
    // Far enough for any date that can be written.
    const LATEST_S: u64 = 253_402_300_799;
    UNIX_EPOCH + Duration::from_secs(seconds.min(LATEST_S))
}
