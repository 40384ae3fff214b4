//! Moves: how a partition of a stage with state gets from one instance to another, without a shared
//! disk.
//!
//! ```text
//!  owner    works: rows ─▶ copy ─▶ parts ─┐        works no more: what changed ─▶ parts ─┐ ─▶ given
//!                                         ▼ moves.<stage>.<partition>.<version>          ▼
//!  receiver works:                      parts ─▶ rows ─▶ copied                        parts ─▶ rows;  works no more: taken
//! ```
//!
//! A partition that was split is halved in the same place: its owner keeps both halves, and nothing
//! travels.
//!
//! In: the table of [owners](rhumb_partition::Owners), and the state of the instance. Out: the
//! table after what was to be given and taken, and the state that fits it. Both instances work
//! while the copy is made (`background`); each ends the life of its core only to give and to take
//! (`handover`), when nothing is in hand.
//!
//! Invariant: nothing is written after the end of the instance's lease.
//!
//! What a partition is made of, and what each commit holds, [`rhumb_stage::moves`] says; what is
//! done when, [`rhumb_stage::node`]. Here it is carried out:
//!
//! - `capture`: copies of all partitions for a checkpoint, in [pieces](Piece); `restored`: brings
//!   them to their next owners;
//! - `background`: `sending` and `loading`, with `parts_stream`, `desk` and `work`; `handover`.

mod background;
mod capture;
mod desk;
mod handover;
mod loading;
mod parts_stream;
mod piece;
mod restored;
mod sending;
mod work;

pub(crate) use background::Workers;
pub(crate) use capture::Capture;
pub(crate) use desk::Desk;
pub(crate) use handover::settle;
pub(crate) use parts_stream::PartsStream;
pub use piece::{OF_INSTANCE, Piece};
pub use restored::{Restoring, Saved};
