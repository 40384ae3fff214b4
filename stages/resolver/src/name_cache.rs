//! What is known of names: a bounded cache of resolutions that expire.
//!
//! In: names with what was found out about them and for how long it holds. Out: what still holds;
//! names whose addresses are in use and soon to expire.
//!
//! Invariants: never more than `capacity` names (P6); nothing is given out after it has expired,
//! nor for another name; a lookup takes no memory from the heap.
//!
//! What goes when the cache is full is decided by CLOCK (Corbató 1968): a hand goes round and takes
//! the first entry that has expired or was not used since the hand last passed. It needs one bit an
//! entry, and for crawlers it does as well as least-recently-used (Broder, Najork and Wiener 2003,
//! section 5).
//!
//! An entry is found by a keyed hash of its name, so that nobody on the web can choose names that
//! collide. Should two names have the same 64 bits none the less, the later one takes the place of
//! the earlier.

mod snapshot;

pub use self::snapshot::{Damaged, Kept, read as read_snapshot};

use rhumb_url::index::{Fingerprinted, Index};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Resolution;
use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// Longer names are not remembered: there are none in DNS (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 255;
/// Addresses of a name that are remembered.
pub const ADDRESSES_MAX: usize = 16;
/// An address in use is asked for again when this part of its lifetime is left, as Unbound does
/// (`prefetch`).
const AHEAD: u32 = 10;
/// What was not used when it was due is looked at again when half of the rest is over, down to
/// this.
const DUE_STEP_MIN: Duration = Duration::from_secs(1);
/// The refresh time of an entry that is not to be asked for ahead of its time.
const NEVER: Timestamp = Timestamp::from_micros(u64::MAX);
/// A key of an ordered set takes so much at most, its share of half-empty nodes included.
const DUE_BYTES: usize = 40;

/// What was found out about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its addresses.
    Addresses,
    /// That it has none.
    NoAddress,
    /// That it has private ones alone.
    Private,
    /// Nothing: the name servers failed.
    Temporary,
}

struct Slot {
    /// The hash of the name. It stands beside the rest, so that a lookup waits for memory once
    /// less.
    hash: u64,
    /// The name, then its addresses of four bytes, then those of sixteen.
    bytes: Box<[u8]>,
    expires_at: Timestamp,
    lifetime_micros: u64,
    /// When it is to be asked for again if it is in use by then.
    due_at: Timestamp,
    name_bytes: u8,
    four: u8,
    kind: Kind,
    /// Looked up since the hand last passed.
    used: bool,
    /// Looked up since it was found out.
    wanted: bool,
    /// Failures since the last answer of another kind.
    failures: u8,
}

impl Fingerprinted for Slot {
    fn fingerprint(&self) -> u64 {
        self.hash
    }
}

impl Slot {
    fn name(&self) -> &[u8] {
        &self.bytes[..usize::from(self.name_bytes)]
    }

    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let (four, six) =
            self.bytes[usize::from(self.name_bytes)..].split_at(4 * usize::from(self.four));
        let four = four
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&octets| IpAddr::from(octets));
        four.chain(
            six.as_chunks::<16>()
                .0
                .iter()
                .map(|&octets| IpAddr::from(octets)),
        )
    }
}

/// What is known of a name and still holds.
#[derive(Clone, Copy)]
pub struct Known<'a>(&'a Slot);

impl<'a> Known<'a> {
    /// What was found out.
    pub fn kind(self) -> Kind {
        self.0.kind
    }

    /// Its addresses, those of the fourth version of the protocol first.
    pub fn addresses(self) -> impl Iterator<Item = IpAddr> + 'a {
        self.0.addresses()
    }

    /// How long it still holds.
    pub fn left(self, now: Timestamp) -> Duration {
        self.0.expires_at.since(now)
    }

    /// How long ago it was found out.
    pub fn age(self, now: Timestamp) -> Duration {
        Duration::from_micros(self.0.lifetime_micros).saturating_sub(self.left(now))
    }

    /// Returns whether so little of its lifetime is left that it should be asked for again.
    pub fn is_about_to_expire(self, now: Timestamp) -> bool {
        self.left(now) <= ahead(Duration::from_micros(self.0.lifetime_micros))
    }

    /// As a message has it; its addresses hold for the time that is left.
    pub fn resolution(self, now: Timestamp) -> Resolution {
        match self.0.kind {
            Kind::Addresses => Resolution::Addresses {
                addresses: self.addresses().collect(),
                ttl_s: seconds(self.left(now)),
            },
            Kind::NoAddress => Resolution::NoAddress,
            Kind::Private => Resolution::Private,
            Kind::Temporary => Resolution::Temporary,
        }
    }
}

/// The cache.
pub struct NameCache {
    slots: Vec<Slot>,
    slot_of: Index,
    hasher: RandomState,
    hand: usize,
    capacity: usize,
    /// Slots with addresses by the time at which they are due.
    due: BTreeSet<(Timestamp, u32)>,
    /// Names and addresses in all slots.
    text_bytes: usize,
}

impl NameCache {
    /// Creates an empty cache for `capacity` names: at least one, below 2^31.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        NameCache {
            slots: Vec::with_capacity(capacity),
            slot_of: Index::new(capacity),
            hasher: RandomState::new(),
            hand: 0,
            capacity,
            due: BTreeSet::new(),
            text_bytes: 0,
        }
    }

    /// How many names are in it, expired ones that nobody asked for included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of memory that the names in it take, and the index for all that it has room for.
    pub fn bytes(&self) -> usize {
        let slots = self.slots.len() * size_of::<Slot>();
        slots + self.text_bytes + self.slot_of.bytes() + self.due.len() * DUE_BYTES
    }

    /// What is known of a name and still holds. That is a use of it.
    pub fn get(&mut self, name: &str, now: Timestamp) -> Option<Known<'_>> {
        let at = self.find(name)?;
        let slot = &mut self.slots[at];
        if slot.expires_at <= now {
            return None;
        }
        slot.used = true;
        slot.wanted = true;
        Some(Known(slot))
    }

    /// What is known of a name and still holds, without its being a use.
    pub fn peek(&self, name: &str, now: Timestamp) -> Option<Known<'_>> {
        let slot = &self.slots[self.find(name)?];
        (slot.expires_at > now).then_some(Known(slot))
    }

    /// How often in a row a name could not be asked for, as far as that is remembered.
    pub fn failures(&self, name: &str) -> u8 {
        self.find(name).map_or(0, |at| self.slots[at].failures)
    }

    /// Remembers what was found out about a name, for `lifetime` from now. Of its addresses the
    /// first [`ADDRESSES_MAX`] are kept.
    pub fn insert(
        &mut self,
        name: &str,
        resolution: &Resolution,
        lifetime: Duration,
        now: Timestamp,
    ) {
        let failures = match resolution {
            Resolution::Temporary => self.failures(name).saturating_add(1),
            _ => 0,
        };
        self.insert_aged(name, resolution, lifetime, lifetime, failures, now);
    }

    /// Remembers that a name could not be asked for although what is known of it still holds; it is
    /// due again after `wait`, or a little more.
    pub fn postpone(&mut self, name: &str, wait: Duration, now: Timestamp) {
        let Some(at) = self.find(name) else { return };
        self.slots[at].failures = self.slots[at].failures.saturating_add(1);
        let due_at = now + wait.max(DUE_STEP_MIN);
        let is_in_time =
            self.slots[at].kind == Kind::Addresses && due_at < self.slots[at].expires_at;
        self.schedule(at, if is_in_time { due_at } else { NEVER });
    }

    /// When the next name is due, if one is. Nobody may have used it by then.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A name whose addresses are in use and about to expire; it comes once.
    pub fn take_due(&mut self, now: Timestamp) -> Option<String> {
        while let Some(&(due_at, at)) = self.due.first()
            && due_at <= now
        {
            let at = at as usize;
            self.schedule(at, NEVER);
            let slot = &self.slots[at];
            let left = slot.expires_at.since(now);
            if slot.wanted && !left.is_zero() {
                return Some(String::from_utf8_lossy(slot.name()).into_owned());
            }
            // It may be used yet.
            if left > DUE_STEP_MIN {
                self.schedule(at, now + left / 2);
            }
        }
        None
    }

    /// `lifetime` is the whole lifetime, and `left` is what remains of it.
    fn insert_aged(
        &mut self,
        name: &str,
        resolution: &Resolution,
        lifetime: Duration,
        left: Duration,
        failures: u8,
        now: Timestamp,
    ) {
        if name.len() > NAME_BYTES_MAX {
            return;
        }
        let (bytes, four) = pack(name, resolution);
        let slot = Slot {
            hash: self.hasher.hash_one(name),
            bytes,
            expires_at: now + left,
            lifetime_micros: u64::try_from(lifetime.as_micros()).unwrap_or(u64::MAX),
            due_at: NEVER,
            name_bytes: name.len() as u8,
            four,
            kind: kind(resolution),
            used: false,
            wanted: false,
            failures,
        };
        let due_at = match slot.kind {
            Kind::Addresses => slot.expires_at - ahead(lifetime),
            _ => NEVER,
        };
        let at = self.place(slot, now);
        self.schedule(at, due_at);
    }

    /// Puts a slot where the name's is, or else where there is room or room can be made.
    fn place(&mut self, slot: Slot, now: Timestamp) -> usize {
        self.text_bytes += slot.bytes.len();
        if let Some(at) = self.slot_of.find(slot.hash, &self.slots) {
            let at = at as usize;
            let used = self.slots[at].used;
            self.replace(at, Slot { used, ..slot });
            return at;
        }
        let at = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let at = self.vacate(now);
            self.slot_of.remove(at as u32, &self.slots);
            self.replace(at, slot);
            at
        };
        self.slot_of.insert(at as u32, &self.slots);
        at
    }

    fn replace(&mut self, at: usize, slot: Slot) {
        self.schedule(at, NEVER);
        let old = std::mem::replace(&mut self.slots[at], slot);
        self.text_bytes -= old.bytes.len();
    }

    /// A slot that may be taken; ends within two rounds.
    fn vacate(&mut self, now: Timestamp) -> usize {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.slots.len();
            let slot = &mut self.slots[at];
            if !slot.used || slot.expires_at <= now {
                return at;
            }
            slot.used = false;
        }
    }

    fn schedule(&mut self, at: usize, due_at: Timestamp) {
        let before = std::mem::replace(&mut self.slots[at].due_at, due_at);
        if before != NEVER {
            self.due.remove(&(before, at as u32));
        }
        if due_at != NEVER {
            self.due.insert((due_at, at as u32));
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        let at = self.slot_of.find(self.hasher.hash_one(name), &self.slots)? as usize;
        (self.slots[at].name() == name.as_bytes()).then_some(at)
    }
}

/// How long before the end of a lifetime addresses in use are asked for again.
fn ahead(lifetime: Duration) -> Duration {
    lifetime / AHEAD
}

/// A duration in whole seconds, rounded up.
pub fn seconds(duration: Duration) -> u32 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(whole).unwrap_or(u32::MAX)
}

fn kind(resolution: &Resolution) -> Kind {
    match resolution {
        Resolution::Addresses { .. } => Kind::Addresses,
        Resolution::NoAddress => Kind::NoAddress,
        Resolution::Private => Kind::Private,
        Resolution::Temporary => Kind::Temporary,
    }
}

/// Name and addresses as a slot has them, and how many of the addresses have four bytes.
fn pack(name: &str, resolution: &Resolution) -> (Box<[u8]>, u8) {
    let addresses: &[IpAddr] = match resolution {
        Resolution::Addresses { addresses, .. } => &addresses[..addresses.len().min(ADDRESSES_MAX)],
        _ => &[],
    };
    let four = addresses.iter().filter(|address| address.is_ipv4()).count();
    let mut bytes = Vec::with_capacity(name.len() + 4 * four + 16 * (addresses.len() - four));
    bytes.extend_from_slice(name.as_bytes());
    for address in addresses {
        if let IpAddr::V4(address) = address {
            bytes.extend_from_slice(&address.octets());
        }
    }
    for address in addresses {
        if let IpAddr::V6(address) = address {
            bytes.extend_from_slice(&address.octets());
        }
    }
    (bytes.into_boxed_slice(), four as u8)
}

#[cfg(test)]
mod tests;
