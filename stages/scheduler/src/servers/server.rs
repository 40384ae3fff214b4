//! A server: the unit of politeness, and what is known of it.
//!
//! It is in memory only while there is something to do or to wait for, and comes back from its
//! record on disk. It takes about 670 bytes with its places in all queues. The job in hand takes
//! more, and so do the slots of the URLs on which its rank depends. Its URLs and its robots.txt are
//! on disk.

use crate::frontier::queues::Queues;
use crate::frontier::rows::{FrontierUrl, remove_url};
use crate::frontier::shapes::Shapes;
use crate::keys::circle::Circle;
use crate::keys::load::Load;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{Lane, Order, RETRIES, lane_of, topic_of};
use crate::keys::topic::{TopicIndex, TopicNumber};
use crate::politeness::pauses::{back_off, gap};
use crate::politeness::strain::{CALM, Strain};
use crate::politeness::trouble::Trouble;
use crate::politeness::visit::{growing, requests_max};
use crate::ranking::policy::{Connection, Rank};
use crate::ranking::ready_queue::QueuePlace;
use crate::ranking::speeds::Speeds;
use crate::robots::state::RobotsState;
use crate::servers::address::Address;
use crate::servers::lease::Lease;
use crate::servers::partition::forget_fresh;
use crate::settings::Settings;
use crate::step::staged::Staged;
use crate::store::clock::Clock;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::Rows;
use crate::visits::{DateTrust, SignalTrust};
use rhumb_stage::store::{StoreError, Table};
use rhumb_url::time::Timestamp;
use rhumb_url::{fingerprint, host_of, registered_domain, shape_hash};
use rhumb_wire::message::Outcome;
use std::time::Duration;

/// Overlap of the requests of a connection before it is measured, in thousandths: how much faster
/// the requests are than one after another (p of Cao, Jiang and Singh 2003).
const OVERLAP_PERMILLE: u32 = 1200;

/// How long a server is left alone whose planned visits cannot go now.
const VISITS_WAIT: Duration = Duration::from_millis(500);

/// Table of servers: server → record.
pub(crate) const SERVERS: Table = "servers";

/// A robots.txt that is to be fetched here for another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrandTask {
    pub(crate) url: String,
    /// The server that waits for it.
    pub(crate) asker: String,
}

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// `scheme://host[:port]`.
    pub(crate) name: Box<str>,
    /// Hash of its host's registered domain.
    pub(crate) domain: u64,
    /// The group that its host belongs to.
    pub(crate) group: Option<Circle>,
    pub(crate) address: Address,
    pub(crate) robots: RobotsState,
    pub(crate) queues: Queues,
    /// The shapes of its URLs.
    pub(crate) shapes: Shapes,
    /// No contact before then (P2).
    pub(crate) next_contact: Timestamp,
    /// Times in a row that it was set aside.
    failures: u8,
    /// Those of them that were tries to get a robots.txt; a restart takes all for tries to get
    /// pages.
    robots_failures: u8,
    /// Times since its last answer that a failure was not held against it.
    excuses: u8,
    /// How it answers.
    pub(crate) strain: Strain,
    /// Fingerprint of the fetcher that could not reach it last; 0: it has answered since.
    pub(crate) unreached_by: u64,
    /// Until this time its URLs end, because of this trouble.
    dead: Option<(Trouble, Timestamp)>,
    /// Requests that one of its connections serves; 0: not known.
    pub(crate) requests_learned: u32,
    /// Smoothed time to connect, in microseconds; 0: not known.
    pub(crate) connect_us: u32,
    /// Smoothed time of a request, in microseconds; 0: not known.
    pub(crate) response_us: u32,
    /// Smoothed overlap of the requests of a connection, in thousandths; 0: not known.
    pub(crate) overlap_permille: u32,
    /// Operators want it to be left alone.
    pub(crate) is_paused: bool,
    /// Nothing else waits in the crawl: URLs of traps end.
    pub(crate) traps_end: bool,
    /// Time of its last response, in microseconds; 0: not known.
    download_us: u32,
    pub(crate) lease: Option<Box<Lease>>,
    pub(crate) errands: Vec<ErrandTask>,
    pub(crate) place: QueuePlace,
    /// Its pages that were fetched since it came into memory.
    pub(crate) pages: u32,
    /// Visits of its pages that are planned and have not ended.
    pub(crate) visits_out: u32,
    /// Whether its `Last-Modified` is believed.
    pub(crate) date_trust: DateTrust,
    /// What was learned of the signals of its pages.
    pub(crate) signal_trust: SignalTrust,
    /// The topic of its last job for pages.
    pub(crate) served: TopicNumber,
    /// Circles in which it would take room now, or when there is some.
    pub(crate) contends: [Option<Circle>; 2],
    /// What the sums over all servers hold of it.
    pub(crate) accounted: Load,
    /// The topic of the URLs in flight that these hold.
    pub(crate) accounted_topic: TopicIndex,
}

impl Server {
    pub(crate) fn new(name: &str) -> Self {
        Server {
            name: name.into(),
            domain: fingerprint(registered_domain(host_of(name))),
            group: None,
            address: Address::default(),
            robots: RobotsState::default(),
            queues: Queues::default(),
            shapes: Shapes::default(),
            next_contact: Timestamp::ZERO,
            failures: 0,
            robots_failures: 0,
            excuses: 0,
            strain: Strain::default(),
            unreached_by: 0,
            dead: None,
            requests_learned: 0,
            connect_us: 0,
            response_us: 0,
            overlap_permille: 0,
            download_us: 0,
            lease: None,
            errands: Vec::new(),
            is_paused: false,
            traps_end: false,
            place: QueuePlace::Idle,
            pages: 0,
            visits_out: 0,
            date_trust: DateTrust::default(),
            signal_trust: SignalTrust::default(),
            served: TopicNumber::OTHERS,
            contends: [None; 2],
            accounted: Load::default(),
            accounted_topic: TopicIndex::OTHERS,
        }
    }

    /// The server, of the group that its host belongs to.
    pub(crate) fn grouped(self, settings: &Settings) -> Self {
        Server {
            group: settings.group_of(&self.name, self.domain),
            ..self
        }
    }

    /// The circles that its next job counts for.
    pub(crate) fn circles(&self, settings: &Settings) -> [Option<Circle>; 2] {
        let address = self
            .address
            .first()
            .filter(|_| settings.politeness.connections_per_address > 0);
        [self.group, address.map(Circle::Address)]
    }

    /// The circles that a job counts for which goes to an address.
    pub(crate) fn circles_of(&self, lease: &Lease, settings: &Settings) -> [Option<Circle>; 2] {
        let is_limited = settings.politeness.connections_per_address > 0;
        [
            self.group,
            is_limited.then_some(Circle::Address(lease.address)),
        ]
    }

    /// Pause between two contacts.
    pub(crate) fn gap(&self, settings: &Settings) -> Duration {
        let crawl_delay = if settings.politeness.respect_robots {
            self.robots.crawl_delay()
        } else {
            Duration::ZERO
        };
        let of_group = self
            .group
            .map_or(Duration::ZERO, |group| settings.delay_of(group));
        let gap = gap(
            settings,
            crawl_delay,
            Duration::from_micros(self.download_us.into()),
        )
        .max(of_group);
        self.strain.stretched(gap, settings.scheduler.retry_wait)
    }

    /// Requests of its next job, at most.
    pub(crate) fn requests_max(&self, settings: &Settings) -> usize {
        let limit = requests_max(settings, self.requests_learned, self.gap(settings));
        let limit = if self.strain.is_felt() {
            limit.min(CALM.into())
        } else {
            limit
        };
        if settings.later_links_count_mostly() {
            growing(limit, self.pages)
        } else {
            limit
        }
    }

    /// Allows no contact for `wait`, at least.
    pub(crate) fn leave_alone(&mut self, now: Timestamp, wait: Duration) {
        self.next_contact = self.next_contact.max(now + wait);
    }

    /// A job was to be granted, and there is nothing to be asked for now: a planned visit waits to be
    /// tried again, or for the turn of its topic, while what is new has no budget.
    pub(crate) fn waits_for_visits(&mut self, now: Timestamp) {
        if self.visits_out > 0 {
            self.leave_alone(now, VISITS_WAIT);
        }
    }

    /// Notes how long a response took, and pauses accordingly.
    pub(crate) fn downloaded(&mut self, now: Timestamp, elapsed_us: u32, settings: &Settings) {
        self.download_us = elapsed_us;
        self.leave_alone(now, self.gap(settings));
    }

    /// The server answered the request for a page.
    pub(crate) fn answered(&mut self) {
        (self.failures, self.robots_failures, self.excuses) = (0, 0, 0);
        self.strain.answered();
        self.unreached_by = 0;
    }

    /// A failure is not to be held against it. Returns whether that may be, as it was not so too
    /// often.
    pub(crate) fn excuse(&mut self, settings: &Settings) -> bool {
        let may_be = self.excuses < settings.scheduler.server_failures_max;
        self.excuses += u8::from(may_be);
        may_be
    }

    /// The server answered the request for a robots.txt. That says nothing of its pages: what
    /// failed with them still counts, or a server that refuses them would never be given up when
    /// its robots.txt is fetched in between (P6).
    pub(crate) fn answered_robots(&mut self) {
        self.failures = self
            .failures
            .saturating_sub(std::mem::take(&mut self.robots_failures));
        self.unreached_by = 0;
    }

    /// It was set aside because of a try to get a robots.txt.
    pub(crate) fn failed_robots(&mut self) {
        self.robots_failures = self.robots_failures.saturating_add(1);
    }

    /// The time until which its URLs end because it failed too often; none when that is not so, or
    /// no longer.
    pub(crate) fn dead_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.dead
            .map(|(_, until)| until)
            .filter(|&until| until > now)
    }

    /// Returns whether it was set aside and has not answered since.
    pub(crate) fn was_set_aside(&self) -> bool {
        self.failures > 0
    }

    /// Returns whether its last job, or its last try to get a robots.txt, brought nothing. The next
    /// one may bring nothing either, and hold a connection until its time is over.
    pub(crate) fn is_in_trouble(&self) -> bool {
        self.was_set_aside() || self.robots.was_tried_in_vain()
    }

    /// Returns whether nothing is known of it: it has not sent a page yet, and was not tried in
    /// vain.
    pub(crate) fn is_stranger(&self) -> bool {
        self.response_us == 0 && !self.is_in_trouble() && self.dead.is_none()
    }

    /// Sets the server aside: for as long as it asks for, or else longer with each time in a row.
    pub(crate) fn set_aside(
        &mut self,
        now: Timestamp,
        trouble: Trouble,
        retry_after: Option<Duration>,
        settings: &Settings,
    ) {
        // A server that was reached is away now. Of one that never was, nobody knows the version of
        // the protocol that reaches it.
        if trouble == Trouble::Connect && self.is_stranger() {
            self.address.turn();
        }
        self.failures = self.failures.saturating_add(1);
        let wait = back_off(settings, self.failures);
        self.leave_alone(now, retry_after.unwrap_or(wait));
        if self.failures >= settings.scheduler.server_failures_max {
            self.dead = Some((trouble, now + wait));
            // When that time is over, and URLs still come, one more job decides.
            self.failures = settings.scheduler.server_failures_max.saturating_sub(1);
        }
    }

    /// Why no connection to it is even tried, while that is so.
    pub(crate) fn out_of_reach(&self, now: Timestamp) -> Option<(Outcome, &'static str)> {
        if let Some(why) = self.address.missing(now) {
            return Some((Outcome::Unresolvable, why.reason()));
        }
        match self.dead {
            Some((trouble, until)) if until > now => {
                Some((trouble.class().outcome, trouble.class().reason))
            }
            _ => None,
        }
    }

    /// How long a connection takes that brings so many pages: it is opened and closed, they are
    /// answered, and there are the gaps between the requests.
    pub(crate) fn connection_s(&self, pages: u64, settings: &Settings, speeds: &Speeds) -> f64 {
        let overlap_permille = match (self.requests_learned, self.overlap_permille) {
            (1, _) => 1000,
            (_, 0) => OVERLAP_PERMILLE,
            (_, measured) => measured,
        };
        let overlap = f64::from(overlap_permille) / 1000.0;
        2.0 * speeds.connect.or_own(self.connect_us)
            + pages as f64 * speeds.response.or_own(self.response_us) / overlap
            + (pages - 1) as f64 * self.gap(settings).as_secs_f64()
    }

    /// The rank of the server for the URLs of a topic, as it stands now.
    pub(crate) fn rank(
        &mut self,
        rows: &Rows<'_>,
        key: ServerKey,
        (topic, now): (TopicNumber, Timestamp),
        settings: &Settings,
        speeds: &Speeds,
    ) -> Result<Rank, StoreError> {
        let limit = self.requests_max(settings);
        let Some(queue) = self.queues.get_mut(topic) else {
            return Ok(Rank::BEHIND);
        };
        if queue.lane(now) != Lane::Ahead {
            return Ok(Rank::BEHIND);
        }
        let waiting = queue.ahead();
        let pages = (limit as u64).min(waiting).max(1);
        let seconds = self.connection_s(pages, settings, speeds);
        let mut best: &[u64] = &[];
        if let Some(queue) = self
            .queues
            .get_mut(topic)
            .filter(|_| settings.policy().by_quality())
        {
            queue.read_head(rows, key, limit.min(settings.head_max()))?;
            best = queue.head();
            best = &best[..best.len().min(limit)];
        }
        Ok(settings.policy().rank(Connection {
            pages,
            seconds,
            best,
        }))
    }

    /// Some of the URLs that were taken belong into a later lane by now, because of what their
    /// shapes have become: they go there, as many as the step may move. Gives the others.
    pub(crate) fn sort_out(
        &mut self,
        key: ServerKey,
        mut taken: Vec<(u64, FrontierUrl)>,
        staged: &mut Staged<'_>,
    ) -> Vec<(u64, FrontierUrl)> {
        let shapes = &self.shapes;
        if staged.moves_left == 0 || shapes.verdicts().next().is_none() {
            return taken;
        }
        let lane = |url: &FrontierUrl| shapes.lane(shape_hash(&url.url));
        for (slot, url) in taken.extract_if(.., |(slot, url)| {
            *slot < RETRIES && !url.is_planned() && lane(url) > lane_of(*slot)
        }) {
            staged.moves_left = staged.moves_left.saturating_sub(1);
            remove_url(&mut staged.rows, key, slot);
            forget_fresh(staged, key, slot, &url);
            let order = Order::LAST.in_lane(lane(&url));
            let head_max = staged.settings.head_max();
            self.queues
                .push(&mut staged.rows, key, topic_of(slot), &url, order, head_max);
        }
        taken
    }

    /// Times in a row that it was set aside.
    pub(crate) fn failures(&self) -> u8 {
        self.failures
    }

    /// What it has in hand, for the sums over all servers.
    pub(crate) fn load(&self) -> Load {
        let waiting = self.queues.len();
        let trapped = self.queues.trapped();
        let paused = if self.is_paused { waiting - trapped } else { 0 };
        let load = Load {
            waiting,
            paused,
            trapped,
            ..Load::default()
        };
        let Some(lease) = &self.lease else {
            return load;
        };
        Load {
            in_flight: lease.slots.len() as u64,
            jobs: 1,
            troubled: u64::from(self.is_in_trouble()),
            ..load
        }
    }

    pub(crate) fn to_row(&self, clock: Clock) -> Vec<u8> {
        let mut row = Writer::with_capacity(self.name.len() + 80);
        row.text(&self.name);
        self.address.write(&mut row, clock);
        self.robots.write(&mut row, clock);
        self.queues.write(&mut row, |at| clock.store(at));
        row.number(clock.store(self.next_contact));
        row.byte(self.failures);
        row.byte(self.dead.map_or(0, |(trouble, _)| trouble as u8));
        row.number(self.dead.map_or(0, |(_, until)| clock.store(until)));
        row.number(u64::from(self.requests_learned));
        row.number(u64::from(self.connect_us));
        row.number(u64::from(self.response_us));
        row.number(u64::from(self.overlap_permille));
        row.number(u64::from(self.download_us));
        self.queues.write_lanes(&mut row);
        self.shapes.write(&mut row);
        // Most rows end here.
        let has_signals = !self.signal_trust.is_empty();
        let has_dates = self.date_trust != DateTrust::default();
        if self.visits_out > 0 || has_dates || has_signals {
            row.number(self.visits_out.into());
            row.array(self.date_trust.to_bytes());
        }
        if has_signals {
            row.bytes(&self.signal_trust.to_bytes());
        }
        row.finish()
    }

    /// The name in a row.
    pub(crate) fn name_in(row: &[u8]) -> Option<&str> {
        Reader::new(row)?.text()
    }

    pub(crate) fn from_row(row: &[u8], clock: Clock) -> Option<Self> {
        let mut row = Reader::new(row)?;
        let mut server = Server::new(row.text()?);
        server.address = Address::read(&mut row, clock)?;
        server.robots = RobotsState::read(&mut row, clock)?;
        server.queues = Queues::read(&mut row, |stored| clock.restore(stored))?;
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
        // Rows end here where a crawl began before there were lanes.
        if !row.is_over() {
            server.queues.read_lanes(&mut row)?;
            server.shapes = Shapes::read(&mut row)?;
        }
        if !row.is_over() {
            server.visits_out = row.small()?;
        }
        if !row.is_over() {
            server.date_trust = DateTrust::from_bytes(row.array()?);
        }
        if !row.is_over() {
            server.signal_trust = SignalTrust::from_bytes(row.bytes()?)?;
        }
        Some(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;
    use rhumb_wire::message::Resolution;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let settings = settings();
        let clock = Clock::resume(7, at(0), 1);
        let mut server = Server::new("https://a.test:8443");
        let resolution = Resolution::Addresses {
            addresses: vec!["::1".parse().unwrap()],
            ttl_s: 300,
        };
        server.address.learn(at(2), &resolution, &settings);
        server
            .robots
            .set_text(at(3), Duration::from_secs(9), &settings);
        let trapped = Order::LAST
            .in_lane(Lane::Trapped)
            .slot(TopicNumber::OTHERS, 7);
        server.queues.give_back([3, 5, trapped].into_iter(), 0);
        server.leave_alone(at(4), Duration::from_secs(60));
        for _ in 0..settings.scheduler.server_failures_max {
            server.set_aside(at(5), Trouble::Tls, None, &settings);
        }
        (server.requests_learned, server.connect_us) = (5, 600);
        (
            server.response_us,
            server.overlap_permille,
            server.download_us,
        ) = (70_000, 1300, 90_000);
        let row = server.to_row(clock);
        let read = Server::from_row(&row, clock).unwrap();
        assert_eq!(format!("{read:?}"), format!("{server:?}"));
        let before = row.len()
            - "lanes, their topic, behind, trapped, shapes"
                .split(',')
                .count();
        for length in (0..row.len()).filter(|length| *length != before) {
            assert!(Server::from_row(&row[..length], clock).is_none());
        }
        assert!(
            Server::from_row(&row[..before], clock).is_some(),
            "a row of an earlier version"
        );
    }
}
