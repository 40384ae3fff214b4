//! A server: the unit of politeness. What is known of it, and what is to be done for it next.
//!
//! In memory only while there is something to do or to wait for: less than 600 bytes with its places in all queues (and
//! the best of its URLs as far as its rank hangs on them), and the job in hand; its URLs and its robots.txt are on
//! disk, and so is its record, from which it comes back.

use crate::address::{Address, Need};
use crate::budget::Budgets;
use crate::clock::Clock;
use crate::codec::{Reader, Writer};
use crate::connections::Connections;
use crate::frontier::Queue;
use crate::jobs::Lease;
use crate::policy::{Connection, Rank};
use crate::politeness::{back_off, gap, requests_max};
use crate::ready_queue::{Place, Room};
use crate::robots_policy::{Next, RobotsState, Rules};
use crate::settings::Settings;
use crate::speeds::Speeds;
use crate::staged::Staged;
use crate::trouble::Trouble;
use shared::config::OverBudget;
use shared::message::Outcome;
use shared::stage::store::{StoreError, Table};
use shared::time::Timestamp;
use shared::url::{fingerprint, host_of, registered_domain};
use std::net::IpAddr;
use std::time::Duration;

/// How much faster a connection that serves several requests is than one request after another, p of Cao, Jiang and
/// Singh 2003, as long as it was not measured, in thousandths.
const OVERLAP_PERMILLE: u32 = 1200;

/// Table of servers: partition and server → record.
pub(crate) const SERVERS: Table = "servers";

/// A server in keys: its partition, and the hash of `scheme://host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerKey {
    pub(crate) partition: u16,
    pub(crate) id: u64,
}

impl ServerKey {
    pub(crate) fn of(partition: u16, server: &str) -> Self {
        ServerKey { partition, id: fingerprint(server) }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut key = Vec::with_capacity(18);
        key.extend_from_slice(&self.partition.to_be_bytes());
        key.extend_from_slice(&self.id.to_be_bytes());
        key
    }

    pub(crate) fn from_bytes(key: &[u8]) -> Option<Self> {
        let (partition, id) = key.split_at_checked(2)?;
        Some(ServerKey {
            partition: u16::from_be_bytes(partition.try_into().ok()?),
            id: u64::from_be_bytes(id.try_into().ok()?),
        })
    }
}

/// A robots.txt that is to be fetched here for another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrandTask {
    pub(crate) url: String,
    /// The server for which it stands.
    pub(crate) asker: String,
}

/// What is to be done for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// Nothing.
    Nothing,
    /// Nothing before then.
    Wait(Timestamp, WaitFor),
    /// Nothing before there is room.
    Hold(Room),
    /// Its address is to be asked for.
    Resolve,
    /// Its robots.txt is to be asked for on another server.
    Errand(String),
    /// A job.
    Job,
    /// Errands for it cannot be done.
    Refuse,
    /// Its waiting URLs end, without a contact.
    End,
}

/// What a server waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// The end of its lease.
    Lease,
    /// Its next contact may be made; nothing waits for that.
    Nobody,
    /// Its next contact may be made.
    Contact,
    /// The first of its URLs, which all failed before, may be tried again.
    Retry,
    /// Its address.
    Address,
    /// Its robots.txt, from another server.
    Robots,
}

/// What one server, or all of them, have in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// URLs that wait.
    pub(crate) waiting: u64,
    /// Of those: because a budget is used up.
    pub(crate) over_budget: u64,
    /// URLs in flight.
    pub(crate) in_flight: u64,
    /// Jobs that are out.
    pub(crate) jobs: u64,
    /// Jobs that are out for servers in trouble.
    pub(crate) troubled: u64,
}

impl Load {
    /// Puts what a server has in hand now in the place of what it had.
    pub(crate) fn replace(&mut self, had: Load, has: Load) {
        self.waiting = self.waiting + has.waiting - had.waiting;
        self.over_budget = self.over_budget + has.over_budget - had.over_budget;
        self.in_flight = self.in_flight + has.in_flight - had.in_flight;
        self.jobs = self.jobs + has.jobs - had.jobs;
        self.troubled = self.troubled + has.troubled - had.troubled;
    }
}

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// `scheme://host[:port]`.
    pub(crate) name: Box<str>,
    /// Hash of its host's name.
    pub(crate) host: u64,
    /// Hash of its host's registered domain.
    pub(crate) domain: u64,
    pub(crate) address: Address,
    pub(crate) robots: RobotsState,
    pub(crate) queue: Queue,
    /// No contact before then (P2).
    pub(crate) next_contact: Timestamp,
    /// Times in a row that it was set aside.
    failures: u8,
    /// Its URLs end until then, because of this.
    dead: Option<(Trouble, Timestamp)>,
    /// Requests that one of its connections serves; 0: not known.
    pub(crate) requests_learned: u32,
    /// Smoothed time to connect, in microseconds; 0: not known.
    pub(crate) connect_us: u32,
    /// Smoothed time of a request, in microseconds; 0: not known.
    pub(crate) response_us: u32,
    /// Smoothed overlap of the requests of a connection, in thousandths; 0: not known.
    pub(crate) overlap_permille: u32,
    /// Time of its last response, in microseconds; 0: not known.
    download_us: u32,
    pub(crate) lease: Option<Box<Lease>>,
    pub(crate) errands: Vec<ErrandTask>,
    pub(crate) place: Place,
    /// The address to which it would take the next connection, or waits to.
    pub(crate) heir_of: Option<IpAddr>,
    /// What the scheduler has counted of it.
    pub(crate) accounted: Load,
}

impl Server {
    pub(crate) fn new(name: &str) -> Self {
        Server {
            name: name.into(),
            host: fingerprint(host_of(name)),
            domain: fingerprint(registered_domain(host_of(name))),
            address: Address::default(),
            robots: RobotsState::default(),
            queue: Queue::default(),
            next_contact: Timestamp::ZERO,
            failures: 0,
            dead: None,
            requests_learned: 0,
            connect_us: 0,
            response_us: 0,
            overlap_permille: 0,
            download_us: 0,
            lease: None,
            errands: Vec::new(),
            place: Place::Idle,
            heir_of: None,
            accounted: Load::default(),
        }
    }

    /// Pause between two contacts.
    pub(crate) fn gap(&self, settings: &Settings) -> Duration {
        let crawl_delay = if settings.respect_robots { self.robots.crawl_delay() } else { Duration::ZERO };
        gap(settings, crawl_delay, Duration::from_micros(self.download_us.into()))
    }

    /// No contact for so long, at least.
    pub(crate) fn leave_alone(&mut self, now: Timestamp, wait: Duration) {
        self.next_contact = self.next_contact.max(now + wait);
    }

    /// A response took so long.
    pub(crate) fn downloaded(&mut self, now: Timestamp, elapsed_us: u32, settings: &Settings) {
        self.download_us = elapsed_us;
        self.leave_alone(now, self.gap(settings));
    }

    /// The server answered.
    pub(crate) fn answered(&mut self) {
        self.failures = 0;
    }

    /// Whether it was set aside and has not answered since.
    pub(crate) fn was_set_aside(&self) -> bool {
        self.failures > 0
    }

    /// Whether its last job, or its last try to get a robots.txt, brought nothing: the next one may not either, and hold
    /// a connection until its time is over.
    pub(crate) fn is_in_trouble(&self) -> bool {
        self.was_set_aside() || self.robots.was_tried_in_vain()
    }

    /// Whether nothing is known of it: it has not sent a page yet, and was not tried in vain.
    pub(crate) fn is_stranger(&self) -> bool {
        self.response_us == 0 && !self.is_in_trouble() && self.dead.is_none()
    }

    /// The server is set aside: for as long as it asks for, or for longer with each time in a row.
    pub(crate) fn set_aside(
        &mut self,
        now: Timestamp,
        trouble: Trouble,
        retry_after: Option<Duration>,
        settings: &Settings,
    ) {
        // One that was reached is away; of one that never was it is not known by which version it can be.
        if trouble == Trouble::Connect && self.is_stranger() {
            self.address.turn();
        }
        self.failures = self.failures.saturating_add(1);
        let wait = back_off(settings, self.failures);
        self.leave_alone(now, retry_after.unwrap_or(wait));
        if self.failures >= settings.server_failures_max {
            self.dead = Some((trouble, now + wait));
            // When that has lapsed, and URLs still come, one more job decides.
            self.failures = settings.server_failures_max.saturating_sub(1);
        }
    }

    /// Why no connection to it is even tried, as long as that holds.
    fn out_of_reach(&self, now: Timestamp) -> Option<(Outcome, &'static str)> {
        if let Some(why) = self.address.missing(now) {
            return Some((Outcome::Unresolvable, why.reason()));
        }
        match self.dead {
            Some((trouble, until)) if until > now => Some((trouble.class().outcome, trouble.class().reason)),
            _ => None,
        }
    }

    /// How all its waiting URLs end, as long as that holds.
    pub(crate) fn verdict(
        &self,
        now: Timestamp,
        settings: &Settings,
        budgets: Budgets,
    ) -> Option<(Outcome, &'static str)> {
        if let Some(limit) = budgets.used_up().filter(|_| settings.over_budget == OverBudget::End) {
            return Some((Outcome::OverBudget, limit));
        }
        let unreachable = settings.respect_robots && self.robots.rules(now) == Some(Rules::Unreachable);
        self.out_of_reach(now).or(unreachable.then_some((Outcome::Disallowed, "robots.txt unreachable")))
    }

    /// Until when its URLs end, if that is known.
    pub(crate) fn verdict_until(&self, now: Timestamp, settings: &Settings, budgets: Budgets) -> Option<Timestamp> {
        let dead_until = self.dead.map(|(_, until)| until).filter(|&until| until > now);
        match self.address.missing(now) {
            _ if budgets.used_up().is_some() && settings.over_budget == OverBudget::End => None,
            Some(_) => Some(self.address.until()),
            None => dead_until.or(self.robots.until()),
        }
    }

    /// What is to be done for it now; `budgets` is what is left for its pages.
    pub(crate) fn todo(
        &mut self,
        now: Timestamp,
        settings: &Settings,
        budgets: Budgets,
        connections: &Connections,
    ) -> Todo {
        if let Some(lease) = &self.lease {
            return Todo::Wait(lease.deadline, WaitFor::Lease);
        }
        let (urls, errands) = (!self.queue.is_empty(), !self.errands.is_empty());
        if !urls && !errands {
            let is_over = self.next_contact <= now;
            return if is_over { Todo::Nothing } else { Todo::Wait(self.next_contact, WaitFor::Nobody) };
        }
        if errands && self.out_of_reach(now).is_some() {
            return Todo::Refuse;
        }
        if urls && self.verdict(now, settings, budgets).is_some() {
            return Todo::End;
        }
        if let Some(room) = budgets.room_wanted(self).filter(|_| !errands) {
            return Todo::Hold(room);
        }
        if self.next_contact > now {
            return Todo::Wait(self.next_contact, WaitFor::Contact);
        }
        if !errands && self.queue.ready_at() > now {
            return Todo::Wait(self.queue.ready_at(), WaitFor::Retry);
        }
        match self.address.need(now, settings) {
            Need::Ask => return Todo::Resolve,
            Need::Wait(until) => return Todo::Wait(until, WaitFor::Address),
            Need::Nothing if self.address.missing(now).is_none() => {}
            Need::Nothing if errands => return Todo::Refuse,
            Need::Nothing => return Todo::End,
        }
        if !errands && self.needs_robots(now, settings) {
            match self.robots.next(now) {
                Next::Own => {}
                Next::Errand(url) => return Todo::Errand(url),
                Next::Wait(until) => return Todo::Wait(until, WaitFor::Robots),
            }
        }
        match self.address.first() {
            Some(address) if !connections.has_room(address) => Todo::Hold(Room::Address(address)),
            _ => Todo::Job,
        }
    }

    /// Whether its robots.txt has to be got before its URLs.
    pub(crate) fn needs_robots(&self, now: Timestamp, settings: &Settings) -> bool {
        settings.respect_robots && !self.queue.is_empty() && self.robots.rules(now).is_none()
    }

    /// The rank of the server, as it stands.
    pub(crate) fn rank(
        &mut self,
        staged: &Staged<'_>,
        key: ServerKey,
        settings: &Settings,
        speeds: &Speeds,
    ) -> Result<Rank, StoreError> {
        let gap = self.gap(settings);
        let pages = requests_max(settings, self.requests_learned, gap);
        if settings.policy().by_quality() {
            self.queue.read_head(staged, key, pages.min(settings.head_max()))?;
        }
        let best = self.queue.head();
        let best = &best[..best.len().min(pages)];
        let pages = (pages as u64).min(self.queue.len()).max(1);
        let overlap_permille = match (self.requests_learned, self.overlap_permille) {
            (1, _) => 1000,
            (_, 0) => OVERLAP_PERMILLE,
            (_, measured) => measured,
        };
        let overlap = f64::from(overlap_permille) / 1000.0;
        let seconds = 2.0 * speeds.connect.or_own(self.connect_us)
            + pages as f64 * speeds.response.or_own(self.response_us) / overlap
            + (pages - 1) as f64 * gap.as_secs_f64();
        Ok(settings.policy().rank(Connection { pages, seconds, best }))
    }

    /// What it adds to the sums over all servers.
    pub(crate) fn load(&self) -> Load {
        let load = Load { waiting: self.queue.len(), ..Load::default() };
        let Some(lease) = &self.lease else { return load };
        Load { in_flight: lease.slots.len() as u64, jobs: 1, troubled: u64::from(self.is_in_trouble()), ..load }
    }

    pub(crate) fn to_row(&self, clock: Clock) -> Vec<u8> {
        let mut row = Writer::with_capacity(self.name.len() + 80);
        row.text(&self.name);
        self.address.write(&mut row, clock);
        self.robots.write(&mut row, clock);
        self.queue.write(&mut row, |at| clock.store(at));
        row.number(clock.store(self.next_contact));
        row.byte(self.failures);
        row.byte(self.dead.map_or(0, |(trouble, _)| trouble as u8));
        row.number(self.dead.map_or(0, |(_, until)| clock.store(until)));
        row.number(u64::from(self.requests_learned));
        row.number(u64::from(self.connect_us));
        row.number(u64::from(self.response_us));
        row.number(u64::from(self.overlap_permille));
        row.number(u64::from(self.download_us));
        row.finish()
    }

    pub(crate) fn from_row(row: &[u8], clock: Clock) -> Option<Self> {
        let mut row = Reader::new(row)?;
        let mut server = Server::new(row.text()?);
        server.address = Address::read(&mut row, clock)?;
        server.robots = RobotsState::read(&mut row, clock)?;
        server.queue = Queue::read(&mut row, |stored| clock.restore(stored))?;
        server.next_contact = clock.restore(row.number()?);
        server.failures = row.byte()?;
        let trouble = Trouble::from_byte(row.byte()?);
        let until = clock.restore(row.number()?);
        server.dead = trouble.map(|trouble| (trouble, until));
        server.requests_learned = row.small()?;
        server.connect_us = row.small()?;
        server.response_us = row.small()?;
        server.overlap_permille = row.small()?;
        server.download_us = row.small()?;
        Some(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::scheduler_tests::settings;
    use shared::message::Resolution;

    const BUDGETS: Budgets = Budgets { host: Budget::Left(1), domain: Budget::UNLIMITED };

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let (settings, clock) = (settings(), Clock::resume(7, at(0), 1));
        let mut server = Server::new("https://a.test:8443");
        let resolution = Resolution::Addresses { addresses: vec!["::1".parse().unwrap()], ttl_s: 300 };
        server.address.learn(at(2), &resolution, &settings);
        server.robots.set_text(at(3), Duration::from_secs(9), &settings);
        server.queue.give_back([3, 5].into_iter(), 0);
        server.leave_alone(at(4), Duration::from_secs(60));
        for _ in 0..settings.server_failures_max {
            server.set_aside(at(5), Trouble::Tls, None, &settings);
        }
        (server.requests_learned, server.connect_us) = (5, 600);
        (server.response_us, server.overlap_permille, server.download_us) = (70_000, 1300, 90_000);
        let row = server.to_row(clock);
        let read = Server::from_row(&row, clock).unwrap();
        assert_eq!(format!("{read:?}"), format!("{server:?}"));
        for length in 0..row.len() {
            assert!(Server::from_row(&row[..length], clock).is_none());
        }
    }

    #[test]
    fn a_server_that_cannot_be_connected_to_is_dead_after_so_many_failures_in_a_row() {
        let settings = settings();
        let mut server = Server::new("http://a.test");
        for _ in 1..settings.server_failures_max {
            server.set_aside(at(0), Trouble::Connect, None, &settings);
        }
        server.answered();
        for _ in 1..settings.server_failures_max {
            assert_eq!(server.verdict(at(1), &settings, BUDGETS), None);
            server.set_aside(at(0), Trouble::Connect, None, &settings);
        }
        server.set_aside(at(0), Trouble::Connect, None, &settings);
        assert_eq!(server.verdict(at(1), &settings, BUDGETS), Some((Outcome::Failed, "connect")));
        // Later one more connection decides.
        let later = server.next_contact;
        assert_eq!(server.verdict(later, &settings, BUDGETS), None);
        server.set_aside(later, Trouble::Connect, None, &settings);
        assert!(server.verdict(later, &settings, BUDGETS).is_some());
    }
}
