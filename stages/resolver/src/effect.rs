//! Work that the core asks of its shell, and what the work brings.

use std::net::IpAddr;

/// Work for the shell; each is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A query to make, which ends at the latest when it has timed out.
    Query {
        /// The name.
        name: String,
    },
    /// A snapshot to write where the next life finds it.
    Keep {
        /// See [`crate::name_cache::NameCache::snapshot`].
        snapshot: Vec<u8>,
    },
}

/// What the work brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What a query brought.
    Found {
        /// The name.
        name: String,
        /// What was found.
        found: Found,
    },
    /// The snapshot was written, or could not be.
    Kept,
}

/// What name servers say of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its addresses, and for how many seconds they hold.
    Addresses {
        /// In any order.
        addresses: Vec<IpAddr>,
        /// Seconds.
        ttl_s: u32,
    },
    /// It does not exist, or has no address.
    NoAddress {
        /// How many seconds that holds, if the zone says so.
        ttl_s: Option<u32>,
    },
    /// A failure: a name server answered, and could not tell.
    Temporary,
    /// The name servers failed on it (SERVFAIL): those that they asked in their turn may not have
    /// answered.
    ServerFailure,
    /// No name server answered.
    Silence,
}
