//! Canonical URLs: the one spelling that is hashed, compared and stored, and what is read off it.
//!
//! In: a reference as it stands in a page, its base and the page's encoding; out: the canonical
//! URL, or why it is not crawlable. Everything else here takes a canonical URL and slices it: no
//! parsing, no allocation.
//!
//! Invariants: `canonical(canonical(x)) == canonical(x)`; a canonical URL is ASCII, a valid RFC
//! 3986 URI, has the scheme http or https, a host, a path, no user information, no fragment, and at
//! most [`URL_BYTES_MAX`] bytes. Whoever takes a canonical URL may rely on this.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests measure how long a core takes"
    )
)]

pub mod address;
mod canonical;
mod host;
pub mod index;
pub mod interfaces;
pub mod noise;
mod partition;
pub mod redirect;
mod reference;
mod rules;
mod server;
mod shape;
pub mod sketch;
mod surt;
pub mod time;
pub mod url_cache;

pub use canonical::{NotCrawlable, URL_BYTES_MAX, canonical};
pub use host::{address_literal, is_name, registered_domain};
pub use partition::{hashes_of, host_hash, partition, partition_of};
pub use reference::header_reference;
pub use rules::Rules;
pub use server::{NotAServer, Scheme, Server, host_of, path_of, server_of};
pub use shape::{shape, shape_hash};
pub use surt::surt;

/// URL fingerprint: the 64-bit hash of a canonical URL (XXH3), the identity the URL-seen test works
/// with (P4).
pub fn fingerprint(canonical: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(canonical.as_bytes())
}

/// Body fingerprint: the 64-bit hash of a decoded body (XXH3), the identity the content-seen test
/// works with.
pub fn body_fingerprint(body: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_stable_across_versions() {
        // Stored in sieves on disk: a change of the hash would make every crawl start anew.
        assert_eq!(fingerprint(""), 0x2d06_8005_38d3_94c2);
        assert_ne!(fingerprint("http://a/"), fingerprint("https://a/"));
    }
}
