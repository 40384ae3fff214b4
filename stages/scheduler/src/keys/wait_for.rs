//! What servers wait for, as far as it ends at a known time.

/// What a server waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// The end of its lease.
    Lease,
    /// Its next contact may be made, but nothing waits for it.
    Nobody,
    /// Its next contact may be made.
    Contact,
    /// The same, after it refused or did not answer.
    BackOff,
    /// The first of its URLs, which all failed before, may be tried again.
    Retry,
    /// Its address.
    Address,
    /// Its robots.txt, from another server.
    Robots,
}
