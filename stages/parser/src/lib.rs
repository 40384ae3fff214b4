//! Which links? Charset-correct link extraction.

pub mod charset;
pub mod content;
pub mod core;
pub mod css;
pub mod feed;
pub mod link_header;
pub mod links;
pub mod manifest;
pub mod metrics;
pub mod news;
pub mod options;
pub mod page;
pub mod prose;
mod references;
pub mod refresh;
pub mod source;
pub mod srcset;

mod cuts;
mod document;
mod markup;
mod opened;
mod signals;
mod texts;
mod told;
