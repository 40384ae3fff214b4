//! A server as keys name it, and the ranges of keys that belong to a partition or a host.
//!
//! Keys begin with the hash of the server's host, whose upper bits are its partition. So a
//! partition is one sorted range of each table of servers and their URLs, and so is each half of
//! it; a host is one, too.

use rhumb_partition::Directory;
use rhumb_url::{Scheme, Server, host_hash};
use rhumb_wire::message::DatedPage;
use std::ops::RangeInclusive;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 11;
/// Bytes of it that are the hash of the host.
pub(crate) const HOST_BYTES: usize = 8;

/// A server in keys: the hash of its host, its scheme and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerKey {
    /// The hash of its host.
    pub(crate) host: u64,
    scheme: Scheme,
    port: u16,
    /// Follows from the host. It is not in the key's bytes.
    pub(crate) partition: u16,
}

impl ServerKey {
    /// The key of `scheme://host[:port]`; none when that is not a server.
    pub(crate) fn of(server: &str, directory: &Directory) -> Option<Self> {
        let Server { scheme, host, port } = server.parse().ok()?;
        Some(ServerKey::at(host_hash(&host), scheme, port, directory))
    }

    /// The key of the server of a host with this hash, at a port.
    pub(crate) fn at(host: u64, scheme: Scheme, port: u16, directory: &Directory) -> Self {
        ServerKey {
            host,
            scheme,
            port,
            partition: directory.partition_of(host),
        }
    }

    /// The key of the server of a page that a sitemap or feed dates.
    pub(crate) fn of_dated(page: &DatedPage, partition: u16) -> Self {
        ServerKey {
            host: page.host,
            scheme: match page.is_https {
                true => Scheme::Https,
                false => Scheme::Http,
            },
            port: page.port,
            partition,
        }
    }

    /// Host, scheme and port.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        // Most keys go on behind it, with 8 bytes more.
        let mut key = Vec::with_capacity(KEY_BYTES + 8);
        key.extend_from_slice(&self.host.to_be_bytes());
        key.push(u8::from(self.scheme == Scheme::Https));
        key.extend_from_slice(&self.port.to_be_bytes());
        key
    }

    /// Reads a key of a partition.
    pub(crate) fn from_bytes(partition: u16, key: &[u8]) -> Option<Self> {
        let (host, key) = key.split_first_chunk()?;
        let (&[scheme], port) = key.split_first_chunk()?;
        Some(ServerKey {
            host: u64::from_be_bytes(*host),
            scheme: match scheme {
                0 => Scheme::Http,
                1 => Scheme::Https,
                _ => return None,
            },
            port: u16::from_be_bytes(port.try_into().ok()?),
            partition,
        })
    }

    /// From the first to the last key that a server of the host may have.
    pub(crate) fn all_of(host: u64) -> RangeInclusive<ServerKey> {
        let first = ServerKey {
            host,
            scheme: Scheme::Http,
            port: 0,
            partition: 0,
        };
        first..=ServerKey {
            host,
            scheme: Scheme::Https,
            port: u16::MAX,
            partition: u16::MAX,
        }
    }

    /// A key of partition 0, for tests that only tell servers apart.
    #[cfg(test)]
    pub(crate) const fn numbered(number: u64) -> Self {
        ServerKey {
            host: number,
            scheme: Scheme::Http,
            port: 80,
            partition: 0,
        }
    }
}

/// The range of keys whose hosts have these hashes: from the first (included) to the second (not
/// included).
pub(crate) fn keys_of(hashes: &RangeInclusive<u64>) -> (Vec<u8>, Vec<u8>) {
    let to = match hashes.end().checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        None => vec![0xff; 32],
    };
    (hashes.start().to_be_bytes().to_vec(), to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_server_has_no_key() {
        for server in [
            "",
            "http://",
            "http://a.test/",
            "HTTP://a.test",
            "http://a.test:80",
            "ftp://a.test",
        ] {
            assert_eq!(ServerKey::of(server, &Directory::new(64)), None, "{server}");
        }
    }

    #[test]
    fn servers_of_a_host_differ_and_lie_together() {
        let of = |server| ServerKey::of(server, &Directory::new(64)).unwrap();
        let servers = [
            "http://a.test",
            "http://a.test:443",
            "https://a.test",
            "https://a.test:8443",
        ]
        .map(of);
        for (place, server) in servers.iter().enumerate() {
            assert!(ServerKey::all_of(host_hash("a.test")).contains(server));
            assert_eq!(
                servers.iter().position(|other| other == server),
                Some(place)
            );
        }
        assert!(!ServerKey::all_of(host_hash("a.test")).contains(&of("http://b.test")));
    }

    proptest! {
        #[test]
        fn a_key_comes_back_as_it_was_and_lies_in_its_partition_and_one_half(
            host in "[a-z]{1,8}\\.test", secure: bool, port in 1_u16.., bits in 0_u32..12
        ) {
            let scheme = if secure { Scheme::Https } else { Scheme::Http };
            let mut directory = Directory::new(1 << bits);
            let key = ServerKey::of(&Server { scheme, host, port }.to_string(), &directory).unwrap();
            let bytes = key.to_bytes();
            prop_assert_eq!(bytes.len(), KEY_BYTES);
            prop_assert_eq!(ServerKey::from_bytes(key.partition, &bytes), Some(key));
            for length in 0..KEY_BYTES {
                prop_assert_eq!(ServerKey::from_bytes(key.partition, &bytes[..length]), None);
            }
            let holds = |hashes: &RangeInclusive<u64>| {
                let (from, to) = keys_of(hashes);
                from <= bytes && bytes < to
            };
            for (slice, hashes) in directory.slices() {
                prop_assert_eq!(holds(&hashes), slice.partition == key.partition);
            }
            let halves = directory.split(key.partition).unwrap().map(|half| directory.hashes_of(half.partition).unwrap());
            prop_assert_eq!(halves.iter().filter(|half| holds(half)).count(), 1);
        }
    }
}
