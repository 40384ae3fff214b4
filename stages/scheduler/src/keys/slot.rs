//! Slots: where a URL lies among those of its server, and so which URL goes first.
//!
//! A slot begins with a bit that says whether the URL was tried before; then comes the number of
//! its topic. So the rows of a server lie on disk by topic. The slot of a fresh URL goes on with
//! its order, and ends with a number that no other fresh URL of the topic at that server has while
//! it waits. So they lie in the order in which they are to be taken. URLs of a shape that brings
//! only itself lie last, in a lane of their own, and behind them those of traps.

use crate::keys::topic::TopicNumber;
use rhumb_wire::message::Quality;
use std::ops::Range;

/// First slot of the URLs that were tried before. Fresh URLs lie below it.
pub(crate) const RETRIES: u64 = 1 << 63;

/// Bits of a slot below the number of the topic.
const TOPIC_BITS: u32 = 55;
/// Bits of a slot that hold the URL's number: enough for a thousand million URLs of a topic at a
/// server.
const NUMBER_BITS: u32 = 30;
/// Numbers that a topic has at a server.
pub(crate) const NUMBERS: u64 = 1 << NUMBER_BITS;
/// Bits of an order that hold the lane.
const LANE_BITS: u32 = 2;
/// Lowest bits of a quality that an order leaves out. The other bits tell qualities apart that
/// differ by 1/30,000.
const QUALITY_BITS_LEFT_OUT: u32 = 8;

/// In which part of a queue a URL waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// As its quality says.
    #[default]
    Ahead,
    /// Behind all others, because its shape brings only itself: first in, first out.
    Behind,
    /// It does not go at all, because its shape is a trap.
    Trapped,
}

/// Where a URL stands among those of its topic at its server: 25 bits, the lowest first. A quality,
/// then a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order(u32);

impl Order {
    /// After all others that are ahead; URLs of this order go first in, first out.
    pub(crate) const LAST: Order = Order(((1 << (31 - QUALITY_BITS_LEFT_OUT)) - 1) << LANE_BITS);

    /// Before all others: that of planned visits, which a budget keeps few.
    pub(crate) const PLANNED: Order = Order(0);

    /// The better the quality, the earlier the order.
    pub(crate) fn of(quality: Quality) -> Self {
        Order(Order::LAST.0 - (quality.to_bits() >> QUALITY_BITS_LEFT_OUT << LANE_BITS))
    }

    /// The same in a lane. Behind others no quality counts.
    pub(crate) const fn in_lane(self, lane: Lane) -> Self {
        match lane {
            Lane::Ahead => self,
            Lane::Behind | Lane::Trapped => Order(Order::LAST.0 + lane as u32),
        }
    }

    /// The slot of the fresh URL of a topic with that number.
    pub(crate) const fn slot(self, topic: TopicNumber, number: u64) -> u64 {
        (topic.0 as u64) << TOPIC_BITS | (self.0 as u64) << NUMBER_BITS | (number & (NUMBERS - 1))
    }
}

/// Where the fresh URLs of a topic lie.
pub(crate) const fn fresh_slots(topic: TopicNumber) -> Range<u64> {
    let first = (topic.0 as u64) << TOPIC_BITS;
    first..first + (1 << TOPIC_BITS)
}

/// Where those of them lie that are planned visits.
pub(crate) const fn planned_slots(topic: TopicNumber) -> Range<u64> {
    Order::PLANNED.slot(topic, 0)..Order::PLANNED.slot(topic, NUMBERS - 1) + 1
}

/// Where those of them lie that are of traps.
pub(crate) const fn trapped_slots(topic: TopicNumber) -> Range<u64> {
    Order::LAST.in_lane(Lane::Trapped).slot(topic, 0)..fresh_slots(topic).end
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
    Order((slot >> NUMBER_BITS) as u32 & (Order::LAST.0 | ((1 << LANE_BITS) - 1)))
}

/// The lane of a fresh URL by its slot.
pub(crate) const fn lane_of(slot: u64) -> Lane {
    match order_of(slot).0.saturating_sub(Order::LAST.0) {
        0 => Lane::Ahead,
        1 => Lane::Behind,
        _ => Lane::Trapped,
    }
}

/// The quality of a URL by its slot, as exact as an order is. A planned visit counts as a seed:
/// what it is worth beside others was decided when it was planned.
pub(crate) fn quality_of(slot: u64) -> Quality {
    if order_of(slot) == Order::PLANNED {
        return Quality::SEED;
    }
    Quality::from_bits(
        Order::LAST.0.saturating_sub(order_of(slot).0) >> LANE_BITS << QUALITY_BITS_LEFT_OUT,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_lie_by_topic_and_within_a_topic_by_order() {
        let quality = |value| Order::of(Quality::new(value).unwrap());
        for topic in [0, 1, 7, TopicNumber::MAX.0].map(TopicNumber) {
            let slots = [
                quality(9.0).slot(topic, 5),
                quality(0.5).slot(topic, 0),
                Order::LAST.slot(topic, 1 << 29),
            ];
            assert!(slots.is_sorted());
            for slot in slots {
                assert!(fresh_slots(topic).contains(&slot) && slot < RETRIES);
                assert_eq!((topic_of(slot), topic_of(slot | RETRIES)), (topic, topic));
                assert!(retry_slots(topic).contains(&(slot | RETRIES)));
            }
            assert!(
                (quality_of(slots[0]).get() - 9.0).abs() < 0.01
                    && quality_of(slots[2]).get() == 0.0
            );
            let planned = Order::PLANNED.slot(topic, 9);
            assert!(planned < Order::of(Quality::from_bits(f32::MAX.to_bits())).slot(topic, 0));
            assert!(planned_slots(topic).contains(&planned));
            assert_eq!(
                (quality_of(planned), lane_of(planned)),
                (Quality::SEED, Lane::Ahead)
            );
            let lanes = [Lane::Ahead, Lane::Behind, Lane::Trapped];
            let slots = lanes.map(|lane| quality(9.0).in_lane(lane).slot(topic, 0));
            assert!(slots.is_sorted() && slots[1] > Order::LAST.slot(topic, NUMBERS - 1));
            assert!(slots[2] | RETRIES < u64::MAX && fresh_slots(topic).contains(&slots[2]));
            assert_eq!(slots.map(lane_of), lanes);
            assert_eq!(
                slots.map(quality_of).map(|of| of.get() > 8.0),
                [true, false, false]
            );
        }
        assert!(
            retry_slots(TopicNumber::MAX).end < u64::MAX,
            "the slot of a robots.txt is none of a topic"
        );
    }
}
