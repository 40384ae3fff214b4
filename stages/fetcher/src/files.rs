//! How many files the process may have open: a connection is one, and the usual limit of 1,024 is
//! less than the connections that a fetcher may be told to hold.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside connections to servers: the broker, metrics, libraries; what is being closed while
/// others open.
const BESIDE: u64 = 200;

/// Raises the limit as far as `connections` need it. Returns how many of them there is room for.
pub fn allow(connections: u32) -> u32 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = u64::from(connections) + BESIDE;
    // None stands for no limit.
    let mut limit = current.unwrap_or(u64::MAX);
    if limit < wanted {
        let raised = wanted.min(maximum.unwrap_or(u64::MAX));
        if setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(raised),
                maximum,
            },
        )
        .is_ok()
        {
            limit = raised;
        }
    }
    u32::try_from(limit.saturating_sub(BESIDE))
        .unwrap_or(u32::MAX)
        .min(connections)
}
