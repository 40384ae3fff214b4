//! Life: what tells the lives of processes apart, and which errors a next life would meet again.

use rhumb_config::ConfigError;
use rhumb_config::identity::Misfit;
use rhumb_stage::settlement::Rewound;
use rhumb_stage::store::StoreError;

/// Returns whether to start again would not help.
pub(super) fn is_final(error: &anyhow::Error) -> bool {
    error.is::<ConfigError>()
        || error.is::<Misfit>()
        || error.is::<Rewound>()
        || matches!(error.downcast_ref(), Some(StoreError::Unusable(_)))
}

/// A number that no other life of any process has: ids and credits of one life mean nothing in the
/// next.
pub fn new_life(name: &str) -> u64 {
    let since_1970 = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let text = format!("{name} {} {}", std::process::id(), since_1970.as_nanos());
    xxhash_rust::xxh3::xxh3_64(text.as_bytes())
}
