//! The frontier: URLs known and not yet ended, on disk, in queues for each server, one a topic.
//!
//! A URL lies in the table of URLs under server and slot until the commit that also holds its
//! outcome. Neither a granted job nor a crash takes it away (P3).

pub(crate) mod fresh;
pub(crate) mod index;
pub(crate) mod queue;
pub(crate) mod queues;
pub(crate) mod rows;
pub(crate) mod search;
pub(crate) mod shapes;
pub(crate) mod tried;
pub(crate) mod url_end;
pub(crate) mod validators;
pub(crate) mod visited;
