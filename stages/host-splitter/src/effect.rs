//! Work on the scope that all instances share, which the core asks of its shell, and what the work
//! brings.

use rhumb_config::scope_entry::ScopeEntry;

/// Work for the shell; each is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Bring the next entry of the shared scope, or say that all there were have been brought.
    NextScope,
    /// Add an entry to the shared scope; repeated until it is there.
    Join(ScopeEntry),
}

/// What the work brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An entry of the shared scope.
    Scope(ScopeEntry),
    /// All entries that were there at the start have been brought.
    ScopeCaughtUp,
    /// The entry is in the shared scope.
    Joined(ScopeEntry),
}
