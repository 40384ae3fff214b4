//! Questions about a running crawl, which several commands ask and which change nothing.
//!
//! - `look`: how it stands; `owners`: who has which partition; `schedulers`: which schedulers have
//!   to answer; `queues`: what waits at servers;
//! - `whereabouts`: where a URL is, and why; `sightings`: the messages about a page; `edges`: what
//!   passes on edges;
//! - `crawls`: which crawls a broker has.

pub(crate) mod crawls;
pub(crate) mod edges;
pub(crate) mod look;
pub(crate) mod owners;
pub(crate) mod queues;
pub(crate) mod schedulers;
pub(crate) mod sightings;
pub(crate) mod whereabouts;
