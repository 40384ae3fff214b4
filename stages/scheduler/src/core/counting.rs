//! How many URLs a drop would end: the answer to an operator who is asked before it begins.
//!
//! Invariant: a question changes nothing, brings no server into memory, and costs a bounded time.
//! Who asks goes on from where the answer ended.

use crate::core::drops::within;
use crate::core::idle::Inquiry;
use crate::frontier::rows::FrontierUrl;
use crate::frontier::search::{Limits, search};
use crate::store::rows::Rows;
use rhumb_config::orders::Selector;
use rhumb_stage::Counted;
use rhumb_stage::store::StoreError;

/// What one answer looks at: some 20 milliseconds.
const PIECE: Limits = Limits {
    rows: 20_000,
    found: usize::MAX,
};
/// URLs that one answer gives as examples, at most.
const EXAMPLES_MAX: usize = 5;

impl Inquiry<'_> {
    /// Counts on from a place that an earlier answer gave; from the beginning without one.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn count(
        &self,
        selector: &Selector,
        after: Option<&[u8]>,
    ) -> Result<Counted, StoreError> {
        let after = after.unwrap_or_default();
        let rows = Rows::new(self.servers.store().as_ref());
        let mut ranges: Vec<_> = self
            .servers
            .partitions()
            .filter_map(|(id, _)| self.servers.keys_of(id))
            .collect();
        ranges.sort_unstable();
        let load = self.servers.load_of_all();
        let mut counted = Counted {
            waiting: load.waiting + load.in_flight,
            ..Counted::default()
        };
        for (from, to) in ranges.into_iter().map(|keys| within(keys, selector)) {
            let limits = Limits {
                rows: PIECE.rows - counted.rows as usize,
                ..PIECE
            };
            let piece = search(
                &rows,
                (after.max(&from), &to),
                selector,
                limits,
                &mut |_, row| {
                    if counted.examples.len() < EXAMPLES_MAX {
                        counted
                            .examples
                            .extend(FrontierUrl::url_of(row).map(str::to_owned));
                    }
                },
            )?;
            counted.rows += piece.rows as u64;
            counted.found += piece.found as u64;
            if piece.next.is_some() {
                counted.next = piece.next;
                break;
            }
        }
        Ok(counted)
    }
}
