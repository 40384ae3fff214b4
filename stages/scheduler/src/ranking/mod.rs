//! Which server next, and which of its URLs: qualities, ranks, and the queue of servers that are
//! ready.

pub(crate) mod limits;
pub(crate) mod policy;
pub mod quality;
pub(crate) mod ready_queue;
pub(crate) mod speeds;
pub(crate) mod topics;
pub(crate) mod turns;
