//! The address of a server: what is known of it, and when to ask for it again.
//!
//! Name servers that fail often enough end the URLs that wait for them. A question without any
//! answer does not count: then the resolver, or the way to it, is away, and comes back.

use crate::politeness::pauses::back_off;
use crate::settings::Settings;
use crate::store::clock::Clock;
use crate::store::codec::{Reader, Writer};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Resolution;
use std::net::IpAddr;
use std::time::Duration;

/// An answer holds at least this long, whatever its record says. One that is stale at once would be
/// asked for without end.
const LIFETIME_MIN: Duration = Duration::from_secs(60);
/// Addresses of a server that are kept.
const ADDRESSES_MAX: usize = 16;

/// Why a server has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAddress {
    /// The name does not exist, or has none.
    NoSuchName = 0,
    /// All are private, and those are not allowed (P7).
    Private = 1,
    /// The name servers did not answer often enough.
    NoAnswer = 2,
}

impl NoAddress {
    /// The reason as outcomes give it.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            NoAddress::NoSuchName => "no such name",
            NoAddress::Private => "private address",
            NoAddress::NoAnswer => "name servers do not answer",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    Addresses(Box<[IpAddr]>),
    None(NoAddress),
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    known: Known,
    /// The time until which what is known holds.
    until: Timestamp,
    /// Questions asked in a row without an answer that helps.
    questions: u8,
    /// Questions among these on which the name servers failed.
    failures: u8,
    /// There is no answer to the last one yet.
    is_asked: bool,
    /// The time of the next question, if any was asked.
    ask_at: Timestamp,
}

/// What is to be done for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is known.
    Nothing,
    /// Ask for it now.
    Ask,
    /// Wait until then.
    Wait(Timestamp),
}

impl Default for Address {
    fn default() -> Self {
        Address::of(Known::Nothing, Timestamp::ZERO)
    }
}

impl Address {
    /// An address of which this is known, and which was not asked for.
    const fn of(known: Known, until: Timestamp) -> Self {
        Address {
            known,
            until,
            questions: 0,
            failures: 0,
            is_asked: false,
            ask_at: Timestamp::ZERO,
        }
    }

    /// Takes what the resolver found out.
    pub(crate) fn learn(&mut self, now: Timestamp, resolution: &Resolution, settings: &Settings) {
        match resolution {
            Resolution::Addresses { addresses, ttl_s } if !addresses.is_empty() => {
                let mut addresses: Box<[IpAddr]> =
                    addresses.iter().copied().take(ADDRESSES_MAX).collect();
                // A server is contacted again by the family by which it was reached last.
                if let Some(before) = self.first() {
                    addresses.sort_by_key(|address| address.is_ipv4() != before.is_ipv4());
                }
                let lifetime = Duration::from_secs(u64::from(*ttl_s)).max(LIFETIME_MIN);
                *self = Address::of(Known::Addresses(addresses), now + lifetime);
            }
            Resolution::Addresses { .. } | Resolution::NoAddress => {
                *self = Address::of(Known::None(NoAddress::NoSuchName), now + none_for(settings));
            }
            Resolution::Private => {
                *self = Address::of(Known::None(NoAddress::Private), now + none_for(settings))
            }
            // What is known still holds, and one question fails only once.
            Resolution::Temporary if self.until > now || self.questions > 0 && !self.is_asked => {}
            Resolution::Temporary => {
                if self.questions == 0 {
                    // It came without a question, and counts as the answer to one.
                    self.asked(now, settings);
                }
                self.is_asked = false;
                self.failures = self.failures.saturating_add(1);
                // The next question is another one, not the same failure again. Questions without
                // any answer lengthen no wait.
                self.ask_at = now + back_off(settings, self.failures);
            }
        }
    }

    /// The resolver asks on its own account. When nothing comes of that, the scheduler asks.
    pub(crate) fn pending(&mut self, now: Timestamp, settings: &Settings) {
        if self.until <= now && self.questions == 0 {
            self.asked(now, settings);
        }
    }

    /// A question went out.
    pub(crate) fn asked(&mut self, now: Timestamp, settings: &Settings) {
        self.questions = self.questions.saturating_add(1);
        self.is_asked = true;
        self.ask_at = now + back_off(settings, self.questions);
    }

    /// What to do before the server can be contacted at `now`. After too many failures it counts as
    /// without an address for a while.
    pub(crate) fn need(&mut self, now: Timestamp, settings: &Settings) -> Need {
        if self.until > now {
            return Need::Nothing;
        }
        if self.questions > 0 && self.ask_at > now {
            return Need::Wait(self.ask_at);
        }
        if self.failures >= settings.scheduler.resolve_attempts {
            *self = Address::of(Known::None(NoAddress::NoAnswer), now + none_for(settings));
            return Need::Nothing;
        }
        Need::Ask
    }

    /// The time until which what is known holds.
    pub(crate) fn until(&self) -> Timestamp {
        self.until
    }

    /// Why there is none, as long as that holds.
    pub(crate) fn missing(&self, now: Timestamp) -> Option<NoAddress> {
        match self.known {
            Known::None(why) if self.until > now => Some(why),
            _ => None,
        }
    }

    /// The addresses; none when they are not known.
    pub(crate) fn addresses(&self) -> &[IpAddr] {
        match &self.known {
            Known::Addresses(addresses) => addresses,
            _ => &[],
        }
    }

    /// Notes that there was no connection to the first address. The next job tries those of the
    /// other version of the protocol, if there are any. A fetcher tries one version only, so that
    /// the server never sees two connections.
    pub(crate) fn turn(&mut self) {
        if let Some(first) = self.first()
            && let Known::Addresses(addresses) = &mut self.known
        {
            addresses.sort_by_key(|address| address.is_ipv4() == first.is_ipv4());
        }
    }

    /// The one that is tried first.
    pub(crate) fn first(&self) -> Option<IpAddr> {
        self.addresses().first().copied()
    }

    /// Writes it into the server's record. Questions that are out are soft state.
    pub(crate) fn write(&self, row: &mut Writer, clock: Clock) {
        row.number(clock.store(self.until));
        match &self.known {
            Known::Nothing => row.byte(0),
            Known::Addresses(addresses) => {
                row.byte(1);
                row.number(addresses.len() as u64);
                addresses.iter().for_each(|&address| row.address(address));
            }
            Known::None(why) => row.byte(2 + *why as u8),
        }
    }

    pub(crate) fn read(row: &mut Reader<'_>, clock: Clock) -> Option<Self> {
        let until = clock.restore(row.number()?);
        let known = match row.byte()? {
            0 => Known::Nothing,
            1 => {
                let mut addresses = Vec::new();
                for _ in 0..row.number()? {
                    addresses.push(row.address()?);
                }
                Known::Addresses(addresses.into())
            }
            2 => Known::None(NoAddress::NoSuchName),
            3 => Known::None(NoAddress::Private),
            4 => Known::None(NoAddress::NoAnswer),
            _ => return None,
        };
        Some(Address::of(known, until))
    }
}

/// Returns how long the answer that there is no address holds: long enough for the URLs that wait
/// for one to end.
fn none_for(settings: &Settings) -> Duration {
    settings.no_address_lifetime.max(LIFETIME_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn found(ttl_s: u32) -> Resolution {
        Resolution::Addresses {
            addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            ttl_s,
        }
    }

    #[test]
    fn an_address_is_asked_for_again_when_it_is_stale_and_never_at_once() {
        let settings = settings();
        let mut address = Address::default();
        address.learn(at(0), &found(0), &settings);
        assert_eq!(address.need(at(59), &settings), Need::Nothing);
        assert_eq!(address.need(at(60), &settings), Need::Ask);
        address.asked(at(60), &settings);
        assert_eq!(address.need(at(60), &settings), Need::Wait(at(90)));
        address.learn(at(61), &found(100), &settings);
        assert_eq!(address.need(at(160), &settings), Need::Nothing);
    }

    #[test]
    fn a_server_that_is_not_reached_by_one_version_of_the_protocol_is_tried_by_the_other() {
        let settings = settings();
        let mut address = Address::default();
        address.turn();
        address.learn(at(0), &found(100), &settings);
        let firsts: Vec<bool> = (0..4)
            .map(|_| {
                let is_ipv4 = address.first().unwrap().is_ipv4();
                address.turn();
                is_ipv4
            })
            .collect();
        assert_eq!(firsts, [true, false, true, false]);
        address.turn();
        address.learn(at(200), &found(100), &settings);
        assert!(
            address.first().unwrap().is_ipv6(),
            "it stays with what worked"
        );
        assert_eq!(address.addresses().len(), 2);
        let one = Resolution::Addresses {
            addresses: vec!["192.0.2.1".parse().unwrap()],
            ttl_s: 100,
        };
        address.learn(at(400), &one, &settings);
        address.turn();
        assert!(address.first().unwrap().is_ipv4());
    }

    #[test]
    fn failures_end_after_so_many_questions() {
        let settings = settings();
        let mut address = Address::default();
        address.learn(at(0), &Resolution::Temporary, &settings);
        assert_eq!(address.need(at(1), &settings), Need::Wait(at(30)));
        let mut now = at(30);
        for _ in 1..settings.scheduler.resolve_attempts {
            assert_eq!(address.need(now, &settings), Need::Ask);
            address.asked(now, &settings);
            // The broker repeats the answer.
            address.learn(now, &Resolution::Temporary, &settings);
            address.learn(now, &Resolution::Temporary, &settings);
            let Need::Wait(until) = address.need(now, &settings) else {
                panic!("asks without a pause")
            };
            now = until;
        }
        assert_eq!(address.need(now, &settings), Need::Nothing);
        assert_eq!(address.missing(now), Some(NoAddress::NoAnswer));
    }

    #[test]
    fn a_pending_address_counts_as_asked_for_and_is_no_failure() {
        let settings = settings();
        let mut address = Address::default();
        address.pending(at(0), &settings);
        assert_eq!(address.need(at(1), &settings), Need::Wait(at(30)));
        address.pending(at(20), &settings);
        assert_eq!(
            address.need(at(20), &settings),
            Need::Wait(at(30)),
            "with other URLs"
        );
        address.learn(at(21), &found(100), &settings);
        assert_eq!(address.need(at(22), &settings), Need::Nothing);
        address.pending(at(50), &settings);
        assert_eq!(
            address.need(at(120), &settings),
            Need::Nothing,
            "what is known holds"
        );
        let mut silent = Address::default();
        for _ in 0..9 {
            silent.pending(at(0), &settings);
        }
        assert_eq!(silent.need(at(30), &settings), Need::Ask, "nobody answered");
    }

    /// Goal: a resolver that is away for long costs no URL. Method: no question is answered, for an
    /// hour and more; then the name servers fail one time less than they may, and answer.
    #[test]
    fn silence_ends_nothing_and_is_asked_ever_less_often() {
        let settings = settings();
        let mut address = Address::default();
        let mut now = at(0);
        let mut pause = Duration::ZERO;
        while now < at(4_000) {
            assert_eq!(address.need(now, &settings), Need::Ask);
            address.asked(now, &settings);
            let Need::Wait(until) = address.need(now, &settings) else {
                panic!("asks without a pause")
            };
            assert!(until >= now + pause);
            (pause, now) = (until.since(now), until);
        }
        for _ in 1..settings.scheduler.resolve_attempts {
            address.asked(now, &settings);
            address.learn(now, &Resolution::Temporary, &settings);
            let Need::Wait(until) = address.need(now, &settings) else {
                panic!("asks without a pause")
            };
            now = until;
        }
        assert_eq!(address.need(now, &settings), Need::Ask);
        address.learn(now, &found(100), &settings);
        assert_eq!(
            (address.need(now, &settings), address.missing(now)),
            (Need::Nothing, None)
        );
    }

    #[test]
    fn an_address_comes_back_as_it_was() {
        let settings = settings();
        let clock = Clock::resume(5, at(0), 1);
        for resolution in [found(100), Resolution::NoAddress, Resolution::Private] {
            let mut address = Address::default();
            address.learn(at(3), &resolution, &settings);
            let mut row = Writer::with_capacity(0);
            address.write(&mut row, clock);
            let row = row.finish();
            assert_eq!(
                Address::read(&mut Reader::new(&row).unwrap(), clock),
                Some(address)
            );
        }
    }
}
