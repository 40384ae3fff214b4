//! What is known of names: a bounded cache of resolutions that expire.
//!
//! In: names with what was found out about them and for how long it holds. Out: what still holds.
//!
//! Invariants: never more than `capacity` names (P6); nothing is given out after it has expired.
//!
//! What goes when the cache is full is decided by CLOCK (Corbató 1968): a hand goes round and takes the first
//! entry that has expired or was not used since the hand last passed. It needs one bit an entry, and for
//! crawlers it does as well as least-recently-used (Broder, Najork and Wiener 2003, section 5).

use shared::message::Resolution;
use shared::time::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What was found out; addresses with the time to live that the entry began with.
    pub resolution: Resolution,
    /// When it was found out.
    pub found_at: Timestamp,
    /// Until when it holds.
    pub expires_at: Timestamp,
}

struct Slot {
    name: Arc<str>,
    known: Known,
    /// Used since the hand last passed.
    used: bool,
}

/// The cache.
pub struct AddressCache {
    slots: Vec<Slot>,
    slot_of: HashMap<Arc<str>, usize>,
    hand: usize,
    capacity: usize,
}

impl AddressCache {
    /// An empty cache for so many names, at least one.
    pub fn new(capacity: usize) -> Self {
        AddressCache { slots: Vec::new(), slot_of: HashMap::new(), hand: 0, capacity: capacity.max(1) }
    }

    /// How many names are in it, expired ones that nobody asked for included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// What is known of a name and still holds.
    pub fn get(&mut self, name: &str, now: Timestamp) -> Option<&Known> {
        let slot = &mut self.slots[*self.slot_of.get(name)?];
        if slot.known.expires_at <= now {
            return None;
        }
        slot.used = true;
        Some(&slot.known)
    }

    /// Remembers what was found out about a name, for `lifetime` from now.
    pub fn insert(&mut self, name: &str, resolution: Resolution, lifetime: Duration, now: Timestamp) {
        let known = Known { resolution, found_at: now, expires_at: now + lifetime };
        if let Some(&at) = self.slot_of.get(name) {
            self.slots[at].known = known;
            return;
        }
        let name: Arc<str> = name.into();
        let slot = Slot { name: name.clone(), known, used: false };
        if self.slots.len() < self.capacity {
            self.slot_of.insert(name, self.slots.len());
            self.slots.push(slot);
            return;
        }
        let at = self.vacate(now);
        let old = std::mem::replace(&mut self.slots[at], slot);
        self.slot_of.remove(&old.name);
        self.slot_of.insert(name, at);
    }

    /// A slot that may be taken; ends within two rounds.
    fn vacate(&mut self, now: Timestamp) -> usize {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.slots.len();
            let slot = &mut self.slots[at];
            if !slot.used || slot.known.expires_at <= now {
                return at;
            }
            slot.used = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIFETIME: Duration = Duration::from_secs(10);

    fn addresses(ttl_s: u32) -> Resolution {
        Resolution::Addresses { addresses: vec!["192.0.2.1".parse().unwrap()], ttl_s }
    }

    #[test]
    fn an_entry_holds_until_it_expires() {
        let mut cache = AddressCache::new(2);
        cache.insert("a", addresses(1), LIFETIME, Timestamp::ZERO);
        let just_before = Timestamp::ZERO + (LIFETIME - Duration::from_micros(1));
        assert_eq!(cache.get("a", just_before).map(|known| known.resolution.clone()), Some(addresses(1)));
        assert_eq!(cache.get("a", Timestamp::ZERO + LIFETIME), None);
        assert_eq!(cache.get("b", Timestamp::ZERO), None);
    }

    #[test]
    fn a_later_finding_replaces_the_earlier() {
        let mut cache = AddressCache::new(2);
        cache.insert("a", addresses(1), LIFETIME, Timestamp::ZERO);
        cache.insert("a", Resolution::NoAddress, LIFETIME * 2, Timestamp::ZERO + LIFETIME);
        let known = cache.get("a", Timestamp::ZERO + LIFETIME).unwrap();
        assert_eq!((&known.resolution, known.found_at), (&Resolution::NoAddress, Timestamp::ZERO + LIFETIME));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn what_is_in_use_stays_and_what_expired_goes_first() {
        let mut cache = AddressCache::new(3);
        cache.insert("used", addresses(1), LIFETIME * 9, Timestamp::ZERO);
        cache.insert("unused", addresses(1), LIFETIME * 9, Timestamp::ZERO);
        cache.insert("short", addresses(1), LIFETIME, Timestamp::ZERO);
        assert!(cache.get("used", Timestamp::ZERO).is_some());
        assert!(cache.get("short", Timestamp::ZERO).is_some());
        cache.insert("new", addresses(1), LIFETIME * 9, Timestamp::ZERO);
        assert!(cache.get("unused", Timestamp::ZERO).is_none());
        cache.insert("newer", addresses(1), LIFETIME * 9, Timestamp::ZERO + LIFETIME);
        assert!(cache.get("new", Timestamp::ZERO + LIFETIME).is_some());
        assert!(cache.get("newer", Timestamp::ZERO + LIFETIME).is_some());
        assert_eq!(cache.len(), 3);
    }

    proptest! {
        /// Method: against a map without bounds; what the cache gives is what the map has, and it never grows
        /// beyond its capacity.
        #[test]
        fn it_gives_only_what_was_put_in_last(
            steps in proptest::collection::vec((0u8..12, any::<bool>(), 0u64..6), 0..200),
        ) {
            let mut cache = AddressCache::new(5);
            let mut model: HashMap<String, (u32, Timestamp)> = HashMap::new();
            let mut now = Timestamp::ZERO;
            for (step, (name, insert, pause_s)) in (0u32..).zip(steps) {
                now = now + Duration::from_secs(pause_s);
                let name = name.to_string();
                if insert {
                    cache.insert(&name, addresses(step), LIFETIME, now);
                    model.insert(name.clone(), (step, now + LIFETIME));
                    prop_assert!(cache.get(&name, now).is_some());
                }
                if let Some(known) = cache.get(&name, now) {
                    let (value, expires_at) = model[&name];
                    prop_assert_eq!(&known.resolution, &addresses(value));
                    prop_assert!(expires_at == known.expires_at && now < expires_at);
                }
                prop_assert!(cache.len() <= 5 && cache.slot_of.len() == cache.len());
            }
        }
    }
}
