//! A server as keys name it, and the ranges of keys that belong to a partition.
//!
//! Every key starts with the partition, so that a partition is one sorted range of each table.

use shared::url::fingerprint;

/// A server in keys: its partition, and the hash of `scheme://host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerKey {
    pub(crate) partition: u16,
    pub(crate) id: u64,
}

impl ServerKey {
    pub(crate) fn of(partition: u16, server: &str) -> Self {
        ServerKey { partition, id: fingerprint(server) }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut key = Vec::with_capacity(18);
        key.extend_from_slice(&self.partition.to_be_bytes());
        key.extend_from_slice(&self.id.to_be_bytes());
        key
    }

    pub(crate) fn from_bytes(key: &[u8]) -> Option<Self> {
        let (partition, id) = key.split_at_checked(2)?;
        Some(ServerKey {
            partition: u16::from_be_bytes(partition.try_into().ok()?),
            id: u64::from_be_bytes(id.try_into().ok()?),
        })
    }
}

/// The range of keys that start with a partition: from the first (included) to the second (not included).
pub(crate) fn keys_of(partition: u16) -> (Vec<u8>, Vec<u8>) {
    let to = match partition.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        None => vec![0xff; 32],
    };
    (partition.to_be_bytes().to_vec(), to)
}
