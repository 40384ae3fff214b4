//! Fuzz targets: properties that hold for every input. `tests/fuzz/run` lets libFuzzer look for
//! inputs that break them; the test beside this crate tries the seeds, and every input that once
//! broke one.
//!
//! Invariant: a target neither reads nor keeps anything but its input, so an input that fails once
//! fails again.

pub mod canonical;
pub mod codings;
pub mod feeds;
pub mod heads;
pub mod markup;
pub mod messages;
pub mod responses;

use rhumb_config::{Layers, Pipeline};

/// Takes one input.
///
/// # Panics
/// When the input breaks a property.
pub type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 7] = [
    ("canonical", canonical::run),
    ("codings", codings::run),
    ("feeds", feeds::run),
    ("heads", heads::run),
    ("markup", markup::run),
    ("messages", messages::run),
    ("responses", responses::run),
];

/// The names of all targets. Each has a folder of seeds.
pub fn names() -> [&'static str; TARGETS.len()] {
    TARGETS.map(|(name, _)| name)
}

/// The target of that name, if there is one.
pub fn target(name: &str) -> Option<Target> {
    TARGETS
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, target)| target)
}

/// The shipped configuration with some keys set, for a crawl that follows every host.
fn pipeline(set: &[&str]) -> Pipeline {
    let always = ["network.allow_private_addresses=true", "scope.follow=any"];
    let set = always
        .iter()
        .chain(set)
        .map(|&assignment| assignment.to_owned())
        .collect();
    Layers { file: None, set }
        .load_with(std::iter::empty())
        .expect("a valid configuration")
}
