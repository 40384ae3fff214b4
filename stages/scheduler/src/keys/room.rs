//! Room: what several servers share, and wait for when all of it is taken.

use std::net::IpAddr;

/// What several servers share, and may find taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// The budget of a host, by the hash of its name. Room comes when one of its URLs ends.
    Host(u64),
    /// The budget of a registered domain, by the hash of its name. Room comes when one of its URLs ends, or with
    /// tokens.
    Domain(u64),
    /// Connections to an address. Room comes when one of them ends.
    Address(IpAddr),
}
