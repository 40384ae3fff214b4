//! URLs that came addressed to a partition that was split, and belong to a half of it that another
//! instance has.
//!
//! In: URLs of one batch. Out: a batch for each half, without the counts that came with the first
//! one: those count where it came, so that they count once (P3).

use rhumb_stage::{Output, Ticket};
use rhumb_wire::message::{Origin, SplitUrls};
use rhumb_wire::topology::Token;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// The URLs of a batch that are passed on, by the half that they belong to.
#[derive(Default)]
pub(crate) struct PassedOn {
    batches: BTreeMap<u16, SplitUrls>,
}

impl PassedOn {
    /// A URL is to be passed on.
    pub(crate) fn push(&mut self, partition: u16, url: &str, origin: &Origin) {
        let batch = self.batches.entry(partition).or_default();
        if batch.origins.last() != Some(origin) {
            batch.origins.push(origin.clone());
        }
        batch.urls.push(url);
        batch.origin_of.push(batch.origins.len() as u32 - 1);
    }

    /// Publishes the batches, under the number of the one that they came with.
    pub(crate) fn publish(self, number: u64, ticket: Ticket, out: &mut Output<Infallible>) {
        for (partition, batch) in self.batches {
            out.publish(
                Token::Partition(partition),
                &SplitUrls { number, ..batch },
                vec![ticket],
            );
        }
    }
}
