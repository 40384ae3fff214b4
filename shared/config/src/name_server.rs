//! A name server's place and protocol, as operators write them.

use super::keys::{Form, Value};
use rhumb_url::is_name;
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Default ports of DNS over TLS (RFC 7858) and over HTTPS (RFC 8484).
const TLS_PORT: u16 = 853;
const HTTPS_PORT: u16 = 443;
const HTTPS_PATH: &str = "/dns-query";

/// A name server: `9.9.9.9:53`, `tls://9.9.9.9#dns.quad9.net` or
/// `https://9.9.9.9/dns-query#dns.quad9.net`, the last two with a port if they want another than
/// 853 and 443. By its address, as there is nobody yet to ask for a name; the name behind `#` is
/// what its certificate must be for, the address if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer {
    /// Its address and port.
    pub address: SocketAddr,
    /// Its protocol.
    pub transport: Transport,
}

/// The protocol in which a name server is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// By datagrams, and over TCP when an answer does not fit one.
    Plain,
    /// Over TLS.
    Tls {
        /// The name in its certificate.
        name: String,
    },
    /// Over HTTPS.
    Https {
        /// The name in its certificate.
        name: String,
        /// The path of the requests.
        path: String,
    },
}

impl From<SocketAddr> for NameServer {
    fn from(address: SocketAddr) -> Self {
        NameServer {
            address,
            transport: Transport::Plain,
        }
    }
}

impl FromStr for NameServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no name server such as 9.9.9.9:53, tls://9.9.9.9#dns.quad9.net or \
                 https://9.9.9.9/dns-query"
            )
        };
        let server = NameServer::read(text).ok_or_else(wrong)?;
        let (name, path) = match &server.transport {
            Transport::Plain => (None, ""),
            Transport::Tls { name } => (Some(name), ""),
            Transport::Https { name, path } => (Some(name), path.as_str()),
        };
        // What no server could answer to would end every URL of the crawl as unresolvable.
        let is_name = name.is_none_or(|name| is_in_certificates(name));
        let is_path = path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"{}<>\"`?|^\\".contains(&byte));
        if is_name && is_path && server.address.port() != 0 {
            Ok(server)
        } else {
            Err(wrong())
        }
    }
}

/// Returns whether a certificate may be for the name: an address, or a host in any case, with or
/// without its last dot.
fn is_in_certificates(name: &str) -> bool {
    let host = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name.parse::<IpAddr>().is_ok() || is_name(&host)
}

impl NameServer {
    fn read(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(address.into());
        }
        let (scheme, rest) = text.split_once("://")?;
        let (rest, name) = rest.split_once('#').unwrap_or((rest, ""));
        let (authority, path) = rest
            .find('/')
            .map_or((rest, ""), |slash| rest.split_at(slash));
        let host = || {
            authority
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
                .unwrap_or(authority)
        };
        let address = |port| match authority.parse::<SocketAddr>() {
            Ok(address) => Some(address),
            Err(_) => host()
                .parse::<IpAddr>()
                .map(|ip| SocketAddr::new(ip, port))
                .ok(),
        };
        let named = |address: SocketAddr| {
            if name.is_empty() {
                address.ip().to_string()
            } else {
                name.to_owned()
            }
        };
        match (scheme, path) {
            ("tls", "" | "/") => {
                let address = address(TLS_PORT)?;
                Some(NameServer {
                    address,
                    transport: Transport::Tls {
                        name: named(address),
                    },
                })
            }
            ("https", path) => {
                let address = address(HTTPS_PORT)?;
                let path = if path.len() > 1 { path } else { HTTPS_PATH }.to_owned();
                Some(NameServer {
                    address,
                    transport: Transport::Https {
                        name: named(address),
                        path,
                    },
                })
            }
            _ => None,
        }
    }
}

impl fmt::Display for NameServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Plain => write!(f, "{}", self.address),
            Transport::Tls { name } => write!(f, "tls://{}#{name}", self.address),
            Transport::Https { name, path } => write!(f, "https://{}{path}#{name}", self.address),
        }
    }
}

impl Value for NameServer {
    const FORM: Form = Form::Text;
}

impl<'de> Deserialize<'de> for NameServer {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_is_written_with_its_address() {
        for (text, whole) in [
            ("9.9.9.9:53", "9.9.9.9:53"),
            ("[2620:fe::fe]:53", "[2620:fe::fe]:53"),
            ("tls://9.9.9.9", "tls://9.9.9.9:853#9.9.9.9"),
            (
                "tls://9.9.9.9:443#dns.quad9.net",
                "tls://9.9.9.9:443#dns.quad9.net",
            ),
            ("tls://[2620:fe::fe]", "tls://[2620:fe::fe]:853#2620:fe::fe"),
            (
                "tls://[2620:fe::fe]:8853#dns.quad9.net",
                "tls://[2620:fe::fe]:8853#dns.quad9.net",
            ),
            (
                "https://9.9.9.9#dns.quad9.net",
                "https://9.9.9.9:443/dns-query#dns.quad9.net",
            ),
            (
                "https://127.0.0.1:8443/ask",
                "https://127.0.0.1:8443/ask#127.0.0.1",
            ),
        ] {
            assert_eq!(text.parse::<NameServer>().unwrap().to_string(), whole);
        }
    }

    #[test]
    fn what_is_none_is_named() {
        for text in [
            "",
            "9.9.9.9",
            "dns.quad9.net:53",
            "tls://dns.quad9.net",
            "http://9.9.9.9/",
            "tls://9.9.9.9/x",
            "https://u@9.9.9.9/",
            "9.9.9.9:0",
            "tls://9.9.9.9#no name",
            "tls://9.9.9.9#a..b",
            "https://9.9.9.9/dns-query{?dns}",
        ] {
            let error = text.parse::<NameServer>().unwrap_err();
            assert!(
                error.starts_with(&format!("'{text}' is no name server such as")),
                "{error}"
            );
        }
    }
}
