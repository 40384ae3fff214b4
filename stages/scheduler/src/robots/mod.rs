//! robots.txt: what is known of that of a server, the parsed rules in memory, and its sitemaps.

pub(crate) mod rules_cache;
pub(crate) mod sitemaps;
pub(crate) mod state;
