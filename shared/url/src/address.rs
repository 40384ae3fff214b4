//! Addresses a public crawler must not contact (P7).
//!
//! In: an address, resolved or literal; out: whether it is off limits unless the configuration
//! allows private addresses. Invariant: an IPv6 form that only carries an IPv4 address (mapped,
//! NAT64, 6to4, Teredo) is judged by the address it carries, so no spelling opens a way to a
//! private one.

use crate::interfaces::own_addresses;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The addresses that a process may contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All.
    All,
    /// Those of the public internet, but not this machine's own ones.
    Public {
        /// The machine's own.
        own: Arc<[IpAddr]>,
    },
}

impl Reach {
    /// All addresses, or those that are not private.
    pub fn new(private_too: bool) -> Self {
        if private_too {
            Reach::All
        } else {
            Reach::Public {
                own: Arc::default(),
            }
        }
    }

    /// The same, without the addresses of this machine's interfaces.
    #[must_use]
    pub fn of_this_machine(self) -> Self {
        match self {
            Reach::All => Reach::All,
            Reach::Public { .. } => {
                let own = own_addresses().unwrap_or_else(|error| {
                    tracing::warn!(
                        %error,
                        "the addresses of this machine cannot be read: the public ones among them \
                         are not refused (P7)"
                    );
                    Vec::new()
                });
                Reach::Public { own: own.into() }
            }
        }
    }

    /// Returns whether an address may be contacted.
    pub fn has(&self, ip: IpAddr) -> bool {
        match self {
            Reach::All => true,
            Reach::Public { own } => !is_private(ip) && !own.iter().any(|&own| leads_to(ip, own)),
        }
    }
}

/// Returns whether an address is another one, or a form that carries it.
fn leads_to(ip: IpAddr, own: IpAddr) -> bool {
    match (ip, own) {
        (IpAddr::V6(form), IpAddr::V4(own)) => carried(form).contains(&Some(own)),
        _ => ip == own,
    }
}

/// Returns whether the address is not one of the public internet: loopback, private, link-local,
/// unique-local, shared (carrier-grade NAT), multicast, broadcast, unspecified, documentation,
/// benchmarking, reserved, or an IPv6 form that carries such an IPv4 address.
///
/// Sources: the IANA registries of special-purpose addresses (RFC 6890) and of the IPv6 address
/// space: outside 2000::/3 nothing is global unicast, apart from the IPv4-mapped and NAT64
/// prefixes.
pub fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => is_private_v6(ip),
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    match ip.octets() {
        // "this network" (RFC 791), private (RFC 1918), loopback (RFC 1122)
        [0 | 10 | 127, ..] => true,
        // shared with carrier-grade NAT (RFC 6598)
        [100, 64..=127, ..] => true,
        // link-local (RFC 3927), where clouds keep their metadata
        [169, 254, ..] => true,
        // private (RFC 1918)
        [172, 16..=31, ..] | [192, 168, ..] => true,
        // protocol assignments (RFC 6890), documentation (RFC 5737), the former 6to4 relays (RFC
        // 7526)
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [192, 88, 99, _] => true,
        // the services of Azure for its machines: public by number, and never routed to the
        // internet
        [168, 63, 129, 16] => true,
        // benchmarking (RFC 2544)
        [198, 18 | 19, ..] => true,
        // multicast (RFC 5771), reserved (RFC 1112), broadcast
        [224..=255, ..] => true,
        _ => false,
    }
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    match ip.segments() {
        // forms that carry another address
        _ if carried(ip) != [None; 2] => carried(ip).into_iter().flatten().any(is_private_v4),
        // the rest of the protocol assignments (RFC 2928): benchmarking, identifiers, anycast
        // services
        [0x2001, 0..=0x1ff, ..] => true,
        // documentation (RFC 3849, RFC 9637)
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => true,
        // global unicast; everything else is special or unassigned
        [0x2000..=0x3fff, ..] => false,
        _ => true,
    }
}

/// The addresses of version 4 that one of version 6 carries, if it is a form that does.
fn carried(ip: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let embedded =
        |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match ip.segments() {
        // IPv4-mapped (RFC 4291 2.5.5.2) and NAT64's well-known prefix (RFC 6052)
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            [embedded(high, low), None]
        }
        // Teredo (RFC 4380): the relay server's address, and the client's with its bits inverted
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            [embedded(server_high, server_low), embedded(!high, !low)]
        }
        // 6to4 (RFC 3056)
        [0x2002, high, low, ..] => [embedded(high, low), None],
        _ => [None; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn private(ip: &str) -> bool {
        is_private(ip.parse().unwrap())
    }

    #[test]
    fn special_purpose_ipv4_ranges_are_private_up_to_their_edges() {
        for ip in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "168.63.129.16",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            assert!(private(ip), "{ip}");
        }
    }

    #[test]
    fn ipv4_addresses_just_outside_the_ranges_are_public() {
        for ip in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.0.3.1",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "8.8.8.8",
        ] {
            assert!(!private(ip), "{ip}");
        }
    }

    #[test]
    fn only_global_unicast_ipv6_is_public() {
        for ip in [
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fdff::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "2001:db8::1",
            "3fff:0fff::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "64:ff9b:1::1",
            "5f00::1",
            "4000::1",
        ] {
            assert!(private(ip), "{ip}");
        }
        for ip in [
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450::1",
            "3fff:1000::1",
            "2001:200::1",
        ] {
            assert!(!private(ip), "{ip}");
        }
    }

    #[test]
    fn an_embedded_ipv4_address_is_judged_in_every_form_that_carries_it() {
        for ip in [
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            // Teredo: private server; public server and private client (10.0.0.1, bits inverted)
            "2001:0:a00:1::",
            "2001:0:808:808:0:0:f5ff:fffe",
            "::ffff:168.63.129.16",
        ] {
            assert!(private(ip), "{ip}");
        }
        for ip in [
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:0:808:808:0:0:f7f7:f7f7",
        ] {
            assert!(!private(ip), "{ip}");
        }
    }

    /// Goal: no kind of range is forgotten. Method: the first and the last address of each, and
    /// those beside them that belong to no such range.
    #[test]
    fn every_kind_of_range_is_private_from_end_to_end() {
        for (kind, first, last, beside) in [
            ("unspecified", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
            ("private", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
            ("shared", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
            ("loopback", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
            (
                "link-local",
                "169.254.0.0",
                "169.254.255.255",
                "169.255.0.0",
            ),
            ("private", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
            (
                "protocol assignments",
                "192.0.0.0",
                "192.0.0.255",
                "192.0.1.0",
            ),
            ("documentation", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
            (
                "6to4 relays",
                "192.88.99.0",
                "192.88.99.255",
                "192.88.100.0",
            ),
            ("private", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
            ("benchmarking", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
            (
                "documentation",
                "198.51.100.0",
                "198.51.100.255",
                "198.51.101.0",
            ),
            (
                "documentation",
                "203.0.113.0",
                "203.0.113.255",
                "203.0.114.0",
            ),
            (
                "multicast",
                "224.0.0.0",
                "239.255.255.255",
                "223.255.255.255",
            ),
            (
                "reserved and broadcast",
                "240.0.0.0",
                "255.255.255.255",
                "223.255.255.255",
            ),
            (
                "unspecified, loopback, IPv4-compatible",
                "::",
                "::ffff:ffff",
                "2000::",
            ),
            (
                "IPv4-mapped private",
                "::ffff:10.0.0.0",
                "::ffff:10.255.255.255",
                "::ffff:11.0.0.0",
            ),
            (
                "IPv4-translated",
                "::ffff:0:0:0",
                "::ffff:0:ffff:ffff",
                "2000::",
            ),
            (
                "NAT64 of private",
                "64:ff9b::172.16.0.0",
                "64:ff9b::172.31.255.255",
                "64:ff9b::172.32.0.0",
            ),
            (
                "NAT64 of a network",
                "64:ff9b:1::",
                "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
                "2000::",
            ),
            (
                "discard-only",
                "100::",
                "100::ffff:ffff:ffff:ffff",
                "2000::",
            ),
            (
                "protocol assignments",
                "2001:1::",
                "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
                "2001:200::",
            ),
            (
                "documentation",
                "2001:db8::",
                "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                "2001:db9::",
            ),
            (
                "6to4 of private",
                "2002:c0a8::",
                "2002:c0a8:ffff:ffff:ffff:ffff:ffff:ffff",
                "2002:c0a9::",
            ),
            (
                "documentation",
                "3fff::",
                "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
                "3fff:1000::",
            ),
            (
                "segment routing",
                "5f00::",
                "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "3fff:ffff::",
            ),
            (
                "unique local",
                "fc00::",
                "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "3fff:ffff::",
            ),
            (
                "link-local",
                "fe80::",
                "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "3fff:ffff::",
            ),
            (
                "site-local",
                "fec0::",
                "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "3fff:ffff::",
            ),
            (
                "multicast",
                "ff00::",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "3fff:ffff::",
            ),
        ] {
            assert!(private(first) && private(last), "{kind}: {first} to {last}");
            assert!(!private(beside), "{kind}: {beside}");
        }
    }

    #[test]
    fn the_machines_own_addresses_are_out_of_reach_in_every_form() {
        let own: Arc<[IpAddr]> = ["8.9.10.11", "2606:4700::7"]
            .map(|ip| ip.parse().unwrap())
            .into();
        let reach = Reach::Public { own };
        let has = |ip: &str| reach.has(ip.parse().unwrap());
        for ip in [
            "8.9.10.11",
            "::ffff:8.9.10.11",
            "64:ff9b::8.9.10.11",
            "2002:809:a0b::1",
            "2606:4700::7",
            "10.0.0.1",
        ] {
            assert!(!has(ip), "{ip}");
            assert!(Reach::new(true).has(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["8.9.10.12", "::ffff:8.9.10.12", "2606:4700::8"] {
            assert!(has(ip), "{ip}");
        }
        assert!(
            Reach::new(false).has("8.9.10.11".parse().unwrap()),
            "nobody has told it of interfaces"
        );
    }

    /// Goal: what interfaces this machine has is out of reach. A machine whose addresses are all
    /// private shows only that these stay so; it says so.
    #[test]
    fn an_address_of_an_interface_of_this_machine_is_out_of_reach() {
        let reach = Reach::new(false).of_this_machine();
        let own = own_addresses().unwrap();
        assert!(own.iter().all(|&ip| !reach.has(ip)), "{own:?}");
        assert_eq!(Reach::new(true).of_this_machine(), Reach::All);
        let Some(public) = own.iter().find(|ip| !is_private(**ip)) else {
            eprintln!("this machine has no public address: that one is refused is not shown here");
            return;
        };
        assert!(
            Reach::new(false).has(*public) && !reach.has(*public),
            "{public}"
        );
    }

    proptest! {
        /// Method: each form of a random IPv4 address against the address itself.
        #[test]
        fn every_form_of_an_address_is_judged_alike(ip: Ipv4Addr, rest: [u16; 5]) {
            let [a, b, c, d] = ip.octets().map(u16::from);
            let high = a << 8 | b;
            let low = c << 8 | d;
            let expected = is_private(ip.into());
            let [r1, r2, r3, r4, r5] = rest;
            for form in [
                ip.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, r1, r2, r3, r4, r5),
                Ipv6Addr::new(0x2001, 0, high, low, r1, r2, !0x0808, !0x0808),
                Ipv6Addr::new(0x2001, 0, 0x0808, 0x0808, r1, r2, !high, !low),
            ] {
                prop_assert_eq!(is_private(form.into()), expected, "{}", form);
            }
            prop_assert!(is_private(Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low).into()), "IPv4-compatible");
        }
    }
}
