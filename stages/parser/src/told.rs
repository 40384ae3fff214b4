//! What the log tells of the way of a page.

use crate::page::Links;
use shared::message::{Origin, Trace};

/// A page is parsed: these are its links, and their origin.
pub(crate) fn parsed(origin: &Origin, links: &Links) {
    let (url, urls, redirect) = (&origin.page, links.urls.len(), links.redirect);
    tracing::debug!(trace = %Trace::of(url), url, urls, redirect, "a page is parsed");
}
