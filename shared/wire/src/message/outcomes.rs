//! The outcomes of URLs.

use super::urls::Origin;
use rhumb_usage::Signals;
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
    Default,
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
    #[default]
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

    /// Returns whether a page is known whose first visit ended so.
    pub const fn makes_known(self) -> bool {
        match self {
            Outcome::Fetched
            | Outcome::NotModified
            | Outcome::Redirected
            | Outcome::Gone
            | Outcome::Refused
            | Outcome::Failed
            | Outcome::Unresolvable => true,
            Outcome::Disallowed | Outcome::OverBudget | Outcome::Trapped | Outcome::Dropped => {
                false
            }
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
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
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
    /// Whose challenge stood in the place of the page; empty when none did.
    pub wall: String,
    /// What the page would cost, of a 402 whose server says so; else empty.
    pub price: String,
    /// What robots.txt says of its use, of a URL that was not fetched for it, or that had a wall in
    /// the place of its page.
    #[serde(skip_serializing_if = "Signals::are_silent")]
    pub usage: Signals,
    /// [`ResponseSummary::says_usage`](super::ResponseSummary::says_usage).
    pub says_usage: bool,
    /// Which visit of its page it is: 1 is the first. Those of a page have no gap.
    pub visit: u32,
    /// What the visit found.
    pub change: Change,
    /// What was last told of the page before it.
    pub before: PageState,
    /// The page has no visit to come: it is not known, none is visited again, or it has had all its
    /// visits, or is forgotten.
    #[serde(rename = "final")]
    pub is_final: bool,
}

/// What a visit found of a page.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, Default, PartialEq, Eq,
)]
#[rkyv(derive(Debug, PartialEq))]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Nothing: there was no answer about the page, or one 404 of a page that was there.
    #[default]
    None,
    /// The page, for the first time.
    New,
    /// Another page than before, or a redirect in its place.
    Changed,
    /// The same as before.
    Unchanged,
    /// It is gone.
    Gone,
    /// The page, which was gone.
    Back,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 6] = [
        Change::None,
        Change::New,
        Change::Changed,
        Change::Unchanged,
        Change::Gone,
        Change::Back,
    ];

    /// Its name in lines, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Change::None => "none",
            Change::New => "new",
            Change::Changed => "changed",
            Change::Unchanged => "unchanged",
            Change::Gone => "gone",
            Change::Back => "back",
        }
    }
}

/// What was last told of a page.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
)]
#[rkyv(derive(Debug, PartialEq))]
#[serde(rename_all = "kebab-case")]
pub enum PageState {
    /// Nothing.
    #[default]
    None,
    /// The page.
    Page,
    /// A redirect in its place.
    Moved,
    /// It is gone.
    Gone,
}
