//! Names in a replay: nobody is contacted, so all have the same address, and it is nobody's.

use crate::effect::{Answer, Found};
use std::net::{IpAddr, Ipv4Addr};

/// For documentation (RFC 5737): no server has it.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// A day.
const TTL_S: u32 = 24 * 3600;

/// The answer to a query for a name.
pub fn answer(name: String) -> Answer {
    Answer::Found {
        name,
        found: Found::Addresses {
            addresses: vec![NOBODY],
            ttl_s: TTL_S,
        },
    }
}
