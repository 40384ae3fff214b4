//! What the log tells of the way of a page.

use crate::page::Links;
use rhumb_wire::message::{Cut, Origin, Trace};

/// A page is parsed: these are its links, and their origin.
pub(crate) fn parsed(origin: &Origin, links: &Links) {
    let url = origin.found_on();
    let urls = links.urls.len();
    let redirect = links.redirect;
    let cut = links.cut().map(Cut::key);
    tracing::debug!(trace = %Trace::of(url), url, urls, redirect, cut, "a page is parsed");
}
