//! Circles: servers that count as one for politeness, because they lie at one address or are of one
//! group.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Servers that share a limit of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Circle {
    /// All at one address.
    Address(IpAddr),
    /// All of a group.
    Group {
        /// The group's place in `politeness.groups`.
        number: u16,
        /// Hash of the registered domain, where each is a group of its own; otherwise 0.
        domain: u64,
    },
}

/// As keys of a bucket and messages between schedulers name it.
impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Circle::Address(address) => {
                write!(f, "address.{}", address.to_string().replace(':', "="))
            }
            Circle::Group { number, domain } => write!(f, "group.{number}.{domain:016x}"),
        }
    }
}

impl FromStr for Circle {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some(address) = text.strip_prefix("address.") {
            return address
                .replace('=', ":")
                .parse()
                .map(Circle::Address)
                .map_err(drop);
        }
        let (number, domain) = text
            .strip_prefix("group.")
            .and_then(|group| group.split_once('.'))
            .ok_or(())?;
        let domain = u64::from_str_radix(domain, 16).map_err(drop)?;
        Ok(Circle::Group {
            number: number.parse().map_err(drop)?,
            domain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_s_name_is_of_letters_that_a_bucket_takes_and_is_read_again() {
        let address = |text: &str| Circle::Address(text.parse().unwrap());
        let group = |number, domain| Circle::Group { number, domain };
        for circle in [
            address("192.0.2.1"),
            address("2001:db8::1"),
            group(0, 0),
            group(7, u64::MAX),
        ] {
            let name = circle.to_string();
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_alphanumeric() || ".=".contains(c)),
                "{name}"
            );
            assert_eq!(name.parse(), Ok(circle));
        }
        for nonsense in [
            "",
            "address.",
            "address.x",
            "group.1",
            "group.x.0",
            "group.1.x",
            "domain.a",
        ] {
            assert_eq!(nonsense.parse::<Circle>(), Err(()));
        }
    }
}
