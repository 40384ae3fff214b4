//! Pauses: what is left alone for as long as operators want.

use super::Author;
use rhumb_url::{host_of, registered_domain};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an order is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// All of the crawl.
    Crawl,
    /// The servers of a registered domain, and of all names below it.
    Domain(String),
    /// The servers of a host.
    Host(String),
}

impl Target {
    /// Returns whether it has this server, `scheme://host[:port]`.
    pub fn has(&self, server: &str) -> bool {
        let host = host_of(server);
        match self {
            Target::Crawl => true,
            Target::Domain(domain) => registered_domain(host) == domain,
            Target::Host(name) => host == name,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Crawl => f.write_str("the crawl"),
            Target::Domain(domain) => write!(f, "domain {domain}"),
            Target::Host(host) => write!(f, "host {host}"),
        }
    }
}

/// An order that something is to be left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// What is left alone.
    pub what: Target,
    /// Who asked for it, when and why.
    #[serde(flatten)]
    pub author: Author,
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pause { what, author } = self;
        write!(f, "{what} is paused {author}")
    }
}
