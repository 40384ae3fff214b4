//! What the fetcher counts.

use crate::challenge;
use rhumb_stage::{Count, LabelledCount};
use rhumb_telemetry::metrics::Histogram;
use rhumb_wire::message::FailureKind;

/// Totals of one life.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) asks: u64,
    pub(crate) asks_unanswered: u64,
    pub(crate) jobs: u64,
    pub(crate) jobs_refused: u64,
    pub(crate) jobs_revoked: u64,
    pub(crate) jobs_expired: u64,
    pub(crate) connections: u64,
    pub(crate) fallbacks: u64,
    pub(crate) requests: u64,
    pub(crate) pages: u64,
    pub(crate) robots: u64,
    pub(crate) bytes: u64,
    pub(crate) truncated: u64,
    pub(crate) closed_by_server: u64,
    pub(crate) reports: u64,
    pub(crate) untried: u64,
    /// Responses in the archive that is replayed.
    pub(crate) recordings: u64,
    pub(crate) damaged: u64,
    /// How long connections took to be made.
    pub(crate) connects: Histogram,
    /// How long responses took.
    pub(crate) responses: Histogram,
    failures: [u64; KINDS.len()],
    challenges: [u64; challenge::RULES.len()],
}

/// The kinds of failure with the names of their counts.
const KINDS: [(FailureKind, &str); 11] = [
    (FailureKind::Connect, "failures_connect_total"),
    (FailureKind::Tls, "failures_tls_total"),
    (FailureKind::Certificate, "failures_certificate_total"),
    (FailureKind::Slow, "failures_slow_total"),
    (FailureKind::Timeout, "failures_timeout_total"),
    (FailureKind::NoLength, "failures_no_length_total"),
    (FailureKind::Reset, "failures_reset_total"),
    (FailureKind::Protocol, "failures_protocol_total"),
    (
        FailureKind::HeaderTooLarge,
        "failures_header_too_large_total",
    ),
    (FailureKind::Forbidden, "failures_forbidden_total"),
    (FailureKind::NotArchived, "failures_not_archived_total"),
];

impl Tally {
    pub(crate) fn failed(&mut self, kind: FailureKind) {
        for (count, (other, _)) in self.failures.iter_mut().zip(KINDS) {
            *count += u64::from(other == kind);
        }
    }

    /// A response is a challenge of this vendor; or none.
    pub(crate) fn met(&mut self, vendor: Option<&str>) {
        for (count, rule) in self.challenges.iter_mut().zip(challenge::RULES) {
            *count += u64::from(vendor == Some(rule.vendor));
        }
    }

    pub(crate) fn counts(&self) -> Vec<Count> {
        let mut counts = vec![
            ("asks_total", self.asks),
            ("asks_unanswered_total", self.asks_unanswered),
            ("jobs_total", self.jobs),
            ("jobs_refused_total", self.jobs_refused),
            ("jobs_revoked_total", self.jobs_revoked),
            ("jobs_expired_total", self.jobs_expired),
            ("connections_total", self.connections),
            ("http11_fallbacks_total", self.fallbacks),
            ("requests_total", self.requests),
            ("pages_total", self.pages),
            ("robots_total", self.robots),
            ("bytes_total", self.bytes),
            ("truncated_total", self.truncated),
            ("closed_by_server_total", self.closed_by_server),
            ("reports_total", self.reports),
            ("untried_total", self.untried),
            ("archive_recordings", self.recordings),
            ("archive_damaged_total", self.damaged),
        ];
        counts.extend(
            self.failures
                .iter()
                .zip(KINDS)
                .map(|(&count, (_, name))| (name, count)),
        );
        counts
    }

    pub(crate) fn labelled_counts(&self) -> Vec<LabelledCount> {
        let challenges = self.challenges.iter().zip(challenge::RULES);
        let of_vendor = |(&value, rule): (&u64, &challenge::Rule)| LabelledCount {
            count: "challenges_total",
            label: "vendor",
            label_value: rule.vendor.to_owned(),
            value,
        };
        challenges.map(of_vendor).collect()
    }
}
