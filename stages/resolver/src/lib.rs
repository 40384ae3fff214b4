//! Which address? The cached, concurrent DNS stage.

pub mod effect;
pub mod name_cache;
pub mod name_servers;
pub mod query;
pub mod resolver;
pub mod snapshot_file;
