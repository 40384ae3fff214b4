//! Signalled: the signals of one page since its last visit, by kind.
//!
//! A signal has the date of a change. A date that was heard before, or lies before the last one, is
//! no signal: a sitemap says the same of a page until it changes again. A visit has found all
//! changes that have dates before it.

use rhumb_wire::message::SignalKind;

/// How many kinds of signals there are.
const KINDS: usize = SignalKind::ALL.len();

/// The signals of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signalled([OfKind; KINDS]);

/// The signals of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfKind {
    /// Those since the last visit.
    pub count: u32,
    /// The latest date of all, in milliseconds of Unix time; 0: there was no signal yet.
    pub latest_ms: u64,
}

impl Signalled {
    /// Those of a row: in the order of the kinds.
    pub fn from_kinds(of_kinds: [OfKind; KINDS]) -> Self {
        Signalled(of_kinds)
    }

    /// For a row: in the order of the kinds.
    pub fn to_kinds(self) -> [OfKind; KINDS] {
        self.0
    }

    /// Returns whether there never was one.
    pub fn is_none(&self) -> bool {
        *self == Signalled::default()
    }

    /// The kinds of which there was one, ever.
    pub fn kinds(self) -> impl Iterator<Item = SignalKind> {
        let is_there = move |kind: &SignalKind| self.0[*kind as usize].latest_ms > 0;
        SignalKind::ALL.into_iter().filter(is_there)
    }

    /// Signals of one kind since the last visit.
    pub fn count(&self, kind: SignalKind) -> u32 {
        self.0[kind as usize].count
    }

    /// Takes a signal. Returns whether it is a new one.
    pub fn take(&mut self, kind: SignalKind, at_ms: u64) -> bool {
        let of_kind = &mut self.0[kind as usize];
        let is_new = at_ms > of_kind.latest_ms;
        if is_new {
            of_kind.latest_ms = at_ms;
            of_kind.count = of_kind.count.saturating_add(1);
        }
        is_new
    }

    /// Those with dates up to a visit.
    #[must_use]
    pub fn until(self, visited_ms: u64) -> Self {
        self.each(|of_kind| of_kind.count - of_kind.after(visited_ms))
    }

    /// Those with dates after a visit: those before it have come to what they said. One that lies in
    /// the future, since the clock has jumped back, would never end: it is none.
    #[must_use]
    pub fn since(self, visited_ms: u64, now_ms: u64) -> Self {
        self.each(|of_kind| match of_kind.latest_ms <= now_ms {
            true => of_kind.after(visited_ms),
            false => 0,
        })
    }

    fn each(self, count: impl Fn(OfKind) -> u32) -> Self {
        Signalled(self.0.map(|of_kind| OfKind {
            count: count(of_kind),
            ..of_kind
        }))
    }
}

impl OfKind {
    /// How many have dates after a visit, as far as the latest date tells.
    fn after(self, visited_ms: u64) -> u32 {
        u32::from(self.latest_ms > visited_ms).min(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SignalKind::{Feed, Sitemap};

    #[test]
    fn a_date_counts_once_and_only_forwards() {
        let mut signalled = Signalled::default();
        assert!(signalled.is_none());
        assert!(signalled.take(Sitemap, 5));
        assert!(!signalled.take(Sitemap, 5));
        assert!(!signalled.take(Sitemap, 4));
        assert!(signalled.take(Sitemap, 6));
        assert!(signalled.take(Feed, 5));
        assert_eq!((signalled.count(Sitemap), signalled.count(Feed)), (2, 1));
        assert_eq!(signalled.kinds().collect::<Vec<_>>(), [Sitemap, Feed]);
    }

    #[test]
    fn a_visit_ends_those_before_it() {
        let mut signalled = Signalled::default();
        for at_ms in [5, 6, 9] {
            signalled.take(Sitemap, at_ms);
        }
        assert_eq!(signalled.until(9).count(Sitemap), 3);
        assert_eq!(signalled.since(9, 99).count(Sitemap), 0);
        assert_eq!(signalled.until(8).count(Sitemap), 2);
        let mut since = signalled.since(8, 99);
        assert_eq!(since.count(Sitemap), 1);
        assert!(!since.take(Sitemap, 9), "it was heard before");
        assert_eq!(since.since(8, 99).count(Sitemap), 1);
        assert_eq!(since.since(9, 99).since(8, 99).count(Sitemap), 0);
    }
}
