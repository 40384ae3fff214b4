//! The table of the instance's numbers, and its keys.

use shared::stage::store::Table;

/// A partition (two bytes, big-endian) leads to the serial number of its next new URL, [`COUNTERS`] to the counts of
/// the instance, and [`SEEN`] to the state of the URL-seen store.
pub(crate) const META: Table = "meta";
/// Longer than a partition, like [`SEEN`].
pub(crate) const COUNTERS: &[u8] = b"counters";
pub(crate) const SEEN: &[u8] = b"seen";
