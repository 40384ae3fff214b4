//! Record: what the servers saw of the crawler.
//!
//! Each host has a record behind a lock of its own, so that a report that is read from another
//! thread holds up one host at a time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::resource::Resource;

/// Paths that no page links to are kept up to this number per host; further ones are only counted.
const UNKNOWN_PATHS_MAX: usize = 100;

/// A host that fails now and then fails the same page no more often. So a crawler that tries it
/// once more than that gets it, however its requests follow one another.
const FAILURES_MAX: usize = 2;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contact {
    /// Time since the web started.
    pub(crate) at: Duration,
    pub(crate) connection: u32,
    pub(crate) resource: Resource,
}

/// An answer to a request for a page that changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Look {
    pub(crate) page: u32,
    /// Seconds since the web started.
    pub(crate) at_s: f64,
    pub(crate) sight: Sight,
}

/// What the asker got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The page.
    Page,
    /// 304: the asker keeps what it has.
    NotModified,
    /// 404.
    Absent,
}

/// What one host saw since the last reset.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostRecord {
    pub(crate) contacts: Vec<Contact>,
    /// Answers to requests for pages that change, in order.
    pub(crate) looks: Vec<Look>,
    pub(crate) unknown_paths: Vec<String>,
    /// Connections accepted.
    pub(crate) accepted: u32,
    /// Connections open now.
    pub(crate) open: Vec<u32>,
    /// Connections that were accepted while an older one was open and remained open.
    pub(crate) parallel: u32,
    /// Requests that could not be read, or had a method other than GET and HEAD.
    pub(crate) malformed: u32,
    /// No request is wanted before then: a Retry-After.
    pub(crate) busy_until: Duration,
    /// Requests that came before that time.
    pub(crate) hasty: u32,
    /// Requests whose Host header named another host.
    pub(crate) misdirected: u32,
    /// Bytes of answers that the kernel took.
    pub(crate) bytes_sent: u64,
}

impl HostRecord {
    /// Requests but those for robots.txt.
    pub(crate) fn requests(&self) -> usize {
        self.contacts
            .iter()
            .filter(|contact| contact.resource != Resource::Robots)
            .count()
    }

    /// Returns whether a host that fails now and then may fail the last request, which was for
    /// this.
    pub(crate) fn may_fail(&self, resource: Resource) -> bool {
        let tries = self
            .contacts
            .iter()
            .filter(|contact| contact.resource == resource)
            .count();
        resource != Resource::Robots && tries <= FAILURES_MAX
    }
}

/// What all hosts and the DNS server saw.
#[derive(Debug)]
pub(crate) struct Recorder {
    started: Instant,
    started_at: SystemTime,
    hosts: Vec<Mutex<HostRecord>>,
    connections: AtomicU32,
    /// Connections to all hosts that are open now, and the most that were.
    at_once: Mutex<(u64, u64)>,
    dns_queries: AtomicU64,
    delay_expected_ms: AtomicU64,
}

/// An open connection; dropping it records that it is closed.
pub(crate) struct Open<'a> {
    recorder: &'a Recorder,
    host: u32,
    pub(crate) connection: u32,
    /// Connections to the same host that were open when this one was accepted.
    pub(crate) older: Vec<u32>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.recorder.at_once().0 -= 1;
        self.recorder
            .host(self.host)
            .open
            .retain(|open| *open != self.connection);
    }
}

impl Recorder {
    pub(crate) fn new(hosts: u32, delay_expected_ms: u64) -> Self {
        Self {
            started: Instant::now(),
            started_at: SystemTime::now(),
            hosts: (0..hosts).map(|_| Mutex::default()).collect(),
            connections: AtomicU32::new(0),
            at_once: Mutex::default(),
            dns_queries: AtomicU64::new(0),
            delay_expected_ms: AtomicU64::new(delay_expected_ms),
        }
    }

    pub(crate) fn host(&self, host: u32) -> MutexGuard<'_, HostRecord> {
        self.hosts[host as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn at_once(&self) -> MutexGuard<'_, (u64, u64)> {
        self.at_once.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Most connections that were open at once, to all hosts together.
    pub(crate) fn connections_at_once(&self) -> u64 {
        self.at_once().1
    }

    pub(crate) fn began(&self) -> Instant {
        self.started
    }

    /// The same, as a date.
    pub(crate) fn began_at(&self) -> SystemTime {
        self.started_at
    }

    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn open(&self, host: u32) -> Open<'_> {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let mut at_once = self.at_once();
        at_once.0 += 1;
        at_once.1 = at_once.1.max(at_once.0);
        drop(at_once);
        let mut record = self.host(host);
        let older = record.open.clone();
        record.accepted += 1;
        record.open.push(connection);
        drop(record);
        Open {
            recorder: self,
            host,
            connection,
            older,
        }
    }

    /// Records a parallel connection if one of `older` is still open.
    pub(crate) fn judge_parallel(&self, host: u32, older: &[u32]) {
        let mut record = self.host(host);
        if older
            .iter()
            .any(|connection| record.open.contains(connection))
        {
            record.parallel += 1;
        }
    }

    pub(crate) fn contact(&self, host: u32, contact: Contact, path: &str) {
        let mut record = self.host(host);
        record.hasty += u32::from(contact.at < record.busy_until);
        record.contacts.push(contact);
        if contact.resource == Resource::Unknown && record.unknown_paths.len() < UNKNOWN_PATHS_MAX {
            record.unknown_paths.push(path.to_owned());
        }
    }

    pub(crate) fn looked(&self, host: u32, look: Look) {
        self.host(host).looks.push(look);
    }

    /// No request is wanted for this time from now on.
    pub(crate) fn busy(&self, host: u32, duration: Duration) {
        let until = self.now() + duration;
        self.host(host).busy_until = until;
    }

    pub(crate) fn sent(&self, host: u32, bytes: usize) {
        self.host(host).bytes_sent += bytes as u64;
    }

    pub(crate) fn dns_query(&self) {
        self.dns_queries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dns_queries(&self) -> u64 {
        self.dns_queries.load(Ordering::Relaxed)
    }

    pub(crate) fn expect_delay(&self, ms: u64) {
        self.delay_expected_ms.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn delay_expected_ms(&self) -> u64 {
        self.delay_expected_ms.load(Ordering::Relaxed)
    }

    /// Forgets everything except which connections are open.
    pub(crate) fn reset(&self) {
        self.dns_queries.store(0, Ordering::Relaxed);
        let mut at_once = self.at_once();
        at_once.1 = at_once.0;
        drop(at_once);
        for host in &self.hosts {
            let mut record = host.lock().unwrap_or_else(PoisonError::into_inner);
            let open = std::mem::take(&mut record.open);
            *record = HostRecord {
                open,
                ..HostRecord::default()
            };
        }
    }
}
