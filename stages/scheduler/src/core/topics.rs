//! What the topics have, for metrics and status.

use crate::core::idle::Inquiry;
use crate::keys::topic::TopicIndex;
use rhumb_config::DEFAULT_TOPIC;
use rhumb_stage::LabelledCount;

impl Inquiry<'_> {
    /// The numbers of each topic; none where there is one topic alone. Those of topics that are not
    /// configured count for the default one.
    pub(crate) fn labelled_counts(&self) -> Vec<LabelledCount> {
        let topics = &self.settings.topics;
        if topics.is_one() {
            return Vec::new();
        }
        let totals = self.servers.totals_by_topic();
        let of = |(index, name): (TopicIndex, &str)| {
            let counts = totals.get(&index).copied().unwrap_or_default();
            let (connections, used) = self.places.queue.turns.use_of(index);
            let name = if index == TopicIndex::OTHERS {
                DEFAULT_TOPIC
            } else {
                name
            };
            let numbers = [
                ("topic_new_total", counts.new),
                ("topic_waiting", counts.in_hand()),
                ("topic_fetched_total", counts.fetched),
                ("topic_bytes_total", counts.bytes),
                ("topic_connections", connections),
                ("topic_connection_seconds_total", used.as_secs()),
            ];
            numbers.map(|(count, value)| LabelledCount {
                count,
                label: "topic",
                label_value: name.to_owned(),
                value,
            })
        };
        topics.names().flat_map(of).collect()
    }
}
