//! The messages of the pipeline: one Rust type per edge and one per reply, archived with rkyv, in
//! one envelope.
//!
//! [`MESSAGES`] lists them with edge and version; [`crate::topology::EDGES`] says who sends each to
//! whom. Each type stands with the others of its part of the way: discovery to frontier (`urls`),
//! scheduler and fetcher (`fetch`), what came of it (`outcomes`), parser (`content`, `signals`, `known_text`).
//!
//! Invariant: nothing is read from a payload before its magic, edge, schema version, checksum and
//! archive have been checked ([`envelope`]).

#[allow(
    missing_docs,
    reason = "rkyv's derive makes archived twins without docs"
)]
mod content;
#[allow(
    missing_docs,
    reason = "rkyv's derive makes archived twins without docs"
)]
mod earlier;
pub mod envelope;
#[allow(
    missing_docs,
    reason = "rkyv's derive makes archived twins without docs"
)]
mod fetch;
mod fields;
mod frame;
#[allow(
    missing_docs,
    reason = "rkyv's derive makes archived twins without docs"
)]
mod known_text;
mod last_visit;
#[allow(
    missing_docs,
    reason = "rkyv's derive makes archived twins without docs"
)]
mod outcomes;
#[allow(
    missing_docs,
    reason = "rkyv's derive makes archived twins without docs"
)]
mod quality;
mod reference;
#[allow(
    missing_docs,
    reason = "rkyv's derive makes archived twins without docs"
)]
mod signals;
mod sitemap;
mod table;
pub mod tap;
mod text;
mod trace;
#[allow(
    missing_docs,
    reason = "rkyv's derive makes archived twins without docs"
)]
mod urls;

pub use crate::topology::Edge;
pub use content::*;
pub use envelope::{Before, EdgeMessage, InPlace, Undecodable, decode, encode};
pub use fetch::*;
pub use frame::{FRAME_PAYLOADS_MAX, FRAME_VERSION, frame, payloads};
pub use known_text::{KnownText, SeenText};
pub use last_visit::LastVisit;
pub use outcomes::*;
pub use quality::Quality;
pub use reference::{REFERENCE_VERSION, Reference};
pub use signals::*;
pub use table::{MESSAGES, MessageRow};
pub use text::UrlList;
pub use trace::Trace;
pub use urls::*;
