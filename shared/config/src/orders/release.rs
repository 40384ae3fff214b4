//! Releases: what schedulers take for traps, and operators do not.

use super::Author;
use rhumb_url::{host_of, shape_hash};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An order that nothing of a host, or of one shape there, is kept back as a trap, for as long as
/// it is not taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// A canonical name.
    pub host: String,
    /// A shape ([`rhumb_url::shape`]); without one all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// Who asked for it, when and why.
    #[serde(flatten)]
    pub author: Author,
}

impl Release {
    /// The hash of its shape at a server, `scheme://host[:port]`; none when it is about all of
    /// them.
    pub fn shape_at(&self, server: &str) -> Option<u64> {
        self.shape
            .as_ref()
            .map(|shape| shape_hash(&format!("{server}{shape}")))
    }

    /// Returns whether it is about a shape with this hash of a server, `scheme://host[:port]`.
    pub fn has(&self, server: &str, shape: u64) -> bool {
        self.host == host_of(server) && self.shape_at(server).is_none_or(|of| of == shape)
    }

    /// What it is about.
    pub fn what(&self) -> String {
        match &self.shape {
            Some(shape) => format!("{shape} of host {}", self.host),
            None => format!("host {}", self.host),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is released {}", self.what(), self.author)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_about_a_host_or_a_shape_there() {
        let release = |shape: Option<&str>| Release {
            host: "a.test".into(),
            shape: shape.map(str::to_owned),
            author: Author::default(),
        };
        let at = |url: &str| shape_hash(url);
        for (server, url, of_host, of_shape) in [
            ("http://a.test", "http://a.test/cal/2031/7", true, true),
            (
                "https://a.test:81",
                "https://a.test:81/cal/2031/7",
                true,
                true,
            ),
            ("http://a.test", "http://a.test/p/7", true, false),
            (
                "http://b.a.test",
                "http://b.a.test/cal/2031/7",
                false,
                false,
            ),
        ] {
            assert_eq!(release(None).has(server, at(url)), of_host, "{url}");
            assert_eq!(
                release(Some("/cal/0/0")).has(server, at(url)),
                of_shape,
                "{url}"
            );
        }
        assert_eq!(release(Some("/cal/0/0")).what(), "/cal/0/0 of host a.test");
    }
}
