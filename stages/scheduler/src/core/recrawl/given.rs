//! Pages that are given as known: they were visited before, in this crawl or by another crawler.
//!
//! In: a URL, and how the last visit of its page ended. Out: the record of the page, whose next
//! visit is planned like any other. Nothing is fetched for it.
//!
//! Invariants: what a visit of this crawl has found of a page stays as it is, and so does a page
//! with a planned visit. Of several visits that are given of a page the latest counts, in whatever
//! order they come.

use super::Recrawl;
use crate::core::work::Work;
use crate::keys::server_key::ServerKey;
use crate::known::record::{self, Record};
use rhumb_stage::store::StoreError;
use rhumb_url::fingerprint;
use rhumb_wire::message::{LastVisit, Origin, PageState};

/// No page has had more visits than that.
const NUMBER_MAX: u32 = 1_000_000;

/// A URL whose page is given as known.
pub(crate) struct Given<'a> {
    pub(crate) url: &'a str,
    pub(crate) origin: &'a Origin,
    pub(crate) serial: u64,
    pub(crate) last: LastVisit,
}

impl Recrawl {
    /// Makes a page known, unless the crawl knows more of it.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn give(
        &mut self,
        work: &mut Work<'_>,
        server: ServerKey,
        given: &Given<'_>,
    ) -> Result<(), StoreError> {
        let now_ms = work.staged.settings.unix_ms(work.staged.now);
        let at_ms = given.last.at_ms.min(now_ms);
        let known = record::read(&work.staged.rows, server, fingerprint(given.url))?;
        let stays = known
            .as_ref()
            .is_some_and(|page| !page.is_given || page.is_planned || page.asked_ms >= at_ms);
        if let Some(partition) = work.servers.partition(server.partition) {
            partition.counts.given += 1;
            partition.counts.given_again += u64::from(stays);
            partition.counts.known += u64::from(known.is_none());
            work.staged.partitions.insert(server.partition);
        }
        if stays {
            return Ok(());
        }
        if let Some(page) = &known {
            self.take_away(work, server, page.place())?;
        }
        let page = visited(known.unwrap_or_else(|| begun(given)), given.last, at_ms);
        self.settle(work, server, page, false)
    }
}

/// The record of a page before any visit of it is told.
fn begun(given: &Given<'_>) -> Record {
    Record {
        url: given.url.to_owned(),
        origin: Origin {
            page: String::new(),
            // Its redirects are not to be fetched again, nor to widen the scope.
            again: 0,
            seed: given.origin.depth == 0,
            ..given.origin.clone()
        },
        serial: given.serial,
        is_given: true,
        ..Record::default()
    }
}

/// The record of a page whose last visit is this one.
fn visited(page: Record, last: LastVisit, at_ms: u64) -> Record {
    let answered_ms = match last.state {
        PageState::None => page.answered_ms,
        _ => at_ms,
    };
    Record {
        visits: page.visits.max(last.number.clamp(1, NUMBER_MAX)),
        state: last.state,
        answered_ms,
        asked_ms: at_ms,
        changed_ms: at_ms,
        ..page
    }
}
