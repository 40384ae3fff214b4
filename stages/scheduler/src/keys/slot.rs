//! Slots: where a URL lies among those of its server, and so which URL goes first.
//!
//! A slot begins with a bit that says whether the URL was tried before; then comes the number of its topic. So the rows of
//! a server lie on disk by topic. The slot of a fresh URL goes on with its order, and ends with a number that no other fresh
//! URL of the topic at that server has while it waits. So they lie in the order in which they are to be taken.

use crate::keys::topic::TopicNumber;
use shared::message::Quality;
use std::ops::Range;

/// First slot of the URLs that were tried before. Fresh URLs lie below it.
pub(crate) const RETRIES: u64 = 1 << 63;

/// Bits of a slot below the number of the topic.
const TOPIC_BITS: u32 = 55;
/// Bits of a slot that hold the URL's number: enough for four thousand million URLs of a topic at a server.
const NUMBER_BITS: u32 = 32;
/// Lowest bits of a quality that an order leaves out. The other bits tell qualities apart that differ by 1/30,000.
const QUALITY_BITS_LEFT_OUT: u32 = 8;

/// Where a URL stands among those of its topic at its server: 23 bits, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order(u32);

impl Order {
    /// After all others; URLs of this order go first in, first out.
    pub(crate) const LAST: Order = Order((1 << (31 - QUALITY_BITS_LEFT_OUT)) - 1);

    /// The better the quality, the earlier the order.
    pub(crate) fn of(quality: Quality) -> Self {
        Order(Order::LAST.0 - (quality.to_bits() >> QUALITY_BITS_LEFT_OUT))
    }

    /// The slot of the fresh URL of a topic with that number.
    pub(crate) const fn slot(self, topic: TopicNumber, number: u64) -> u64 {
        (topic.0 as u64) << TOPIC_BITS | (self.0 as u64) << NUMBER_BITS | (number & ((1 << NUMBER_BITS) - 1))
    }
}

/// Where the fresh URLs of a topic lie.
pub(crate) const fn fresh_slots(topic: TopicNumber) -> Range<u64> {
    let first = (topic.0 as u64) << TOPIC_BITS;
    first..first + (1 << TOPIC_BITS)
}

/// Where the URLs of a topic lie that were tried before.
pub(crate) const fn retry_slots(topic: TopicNumber) -> Range<u64> {
    let fresh = fresh_slots(topic);
    RETRIES + fresh.start..RETRIES + fresh.end
}

/// The topic of the URL with that slot.
pub(crate) const fn topic_of(slot: u64) -> TopicNumber {
    TopicNumber((slot >> TOPIC_BITS) as u8)
}

/// The order of a fresh URL by its slot.
pub(crate) const fn order_of(slot: u64) -> Order {
    Order((slot >> NUMBER_BITS) as u32 & Order::LAST.0)
}

/// The quality of a URL by its slot, as exact as an order is.
pub(crate) fn quality_of(slot: u64) -> Quality {
    Quality::from_bits(Order::LAST.0.saturating_sub(order_of(slot).0) << QUALITY_BITS_LEFT_OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_lie_by_topic_and_within_a_topic_by_order() {
        let quality = |value| Order::of(Quality::new(value).unwrap());
        for topic in [0, 1, 7, TopicNumber::MAX.0].map(TopicNumber) {
            let slots = [quality(9.0).slot(topic, 5), quality(0.5).slot(topic, 0), Order::LAST.slot(topic, 1 << 31)];
            assert!(slots.is_sorted());
            for slot in slots {
                assert!(fresh_slots(topic).contains(&slot) && slot < RETRIES);
                assert_eq!((topic_of(slot), topic_of(slot | RETRIES)), (topic, topic));
                assert!(retry_slots(topic).contains(&(slot | RETRIES)));
            }
            assert!((quality_of(slots[0]).get() - 9.0).abs() < 0.01 && quality_of(slots[2]).get() == 0.0);
        }
        assert!(retry_slots(TopicNumber::MAX).end < u64::MAX, "the slot of a robots.txt is none of a topic");
    }
}
