//! What the log tells of the way of a page's links.

use rhumb_wire::message::NewUrls;

/// The links of these pages are passed on together.
pub(crate) fn passed_on(batch: &NewUrls) {
    for origin in &batch.origins {
        let url = origin.found_on();
        let partition = batch.partition;
        tracing::debug!(
            trace = origin.trace().map(tracing::field::display),
            url,
            partition,
            "links of a page are passed on"
        );
    }
}
