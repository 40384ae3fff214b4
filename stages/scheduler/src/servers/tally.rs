//! What a partition counted of its URLs that ended: how and why, with which status, of which type,
//! how deep, how large, how fast, and when.
//!
//! In: each URL that ends. Out: rows for the commit in which it ends, and the sum for a report.
//!
//! Three rows, so that a commit writes few bytes: the numbers, with each commit in which a URL
//! ends; the names, when one is new; the slots of time that are over, when one more is, or
//! something ended in one that is reported later. Time is the partition's clock, which goes while
//! the partition is worked with: it needs no clock of a fetcher, also URLs that end without a
//! response have it, and a night in which the crawl was stopped is no slot.
//!
//! Invariants: a URL is counted in the commit of its outcome, so a restart counts nothing twice and
//! loses nothing (P3). Each list is bounded, whatever servers send (P6). A partition that is split
//! keeps what it counted; its halves begin with nothing.

use crate::frontier::url_end::UrlEnd;
use crate::store::codec::{Reader, Writer};
use rhumb_stage::report::{DEPTHS, OTHER, OTHER_STATUS, SLOTS_MAX, add_places};
use rhumb_stage::{Pace, Slot, Tallied};
use rhumb_wire::message::Outcome;

/// Names, or statuses, that a list has places for. What comes later counts as other.
const NAMES_MAX: usize = 64;
/// Bytes of a media type; a longer one counts as other.
const MEDIA_TYPE_MAX: usize = 64;
/// Places of a histogram: its last one is for all that is larger.
const POWERS: usize = 48;

/// What a partition counted of its URLs that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// In the order in which the pairs were met.
    ends: Vec<(Outcome, Box<str>, u64)>,
    statuses: Vec<(u16, u64)>,
    media_types: Vec<(Box<str>, u64)>,
    depths: Vec<u64>,
    sizes: Vec<u64>,
    times: Vec<u64>,
    truncated: u64,
    /// The last slot goes on, the ones before it are over.
    pace: Pace,
    unsaved: Unsaved,
}

/// Which rows differ from what is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unsaved {
    numbers: bool,
    names: bool,
    slots: bool,
}

/// The kinds of its rows.
pub(crate) mod kind {
    /// The numbers.
    pub(crate) const NUMBERS: u8 = b'r';
    /// The names, in the order of their numbers.
    pub(crate) const NAMES: u8 = b'm';
    /// The slots of time that are over.
    pub(crate) const SLOTS: u8 = b'v';
}

impl Tally {
    /// Counts a URL that ended when the partition's clock showed this, in microseconds.
    pub(crate) fn count(&mut self, clock_us: u64, depth: u16, end: &UrlEnd) {
        self.unsaved.numbers = true;
        *self.number_of_end(end.outcome, end.reason) += 1;
        if end.status != 0 {
            *self.number_of_status(end.status) += 1;
        }
        bump(&mut self.depths, usize::from(depth).min(DEPTHS));
        let slot = self.slot_at(clock_us);
        if end.outcome != Outcome::Fetched {
            slot.others += 1;
            return;
        }
        slot.add(Slot {
            pages: 1,
            bytes: end.bytes,
            others: 0,
        });
        *self.number_of_type(&end.media_type) += 1;
        bump(&mut self.sizes, power(end.bytes));
        bump(&mut self.times, power(u64::from(end.elapsed_us) / 1000));
        self.truncated += u64::from(end.truncated);
    }

    /// Outcomes are exact: each has a place for its other reasons, beyond those of the list.
    fn number_of_end(&mut self, outcome: Outcome, reason: &str) -> &mut u64 {
        let ends = &mut self.ends;
        let unsaved = &mut self.unsaved.names;
        let place = |ends: &[(Outcome, Box<str>, u64)], reason: &str| {
            ends.iter()
                .position(|(of, why, _)| *of == outcome && is_same(why, reason))
        };
        let at =
            place(ends, reason).or_else(|| place(ends, OTHER).filter(|_| ends.len() >= NAMES_MAX));
        let at = at.unwrap_or_else(|| {
            *unsaved = true;
            ends.push((
                outcome,
                if ends.len() < NAMES_MAX {
                    reason
                } else {
                    OTHER
                }
                .into(),
                0,
            ));
            ends.len() - 1
        });
        &mut ends[at].2
    }

    fn number_of_status(&mut self, status: u16) -> &mut u64 {
        let statuses = &mut self.statuses;
        let place =
            |statuses: &[(u16, u64)], status| statuses.iter().position(|(of, _)| *of == status);
        let at = place(statuses, status)
            .or_else(|| place(statuses, OTHER_STATUS).filter(|_| statuses.len() >= NAMES_MAX));
        let at = at.unwrap_or_else(|| {
            statuses.push((
                if statuses.len() < NAMES_MAX {
                    status
                } else {
                    OTHER_STATUS
                },
                0,
            ));
            statuses.len() - 1
        });
        &mut statuses[at].1
    }

    fn number_of_type(&mut self, media_type: &str) -> &mut u64 {
        let types = &mut self.media_types;
        let unsaved = &mut self.unsaved.names;
        let media_type = if media_type.len() > MEDIA_TYPE_MAX {
            OTHER
        } else {
            media_type
        };
        let place = |types: &[(Box<str>, u64)], name: &str| {
            types.iter().position(|(of, _)| is_same(of, name))
        };
        let at = place(types, media_type)
            .or_else(|| place(types, OTHER).filter(|_| types.len() >= NAMES_MAX));
        let at = at.unwrap_or_else(|| {
            *unsaved = true;
            types.push((
                if types.len() < NAMES_MAX {
                    media_type
                } else {
                    OTHER
                }
                .into(),
                0,
            ));
            types.len() - 1
        });
        &mut types[at].1
    }

    /// The slot of a point of the partition's clock. It is mostly the last one, or a new one; one
    /// that is over gets what ended in it and was reported later.
    fn slot_at(&mut self, clock_us: u64) -> &mut Slot {
        let mut at = slot_number(clock_us, &self.pace);
        while at >= SLOTS_MAX {
            self.pace.double();
            self.unsaved.slots = true;
            at = slot_number(clock_us, &self.pace);
        }
        if at >= self.pace.slots.len() {
            self.pace.slots.resize(at + 1, Slot::default());
            self.unsaved.slots = true;
        }
        self.unsaved.slots |= at + 1 < self.pace.slots.len();
        &mut self.pace.slots[at]
    }

    /// Adds all to a sum.
    pub(crate) fn add_to(&self, sum: &mut Tallied) {
        for (outcome, reason, urls) in &self.ends {
            sum.add_end(outcome.name(), reason, *urls);
        }
        for (status, urls) in &self.statuses {
            *sum.statuses.entry(*status).or_default() += urls;
        }
        for (name, pages) in &self.media_types {
            *sum.media_types.entry(name.to_string()).or_default() += pages;
        }
        add_places(&mut sum.depths, &self.depths);
        add_places(&mut sum.sizes, &self.sizes);
        add_places(&mut sum.times, &self.times);
        sum.truncated += self.truncated;
        sum.pace.add(self.pace.clone());
    }

    /// The rows that changed since they were given last, by kind.
    pub(crate) fn changed_rows(&mut self) -> impl Iterator<Item = (u8, Vec<u8>)> + use<> {
        let Unsaved {
            numbers,
            names,
            slots,
        } = std::mem::take(&mut self.unsaved);
        let numbers = numbers.then(|| (kind::NUMBERS, self.numbers_row()));
        let names = names.then(|| (kind::NAMES, self.names_row()));
        let slots = slots.then(|| (kind::SLOTS, self.slots_row()));
        [numbers, names, slots].into_iter().flatten()
    }

    fn numbers_row(&self) -> Vec<u8> {
        let mut row = Writer::with_capacity(256);
        write_all(&mut row, self.ends.iter().map(|(.., n)| *n));
        row.number(self.statuses.len() as u64);
        for &(status, n) in &self.statuses {
            row.number(status.into());
            row.number(n);
        }
        write_all(&mut row, self.media_types.iter().map(|(_, n)| *n));
        [&self.depths, &self.sizes, &self.times]
            .into_iter()
            .for_each(|of| write_all(&mut row, of.iter().copied()));
        row.number(self.truncated);
        row.byte(self.pace.doublings);
        row.number(self.pace.slots.len() as u64);
        self.pace
            .slots
            .last()
            .into_iter()
            .for_each(|slot| write_slot(&mut row, slot));
        row.finish()
    }

    fn names_row(&self) -> Vec<u8> {
        let mut row = Writer::with_capacity(512);
        row.number(self.ends.len() as u64);
        for (outcome, reason, _) in &self.ends {
            row.byte(*outcome as u8);
            row.text(reason);
        }
        row.number(self.media_types.len() as u64);
        self.media_types.iter().for_each(|(name, _)| row.text(name));
        row.finish()
    }

    fn slots_row(&self) -> Vec<u8> {
        let over = self
            .pace
            .slots
            .split_last()
            .map_or(&[][..], |(_, over)| over);
        let mut row = Writer::with_capacity(8 * over.len() + 4);
        row.byte(self.pace.doublings);
        row.number(over.len() as u64);
        over.iter().for_each(|slot| write_slot(&mut row, slot));
        row.finish()
    }

    /// Reads its rows, which `row` gives by kind; an empty one when there are none. None when they
    /// are damaged, or do not belong together.
    pub(crate) fn read(
        numbers: Option<&[u8]>,
        names: Option<&[u8]>,
        slots: Option<&[u8]>,
    ) -> Option<Self> {
        let Some(numbers) = numbers else {
            return (names.is_none() && slots.is_none()).then(Tally::default);
        };
        let mut tally = Tally::read_names(names?)?;
        let row = &mut Reader::new(numbers)?;
        expect(row, tally.ends.len())?;
        for (.., n) in &mut tally.ends {
            *n = row.number()?;
        }
        // One place more is for the others.
        for _ in 0..length(row, NAMES_MAX + 1)? {
            tally
                .statuses
                .push((u16::try_from(row.number()?).ok()?, row.number()?));
        }
        expect(row, tally.media_types.len())?;
        for (_, n) in &mut tally.media_types {
            *n = row.number()?;
        }
        tally.depths = read_all(row, DEPTHS + 1)?;
        tally.sizes = read_all(row, POWERS)?;
        tally.times = read_all(row, POWERS)?;
        tally.truncated = row.number()?;
        tally.pace = read_pace(row, slots?)?;
        Some(tally)
    }

    fn read_names(row: &[u8]) -> Option<Self> {
        let row = &mut Reader::new(row)?;
        let mut tally = Tally::default();
        for _ in 0..length(row, NAMES_MAX + Outcome::ALL.len())? {
            let outcome = *Outcome::ALL.get(usize::from(row.byte()?))?;
            tally.ends.push((outcome, row.text()?.into(), 0));
        }
        for _ in 0..length(row, NAMES_MAX + 1)? {
            tally.media_types.push((row.text()?.into(), 0));
        }
        Some(tally)
    }
}

/// Returns whether two names are the same. Most reasons are empty: to compare such ones by their
/// bytes, which lie nowhere, costs some hundred nanoseconds where a processor has to suppress the
/// fault.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

/// The number of the slot of a point of the partition's clock.
fn slot_number(clock_us: u64, pace: &Pace) -> usize {
    usize::try_from(clock_us / pace.slot_s().saturating_mul(1_000_000)).unwrap_or(usize::MAX)
}

/// The place of a number in a histogram: 0 for 0, then one more for each bit.
fn power(number: u64) -> usize {
    ((u64::BITS - number.leading_zeros()) as usize).min(POWERS - 1)
}

fn bump(places: &mut Vec<u64>, at: usize) {
    if at >= places.len() {
        places.resize(at + 1, 0);
    }
    places[at] += 1;
}

fn write_all(row: &mut Writer, numbers: impl ExactSizeIterator<Item = u64>) {
    row.number(numbers.len() as u64);
    numbers.for_each(|number| row.number(number));
}

fn write_slot(
    row: &mut Writer,
    Slot {
        pages,
        bytes,
        others,
    }: &Slot,
) {
    [*pages, *bytes, *others]
        .into_iter()
        .for_each(|number| row.number(number));
}

fn read_slot(row: &mut Reader<'_>) -> Option<Slot> {
    Some(Slot {
        pages: row.number()?,
        bytes: row.number()?,
        others: row.number()?,
    })
}

/// The slots: the last one is in the row of the numbers, those that are over in their own.
fn read_pace(numbers: &mut Reader<'_>, slots: &[u8]) -> Option<Pace> {
    let doublings = numbers.byte()?;
    let over = length(numbers, SLOTS_MAX)?.checked_sub(1)?;
    let row = &mut Reader::new(slots)?;
    if row.byte()? != doublings {
        return None;
    }
    expect(row, over)?;
    let mut slots: Vec<Slot> = (0..over).map(|_| read_slot(row)).collect::<Option<_>>()?;
    slots.push(read_slot(numbers)?);
    Some(Pace { doublings, slots })
}

/// Reads a length that is at most `max`.
fn length(row: &mut Reader<'_>, max: usize) -> Option<usize> {
    usize::try_from(row.number()?)
        .ok()
        .filter(|length| *length <= max)
}

/// Reads a length that must be this one.
fn expect(row: &mut Reader<'_>, length: usize) -> Option<()> {
    (row.number()? == length as u64).then_some(())
}

fn read_all(row: &mut Reader<'_>, max: usize) -> Option<Vec<u64>> {
    (0..length(row, max)?).map(|_| row.number()).collect()
}

#[cfg(test)]
mod tests;
