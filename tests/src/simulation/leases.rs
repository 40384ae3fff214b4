//! The bucket of leases: which process owns the partitions of a stateful instance, by the broker's
//! clock.
//!
//! A lease that is not renewed in time lapses; then its owner may take it again, or somebody else
//! does.

use super::agenda::{Place, Process};
use super::plan::Micros;
use std::collections::HashMap;

struct Lease {
    /// None: a process that is none of ours.
    holder: Option<Process>,
    until: Micros,
    /// The revision under which it was taken.
    taken: u64,
}

/// All leases.
pub(crate) struct Leases {
    /// How long a lease lasts.
    pub(crate) lasts: Micros,
    held: HashMap<Place, Lease>,
    /// Somebody waits for these to lapse, and will hold them for so long.
    claims: HashMap<Place, Micros>,
    revision: u64,
}

impl Leases {
    pub(crate) fn new(lasts: Micros) -> Self {
        Leases {
            lasts,
            held: HashMap::new(),
            claims: HashMap::new(),
            revision: 0,
        }
    }

    /// Takes or renews a lease. Returns the revision under which it was taken, another one after it
    /// had lapsed; none when another process holds it.
    pub(crate) fn take(&mut self, now: Micros, process: Process) -> Option<u64> {
        let place = process.place;
        let lapsed_at = self
            .held
            .get(&place)
            .map(|lease| lease.until)
            .filter(|&until| until <= now);
        if let Some(lapsed_at) = lapsed_at
            && let Some(micros) = self.claims.remove(&place)
        {
            self.revision += 1;
            let lease = Lease {
                holder: None,
                until: lapsed_at + micros,
                taken: self.revision,
            };
            self.held.insert(place, lease);
        }
        let held = self.held.get(&place).filter(|lease| lease.until > now);
        if held.is_some_and(|lease| lease.holder != Some(process)) {
            return None;
        }
        self.revision += 1;
        let taken = held.map_or(self.revision, |lease| lease.taken);
        self.held.insert(
            place,
            Lease {
                holder: Some(process),
                until: now + self.lasts,
                taken,
            },
        );
        Some(taken)
    }

    /// The next life of a process's core holds its lease.
    pub(crate) fn pass_on(&mut self, process: Process) {
        let of_life_before =
            |holder: Process| holder.place == process.place && holder.life + 1 == process.life;
        if let Some(lease) = self.held.get_mut(&process.place)
            && lease.holder.is_some_and(of_life_before)
        {
            lease.holder = Some(process);
        }
    }

    /// Whether some process holds the lease of a place.
    pub(crate) fn is_held(&self, now: Micros, place: Place) -> bool {
        self.held.get(&place).is_some_and(|lease| lease.until > now)
    }

    /// Somebody else takes the lease of a place as soon as it lapses, and holds it for a while.
    pub(crate) fn claim(&mut self, place: Place, micros: Micros) {
        self.claims.insert(place, micros);
    }
}
