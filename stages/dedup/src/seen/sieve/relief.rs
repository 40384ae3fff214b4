//! What is being done about a full buffer.

/// See [`super::Sieve::relieve`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Relief {
    /// Nothing: it is not full.
    None,
    /// Answering questions, until half of it is free.
    Answering,
    /// Merging deltas, because they take more than a quarter of it, until they take an eighth: the
    /// more questions wait for a pass, the cheaper is each.
    Merging,
}
