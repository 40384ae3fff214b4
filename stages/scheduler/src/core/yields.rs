//! Which jobs yield: those of lower topics, when servers of a higher one wait for connections.
//!
//! A job that is asked to yield finishes the request in hand, and reports the other URLs as
//! untried. No connection is broken (Cao, Jiang and Singh 2003: the server level is not
//! preemptive), and the higher topic gets its turn within a page (Fan and Li 2015: a higher
//! priority preempts).
//!
//! Invariant: no more jobs yield at once than servers wait.

use crate::core::work::{At, Work};
use crate::keys::server_key::ServerKey;
use crate::ranking::topics::Topics;
use crate::servers::lease::Lease;
use rhumb_wire::message::JobKind;
use std::collections::BTreeSet;

/// The jobs for pages that are out.
#[derive(Debug, Default)]
pub(crate) struct Yields {
    /// By the priorities of their topics: those that were not asked to yield.
    running: BTreeSet<(u8, ServerKey)>,
    /// Those that were.
    yielding: BTreeSet<ServerKey>,
    asked: u64,
}

impl Yields {
    /// A job is out: granted, or of an earlier life.
    pub(crate) fn granted(&mut self, key: ServerKey, lease: &Lease, topics: &Topics) {
        if lease.kind() == JobKind::Pages && !lease.is_stopped {
            self.began(topics.priority(lease.topic), key);
        }
    }

    /// A job is over.
    pub(crate) fn closed(&mut self, key: ServerKey, lease: &Lease, topics: &Topics) {
        self.ended(topics.priority(lease.topic), key);
    }

    /// The job of a server yields when URLs of a higher topic wait there: a server has one
    /// connection.
    pub(crate) fn preempt_own(&mut self, at: &mut At<'_, '_>, connections: u64) {
        let now = at.staged.now;
        let topics = &at.staged.settings.topics;
        let (Some(lease), false) = (at.server.lease.as_mut(), topics.is_one()) else {
            return;
        };
        let priority = topics.priority(lease.topic);
        let due = at
            .server
            .queues
            .going()
            .filter(|queue| queue.ready_at() <= now);
        let mut due = due.map(|queue| at.partition.topics.index_of(queue.topic()));
        let may = |topic| at.places.queue.limits.may(topic, now, connections);
        let is_higher = due.any(|topic| topics.priority(topic) > priority && may(topic));
        if is_higher && self.ask(priority, at.key) {
            at.staged.stopped.push(lease.yields());
        }
    }

    /// Jobs of lower topics yield, as many as servers of the highest one wait for connections.
    pub(crate) fn preempt(&mut self, work: &mut Work<'_>) {
        let Work {
            servers,
            places,
            staged,
            ..
        } = work;
        let connections = servers.load_of_all().jobs;
        let topics = &staged.settings.topics;
        let Some(lowest) = self.lowest().filter(|_| !topics.is_one()) else {
            return;
        };
        let urgent = places
            .queue
            .most_urgent(topics, staged.now, connections)
            .filter(|(priority, _)| *priority > lowest);
        let Some((priority, waiting)) = urgent else {
            return;
        };
        for (priority, key) in self.for_servers(priority, waiting) {
            self.ask(priority, key);
            let lease = servers
                .get_mut(key)
                .and_then(|server| server.lease.as_mut());
            staged.stopped.extend(lease.map(|lease| lease.yields()));
        }
    }

    /// A job of a topic of that priority is out.
    fn began(&mut self, priority: u8, server: ServerKey) {
        self.running.insert((priority, server));
    }

    /// A job is over.
    fn ended(&mut self, priority: u8, server: ServerKey) {
        if !self.running.remove(&(priority, server)) {
            self.yielding.remove(&server);
        }
    }

    /// A job is asked to yield; false when it is not out, or was asked before.
    fn ask(&mut self, priority: u8, server: ServerKey) -> bool {
        let is_new = self.running.remove(&(priority, server));
        if is_new {
            self.yielding.insert(server);
            self.asked += 1;
        }
        is_new
    }

    /// Jobs that are to yield to so many servers of a priority, the lowest first.
    fn for_servers(&self, priority: u8, servers: usize) -> Vec<(u8, ServerKey)> {
        let wanted = servers.saturating_sub(self.yielding.len());
        self.running
            .iter()
            .take_while(|(of, _)| *of < priority)
            .take(wanted)
            .copied()
            .collect()
    }

    /// The lowest priority of a job that was not asked to yield.
    fn lowest(&self) -> Option<u8> {
        self.running.first().map(|(priority, _)| *priority)
    }

    /// Returns whether a job is out.
    #[cfg(test)]
    pub(crate) fn knows(&self, priority: u8, server: ServerKey) -> bool {
        self.running.contains(&(priority, server)) || self.yielding.contains(&server)
    }

    /// Jobs that were asked so far.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_yield_and_no_more_of_them_than_servers_wait() {
        let mut yields = Yields::default();
        let server = ServerKey::numbered;
        for (priority, id) in [(5, 1), (0, 2), (9, 3), (0, 4)] {
            yields.began(priority, server(id));
        }
        assert_eq!(yields.for_servers(9, 2), [(0, server(2)), (0, server(4))]);
        assert!(yields.ask(0, server(2)) && !yields.ask(0, server(2)) && !yields.ask(0, server(7)));
        assert_eq!(
            yields.for_servers(9, 2),
            [(0, server(4))],
            "one is on its way"
        );
        assert_eq!(yields.for_servers(9, 9), [(0, server(4)), (5, server(1))]);
        assert_eq!(
            (yields.for_servers(0, 9), yields.lowest(), yields.asked()),
            (Vec::new(), Some(0), 1)
        );
        yields.ended(0, server(2));
        yields.ended(0, server(4));
        assert_eq!(
            (yields.for_servers(9, 1), yields.lowest()),
            (vec![(5, server(1))], Some(5))
        );
    }
}
