//! Holds: the whole crawl stands still for a moment, while a command needs it so.
//!
//! Invariant: a hold ends with its command. Who gave it renews it; one that is renewed no more is
//! over, for each process by its own clock, whatever became of the command.

use super::Author;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A hold that was not renewed for so long is over.
pub const HOLD_LASTS: Duration = Duration::from_secs(10);

/// An order that no job is handed out, and that jobs which are out end with the request in hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Who asked for it, when and why.
    #[serde(flatten)]
    pub author: Author,
    /// When it was renewed last, in seconds since 1970 by the clock of who did. What counts is that
    /// it changes.
    pub renewed_s: u64,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the crawl is held {}", self.author)
    }
}
