//! Texts: whether the text of a page that is visited again is another one.
//!
//! In: what is known of the text from before, and the body of the page, read. Out: what the visit
//! found of it, for the scheduler and for `documents`.
//!
//! A body that is the same without its content coding has the same text. Otherwise the sketches of
//! both decide, with the noise of the page ([`rhumb_url::noise`]). Of pages without text, or with
//! too little for a sketch, nobody can tell.

use crate::page::Links;
use rhumb_url::noise::{self, Base};
use rhumb_url::{Scheme, Server, server_of, sketch};
use rhumb_warc::content_coding::Completeness;
use rhumb_wire::message::{ArchivedPage, KnownText, SeenText};

/// What a visit found of the text of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) text: SeenText,
    /// About how much of it is as in the version it was compared with, in percent.
    pub(crate) similarity: Option<u8>,
}

/// What a visit found of the text of its page; none where nobody wants to know, and of a body that
/// is not whole.
pub(crate) fn seen(page: &ArchivedPage, links: &Links) -> Option<Seen> {
    let before = page.known_text()?;
    let is_whole = page.truncated.is_none() && links.completeness != Completeness::Broken;
    let body = links.body.filter(|_| is_whole)?;
    let server: Server = server_of(page.url.as_str()).parse().ok()?;
    let compared = compare(before, body, links.sketch);
    Some(Seen {
        text: SeenText {
            visit: page.visit.to_native(),
            is_https: server.scheme == Scheme::Https,
            port: server.port,
            is_changed: compared.is_changed,
            known: compared.known,
        },
        similarity: compared.similarity,
    })
}

/// Two versions, compared.
struct Compared {
    is_changed: Option<bool>,
    similarity: Option<u8>,
    /// What the next version is compared with.
    known: KnownText,
}

fn compare(before: KnownText, body: u64, sketch: Option<u64>) -> Compared {
    if body == before.body {
        return Compared {
            is_changed: Some(false),
            similarity: Some(100),
            known: KnownText {
                noise: noise::after_same_body(before.noise),
                ..before
            },
        };
    }
    let (Some(before_sketch), Some(now)) = (before.sketch, sketch) else {
        // A text came, or went.
        let is_changed = before.sketch != sketch && before.body != 0;
        return Compared {
            is_changed: is_changed.then_some(true),
            similarity: is_changed.then_some(0),
            known: KnownText {
                body,
                sketch,
                noise: 0,
            },
        };
    };
    let base = Base {
        sketch: before_sketch,
        noise: before.noise,
    };
    let judged = base.judge(now);
    Compared {
        is_changed: Some(judged.is_changed),
        similarity: Some(sketch::likeness(before_sketch, now)),
        known: KnownText {
            body,
            sketch: Some(judged.base.sketch),
            noise: judged.base.noise,
        },
    }
}
