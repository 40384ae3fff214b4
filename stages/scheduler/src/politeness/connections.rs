//! Connections by address. Many servers may lie on one machine, and that machine is spared as well.
//!
//! A connection counts for the first of its server's addresses, the one that its fetcher tries first, from the grant of
//! its job to the end of its lease.
//!
//! Invariant: no more jobs are out for an address than are allowed (Boldi, Marino, Santini and Vigna 2014 allow one).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

/// Connections that jobs of this instance may have open, by address.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Limit of connections to one address; 0: no limit.
    max: u32,
    /// Addresses with connections.
    open: HashMap<IpAddr, u32>,
}

impl Connections {
    pub(crate) fn new(max: u32) -> Self {
        Connections { max, open: HashMap::new() }
    }

    /// Says whether there may be one more connection. This is the only place that decides it: a limit over several
    /// instances would take its tokens here, and give them back in [`close`](Self::close).
    pub(crate) fn has_room(&self, address: IpAddr) -> bool {
        self.max == 0 || self.open(address) < self.max
    }

    /// Number of open connections.
    pub(crate) fn open(&self, address: IpAddr) -> u32 {
        self.open.get(&address).copied().unwrap_or_default()
    }

    /// Counts one more.
    pub(crate) fn connect(&mut self, address: IpAddr) {
        *self.open.entry(address).or_default() += 1;
    }

    /// Counts one less.
    pub(crate) fn close(&mut self, address: IpAddr) {
        if let Entry::Occupied(mut open) = self.open.entry(address) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_room_for_so_many_and_is_forgotten_with_the_last() {
        let [one, other] = ["192.0.2.1", "2001:db8::1"].map(|address| address.parse().unwrap());
        let mut connections = Connections::new(2);
        connections.connect(one);
        assert!(connections.has_room(one));
        connections.connect(one);
        assert!(!connections.has_room(one) && connections.has_room(other));
        connections.close(one);
        connections.close(one);
        connections.close(one);
        assert!(connections.open.is_empty());
    }

    #[test]
    fn without_a_limit_there_is_always_room() {
        let address = "192.0.2.1".parse().unwrap();
        let mut connections = Connections::new(0);
        (0..100).for_each(|_| connections.connect(address));
        assert!(connections.has_room(address));
    }
}
