//! What goes wrong with a request or its connection, and what each kind means: the one table of
//! error classes.
//!
//! A URL has a limited number of attempts (`stages.scheduler.attempts`), and the wait after each
//! doubles up to a cap. A server that is set aside is left alone in the same way, longer each time
//! in a row, unless Retry-After says how long. After `server_failures_max` times in a row its URLs
//! end as the last trouble says. So each series is finite, whatever servers do (P6). An answer to a
//! robots.txt ends no series of pages that failed: only the answer to a page does.
//!
//! | trouble | its URL | its server is set aside |
//! | --- | --- | --- |
//! | no connection, no TLS, no valid certificate, hung up on | goes back, as if untried | always |
//! | 429, 503 with Retry-After | costs an attempt | always, as long as that says |
//! | 429, 503 without, timeout, too slow, no length, reset, not HTTP | costs an attempt | when it is general ([`Strain`]); else its gap doubles |
//! | reset, its job brought an answer | goes back, as if untried | never |
//! | a wall ([`Trouble::Challenged`]) | ends | when its job brought nothing else |
//! | 408, other 5xx, header too large | costs an attempt | never |
//! | forbidden (P7) | ends | never |
//!
//! Trouble is general when nothing is known of the server but that, or when it is the third in a
//! row without an answer in between. A robots.txt that is refused leaves the server alone for a
//! while, and is counted by itself.
//!
//! Some servers serve a fixed number of requests on a connection and then reset it. The request on
//! its way is lost by chance, so its URL waits again as if it was never tried. This holds only for
//! jobs in which something was answered, so it cannot go on without end.
//!
//! A server is in trouble when it was set aside or its robots.txt was tried in vain, and has not
//! answered since. Such servers hold few connections while connections are short (`grants` of the
//! core). A server that has sent no page, and was not tried in vain, has less time for its first
//! answer (`first_answer_timeout`). After one try in vain it has as much time as any other.
//!
//! When servers answer other fetchers and one fetcher reaches none (`fetchers` of the core), what
//! fails with that one as it would without a network is excused: its URL goes back and nothing is
//! set aside, at most `server_failures_max` times for each server since its last answer.
//!
//! A name that cannot be resolved is no trouble of its server. `address` counts the questions, with
//! the same waits and a limit of their own (`resolve_attempts`).
//!
//! [`Strain`]: crate::politeness::strain::Strain
//!
//! Source: BUbiNG's waits by class of error (Boldi, Marino, Santini and Vigna 2014).

use rhumb_wire::message::{FailureKind, Outcome, RequestEnd, ResponseSummary};

/// The reason in the outcome of a URL whose body did not come to its end and had no length.
pub(crate) const NO_LENGTH: &str = "the body did not end, and its head gives no length";

/// What went wrong with a request, or with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connection could not be made.
    Connect = 1,
    /// The TLS handshake failed.
    Tls = 2,
    /// The server ended the connection before anything was answered.
    HungUp = 3,
    /// No answer in time.
    Timeout = 4,
    /// The connection was lost in the middle of a request.
    Reset = 5,
    /// What came is not HTTP.
    Protocol = 6,
    /// A response head that is too large.
    HeaderTooLarge = 7,
    /// The job may not contact it (P7).
    Forbidden = 8,
    /// Status 408.
    SlowRequest = 9,
    /// Status 429.
    TooManyRequests = 10,
    /// Status 503.
    Unavailable = 11,
    /// Another 5xx.
    ServerError = 12,
    /// A certificate that is not trusted.
    Certificate = 13,
    /// A body that came too slowly.
    Slow = 14,
    /// A body that did not end in time, whose head gives no length.
    NoLength = 15,
    /// A challenge in the place of the page, whatever its status.
    Challenged = 16,
}

/// What becomes of the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForUrl {
    /// It is tried again as if it never had been.
    GoesBack,
    /// It cost one of its attempts.
    Attempt,
    /// No other try would help.
    Ends,
}

/// When the server is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetAside {
    Always,
    /// When its trouble is general, or it says for how long.
    General,
    /// It answered, or was not asked.
    Never,
    /// When all that its job brought was like it.
    Alone,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) url: ForUrl,
    pub(crate) server: SetAside,
    /// The outcome of a URL that ends because of it, and the reason in the outcome.
    pub(crate) outcome: Outcome,
    pub(crate) reason: &'static str,
}

impl Trouble {
    const ALL: [Trouble; 16] = [
        Trouble::Connect,
        Trouble::Tls,
        Trouble::HungUp,
        Trouble::Timeout,
        Trouble::Reset,
        Trouble::Protocol,
        Trouble::HeaderTooLarge,
        Trouble::Forbidden,
        Trouble::SlowRequest,
        Trouble::TooManyRequests,
        Trouble::Unavailable,
        Trouble::ServerError,
        Trouble::Certificate,
        Trouble::Slow,
        Trouble::NoLength,
        Trouble::Challenged,
    ];

    /// The trouble of a request with this end; none when nothing went wrong.
    pub(crate) const fn of(end: &RequestEnd) -> Option<Self> {
        Some(match end {
            RequestEnd::Response(ResponseSummary { wall, .. }) if !wall.is_empty() => {
                Trouble::Challenged
            }
            RequestEnd::Failure(FailureKind::Connect) => Trouble::Connect,
            RequestEnd::Failure(FailureKind::Tls) => Trouble::Tls,
            RequestEnd::Failure(FailureKind::Certificate) => Trouble::Certificate,
            RequestEnd::Failure(FailureKind::Timeout) => Trouble::Timeout,
            RequestEnd::Failure(FailureKind::Slow) => Trouble::Slow,
            RequestEnd::Failure(FailureKind::Reset) => Trouble::Reset,
            RequestEnd::Failure(FailureKind::Protocol) => Trouble::Protocol,
            RequestEnd::Failure(FailureKind::HeaderTooLarge) => Trouble::HeaderTooLarge,
            RequestEnd::Failure(FailureKind::Forbidden) => Trouble::Forbidden,
            RequestEnd::Failure(FailureKind::NoLength) => Trouble::NoLength,
            RequestEnd::Response(ResponseSummary { status: 408, .. }) => Trouble::SlowRequest,
            RequestEnd::Response(ResponseSummary { status: 429, .. }) => Trouble::TooManyRequests,
            RequestEnd::Response(ResponseSummary { status: 503, .. }) => Trouble::Unavailable,
            RequestEnd::Response(ResponseSummary {
                status: 500..=599, ..
            }) => Trouble::ServerError,
            RequestEnd::Response(_)
            | RequestEnd::Untried
            | RequestEnd::Failure(FailureKind::NotArchived) => {
                return None;
            }
        })
    }

    /// Its row.
    pub(crate) const fn class(self) -> Class {
        use ForUrl::{Attempt, Ends, GoesBack};
        use Outcome::{Failed, Refused};
        use SetAside::{Alone, Always, General, Never};
        let (url, server, outcome, reason) = match self {
            Trouble::Connect => (GoesBack, Always, Failed, FailureKind::Connect.name()),
            Trouble::Tls => (GoesBack, Always, Failed, FailureKind::Tls.name()),
            Trouble::Certificate => (GoesBack, Always, Failed, FailureKind::Certificate.name()),
            Trouble::HungUp => (
                GoesBack,
                Always,
                Failed,
                "connection ended before a request",
            ),
            Trouble::TooManyRequests => (Attempt, General, Refused, "too many requests"),
            Trouble::Unavailable => (Attempt, General, Failed, "service unavailable"),
            Trouble::Timeout => (Attempt, General, Failed, FailureKind::Timeout.name()),
            Trouble::Slow => (Attempt, General, Failed, FailureKind::Slow.name()),
            Trouble::NoLength => (Attempt, General, Failed, NO_LENGTH),
            Trouble::Reset => (Attempt, General, Failed, FailureKind::Reset.name()),
            Trouble::Protocol => (Attempt, General, Failed, FailureKind::Protocol.name()),
            Trouble::HeaderTooLarge => (Attempt, Never, Failed, FailureKind::HeaderTooLarge.name()),
            Trouble::SlowRequest => (Attempt, Never, Refused, "request timeout"),
            Trouble::ServerError => (Attempt, Never, Failed, "server error"),
            Trouble::Forbidden => (Ends, Never, Failed, FailureKind::Forbidden.name()),
            Trouble::Challenged => (Ends, Alone, Refused, "challenged"),
        };
        Class {
            url,
            server,
            outcome,
            reason,
        }
    }

    /// Returns whether the server may have heard of the request.
    pub(crate) const fn contacts(self) -> bool {
        !matches!(self, Trouble::Forbidden)
    }

    /// Returns whether the server answered, with whatever it was.
    pub(crate) const fn answers(self) -> bool {
        self.contacts() && matches!(self.class().server, SetAside::Never)
    }

    /// Returns whether the server asks to be left alone.
    pub(crate) const fn refuses(self) -> bool {
        matches!(self, Trouble::TooManyRequests | Trouble::Unavailable)
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Trouble::ALL
            .into_iter()
            .find(|trouble| *trouble as u8 == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_comes_back_from_its_byte() {
        for byte in 0..=u8::MAX {
            let trouble = Trouble::from_byte(byte);
            assert_eq!(trouble.is_some(), (1..=16).contains(&byte));
            assert!(trouble.is_none_or(|trouble| trouble as u8 == byte));
        }
    }

    #[test]
    fn what_costs_no_attempt_sets_the_server_aside() {
        // Otherwise it could go on for ever.
        for trouble in Trouble::ALL {
            let Class { url, server, .. } = trouble.class();
            assert!(
                url != ForUrl::GoesBack || server == SetAside::Always,
                "{trouble:?}"
            );
        }
    }
}
