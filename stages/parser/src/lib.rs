//! Which links? Charset-correct link extraction.

pub mod charset;
pub mod content;
pub mod content_coding;
pub mod core;
pub mod links;
pub mod media_type;
pub mod page;
pub mod refresh;
pub mod robots_meta;
