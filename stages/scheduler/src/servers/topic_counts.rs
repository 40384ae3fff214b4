//! What a partition has counted of a topic that is, or was, configured. It is kept in the same
//! commit as what it counts.

use crate::store::codec::{Reader, Writer};
use rhumb_wire::message::Outcome;

/// Totals of a topic in a partition, since the topic got its number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicCounts {
    /// New URLs taken on.
    pub(crate) new: u64,
    /// URLs that ended.
    pub(crate) ended: u64,
    /// Those of them that were fetched.
    pub(crate) fetched: u64,
    /// Body bytes of fetched pages.
    pub(crate) bytes: u64,
}

impl TopicCounts {
    /// Those of URLs that wait or are in flight, and of no other.
    pub(crate) fn of_new(new: u64) -> Self {
        TopicCounts {
            new,
            ..TopicCounts::default()
        }
    }

    /// URLs that wait or are in flight.
    pub(crate) fn in_hand(&self) -> u64 {
        self.new.saturating_sub(self.ended)
    }

    /// A URL ends.
    pub(crate) fn end(&mut self, outcome: Outcome, bytes: u64) {
        self.ended += 1;
        if outcome == Outcome::Fetched {
            self.fetched += 1;
            self.bytes += bytes;
        }
    }

    /// Adds another partition's.
    pub(crate) fn add(&mut self, other: &TopicCounts) {
        self.new += other.new;
        self.ended += other.ended;
        self.fetched += other.fetched;
        self.bytes += other.bytes;
    }

    /// These without those of a part.
    pub(crate) fn without(self, part: &TopicCounts) -> Self {
        TopicCounts {
            new: self.new.saturating_sub(part.new),
            ended: self.ended.saturating_sub(part.ended),
            fetched: self.fetched.saturating_sub(part.fetched),
            bytes: self.bytes.saturating_sub(part.bytes),
        }
    }

    pub(crate) fn to_row(self) -> Vec<u8> {
        let mut row = Writer::with_capacity(16);
        [self.new, self.ended, self.fetched, self.bytes]
            .into_iter()
            .for_each(|number| row.number(number));
        row.finish()
    }

    pub(crate) fn from_row(row: &[u8]) -> Option<Self> {
        let mut row = Reader::new(row)?;
        Some(TopicCounts {
            new: row.number()?,
            ended: row.number()?,
            fetched: row.number()?,
            bytes: row.number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_as_they_were() {
        let mut counts = TopicCounts::of_new(300);
        counts.end(Outcome::Fetched, 1000);
        counts.end(Outcome::Gone, 7);
        counts.add(&counts.clone());
        assert_eq!(
            counts,
            TopicCounts {
                new: 600,
                ended: 4,
                fetched: 2,
                bytes: 2000
            }
        );
        let row = counts.to_row();
        assert_eq!(TopicCounts::from_row(&row), Some(counts));
        (0..row.len()).for_each(|length| assert_eq!(TopicCounts::from_row(&row[..length]), None));
    }
}
