//! Slots: where a URL lies among those of its server, and so which URL goes first.
//!
//! A fresh URL's slot is its order in the upper bits and a number in the lower ones. The number is never given out
//! again, so the rows of a server lie on disk in the order in which they are to be taken.

use shared::message::Quality;

/// First slot of the retries. Fresh URLs lie below it.
pub(crate) const RETRIES: u64 = 1 << 63;

/// Bits of a slot that hold the URL's number: enough for a million million URLs of a server.
const NUMBER_BITS: u32 = 40;
/// Lowest bits of a quality that an order leaves out. The other bits tell qualities apart that differ by 1/30,000.
const QUALITY_BITS_LEFT_OUT: u32 = 8;

/// Where a URL stands among those of its server: 23 bits, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order(u32);

impl Order {
    /// After all others; URLs of this order go first in, first out.
    pub(crate) const LAST: Order = Order((1 << (31 - QUALITY_BITS_LEFT_OUT)) - 1);

    /// The better the quality, the earlier the order.
    pub(crate) fn of(quality: Quality) -> Self {
        Order(Order::LAST.0 - (quality.to_bits() >> QUALITY_BITS_LEFT_OUT))
    }

    /// The slot of the URL with that number.
    pub(crate) const fn slot(self, number: u64) -> u64 {
        ((self.0 as u64) << NUMBER_BITS) | (number & ((1 << NUMBER_BITS) - 1))
    }
}

/// The quality of a URL by its slot, as exact as an order is.
pub(crate) fn quality_of(slot: u64) -> Quality {
    let order = (slot >> NUMBER_BITS) as u32;
    Quality::from_bits(Order::LAST.0.saturating_sub(order) << QUALITY_BITS_LEFT_OUT)
}
