//! What waits at servers, as schedulers tell it: the basis of `rhumb queue`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// A question about what waits.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum QueueQuestion {
    /// The servers of a host, and their first URLs.
    OfHost {
        /// A canonical name.
        host: String,
        /// URLs of each server, at most.
        limit: usize,
    },
    /// The servers of which there is most, without their URLs.
    Top {
        /// Servers, at most.
        n: usize,
        /// Of what.
        by: Measure,
    },
}

/// A shape whose URLs are kept back.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Trap {
    /// `scheme://host[:port]`.
    pub server: String,
    /// What its URLs have in common ([`rhumb_url::shape`]).
    pub shape: String,
    /// Pages of it that were fetched.
    pub pages: u64,
    /// So many in a hundred of its last bodies were much like one before.
    pub repeats_percent: u32,
    /// URLs of traps that wait at the server.
    pub waiting: u64,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trap {
            server,
            shape,
            pages,
            repeats_percent,
            waiting,
        } = self;
        write!(
            f,
            "{server}{shape}: brings only itself, {pages} pages, {repeats_percent} % of the last \
             ones repeat others; {waiting} URLs wait"
        )
    }
}

/// By what servers are compared.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// URLs that wait.
    Waiting,
    /// Failures in a row.
    Errors,
    /// Time since it might have been contacted again.
    Age,
    /// Time that its answers take.
    Slow,
    /// How soon it may be contacted.
    Next,
}

/// A scheduler's answer to a question about what waits.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessQueue {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// Servers that it has.
    pub servers: Vec<ServerQueue>,
    /// Why it cannot tell, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A server, and what waits at it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ServerQueue {
    /// `scheme://host[:port]`.
    pub server: String,
    /// Why it is not being fetched.
    pub why: String,
    /// URLs that wait.
    pub waiting: u64,
    /// URLs in a job.
    pub in_flight: u64,
    /// Failures in a row.
    pub failures: u8,
    /// Time since it might have been contacted again, or since its scheduler began, in seconds;
    /// none while it is to be left alone.
    pub age_s: Option<f64>,
    /// When it may be contacted, in seconds from now, as far as that is a matter of time; 0: now.
    #[serde(default)]
    pub next_s: f64,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// How long these hold, in seconds.
    pub addresses_for_s: f64,
    /// What is known of its robots.txt.
    pub robots: RobotsTold,
    /// What its connections were measured to do; each none before it was.
    pub estimates: Estimates,
    /// Its first URLs, in the order in which they would be fetched; those that failed and have to
    /// wait for another try come last, each with its time.
    pub urls: Vec<WaitingUrl>,
}

/// What is known of a robots.txt.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct RobotsTold {
    /// What it means for all paths: `not known`, `none: all is allowed`, `cannot be reached:
    /// nothing is allowed`, or `rules`.
    pub is: String,
    /// How long that holds, in seconds.
    pub for_s: f64,
    /// The wait between two contacts that it asks for, in seconds; 0 when it asks for none.
    pub crawl_delay_s: f64,
    /// The rules for this crawler, the most specific first: `+` or `-`, then the pattern.
    pub rules: Vec<String>,
    /// Further rules.
    pub more_rules: usize,
}

/// What connections to a server were measured to do (Cao, Jiang and Singh 2003).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Estimates {
    /// Time to connect, in milliseconds.
    pub connect_ms: Option<f64>,
    /// Time of a request, in milliseconds.
    pub response_ms: Option<f64>,
    /// Requests that a connection serves.
    pub requests: Option<u32>,
    /// How much faster its requests are than one after another.
    pub overlap: Option<f64>,
    /// The server's rank by the policy: 0 for all where servers take turns.
    pub rank: f64,
}

/// A URL that waits.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct WaitingUrl {
    /// Canonical.
    pub url: String,
    /// The quality that it was given when it was found.
    pub quality: f64,
    /// Links between a seed and it.
    pub depth: u16,
    /// Contacts made for it.
    pub attempts: u8,
    /// When it may be tried at the earliest, in seconds from now; none while its server is paused.
    pub in_s: Option<f64>,
    /// Why it waits by itself, or ends without a contact, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The page that it was found on; empty for a seed.
    pub found_on: String,
}
