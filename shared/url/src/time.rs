//! Time as an argument: a monotonic point that only the stage loop reads from a clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// The web began, and no page is older: 1991, in seconds of Unix time.
pub const WEB_BEGAN_S: u64 = 662_688_000;

/// Whole milliseconds of a duration.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whole microseconds of a duration.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A point of monotonic time, in microseconds since an origin that belongs to the process (or to
/// the simulation). Never stored and never sent: what survives a process is a remaining wait (P2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin.
    pub const ZERO: Timestamp = Timestamp(0);

    /// A point `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Self {
        Timestamp(micros)
    }

    /// Microseconds since the origin.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;
    /// Saturates instead of overflowing.
    fn add(self, wait: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(micros(wait)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;
    /// Saturates at the origin.
    fn sub(self, wait: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(micros(wait)))
    }
}
