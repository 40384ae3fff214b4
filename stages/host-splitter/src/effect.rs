//! Work on the scope that all instances share, which the core asks of its shell, and what the work brings.

/// Work for the shell; each is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Bring the next entry of the shared scope, or say that all there were have been brought.
    NextScope,
    /// Add an entry to the shared scope; repeated until it is there.
    Join {
        /// The topic.
        topic: String,
        /// A host, or with `scope.follow: domain` a registered domain.
        entry: String,
    },
}

/// What the work brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An entry of the shared scope.
    Scope {
        /// The topic.
        topic: String,
        /// A host, or a registered domain.
        entry: String,
    },
    /// All entries that were there at the start have been brought.
    ScopeCaughtUp,
    /// The entry is in the shared scope.
    Joined {
        /// The topic.
        topic: String,
        /// A host, or a registered domain.
        entry: String,
    },
}
