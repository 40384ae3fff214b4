//! The stages that every crawl has.

/// Their names, in the order in which a URL passes them.
pub const STAGES: [&str; 6] = [
    "host-splitter",
    "dedup",
    "resolver",
    "scheduler",
    "fetcher",
    "parser",
];
