//! The outbox of a stateful stage: outputs committed with the input that made them, published
//! afterwards under their stored ids, deleted when their streams have them. What a killed process
//! left is published by the next.

use super::Outgoing;
use super::state::OUTBOX;
use crate::store::{Changes, Store, StoreError};

/// The key of a row: epoch and number, 8 bytes big-endian each.
pub(super) type Key = [u8; 16];

/// Outputs that are committed and not yet known to be stored by their streams.
#[derive(Default)]
pub(super) struct Outbox {
    epoch: u64,
    next: u64,
    /// What the ids of all epochs begin with.
    owner: String,
    /// Stored by their streams; removed with the next commit.
    stored: Vec<Key>,
}

impl Outbox {
    /// The outbox of a life, and what earlier lives left in it.
    pub(super) fn open(
        store: &dyn Store,
        stage: &str,
        instance: u16,
        epoch: u64,
    ) -> Result<(Self, Vec<(Key, Outgoing)>), StoreError> {
        let mut left = Vec::new();
        store.scan(OUTBOX, &[], &[0xff; 17], &mut |key, value| {
            if let (Ok(key), Some(message)) = (Key::try_from(key), read(value)) {
                left.push((key, message));
            }
            true
        })?;
        Ok((
            Outbox {
                epoch,
                owner: format!("{stage}-{instance}"),
                ..Outbox::default()
            },
            left,
        ))
    }

    /// What is added from now on belongs to this epoch.
    pub(super) fn begin(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Adds an output to the commit under way; its key goes to [`stored`](Self::stored) when its
    /// stream has it.
    pub(super) fn add(
        &mut self,
        changes: &mut Changes,
        subject: String,
        payload: bytes::Bytes,
    ) -> (Key, Outgoing) {
        self.next += 1;
        let mut key = Key::default();
        key[..8].copy_from_slice(&self.epoch.to_be_bytes());
        key[8..].copy_from_slice(&self.next.to_be_bytes());
        let id = format!("{}-{}-{}", self.owner, self.epoch, self.next);
        let message = Outgoing {
            subject,
            id,
            headers: Vec::new(),
            payload,
        };
        changes.put(OUTBOX, key, write(&message));
        (key, message)
    }

    /// Adds the removal of what has been stored to the commit under way.
    pub(super) fn clear_stored(&mut self, changes: &mut Changes) {
        for key in self.stored.drain(..) {
            changes.remove(OUTBOX, key);
        }
    }

    /// A stream has the output with this key.
    pub(super) fn stored(&mut self, key: Key) {
        self.stored.push(key);
    }

    /// Returns whether removals wait for a commit.
    pub(super) fn has_stored(&self) -> bool {
        !self.stored.is_empty()
    }
}

fn write(message: &Outgoing) -> Vec<u8> {
    let mut bytes =
        Vec::with_capacity(4 + message.subject.len() + message.id.len() + message.payload.len());
    for text in [&message.subject, &message.id] {
        bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(&message.payload);
    bytes
}

fn read(bytes: &[u8]) -> Option<Outgoing> {
    fn text(bytes: &[u8]) -> Option<(String, &[u8])> {
        let (length, rest) = bytes.split_at_checked(2)?;
        let (text, rest) =
            rest.split_at_checked(u16::from_le_bytes(length.try_into().ok()?) as usize)?;
        Some((String::from_utf8(text.to_vec()).ok()?, rest))
    }
    let (subject, rest) = text(bytes)?;
    let (id, payload) = text(rest)?;
    Some(Outgoing {
        subject,
        id,
        headers: Vec::new(),
        payload: payload.to_vec().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    #[test]
    fn what_a_life_left_is_found_by_the_next_under_the_same_id() {
        let store = MemoryStore::default();
        let (mut outbox, left) = Outbox::open(&store, "dedup", 0, 7).unwrap();
        assert!(left.is_empty());
        let mut changes = Changes::default();
        let (first, _) = outbox.add(&mut changes, "a.b".into(), "one".into());
        let (_, message) = outbox.add(&mut changes, "a.c".into(), "two".into());
        store.commit(&changes).unwrap();
        outbox.stored(first);
        let mut changes = Changes::default();
        outbox.clear_stored(&mut changes);
        store.commit(&changes).unwrap();

        let (_, left) = Outbox::open(&store, "dedup", 0, 8).unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(
            (&left[0].1.id, &left[0].1.payload),
            (&message.id, &message.payload)
        );
        assert_eq!(left[0].1.id, "dedup-0-7-2");
    }
}
