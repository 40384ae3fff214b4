//! Points of time as archives spell them.

use std::time::{Duration, SystemTime};

/// Milliseconds since 1970 as `2026-01-31T12:00:00.123Z`.
pub(crate) fn date(ms: u64) -> String {
    // What no calendar has is spelled as its beginning.
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(if ms < YEAR_9999_MS { ms } else { 0 });
    humantime::format_rfc3339_millis(at).to_string()
}

/// Reads what [`date`] wrote; 0 when it is no such text.
pub(crate) fn millis(date: &str) -> u64 {
    let at = humantime::parse_rfc3339(date).ok();
    at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok())
        .map_or(0, |since| since.as_millis() as u64)
}

const YEAR_9999_MS: u64 = 253_370_764_800_000;

/// The same as `20260131120000`, as indexes and file names have it.
pub(crate) fn timestamp(ms: u64) -> String {
    date(ms)
        .chars()
        .filter(char::is_ascii_digit)
        .take(14)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_timestamps_are_those_of_archives() {
        assert_eq!(date(1_769_860_800_123), "2026-01-31T12:00:00.123Z");
        assert_eq!(timestamp(1_769_860_800_123), "20260131120000");
        assert_eq!(date(u64::MAX), "1970-01-01T00:00:00.000Z");
        assert_eq!(millis(&date(1_769_860_800_123)), 1_769_860_800_123);
        assert_eq!(millis("yesterday"), 0);
    }
}
