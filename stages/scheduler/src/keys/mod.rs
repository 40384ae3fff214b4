//! The words in which all rooms speak of servers and URLs: keys of the store's rows, and what
//! servers share.
//!
//! Nothing here knows a store, a time or a setting; every other room may import it.

pub(crate) mod budget;
pub mod circle;
pub(crate) mod load;
pub(crate) mod room;
pub(crate) mod schedulers;
pub(crate) mod server_key;
pub(crate) mod slot;
pub(crate) mod topic;
pub(crate) mod wait_for;
