//! Servers: what is known of each, what is to be done for it next, and which of them are in memory.

pub(crate) mod address;
pub(crate) mod counts;
pub(crate) mod halves;
pub(crate) mod in_play;
pub(crate) mod lease;
pub(crate) mod partition;
pub(crate) mod server;
pub(crate) mod tally;
pub(crate) mod todo;
pub(crate) mod topic_counts;
pub(crate) mod topic_numbers;
