//! Texts: parsers say whether the text of a page changed with a visit.
//!
//! In: what they say, some seconds before or after the report of the visit. Out: the estimate of
//! the page, learned anew where another body has the same text.
//!
//! The first of the two waits for the other: a report in the record of its page, and so through
//! crashes and moves; what is said of a text in memory. Of an older visit than the last nothing is
//! taken.
//!
//! Invariants: no more wait in memory than [`EARLY_MAX`]. What is lost, or comes twice, costs an
//! estimate: the body decides where nothing is said of the text, and each visit counts once.

use super::Recrawl;
use super::trust::Trust;
use crate::core::work::Work;
use crate::frontier::visited::Visited;
use crate::keys::server_key::ServerKey;
use crate::known::record::{self, Record};
use crate::visits::Class;
use foldhash::HashMap;
use rhumb_stage::store::StoreError;
use rhumb_url::{Scheme, fingerprint};
use rhumb_wire::message::{PageSignal, SeenText};
use std::collections::VecDeque;

/// What is said before the reports of so many visits waits, at most: some 100 bytes each.
const EARLY_MAX: usize = 1 << 14;

/// A visit of a page: the fingerprint of its URL, and the number of the visit.
type VisitOf = (u64, u32);

/// What is said of texts before the reports of their visits.
#[derive(Debug, Default)]
pub(super) struct Early {
    seen: HashMap<VisitOf, SeenText>,
    /// In the order in which they came. Some may be taken by now.
    order: VecDeque<VisitOf>,
}

impl Early {
    fn put(&mut self, of: VisitOf, seen: SeenText) {
        if self.seen.insert(of, seen).is_none() {
            self.order.push_back(of);
        }
        if self.order.len() > EARLY_MAX {
            let oldest = self.order.pop_front();
            oldest.and_then(|oldest| self.seen.remove(&oldest));
        }
    }
}

impl Recrawl {
    /// A parser says what a visit found of the text of its page.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn read(
        &mut self,
        work: &mut Work<'_>,
        page: &PageSignal,
    ) -> Result<(), StoreError> {
        let Some(seen) = page.text.filter(|_| !self.budgets.is_empty()) else {
            return Ok(());
        };
        let scheme = match seen.is_https {
            true => Scheme::Https,
            false => Scheme::Http,
        };
        let server = work.servers.key_at(page.host, scheme, seen.port);
        let known = record::read(&work.staged.rows, server, page.url)?;
        match known {
            Some(record) if record.visits > seen.visit => Ok(()),
            Some(record) if record.visits == seen.visit => {
                self.read_late(work, server, record, &seen)
            }
            _ => {
                self.early.put((page.url, seen.visit), seen);
                Ok(())
            }
        }
    }

    /// The visit was reported before.
    fn read_late(
        &mut self,
        work: &mut Work<'_>,
        server: ServerKey,
        mut record: Record,
        seen: &SeenText,
    ) -> Result<(), StoreError> {
        let place = record.place();
        let is_learned_anew = self.judge(work, server, &mut record, seen)? == Some(false);
        if !is_learned_anew || record.is_planned {
            record::write(&mut work.staged.rows, server, &record);
            return Ok(());
        }
        let is_barred = record.rests && record.class != Class::DONE;
        self.lies_anew(work, server, place, record, is_barred)
    }

    /// The visit is reported now.
    pub(super) fn read_early(
        &mut self,
        work: &mut Work<'_>,
        record: &mut Record,
        visited: &Visited,
    ) -> Result<(), StoreError> {
        let of = (fingerprint(&visited.url), visited.visit);
        if let Some(seen) = self.early.seen.remove(&of) {
            self.judge(work, visited.server, record, &seen)?;
        }
        Ok(())
    }

    /// Returns whether the text is another one, where that was waited for.
    fn judge(
        &mut self,
        work: &mut Work<'_>,
        server: ServerKey,
        record: &mut Record,
        seen: &SeenText,
    ) -> Result<Option<bool>, StoreError> {
        let settings = work.staged.settings;
        let mut trust = Trust::of(work.servers.load(server)?);
        let learned = self.learned.of(&record.origin.topic, settings);
        let Some(seen) = learned.read(record, seen, &mut trust, settings) else {
            return Ok(None);
        };
        self.learned.expected.check([Some(seen)]);
        self.heard.believe(server, &trust.signals);
        if let Some(of_server) = work.servers.get_mut(server) {
            trust.keep(of_server);
            work.staged.touch(server);
        }
        let is_changed = seen.is_changed;
        if let Some(partition) = work.servers.partition(server.partition) {
            partition.counts.texts_changed += u64::from(is_changed);
            partition.counts.texts_unchanged += u64::from(!is_changed);
            work.staged.partitions.insert(server.partition);
        }
        Ok(Some(is_changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_waits_and_no_more() {
        let mut early = Early::default();
        let most = EARLY_MAX as u64;
        for url in 0..2 * most {
            early.put((url, 2), SeenText::default());
            // What comes twice waits once, and what is taken makes no room by itself.
            early.put((url, 2), SeenText::default());
            early.seen.remove(&(url.saturating_sub(1), 2));
        }
        assert_eq!(early.order.len() as u64, most);
        assert_eq!(early.seen.len(), 1);
        for url in 0..2 * most {
            early.put((url, 3), SeenText::default());
        }
        assert_eq!(early.order.len() as u64, most);
        assert_eq!(early.seen.len() as u64, most);
        assert!(early.seen.contains_key(&(2 * most - 1, 3)));
        assert!(!early.seen.contains_key(&(0, 3)));
    }
}
