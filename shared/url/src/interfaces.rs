//! The addresses of this machine's own interfaces: what it serves there is not for a crawler to
//! find (P7).
//!
//! In: the kernel's tables below `/proc/net`, of the network namespace that the process is in. Out:
//! addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Local addresses are leaves of these trees of routes, and there in full.
const ROUTES_V4: &str = "/proc/net/fib_trie";
/// One line each, in hexadecimal.
const ADDRESSES_V6: &str = "/proc/net/if_inet6";

/// The addresses of all interfaces, those that only reach this machine among them.
///
/// # Errors
/// The tables cannot be read. A machine without version 6 of the protocol has no table for it.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let mut addresses = local_v4(&std::fs::read_to_string(ROUTES_V4)?);
    match std::fs::read_to_string(ADDRESSES_V6) {
        Ok(table) => addresses.extend(local_v6(&table)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// A leaf, `|-- 192.0.2.2`, is local when a line below it says `/32 host LOCAL`.
fn local_v4(table: &str) -> Vec<IpAddr> {
    let mut leaf: Option<Ipv4Addr> = None;
    let mut local = Vec::new();
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line.starts_with("/32 ") && line.ends_with(" LOCAL") {
            local.extend(leaf.map(IpAddr::V4));
        }
    }
    local
}

fn local_v6(table: &str) -> Vec<IpAddr> {
    let address = |line: &str| u128::from_str_radix(line.split_whitespace().next()?, 16).ok();
    table
        .lines()
        .filter_map(address)
        .map(|bits| IpAddr::V6(Ipv6Addr::from(bits)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(addresses: &[IpAddr]) -> Vec<String> {
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn leaves_of_one_address_that_are_local_are_its_interfaces() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe \
                     UNICAST\n     |-- 127.0.0.0\n        /8 host LOCAL\n     |-- \
                     127.0.0.1\n        /32 host LOCAL\n     |-- 8.9.10.11\n        /24 link \
                     UNICAST\n        /32 host LOCAL\n     |-- 8.9.10.255\n        /32 link \
                     BROADCAST\n";
        assert_eq!(text(&local_v4(table)), ["127.0.0.1", "8.9.10.11"]);
        assert!(local_v4("nonsense\n|-- x\n/32 host LOCAL\n").is_empty());
    }

    #[test]
    fn addresses_of_version_6_are_read_from_their_digits() {
        let table = "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
                     26064700000000000000000000001111 02 40 00 80     eth0\n\nnonsense\n";
        assert_eq!(
            text(&local_v6(table)),
            ["fe80::fc:ff:fe00:1", "2606:4700::1111"]
        );
    }

    /// Method: an address of this machine, and no other, can be bound to.
    #[test]
    fn the_addresses_of_this_machine_are_found() {
        let own = own_addresses().expect("Linux tells");
        assert!(own.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)), "{own:?}");
        for address in own.iter().filter(|address| address.is_ipv4()) {
            std::net::UdpSocket::bind((*address, 0))
                .unwrap_or_else(|error| panic!("{address}: {error}"));
        }
    }
}
