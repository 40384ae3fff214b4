//! robots.txt by RFC 9309, and the name by which it addresses a crawler.
//!
//! - [`Robots`]: the rules that a robots.txt gives a crawler, its delay and its sitemaps;
//! - [`product_token`]: the name by which servers address the crawler, found in its user agent.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests measure how long a core takes"
    )
)]

pub mod product_token;
mod robots_txt;

pub use robots_txt::{BYTES_MAX, Robots, SITEMAPS_MAX};
