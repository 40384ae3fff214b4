//! The cache as bytes, so that the next life of a process begins with what this one knew.
//!
//! In: a cache; bytes. Out: bytes; the names in them with what is left of their lifetimes: no point
//! of time is written, because clocks of two lives have nothing in common.
//!
//! An entry: lifetime and what is left of it in microseconds, kind, lengths of name and addresses,
//! then those. Failures are left out: the next life may have better luck.

use super::{ADDRESSES_MAX, Kind, NameCache};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Resolution;
use std::net::IpAddr;
use std::time::Duration;

/// Bytes of an entry before its name.
const HEAD_BYTES: usize = 20;

/// These bytes are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// A name in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The name.
    pub name: String,
    /// What was found out.
    pub kind: Kind,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// How long the answer was said to hold.
    pub lifetime: Duration,
    /// How long it still held when the snapshot was taken.
    pub left: Duration,
}

impl NameCache {
    /// What holds still.
    pub fn snapshot(&self, now: Timestamp) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text_bytes + self.slots.len() * HEAD_BYTES);
        for slot in self.slots.iter().filter(|slot| slot.expires_at > now) {
            let Some(kind) = number(slot.kind) else {
                continue;
            };
            let six = (slot.bytes.len() - slot.name().len() - 4 * usize::from(slot.four)) / 16;
            out.extend_from_slice(&slot.lifetime_micros.to_le_bytes());
            out.extend_from_slice(&(slot.expires_at.since(now).as_micros() as u64).to_le_bytes());
            out.extend_from_slice(&[kind, slot.name_bytes, slot.four, six as u8]);
            out.extend_from_slice(&slot.bytes);
        }
        out
    }

    /// Remembers a name of a snapshot that was taken `elapsed` ago, unless it has expired since.
    pub fn restore(&mut self, kept: &Kept, elapsed: Duration, now: Timestamp) {
        let left = kept.left.saturating_sub(elapsed);
        if left.is_zero() {
            return;
        }
        let resolution = match kept.kind {
            Kind::Addresses => Resolution::Addresses {
                addresses: kept.addresses.clone(),
                ttl_s: 0,
            },
            Kind::NoAddress => Resolution::NoAddress,
            Kind::Private => Resolution::Private,
            Kind::Temporary => return,
        };
        self.insert_aged(&kept.name, &resolution, kept.lifetime, left, 0, now);
    }
}

/// Reads a snapshot.
///
/// # Errors
/// It is damaged: then nothing of it counts.
pub fn read(mut bytes: &[u8]) -> Result<Vec<Kept>, Damaged> {
    let mut kept = Vec::new();
    while !bytes.is_empty() {
        let (entry, rest) = read_entry(bytes).ok_or(Damaged)?;
        kept.push(entry);
        bytes = rest;
    }
    Ok(kept)
}

fn read_entry(bytes: &[u8]) -> Option<(Kept, &[u8])> {
    let (lifetime, bytes) = bytes.split_first_chunk::<8>()?;
    let (left, bytes) = bytes.split_first_chunk::<8>()?;
    let (&[kind, name_bytes, four, six], bytes) = bytes.split_first_chunk::<4>()?;
    let (name, bytes) = bytes.split_at_checked(name_bytes.into())?;
    let (fours, bytes) = bytes.split_at_checked(4 * usize::from(four))?;
    let (sixes, bytes) = bytes.split_at_checked(16 * usize::from(six))?;
    let fours = fours
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&octets| IpAddr::from(octets));
    let addresses: Vec<IpAddr> = fours
        .chain(
            sixes
                .as_chunks::<16>()
                .0
                .iter()
                .map(|&octets| IpAddr::from(octets)),
        )
        .collect();
    let kept = Kept {
        name: std::str::from_utf8(name).ok()?.to_owned(),
        kind: [Kind::Addresses, Kind::NoAddress, Kind::Private]
            .into_iter()
            .find(|&k| number(k) == Some(kind))?,
        addresses,
        lifetime: Duration::from_micros(u64::from_le_bytes(*lifetime)),
        left: Duration::from_micros(u64::from_le_bytes(*left)),
    };
    let has_addresses = !kept.addresses.is_empty() && kept.addresses.len() <= ADDRESSES_MAX;
    let fits = if kept.kind == Kind::Addresses {
        has_addresses
    } else {
        kept.addresses.is_empty()
    };
    (fits && kept.left <= kept.lifetime).then_some((kept, bytes))
}

/// How a kind is written; none for one that is not.
fn number(kind: Kind) -> Option<u8> {
    match kind {
        Kind::Addresses => Some(1),
        Kind::NoAddress => Some(2),
        Kind::Private => Some(3),
        Kind::Temporary => None,
    }
}
