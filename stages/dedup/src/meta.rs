//! The table of the instance's numbers, and its keys.

use shared::stage::store::Table;

/// By partition (two bytes, big-endian) the serial number of its next new URL; under [`COUNTERS`] the counts of the
/// instance; under [`SEEN`] the state of the URL-seen store.
pub(crate) const META: Table = "meta";
/// Longer than a partition, like [`SEEN`].
pub(crate) const COUNTERS: &[u8] = b"counters";
pub(crate) const SEEN: &[u8] = b"seen";
