//! Signals: what parsers learned of pages beside their links.
//!
//! In: [`PageSignals`] of a partition. Out: what each page looks like, to the
//! [traps](crate::core::traps); what its visit found of its text, and which pages have changed by
//! the dates of sitemaps and feeds, to the [recrawl](crate::core::recrawl). Those of a host whose
//! partition was split since, and whose half another scheduler has, are passed on.
//!
//! Invariant: nothing but an estimate depends on a signal, so one that comes twice, or never, is no
//! fault.

use crate::core::doors::Doors;
use crate::core::work::Work;
use crate::keys::server_key::ServerKey;
use rhumb_stage::store::StoreError;
use rhumb_wire::message::PageSignals;

/// Takes the signals of a partition.
///
/// # Errors
/// The store cannot be read, or a row is not understood.
pub(crate) fn take(
    work: &mut Work<'_>,
    doors: &mut Doors,
    signals: &PageSignals,
) -> Result<(), StoreError> {
    for page in &signals.pages {
        let partition = work.servers.partition_of_hash(page.host);
        if work.servers.owns(partition) {
            doors.traps.sketched(work, page)?;
            doors.recrawl.read(work, page)?;
        } else {
            work.staged.messages.signal(partition, *page);
        }
    }
    for page in &signals.dated {
        let partition = work.servers.partition_of_hash(page.host);
        if work.servers.owns(partition) {
            let server = ServerKey::of_dated(page, partition);
            doors.recrawl.hear(work, server, page)?;
        } else {
            work.staged.messages.dated(partition, *page);
        }
    }
    doors.recrawl.count_news(work)
}
