//! The outcomes of URLs.

use super::envelope::EdgeMessage;
use super::urls::Origin;
use crate::topology::Edge;
use rkyv::{Archive, Deserialize, Serialize};

/// How a new URL ended, exactly one of these.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
)]
#[rkyv(derive(Debug, PartialEq))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Outcome {
    /// 2xx.
    Fetched,
    /// 304.
    NotModified,
    /// 3xx.
    Redirected,
    /// 404 or 410.
    Gone,
    /// Other 4xx, after retries where they make sense.
    Refused,
    /// 5xx, network or protocol, after retries.
    Failed,
    /// robots.txt.
    Disallowed,
    /// No address.
    Unresolvable,
    /// More pages of the host, or of the domain, than allowed.
    OverBudget,
    /// It lies in a trap.
    Trapped,
    /// An operator dropped it.
    Dropped,
}

impl Outcome {
    /// All outcomes, in order of their number.
    pub const ALL: [Outcome; 11] = [
        Outcome::Fetched,
        Outcome::NotModified,
        Outcome::Redirected,
        Outcome::Gone,
        Outcome::Refused,
        Outcome::Failed,
        Outcome::Disallowed,
        Outcome::Unresolvable,
        Outcome::OverBudget,
        Outcome::Trapped,
        Outcome::Dropped,
    ];

    /// The outcome's name in status, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Fetched => "fetched",
            Outcome::NotModified => "not-modified",
            Outcome::Redirected => "redirected",
            Outcome::Gone => "gone",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
            Outcome::Disallowed => "disallowed",
            Outcome::Unresolvable => "unresolvable",
            Outcome::OverBudget => "over-budget",
            Outcome::Trapped => "trapped",
            Outcome::Dropped => "dropped",
        }
    }
}

/// `outcomes.<p>`: how URLs ended.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Outcomes {
    /// One entry per URL.
    pub entries: Vec<OutcomeEntry>,
}

/// How one URL ended.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, PartialEq, Eq)]
pub struct OutcomeEntry {
    /// The URL.
    pub url: String,
    /// Its serial number, see [`NewUrls::first_serial`](super::NewUrls::first_serial).
    pub serial: u64,
    /// How it was found.
    pub origin: Origin,
    /// How it ended.
    pub outcome: Outcome,
    /// HTTP status of the last response, 0 without one.
    pub status: u16,
    /// When the last response came, in milliseconds since 1970; 0 without one.
    pub fetched_at_ms: u64,
    /// Its `type/subtype` in lower case; empty without one.
    pub media_type: String,
    /// Bytes of the body.
    pub bytes: u64,
    /// The body was cut.
    pub truncated: bool,
    /// Duration of the last request, in microseconds.
    pub elapsed_us: u32,
    /// Requests made for it.
    pub attempts: u8,
    /// A reason for a person to read: `timeout`, `robots.txt`, `no such name`; may be empty.
    pub reason: String,
}

impl EdgeMessage for Outcomes {
    const EDGE: Edge = Edge::Outcomes;
    const VERSION: u8 = 4;
}
