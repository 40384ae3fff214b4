//! How the scheduler calls topics: by a number in each partition, which its rows keep, and by an
//! index in this life.

/// The number of a topic within its partition. It stands in the slots of the topic's URLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopicNumber(pub(crate) u8);

impl TopicNumber {
    /// That of all topics that are not configured, and of those for which no number is left.
    pub(crate) const OTHERS: TopicNumber = TopicNumber(0);
    /// The last one that is given.
    pub(crate) const MAX: TopicNumber = TopicNumber(254);
}

/// What takes turns: a topic, or the preparation of servers. An index into the settings of this
/// life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopicIndex(pub(crate) u16);

impl TopicIndex {
    /// That of all topics that are not configured.
    pub(crate) const OTHERS: TopicIndex = TopicIndex(0);
}
