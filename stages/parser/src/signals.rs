//! Signals: what is learned of pages that the schedulers of their hosts should know beside links.
//!
//! In: what was learned of a page that was read, and of pages that a sitemap or feed dates. Out:
//! [`PageSignals`], each of one partition and of many pages.
//!
//! Nobody is in a hurry for a signal, so they gather: while pages come, a partition costs the
//! broker a message every [`LINGER`] at most, or one for each [`PAGES`] of its pages. What a visit
//! found of a text is wanted before the page's next visit, so it waits for [`TEXT_LINGER`], and all
//! others go with it. When none has come for [`QUIET`], what waits is told, so that a crawl that
//! stands still has nothing on its way.
//!
//! Invariants: memory is bounded, by [`WAITING_MAX`] and the entries of one sitemap; a page is held
//! back for none of its signals. Those that wait are lost with the process, and a page that is
//! parsed again tells them again: both cost an estimate.

use rhumb_partition::{Directory, Owners};
use rhumb_stage::Output;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{DatedPage, PageSignal, PageSignals};
use rhumb_wire::topology::Token;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a signal waits for others.
const LINGER: Duration = Duration::from_secs(5);
/// How long one does that says what a visit found of a text.
const TEXT_LINGER: Duration = Duration::from_secs(1);
/// How long after the last signal those that wait are told.
const QUIET: Duration = Duration::from_millis(100);
/// Signals that wait, of all partitions together; with one more all are sent.
const WAITING_MAX: usize = 10_000;
/// Pages of one message, and dated ones.
const PAGES: usize = 200;

/// The signals that wait.
#[derive(Debug)]
pub(crate) struct Signals {
    directory: Directory,
    waiting: Vec<PageSignal>,
    dated: Vec<DatedPage>,
    /// When they are told at the latest, and when the last of them came.
    due: Option<(Timestamp, Timestamp)>,
    told: u64,
}

impl Signals {
    /// None yet. `owners` say how hosts are divided among partitions.
    pub(crate) fn new(owners: &Owners) -> Self {
        Signals {
            directory: owners.directory(),
            waiting: Vec::new(),
            dated: Vec::new(),
            due: None,
            told: 0,
        }
    }

    /// The partitions are these from now on.
    pub(crate) fn divided_by(&mut self, owners: &Owners) {
        self.directory = owners.directory();
    }

    /// Something was learned of a page.
    pub(crate) fn add(&mut self, now: Timestamp, page: PageSignal) {
        let linger = match page.text {
            Some(_) => TEXT_LINGER,
            None => LINGER,
        };
        self.came(now, linger);
        self.waiting.push(page);
    }

    /// A sitemap or feed says that a page changed.
    pub(crate) fn add_dated(&mut self, now: Timestamp, page: DatedPage) {
        self.came(now, LINGER);
        self.dated.push(page);
    }

    fn came(&mut self, now: Timestamp, linger: Duration) {
        let due = now + linger;
        let earliest = self.due.map_or(due, |(before, _)| before.min(due));
        self.due = Some((earliest, now));
    }

    /// Publishes what has waited long enough, or grew too many; everything when the process ends.
    pub(crate) fn flush_due<E>(&mut self, now: Timestamp, draining: bool, out: &mut Output<E>) {
        let is_due = self.flush_at().is_some_and(|due| due <= now);
        let waiting = self.waiting.len() + self.dated.len();
        if waiting == 0 || !(is_due || draining || waiting > WAITING_MAX) {
            return;
        }
        self.due = None;
        self.told += waiting as u64;
        let mut by_partition: BTreeMap<u16, PageSignals> = BTreeMap::new();
        let directory = &self.directory;
        for page in self.waiting.drain(..) {
            let of = by_partition.entry(directory.partition_of(page.host));
            of.or_default().pages.push(page);
        }
        for page in self.dated.drain(..) {
            let of = by_partition.entry(directory.partition_of(page.host));
            of.or_default().dated.push(page);
        }
        for (partition, of) in by_partition {
            let mut pages = of.pages.chunks(PAGES);
            let mut dated = of.dated.chunks(PAGES);
            let next = || PageSignals {
                partition,
                pages: pages.next().unwrap_or_default().to_vec(),
                dated: dated.next().unwrap_or_default().to_vec(),
            };
            let is_told = |part: &PageSignals| part.pages.is_empty() && part.dated.is_empty();
            for part in std::iter::repeat_with(next).take_while(|part| !is_told(part)) {
                out.publish(Token::Partition(partition), &part, Vec::new());
            }
        }
    }

    /// When to publish next.
    pub(crate) fn flush_at(&self) -> Option<Timestamp> {
        let (latest, last) = self.due?;
        Some(latest.min(last + QUIET))
    }

    /// Returns whether none waits.
    pub(crate) fn are_told(&self) -> bool {
        self.waiting.is_empty() && self.dated.is_empty()
    }

    /// Pages of which something was told, in this life.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::message::{SeenText, decode};

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1000)
    }

    fn signal(host: u64, shape: u64) -> PageSignal {
        PageSignal {
            host,
            shape,
            ..PageSignal::default()
        }
    }

    /// What is published at a time, by partition: the shapes.
    fn published(signals: &mut Signals, now: Timestamp, draining: bool) -> Vec<(u16, Vec<u64>)> {
        let mut out = Output::<()>::default();
        signals.flush_due(now, draining, &mut out);
        let messages = out.publishes.iter().map(|publish| {
            assert!(publish.causes.is_empty(), "no page waits for a signal");
            let message: PageSignals = decode(&publish.payload).unwrap();
            assert_eq!(publish.token, Token::Partition(message.partition));
            let shapes = message.pages.iter().map(|page| page.shape).collect();
            (message.partition, shapes)
        });
        messages.collect()
    }

    #[test]
    fn the_signals_of_a_partition_gather_for_five_seconds_while_pages_come() {
        let mut signals = Signals::new(&Owners::new(4, 1));
        for n in 0..=60 {
            let host = if n % 2 == 0 { 0 } else { u64::MAX };
            assert_eq!(published(&mut signals, at(80 * n), false), []);
            signals.add(at(80 * n), signal(host, n));
        }
        for n in [61, 62] {
            signals.add(at(80 * n), signal(0, n));
        }
        assert_eq!(signals.flush_at(), Some(at(5000)));
        assert_eq!(published(&mut signals, at(4999), false), []);
        let evens = (0..=60).step_by(2).chain([61, 62]);
        let odds = (1..60).step_by(2);
        assert_eq!(
            published(&mut signals, at(5000), false),
            [(0, evens.collect()), (3, odds.collect())]
        );
        assert_eq!((signals.flush_at(), signals.told()), (None, 63));
        assert_eq!(published(&mut signals, at(60_000), false), []);
    }

    #[test]
    fn what_a_visit_found_of_a_text_is_told_within_a_second_and_the_others_with_it() {
        let mut signals = Signals::new(&Owners::new(1, 1));
        let text = |shape| PageSignal {
            text: Some(SeenText::default()),
            ..signal(0, shape)
        };
        signals.add(at(0), signal(0, 0));
        signals.add(at(80), text(1));
        for n in 2..=13 {
            assert_eq!(published(&mut signals, at(80 * n), false), []);
            signals.add(at(80 * n), text(n));
        }
        assert_eq!(signals.flush_at(), Some(at(1080)));
        let all = (0..=13).collect();
        assert_eq!(published(&mut signals, at(1080), false), [(0, all)]);
    }

    #[test]
    fn when_no_page_comes_what_waits_is_told_soon_and_then_nothing_is_left() {
        let mut signals = Signals::new(&Owners::new(4, 1));
        signals.add(at(0), signal(0, 1));
        signals.add(at(50), signal(0, 2));
        assert!(!signals.are_told());
        assert_eq!(signals.flush_at(), Some(at(150)));
        assert_eq!(published(&mut signals, at(149), false), []);
        assert_eq!(published(&mut signals, at(150), false), [(0, vec![1, 2])]);
        assert!(signals.are_told());
    }

    #[test]
    fn what_waits_is_told_at_the_end_and_under_the_partitions_of_then() {
        let mut owners = Owners::new(1, 1);
        let mut signals = Signals::new(&owners);
        signals.add(at(0), signal(u64::MAX, 1));
        owners.split(0).unwrap();
        signals.divided_by(&owners);
        assert_eq!(published(&mut signals, at(1), true), [(2, vec![1])]);
    }

    #[test]
    fn many_signals_make_messages_of_bounded_size_and_wait_for_no_more() {
        let mut signals = Signals::new(&Owners::new(1, 1));
        for n in 0..=WAITING_MAX as u64 {
            assert_eq!(published(&mut signals, at(0), false), []);
            signals.add(at(0), signal(0, n));
        }
        let messages = published(&mut signals, at(0), false);
        assert!(messages.iter().all(|(_, pages)| pages.len() <= PAGES));
        assert_eq!(
            messages.iter().map(|(_, pages)| pages.len()).sum::<usize>(),
            WAITING_MAX + 1
        );
    }
}
