//! Place: the names of hosts, and where they listen.

use std::net::{Ipv4Addr, SocketAddr};

/// All hosts are below it.
const DOMAIN: &str = "web.test";

/// `h0017.web.test`
pub(crate) fn host_name(host: u32) -> String {
    format!("h{host:04}.{DOMAIN}")
}

/// The host of that name, whatever its case; `None` for any other name.
pub(crate) fn host_of_name(name: &str, hosts: u32) -> Option<u32> {
    let label = name.split('.').next()?;
    let digits = label.strip_prefix(['h', 'H'])?;
    let host = digits.parse().ok().filter(|host| *host < hosts)?;
    host_name(host).eq_ignore_ascii_case(name).then_some(host)
}

/// Where a host listens, when the first one has this port.
pub(crate) fn listens_at(shared: Option<Ipv4Addr>, host: u32, port: u16) -> SocketAddr {
    match shared {
        None => (host_address(host), port).into(),
        Some(address) => (
            address,
            port.saturating_add(u16::try_from(host).unwrap_or(u16::MAX)),
        )
            .into(),
    }
}

/// The loopback address of a host, different from 127.0.0.1 and from every other host's.
pub(crate) fn host_address(host: u32) -> Ipv4Addr {
    let [_, _, high, low] = (host / 250).to_be_bytes();
    let last = 1 + (host % 250) as u8;
    Ipv4Addr::new(127, 1 + high, low, last)
}
