//! Which links? Charset-correct link extraction.

pub mod charset;
pub mod content;
pub mod core;
pub mod css;
pub mod document;
pub mod feed;
pub mod foreign;
pub mod link_header;
pub mod links;
pub mod manifest;
pub mod media_type;
pub mod metrics;
pub mod options;
pub mod page;
pub mod prose;
mod references;
pub mod refresh;
pub mod robots_meta;
pub mod scanner;
pub mod source;
pub mod srcset;

mod cuts;
mod opened;
mod told;
