//! What owners say may be done with their pages.
//!
//! ```text
//!  robots.txt's lines ─┐
//!  response headers ───┼─▶ Signals::read ─▶ statements, as written
//!  metas of the page ──┘                    stances, as understood: allowed, refused or unsaid, by purpose
//! ```
//!
//! - [`Signals`]: all that is said of one page, and what it means;
//! - [`Purpose`], [`Stance`], [`Stances`]: what a page may be used for;
//! - [`Verdict`]: what becomes of a page that is unwanted for it;
//! - [`content_signal`], [`content_usage`], [`tdm`], [`robots_tag`]: one specification each.
//!
//! The feature `reading`, which is on by default, is all of this but the types: messages and
//! configuration do without it, and so do those who only pass them on.
//!
//! Invariants: the same inputs give the same signals, whoever asks; nothing panics; output is
//! bounded. Silence is neither consent nor refusal. Where statements contradict each other the
//! stricter one counts, and all are kept.

#[cfg(feature = "reading")]
pub mod content_signal;
#[cfg(feature = "reading")]
pub mod content_usage;
#[cfg(feature = "reading")]
pub mod date;
mod purpose;
#[cfg(feature = "reading")]
mod reading;
#[cfg(feature = "reading")]
pub mod robots_tag;
mod signals;
#[cfg(feature = "reading")]
pub mod tdm;
mod verdict;

pub use purpose::{Purpose, Stance, Stances};
#[cfg(feature = "reading")]
pub use reading::{Said, is_of_meta};
pub use signals::{Place, STATEMENTS_MAX, Signals, Statement, VALUE_BYTES_MAX, VERSION};
pub use verdict::Verdict;
