//! The numbers of topics within a partition.
//!
//! A topic gets one with its first URL, as long as it is configured then, and keeps it for the life
//! of the crawl, because rows have it. All other topics share one number, and so do those for which
//! no number is left.

use crate::keys::topic::{TopicIndex, TopicNumber};
use crate::ranking::topics::Topics;
use crate::store::codec::{Reader, Writer};

/// The numbers of topics within a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicNumbers {
    /// Of the numbers from 1 on.
    names: Vec<String>,
    /// Of all numbers. Topics that are not configured any more count as the others.
    indices: Vec<TopicIndex>,
}

impl TopicNumbers {
    /// Those that were given so far, as they are called in this life.
    pub(crate) fn new(names: Vec<String>, topics: &Topics) -> Self {
        let indices = names.iter().map(|name| topics.of_name(name));
        TopicNumbers {
            indices: std::iter::once(TopicIndex::OTHERS).chain(indices).collect(),
            names,
        }
    }

    /// The number of a topic, and whether it was given just now.
    pub(crate) fn number_of(&mut self, name: &str, topics: &Topics) -> (TopicNumber, bool) {
        let number = self.number_for(name, topics);
        let is_new = usize::from(number.0) > self.names.len();
        if is_new {
            self.names.push(name.to_owned());
            self.indices.push(topics.of_name(name));
        }
        (number, is_new)
    }

    /// The number that a topic has, or would be given.
    pub(crate) fn number_for(&self, name: &str, topics: &Topics) -> TopicNumber {
        if !topics.has(name) {
            return TopicNumber::OTHERS;
        }
        let given = self.names.iter().position(|known| known == name);
        let place = given.unwrap_or(self.names.len());
        match u8::try_from(place + 1) {
            Ok(number) if number <= TopicNumber::MAX.0 => TopicNumber(number),
            _ => TopicNumber::OTHERS,
        }
    }

    /// How the topic of a number is called in this life.
    pub(crate) fn index_of(&self, number: TopicNumber) -> TopicIndex {
        self.indices
            .get(usize::from(number.0))
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn to_row(&self) -> Vec<u8> {
        let mut row = Writer::with_capacity(16 * self.names.len());
        row.number(self.names.len() as u64);
        self.names.iter().for_each(|name| row.text(name));
        row.finish()
    }

    /// The names in a row.
    pub(crate) fn names_in(row: &[u8]) -> Option<Vec<String>> {
        let mut row = Reader::new(row)?;
        (0..row.number()?)
            .map(|_| row.text().map(str::to_owned))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::topics::tests::topics;

    #[test]
    fn a_topic_keeps_its_number_and_one_that_is_not_configured_any_more_counts_as_the_others() {
        let three = topics(&[(0, 1000), (1, 1000), (2, 1000)]);
        let mut numbers = TopicNumbers::new(Vec::new(), &three);
        let given = ["t3", "other", "t1", "t3"].map(|name| numbers.number_of(name, &three));
        let number = |number, is_new| (TopicNumber(number), is_new);
        assert_eq!(
            given,
            [
                number(1, true),
                number(0, false),
                number(2, true),
                number(1, false)
            ]
        );
        assert_eq!(
            [0, 1, 2, 9].map(|number| numbers.index_of(TopicNumber(number)).0),
            [0, 3, 1, 0]
        );
        let row = numbers.to_row();
        let names = TopicNumbers::names_in(&row).unwrap();
        assert_eq!(TopicNumbers::new(names.clone(), &three), numbers);
        (0..row.len()).for_each(|length| assert_eq!(TopicNumbers::names_in(&row[..length]), None));
        let mut later = TopicNumbers::new(names, &topics(&[(0, 1000), (0, 1000)]));
        assert_eq!(
            [0, 1, 2].map(|number| later.index_of(TopicNumber(number)).0),
            [0, 0, 1]
        );
        assert_eq!(later.number_of("t2", &three), number(3, true));
    }

    #[test]
    fn topics_for_which_no_number_is_left_count_as_the_others() {
        let one = topics(&[(0, 1000)]);
        let names = (0..usize::from(TopicNumber::MAX.0))
            .map(|number| format!("x{number}"))
            .collect();
        assert_eq!(
            TopicNumbers::new(names, &one).number_of("t1", &one),
            (TopicNumber::OTHERS, false)
        );
    }
}
