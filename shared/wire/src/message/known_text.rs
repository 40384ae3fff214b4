//! The text of a page that is visited again: what is known of it before a visit, and what the visit
//! found.
//!
//! The scheduler keeps it with the page. It goes with the request to the fetcher, with the page to
//! the parser, and comes back on `pages.signals`.

use rkyv::{Archive, Deserialize, Serialize};

/// What is known of a page's text.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, Default, PartialEq, Eq,
)]
#[rkyv(derive(Debug, PartialEq))]
pub struct KnownText {
    /// Fingerprint of the last body that was read, without its content coding; 0: none was.
    pub body: u64,
    /// Sketch of the version that later ones are compared with ([`rhumb_url::noise`]); none of a
    /// page without text, or with too little.
    pub sketch: Option<u64>,
    /// How far versions with the same text lie from it, in sixteenths of a bit.
    pub noise: u8,
}

/// What a visit found of the text of its page.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, Default, PartialEq, Eq,
)]
#[rkyv(derive(Debug, PartialEq))]
pub struct SeenText {
    /// Which visit of the page it is: 1 is the first.
    pub visit: u32,
    /// The page is at a server with TLS, …
    pub is_https: bool,
    /// … and this port: with the hash of the host they are the server.
    pub port: u16,
    /// The text is another one than before; none where nobody can tell, as at a first visit.
    pub is_changed: Option<bool>,
    /// What is known of it from now on.
    pub known: KnownText,
}
