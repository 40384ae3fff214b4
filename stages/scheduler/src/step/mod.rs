//! What one step of the core makes: changes of rows, messages, and a list of servers to look after.

pub(crate) mod messages;
pub(crate) mod staged;
