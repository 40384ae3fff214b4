//! Partitions on their way to an instance: while some are, it is not ready, so that a rolling
//! update waits for them.
//!
//! In: how many are coming, at each upkeep. Out: why the instance is not ready. One that has waited
//! for [`WAITS_MAX`] is ready all the same: an update that brings back the other side must not wait
//! for it.

use rhumb_partition::Owners;
use rhumb_url::time::Timestamp;
use std::time::Duration;

/// So long an instance is not ready because partitions are on their way to it.
const WAITS_MAX: Duration = Duration::from_secs(300);

/// What is on its way to an instance.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    coming: u64,
    /// Since when something has been.
    since: Option<Timestamp>,
    reason: Option<String>,
}

impl Incoming {
    /// Looks at the table of owners.
    pub(super) fn look(&mut self, now: Timestamp, owners: &Owners, instance: u16) {
        self.coming = owners.all().filter(|(_, of)| of.comes_to(instance)).count() as u64;
        self.since = if self.coming == 0 {
            None
        } else {
            self.since.or(Some(now))
        };
        let waits = self.since.is_some_and(|since| now.since(since) < WAITS_MAX);
        self.reason = waits.then(|| format!("{} partitions are on their way to it", self.coming));
    }

    /// How many are coming.
    pub(super) fn coming(&self) -> u64 {
        self.coming
    }

    /// Why the instance is not ready, if it is not.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_waits_for_its_partitions_and_not_for_ever() {
        let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
        let mut owners = Owners::new(4, 1);
        let mut incoming = Incoming::default();
        incoming.look(at(0), &owners, 1);
        assert_eq!((incoming.coming(), incoming.reason()), (0, None));
        owners.want(2, &[].into());
        assert_eq!(owners.plan(|_| true), 2);
        incoming.look(at(10), &owners, 1);
        assert_eq!(
            (incoming.coming(), incoming.reason()),
            (2, Some("2 partitions are on their way to it"))
        );
        incoming.look(at(10), &owners, 0);
        assert_eq!(
            (incoming.coming(), incoming.reason()),
            (0, None),
            "whom they leave can do its work"
        );
        incoming.look(at(20), &owners, 1);
        incoming.look(at(319), &owners, 1);
        assert!(incoming.reason().is_some());
        incoming.look(at(320), &owners, 1);
        assert_eq!((incoming.coming(), incoming.reason()), (2, None));
    }
}
