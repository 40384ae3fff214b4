//! What a resolver is configured with.

use rhumb_config::Pipeline;
use rhumb_stage::doubt::Past;
use rhumb_url::address::Reach;
use std::time::Duration;

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Queries outstanding.
    pub window: usize,
    /// Names in the cache.
    pub entries: usize,
    /// An address is used at least this long.
    pub refresh: Duration,
    /// And at most this long.
    pub lifetime_max: Duration,
    /// How long a name without address is remembered at most.
    pub negative: Duration,
    /// How long a failure is remembered; twice as long with every further one,
    pub temporary: Duration,
    /// up to this.
    pub temporary_max: Duration,
    /// How long silence may be put down to the network here, at most.
    pub doubt_max: Duration,
    /// Whether a name server has answered before.
    pub past: Past,
    /// How often a snapshot is taken at most; zero: never.
    pub snapshot_every: Duration,
    /// The addresses that may be contacted (P7).
    pub reach: Reach,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        let resolver = &pipeline.stages.resolver;
        Settings {
            window: resolver.window,
            entries: resolver.cache.entries,
            refresh: resolver.cache.refresh,
            lifetime_max: resolver.cache.lifetime_max,
            negative: resolver.cache.negative,
            temporary: resolver.cache.temporary,
            temporary_max: resolver.cache.temporary_max,
            doubt_max: pipeline.network.doubt_max,
            past: Past::Unknown,
            snapshot_every: resolver.cache.snapshot_every,
            reach: Reach::new(pipeline.network.allow_private_addresses),
        }
    }
}
