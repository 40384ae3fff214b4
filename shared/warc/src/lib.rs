//! Bodies as servers send them and as an archive keeps them.
//!
//! - [`media_type`]: what a server says that a body is;
//! - [`content_coding`]: bodies without their content codings, within limits;
//! - [`warc_files`]: the files of an archive.

pub mod content_coding;
pub mod media_type;
pub mod warc_files;
