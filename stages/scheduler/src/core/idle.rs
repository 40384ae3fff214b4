//! Why a server is not being fetched: the answer for an operator, from the same decisions by which
//! the scheduler acts.
//!
//! Invariant: a question changes nothing, and brings no server into memory.

use crate::budget::shares::Pages;
use crate::core::grants::Grants;
use crate::core::places::Places;
use crate::frontier::queue::Queue;
use crate::frontier::rows::scan_urls;
use crate::keys::circle::Circle;
use crate::keys::room::Room;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::Lane;
use crate::keys::wait_for::WaitFor;
use crate::robots::sitemaps::left_out;
use crate::robots::state::{ROBOTS, Rules};
use crate::servers::in_play::Servers;
use crate::servers::server::Server;
use crate::servers::todo::Todo;
use crate::settings::Settings;
use rhumb_robots::Robots;
use rhumb_stage::store::StoreError;
use rhumb_url::time::Timestamp;
use rhumb_url::{server_of, shape_hash};
use rhumb_wire::message::{Origin, Outcome};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// URLs of a server that are looked at to find one, at most. They take a tenth of a second of the
/// scheduler's time.
const LOOKED_AT_MAX: usize = 100_000;

/// Why a server is not being fetched. All durations are what is left of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idle {
    /// No URL of it has come to its scheduler.
    Unknown,
    /// It belongs to this partition, which another instance owns.
    Elsewhere(u16),
    /// None of its URLs waits.
    NothingWaiting,
    /// Its URLs end without a contact: for this long, or as long as the crawl lasts.
    Ending(Outcome, &'static str, Option<Duration>),
    /// A job is out for it. Its lease expires after this time.
    Connected(Duration),
    /// The pause between two contacts.
    Delay(Duration),
    /// It refused, or did not answer, and is set aside.
    BackOff(Duration),
    /// All its URLs failed before. The first one is tried again after this time.
    Retry(Duration),
    /// Its address is asked for, and asked for again after this time.
    AddressAwaited(Duration),
    /// Its robots.txt is asked of another server, and asked for again after this time.
    RobotsAwaited(Duration),
    /// URLs in flight may use up the budget of its host, its domain or its topics, or other
    /// schedulers have what is left.
    BudgetReserved,
    /// A budget is used up: its URLs wait for a larger one.
    OverBudget(&'static str),
    /// No more connections to its address are allowed, over all schedulers.
    AddressTaken(IpAddr),
    /// As many jobs are out for its group, which has this place in `politeness.groups`, as are
    /// allowed, or other schedulers may have them out.
    GroupTaken(u16),
    /// The delay of its group.
    GroupDelay(u16, Duration),
    /// The pages left of the crawl's budget are in flight, or other schedulers have them.
    EnoughPages,
    /// The scheduler is told to end.
    Draining,
    /// The crawl is stopped.
    Stopped,
    /// It is paused: by whom, since when and why.
    Paused(String),
    /// All that waits at it is of traps: these.
    Trapped(String),
    /// It may be contacted.
    Ready {
        /// Servers that go before it.
        before: usize,
        /// Jobs that fetchers ask for now.
        credit: u64,
    },
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Idle::Unknown => f.write_str("no URL of it is known here"),
            Idle::Elsewhere(partition) => write!(f, "partition {partition} is another scheduler's"),
            Idle::NothingWaiting => f.write_str("nothing waits"),
            Idle::Ending(outcome, reason, None) => {
                write!(f, "its URLs end {}: {reason}", outcome.name())
            }
            Idle::Ending(outcome, reason, Some(left)) => {
                write!(
                    f,
                    "its URLs end {}: {reason}; for {left:.1?} more",
                    outcome.name()
                )
            }
            Idle::Connected(left) => write!(f, "connected; the lease expires in {left:.1?}"),
            Idle::Delay(left) => write!(f, "delay for {left:.1?} more"),
            Idle::BackOff(left) => write!(f, "set aside for {left:.1?} more"),
            Idle::Retry(left) => write!(f, "the first retry is due in {left:.1?}"),
            Idle::AddressAwaited(left) => {
                write!(f, "its address is awaited; asked for again in {left:.1?}")
            }
            Idle::RobotsAwaited(left) => write!(
                f,
                "its robots.txt is awaited; asked for again in {left:.1?}"
            ),
            Idle::BudgetReserved => f.write_str(
                "what is left of the budget of its host, domain or topics is in flight, or other \
                 schedulers'",
            ),
            Idle::OverBudget(limit) => write!(f, "its URLs wait: over the budget of {limit}"),
            Idle::AddressTaken(address) => {
                write!(
                    f,
                    "no more connections to {address} are allowed, over all schedulers"
                )
            }
            Idle::GroupTaken(number) => {
                write!(
                    f,
                    "no more jobs are allowed for its group, politeness.groups[{number}], over all \
                     schedulers"
                )
            }
            Idle::GroupDelay(number, left) => {
                write!(
                    f,
                    "delay of its group, politeness.groups[{number}], for {left:.1?} more"
                )
            }
            Idle::EnoughPages => {
                f.write_str("what is left of the crawl's budget is in flight, or other schedulers'")
            }
            Idle::Draining => f.write_str("the scheduler is ending"),
            Idle::Stopped => f.write_str(
                "the crawl was stopped by its conductor (rhumb conduct --for); one without it goes \
                 on",
            ),
            Idle::Paused(order) => f.write_str(order),
            Idle::Trapped(verdict) => write!(f, "what waits is kept back: {verdict}"),
            Idle::Ready { before, credit: 0 } => {
                write!(f, "ready behind {before} servers; no fetcher asks for jobs")
            }
            Idle::Ready { before, credit } => write!(
                f,
                "ready behind {before} servers; {credit} jobs are asked for"
            ),
        }
    }
}

/// Where a URL is that its scheduler was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// A job has it, and where it was found.
    InFlight(Origin),
    /// It waits after this number of attempts, and where it was found.
    Waiting(u8, Origin),
    /// It is not among the first URLs of its server, of which this number was looked at.
    NotAmongFirst(usize),
    /// It has ended, or has not come.
    Absent,
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whereabouts::InFlight(origin) => write!(f, "in flight; {}", origin.in_words()),
            Whereabouts::Waiting(0, origin) => write!(f, "waits; {}", origin.in_words()),
            Whereabouts::Waiting(attempts, origin) => {
                write!(f, "waits after {attempts} attempts; {}", origin.in_words())
            }
            Whereabouts::NotAmongFirst(n) => {
                write!(f, "not among the first {n} URLs of its server that wait")
            }
            Whereabouts::Absent => f.write_str("does not wait: it has ended, or has not come yet"),
        }
    }
}

/// A question of an operator, and the parts that know the answer.
pub(crate) struct Inquiry<'a> {
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a Settings,
    pub(crate) servers: &'a Servers,
    pub(crate) places: &'a Places,
    pub(crate) grants: &'a Grants,
}

impl Inquiry<'_> {
    /// Where a URL is, why its server is not being fetched, and whether sitemaps of it are left
    /// out; none when another instance owns it.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub(crate) fn why_url(&self, url: &str) -> Result<Option<String>, StoreError> {
        let server = server_of(url);
        Ok(match self.why_idle(server)? {
            Idle::Elsewhere(_) => None,
            Idle::Unknown => Some(format!("no URL of {server} has come")),
            idle => {
                let verdict = self
                    .verdict(server, url)?
                    .map(|verdict| format!("; {verdict}"))
                    .unwrap_or_default();
                let sitemaps = self.sitemaps_left_out(server)?;
                Some(format!(
                    "{}{verdict}; {server}: {idle}{sitemaps}",
                    self.whereabouts(server, url)?
                ))
            }
        })
    }

    /// Says how many sitemaps are left out that the last robots.txt of a server names; empty when
    /// all are taken.
    fn sitemaps_left_out(&self, server: &str) -> Result<String, StoreError> {
        let Some(key) = self.servers.key_of(server) else {
            return Ok(String::new());
        };
        let known = self.servers.look_up(key)?;
        // However long ago it came.
        if known.and_then(|server| server.robots.rules(Timestamp::ZERO)) != Some(Rules::Text) {
            return Ok(String::new());
        }
        let text = self
            .servers
            .store()
            .get(ROBOTS, &key.to_bytes())?
            .unwrap_or_default();
        let robots = Robots::parse(&text, &self.settings.product_token);
        Ok(match left_out(self.settings, &robots) {
            0 => String::new(),
            n => format!(
                "; sitemaps of its robots.txt left out (limits.sitemaps_per_server, or too long): \
                 {n}"
            ),
        })
    }

    /// What is known of the shape of a URL, while that is behind or a trap.
    fn verdict(&self, server: &str, url: &str) -> Result<Option<String>, StoreError> {
        let Some(key) = self.servers.key_of(server) else {
            return Ok(None);
        };
        let server = self.servers.look_up(key)?;
        let verdict = server
            .as_ref()
            .and_then(|server| server.shapes.verdict(shape_hash(url)));
        Ok(verdict.map(|verdict| match verdict.lane {
            Lane::Trapped => format!(
                "kept back until nothing else waits, because {verdict} (rhumb release frees it)"
            ),
            _ => format!("behind all others, because {verdict}"),
        }))
    }

    fn has_crawl_pages_left(&self) -> bool {
        self.servers.shares().budget(Pages::Crawl).left() > 0
    }

    /// Returns whether nothing is left here of the budgets of the topics whose URLs may be tried.
    fn has_no_pages_left(&self, key: ServerKey, server: &Server) -> bool {
        let topics = self
            .servers
            .partitions()
            .find(|(id, _)| *id == key.partition)
            .map(|(_, of)| &of.topics);
        let left = |queue: &Queue| {
            topics.map(|of| {
                self.places
                    .queue
                    .limits
                    .budget(of.index_of(queue.topic()))
                    .left()
            })
        };
        let mut due = server
            .queues
            .going()
            .filter(|queue| queue.ready_at() <= self.now)
            .peekable();
        due.peek().is_some() && due.all(|queue| left(queue) == Some(0))
    }

    fn whereabouts(&self, server: &str, url: &str) -> Result<Whereabouts, StoreError> {
        let Some(key) = self.servers.key_of(server) else {
            return Ok(Whereabouts::Absent);
        };
        let Some(server) = self.servers.look_up(key)? else {
            return Ok(Whereabouts::Absent);
        };
        let in_flight = server
            .lease
            .iter()
            .flat_map(|lease| &lease.slots)
            .map(|&slot| (slot..slot + 1, true));
        let waiting = server.queues.spans().into_iter().map(|span| (span, false));
        let mut found = Whereabouts::Absent;
        let mut looked_at = 0;
        for (span, is_in_flight) in in_flight.chain(waiting) {
            scan_urls(self.servers.store().as_ref(), key, span, &mut |stored| {
                looked_at += 1;
                found = match stored.url == url {
                    true if is_in_flight => Whereabouts::InFlight(stored.origin),
                    true => Whereabouts::Waiting(stored.attempts, stored.origin),
                    false if looked_at == LOOKED_AT_MAX => Whereabouts::NotAmongFirst(looked_at),
                    false => Whereabouts::Absent,
                };
                found == Whereabouts::Absent
            })?;
            if found != Whereabouts::Absent {
                break;
            }
        }
        Ok(found)
    }

    /// Why a server, `scheme://host[:port]`, is not being fetched at `now`.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub(crate) fn why_idle(&self, server: &str) -> Result<Idle, StoreError> {
        let now = self.now;
        let settings = self.settings;
        let Some(key) = self.servers.key_of(server) else {
            return Ok(Idle::Unknown);
        };
        if !self.servers.owns(key.partition) {
            return Ok(Idle::Elsewhere(key.partition));
        }
        let Some(mut server) = self.servers.look_up(key)? else {
            return Ok(Idle::Unknown);
        };
        let waits = server.lease.is_none() && !server.queues.is_empty();
        if let Some(pause) = self.servers.paused().order(&server.name).filter(|_| waits) {
            return Ok(Idle::Paused(pause.to_string()));
        }
        let budgets = self.servers.stored_budgets(key, &server)?;
        let left = |until: Timestamp| until.since(now);
        if let Some((outcome, reason)) = server
            .why_urls_end(now, settings, budgets)
            .filter(|_| server.lease.is_none())
        {
            let until = server.urls_end_until(now, settings, budgets);
            return Ok(Idle::Ending(outcome, reason, until.map(left)));
        }
        Ok(
            match server.todo(key, now, settings, budgets, &self.places.circles) {
                Todo::Nothing | Todo::Wait(_, WaitFor::Nobody) => Idle::NothingWaiting,
                Todo::Wait(until, WaitFor::Lease) => Idle::Connected(left(until)),
                Todo::Wait(until, WaitFor::BackOff) => Idle::BackOff(left(until)),
                Todo::Wait(until, WaitFor::Contact) => Idle::Delay(left(until)),
                Todo::Wait(until, WaitFor::Retry) => Idle::Retry(left(until)),
                Todo::Wait(until, WaitFor::Address) => Idle::AddressAwaited(left(until)),
                Todo::Wait(until, WaitFor::Robots) => Idle::RobotsAwaited(left(until)),
                Todo::Hold(Room::Topics) => Idle::OverBudget("pages of their topics"),
                Todo::Hold(Room::Host(_) | Room::Domain(_)) => budgets
                    .used_up()
                    .map_or(Idle::BudgetReserved, Idle::OverBudget),
                Todo::Hold(Room::Trap) => {
                    let traps = server
                        .shapes
                        .verdicts()
                        .filter(|(_, verdict)| verdict.lane == Lane::Trapped);
                    Idle::Trapped(
                        traps
                            .map(|(_, verdict)| verdict.to_string())
                            .collect::<Vec<_>>()
                            .join("; "),
                    )
                }
                // Errands wait.
                Todo::Hold(Room::Paused) => Idle::NothingWaiting,
                Todo::Hold(Room::Circle(circle)) => {
                    match (circle, self.places.circles.pause(circle, now, settings)) {
                        (Circle::Address(address), _) => Idle::AddressTaken(address),
                        (Circle::Group { number, .. }, None) => Idle::GroupTaken(number),
                        (Circle::Group { number, .. }, Some(pause)) => {
                            Idle::GroupDelay(number, pause)
                        }
                    }
                }
                // What the next step does.
                Todo::Resolve | Todo::End | Todo::Refuse => Idle::AddressAwaited(Duration::ZERO),
                Todo::Errand(_) => Idle::RobotsAwaited(Duration::ZERO),
                Todo::Job if self.grants.is_draining() => Idle::Draining,
                Todo::Job if self.grants.is_stopped() => Idle::Stopped,
                Todo::Job if !self.has_crawl_pages_left() => Idle::EnoughPages,
                Todo::Job if self.has_no_pages_left(key, &server) => Idle::BudgetReserved,
                Todo::Job => Idle::Ready {
                    before: self.places.queue.before(&server.place),
                    credit: self.grants.fetchers.credit(now),
                },
            },
        )
    }
}
