//! What a settlement tells of itself: its numbers, whether it is at rest, whether the process is
//! ready.

use super::{PUBLISH_LATE, Settlement, Took, settled_count};
use crate::Count;
use rhumb_url::time::Timestamp;

impl<H: Clone> Settlement<H> {
    /// Returns whether no input is in hand and every output is in its stream.
    pub fn is_settled(&self) -> bool {
        self.tickets.is_empty() && self.unsent() == 0
    }

    /// Outputs that wait to share a frame, or are on their way.
    fn unsent(&self) -> usize {
        self.frames.len() + self.unstored.len()
    }

    /// How many inputs are in hand and outputs are on their way.
    pub fn unsettled(&self) -> usize {
        self.tickets.len() + self.unsent()
    }

    /// Its numbers, for status and metrics.
    pub fn counts(&self) -> Vec<Count> {
        let settled = self
            .positions
            .settled()
            .filter_map(|(edge, settled)| Some((settled_count(edge)?, settled)));
        let mut counts = vec![
            ("loop_received_total", self.received),
            ("loop_commits_total", self.commits),
            ("loop_published_total", self.published),
            ("loop_repeated_total", self.repeated),
            ("loop_dead_total", self.dead),
            ("loop_parked_total", self.parked),
            ("loop_passed_over_total", self.passed_over),
            ("loop_inputs_in_hand", self.tickets.len() as u64),
            ("loop_outputs_in_flight", self.unsent() as u64),
        ];
        counts.extend(settled);
        counts
    }

    /// The edge that holds the process back, if one does: its stream is full, or too much is on its
    /// way into it.
    pub fn held_back(&self) -> Option<&str> {
        let oldest = || self.unstored.oldest().filter(|_| self.is_choked());
        let message = self.unstored.oldest_refused().or_else(oldest)?;
        Some(self.subjects.name_of(&message.subject))
    }

    /// What time it is, in nanoseconds since 1970: without that no latency is measured. To be
    /// called now and then.
    pub fn is_now(&mut self, now: Timestamp, since_1970_ns: i64) {
        self.latencies.is_now(now, since_1970_ns);
    }

    /// How long inputs took until they were settled, by edge.
    pub fn latencies(&self) -> &[Took] {
        self.latencies.by_edge()
    }

    /// Says why the process is not ready, if it is not.
    ///
    /// # Errors
    /// The reason, for an operator.
    pub fn readiness(&self, now: Timestamp) -> Result<(), String> {
        if !self.may_step(now) {
            Err("no lease on the partitions".into())
        } else if self.unstored.unanswered(now) > PUBLISH_LATE {
            Err(format!(
                "what is published is not stored: {}",
                self.unstored.failure().unwrap_or("no answer")
            ))
        } else {
            Ok(())
        }
    }
}
