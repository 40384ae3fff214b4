//! The fault suite: a seed stands for a schedule of faults that befall a crawl of the synthetic web
//! with all its hazards, and for a verdict.
//!
//! In: seeds, kinds of faults. Out: a verdict for each seed, by what the web saw of the crawl and
//! what `rhumb` says of it.
//!
//! - `kind`: what may go wrong; `schedule`: what does, when, and in which setting, from a seed;
//!   `scalings`: what an operator orders on the way, and `operator`, who does; `hand`: what one
//!   pauses, sets and drops; `command_line`: how they say it;
//! - `trial`: one crawl under one schedule; `broker`: a nats-server that the suite itself runs, and
//!   breaks; `proxy`: the way to it, which can be cut; `cluster`: three servers that are one
//!   broker; `clock`: the time of day;
//! - `verdict`: what must hold afterwards; `results`: the file of verdicts, which a later run takes
//!   up;
//! - `recovery`: how long after one fault a crawl is as fast as before.
//!
//! Invariant: a seed and a list of kinds determine the schedule. What comes of it does not depend
//! on them alone, since real processes run: a seed that failed is worth several runs.

mod broker;
mod clock;
mod cluster;
mod command_line;
mod hand;
mod kind;
mod operator;
mod proxy;
mod recovery;
mod results;
mod scalings;
mod schedule;
mod trial;
mod verdict;

pub(crate) use broker::copy_folder;
pub use kind::Kind;
pub use recovery::{RECOVERIES, Recovery, recover};
pub use results::{Line, Results};
pub use schedule::Schedule;
pub use trial::run;
pub use verdict::Passed;
