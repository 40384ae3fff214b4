//! What the fuzz targets share.

use shared::config::{Layers, Pipeline};

/// The shipped configuration with some keys set, for a crawl that follows every host.
pub fn pipeline(set: &[&str]) -> Pipeline {
    let always = ["network.allow_private_addresses=true", "scope.follow=any"];
    let set = always.iter().chain(set).map(|&assignment| assignment.to_owned()).collect();
    Layers { file: None, set }.load_with(std::iter::empty()).expect("a valid configuration")
}
