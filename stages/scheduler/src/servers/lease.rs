//! Connection jobs as the scheduler sees them: leases, with the URLs that have not ended.
//!
//! A lease is committed before its job is sent, so that a server contacted by a fetcher is never
//! without one, whatever crashes (P1, P2). It ends when all reports up to the last one came, or
//! when it expires.

use crate::keys::topic::TopicIndex;
use crate::politeness::trouble::Trouble;
use crate::settings::GRACE;
use crate::store::codec::{Reader, Writer};
use rhumb_stage::Applied;
use rhumb_stage::store::Table;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{JobId, JobKind};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// Table of jobs: server → lease.
pub(crate) const JOBS: Table = "jobs";
/// Slot of the one request of a robots job.
pub(crate) const ROBOTS_SLOT: u64 = u64::MAX;

/// A robots.txt that a job fetches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RobotsTask {
    /// The URL that is requested.
    pub(crate) url: String,
    /// Returns whether it is the robots.txt of the job's own server.
    pub(crate) own: bool,
    /// Other servers that wait for it.
    pub(crate) askers: Vec<String>,
}

/// A granted job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) id: JobId,
    /// The address that its connection counts for.
    pub(crate) address: IpAddr,
    /// What it was granted for: a topic, or the preparation of servers. A robots job of an earlier
    /// life counts for the others.
    pub(crate) topic: TopicIndex,
    /// How long it was expected to last; no time at all after a restart.
    pub(crate) expected: Duration,
    /// Bytes that each of its pages was expected to bring, where its topic has a limit; 0 after a
    /// restart.
    pub(crate) page_bytes: u64,
    /// Slots of the URLs that have not ended, in the order of the job; none in a robots job.
    pub(crate) slots: VecDeque<u64>,
    /// What a robots job fetches; none in a pages job.
    pub(crate) robots: Option<RobotsTask>,
    /// Sequence numbers of the reports that came.
    pub(crate) reports: Applied,
    /// Sequence number of the last report, when it came.
    pub(crate) last: Option<u32>,
    /// The server was contacted.
    pub(crate) contacted: bool,
    /// Returns whether the job achieved something: a page was answered, or the answer about a
    /// robots.txt is known.
    pub(crate) progressed: bool,
    /// The trouble because of which its server was set aside.
    pub(crate) trouble: Option<Trouble>,
    /// When it was granted; the beginning of time after a restart.
    granted: Timestamp,
    /// When it was granted, or its latest report came; not known after a restart.
    heard: Option<Timestamp>,
    /// When it expires.
    pub(crate) deadline: Timestamp,
    /// A report that comes later has waited nobody knows how long.
    prompt_until: Timestamp,
    /// It is no fault of its URLs when it expires: its holder could not be heard for a while, or
    /// was told to stop.
    pub(crate) is_excused: bool,
    /// Its holder was told to stop, and is told again with each report.
    pub(crate) is_stopped: bool,
    /// The fetcher that the job was sent to, and its life; not known after a restart.
    pub(crate) holder: Option<(String, u64)>,
}

impl Lease {
    /// Returns whether the job was granted in an earlier life of the process.
    pub(crate) fn is_restored(&self) -> bool {
        self.holder.is_none()
    }

    /// A lease that is granted `now`, for a connection to an address on behalf of a topic.
    /// `length`: how long its holder, a fetcher in a life of it, has it without a renewal.
    pub(crate) fn new(
        id: JobId,
        (address, topic): (IpAddr, TopicIndex),
        now: Timestamp,
        length: Duration,
        holder: (String, u64),
    ) -> Self {
        let deadline = now + length + GRACE;
        Lease {
            id,
            address,
            topic,
            expected: Duration::ZERO,
            page_bytes: 0,
            slots: VecDeque::new(),
            robots: None,
            reports: Applied::default(),
            last: None,
            contacted: false,
            progressed: false,
            trouble: None,
            granted: now,
            heard: Some(now),
            deadline,
            prompt_until: deadline,
            is_excused: false,
            is_stopped: false,
            holder: Some(holder),
        }
    }

    /// A report came that renews it.
    pub(crate) fn renew(&mut self, now: Timestamp, length: Duration) {
        let is_prompt = self.is_prompt(now);
        self.deadline = now + length + GRACE;
        if is_prompt {
            self.prompt_until = self.deadline;
        }
    }

    /// It is to stop before its next request. Gives the job and its fetcher, which is not known of
    /// a job from an earlier life.
    pub(crate) fn stop(&mut self) -> (JobId, Option<String>) {
        (self.is_excused, self.is_stopped) = (true, true);
        (
            self.id,
            self.holder.as_ref().map(|(fetcher, _)| fetcher.clone()),
        )
    }

    /// It yields to others: it is to stop before its next request. What becomes of the one in hand
    /// is its URL's fault all the same.
    pub(crate) fn yields(&mut self) -> (JobId, Option<String>) {
        let is_excused = self.is_excused;
        let stopped = self.stop();
        self.is_excused = is_excused;
        stopped
    }

    /// Its holder could not be heard, and can be again: it lasts in full from now on, as after a
    /// restart. Until then the reports that waited have come.
    pub(crate) fn hear_again(&mut self, now: Timestamp, length: Duration) {
        self.deadline = self.deadline.max(now + length + GRACE);
        self.is_excused = true;
    }

    /// A report comes now. Gives the time that it tells of: since the grant, or the report before;
    /// no time at all after a restart.
    pub(crate) fn hear(&mut self, now: Timestamp) -> Duration {
        now.since(self.heard.replace(now).unwrap_or(now))
    }

    /// Returns whether a report that comes now has waited no longer than a lease lasts.
    pub(crate) fn is_prompt(&self, now: Timestamp) -> bool {
        now < self.prompt_until
    }

    /// A time before the end of a request that took so long. Its report may have waited since then.
    pub(crate) fn before_end_of(&self, elapsed: Duration) -> Timestamp {
        self.granted + elapsed
    }

    /// How long it has lasted; no time at all after a restart, since nobody knows.
    pub(crate) fn lasted(&self, now: Timestamp) -> Duration {
        if self.is_restored() {
            Duration::ZERO
        } else {
            now.since(self.granted)
        }
    }

    /// Returns whether it fetches pages or a robots.txt.
    pub(crate) fn kind(&self) -> JobKind {
        if self.robots.is_some() {
            JobKind::Robots
        } else {
            JobKind::Pages
        }
    }

    /// Takes a slot out; false when it is not, or no longer, in the job.
    pub(crate) fn take(&mut self, slot: u64) -> bool {
        match self.slots.iter().position(|&held| held == slot) {
            Some(place) => self.slots.remove(place).is_some(),
            None => false,
        }
    }

    /// Returns whether all its reports came.
    pub(crate) fn is_over(&self) -> bool {
        self.last
            .is_some_and(|last| self.reports.low() >= u64::from(last))
    }

    pub(crate) fn to_row(&self) -> Vec<u8> {
        let mut row = Writer::with_capacity(32 + 3 * self.slots.len());
        row.number(u64::from(self.id.scheduler));
        row.number(self.id.epoch);
        row.number(self.id.number);
        row.address(self.address);
        row.bytes(&self.reports.to_bytes());
        row.number(self.last.map_or(0, u64::from));
        row.byte(u8::from(self.contacted) | u8::from(self.progressed) << 1);
        row.byte(self.trouble.map_or(0, |trouble| trouble as u8));
        row.number(self.slots.len() as u64);
        for &slot in &self.slots {
            row.number(slot.rotate_left(1));
        }
        match &self.robots {
            None => row.byte(0),
            Some(task) => {
                row.byte(1 + u8::from(task.own));
                row.text(&task.url);
                row.number(task.askers.len() as u64);
                for asker in &task.askers {
                    row.text(asker);
                }
            }
        }
        row.finish()
    }

    /// A lease of an earlier life lasts in full from now on. Its id tells it from later ones.
    pub(crate) fn from_row(row: &[u8], deadline: Timestamp) -> Option<Self> {
        let mut row = Reader::new(row)?;
        let id = JobId {
            scheduler: u16::try_from(row.number()?).ok()?,
            epoch: row.number()?,
            number: row.number()?,
        };
        let address = row.address()?;
        let reports = Applied::from_bytes(row.bytes()?)?;
        let last = Some(row.small()?).filter(|&last| last > 0);
        let flags = row.byte()?;
        let trouble = Trouble::from_byte(row.byte()?);
        let mut slots = VecDeque::new();
        for _ in 0..row.number()? {
            slots.push_back(row.number()?.rotate_right(1));
        }
        let robots = match row.byte()? {
            0 => None,
            own => {
                let mut task = RobotsTask {
                    url: row.text()?.to_owned(),
                    own: own == 2,
                    askers: Vec::new(),
                };
                for _ in 0..row.number()? {
                    task.askers.push(row.text()?.to_owned());
                }
                Some(task)
            }
        };
        Some(Lease {
            id,
            address,
            topic: TopicIndex::OTHERS,
            expected: Duration::ZERO,
            page_bytes: 0,
            slots,
            robots,
            reports,
            last,
            // Nobody knows what happened meanwhile.
            contacted: true,
            progressed: flags & 2 != 0,
            trouble,
            granted: Timestamp::ZERO,
            heard: None,
            deadline,
            prompt_until: Timestamp::ZERO,
            is_excused: false,
            is_stopped: false,
            holder: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        let id = JobId {
            scheduler: 3,
            epoch: 1 << 40,
            number: 77,
        };
        let to = ("192.0.2.1".parse().unwrap(), TopicIndex::OTHERS);
        let holder = ("fetcher-0".to_owned(), 9);
        let mut lease = Lease::new(id, to, Timestamp::ZERO, Duration::from_secs(20), holder);
        lease.slots = [4, 5, (1 << 63) + 2].into();
        lease
    }

    #[test]
    fn a_lease_comes_back_as_it_was_and_counts_as_contacted() {
        let mut pages = lease();
        pages.reports.insert(1);
        pages.reports.insert(3);
        pages.last = Some(4);
        pages.trouble = Some(Trouble::Tls);
        pages.progressed = true;
        let mut robots = lease();
        robots.slots.clear();
        robots.robots = Some(RobotsTask {
            url: "http://a/r".into(),
            own: true,
            askers: vec!["http://b".into(), "http://c".into()],
        });
        for lease in [pages, robots] {
            let deadline = Timestamp::from_micros(99);
            let row = lease.to_row();
            let prompt_until = Timestamp::ZERO;
            // Nobody has been heard of since the restart.
            let expected = Lease {
                contacted: true,
                heard: None,
                holder: None,
                deadline,
                prompt_until,
                ..lease
            };
            assert_eq!(Lease::from_row(&row, deadline), Some(expected));
            for length in 0..row.len() {
                assert_eq!(Lease::from_row(&row[..length], deadline), None);
            }
        }
    }

    #[test]
    fn a_report_is_prompt_until_the_lease_would_have_ended_if_all_had_been_heard() {
        let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
        let length = Duration::from_secs(20);
        let mut lease = Lease {
            deadline: at(22),
            prompt_until: at(22),
            ..lease()
        };
        lease.renew(at(10), length);
        assert_eq!(
            (
                lease.deadline,
                lease.is_prompt(at(31)),
                lease.is_prompt(at(32))
            ),
            (at(32), true, false)
        );
        lease.hear_again(at(100), length);
        assert_eq!((lease.deadline, lease.is_prompt(at(100))), (at(122), false));
        lease.renew(at(101), length);
        assert_eq!(
            (lease.deadline, lease.is_prompt(at(101))),
            (at(123), false),
            "it may have waited, like the next"
        );
        lease.hear_again(at(101), length);
        assert_eq!(lease.deadline, at(123));
    }

    #[test]
    fn it_is_over_when_all_reports_up_to_the_last_came_in_any_order() {
        let mut lease = lease();
        lease.last = Some(3);
        for (sequence, over) in [(3, false), (1, false), (2, true)] {
            lease.reports.insert(sequence);
            assert_eq!(lease.is_over(), over);
        }
    }

    #[test]
    fn a_slot_is_taken_once() {
        let mut lease = lease();
        assert!(lease.take(5));
        assert!(!lease.take(5));
        assert!(!lease.take(17));
        assert_eq!(lease.slots, [4, (1 << 63) + 2]);
    }
}
