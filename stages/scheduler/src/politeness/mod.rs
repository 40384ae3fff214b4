//! How servers are left alone: pauses, the length of a visit, trouble and what follows from it, connections by address.

pub(crate) mod connections;
pub(crate) mod pauses;
pub(crate) mod trouble;
pub(crate) mod url_fate;
pub(crate) mod visit;
