//! Which address? The cached, concurrent DNS stage.

pub mod address_cache;
pub mod query;
pub mod resolver;
