//! What goes wrong with a request or its connection, and what each kind means: the one table of error classes.
//!
//! A URL has so many attempts (`stages.scheduler.attempts`), with a wait after each that doubles up to its cap. A
//! server that is set aside is left alone in the same way, longer with each time in a row; after so many
//! (`server_failures_max`) its URLs end as the last trouble says. So whatever servers do, each series is finite (P6).
//!
//! | trouble | its URL | its server is set aside |
//! | --- | --- | --- |
//! | no connection, no TLS, no valid certificate, hung up on | goes back, as if untried | always |
//! | 429, 503 | costs an attempt | always; as long as Retry-After says, if it does |
//! | timeout, too slow, reset, not HTTP | costs an attempt | when its job brought no answer |
//! | reset, its job brought an answer | goes back, as if untried | never |
//! | 408, other 5xx, header too large | costs an attempt | never |
//! | forbidden (P7) | ends | never |
//!
//! A connection that has served is reset by servers that serve no more than so many requests on one, and the request on
//! its way is lost by chance: its URL waits again as if it was never tried. A job in which nothing was answered is none of
//! these, so there are no more of them than there are answers.
//!
//! Servers in trouble, which were set aside or whose robots.txt was tried in vain, cost the others little: they hold few
//! connections while those are short ([`crate::core::grants`]), and before they were tried in vain for the first time they
//! have less time to answer (`first_answer_timeout`). Then they have as much as any.
//!
//! Names that cannot be resolved trouble no server: the questions for an address are counted in [`crate::servers::address`],
//! with the same waits and a number of their own (`resolve_attempts`).
//!
//! Source: BUbiNG's waits by class of error (Boldi, Marino, Santini and Vigna 2014).

use shared::message::{FailureKind, Outcome, RequestEnd};

/// What went wrong.
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
}

/// What becomes of the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForUrl {
    /// It is tried again as if it never had been.
    GoesBack,
    /// That was one of its attempts.
    Attempt,
    /// No other try would help.
    Ends,
}

/// When the server is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetAside {
    Always,
    /// When nothing was answered in the job before.
    Unanswered,
    /// It answered, or was not asked.
    Never,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) url: ForUrl,
    pub(crate) server: SetAside,
    /// How URLs end that end of it, and why.
    pub(crate) outcome: Outcome,
    pub(crate) reason: &'static str,
}

impl Trouble {
    const ALL: [Trouble; 14] = [
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
    ];

    /// What was wrong with a request that ended so, if anything was.
    pub(crate) const fn of(end: &RequestEnd) -> Option<Self> {
        Some(match end {
            RequestEnd::Failure(FailureKind::Connect) => Trouble::Connect,
            RequestEnd::Failure(FailureKind::Tls) => Trouble::Tls,
            RequestEnd::Failure(FailureKind::Certificate) => Trouble::Certificate,
            RequestEnd::Failure(FailureKind::Timeout) => Trouble::Timeout,
            RequestEnd::Failure(FailureKind::Slow) => Trouble::Slow,
            RequestEnd::Failure(FailureKind::Reset) => Trouble::Reset,
            RequestEnd::Failure(FailureKind::Protocol) => Trouble::Protocol,
            RequestEnd::Failure(FailureKind::HeaderTooLarge) => Trouble::HeaderTooLarge,
            RequestEnd::Failure(FailureKind::Forbidden) => Trouble::Forbidden,
            RequestEnd::Response { status: 408, .. } => Trouble::SlowRequest,
            RequestEnd::Response { status: 429, .. } => Trouble::TooManyRequests,
            RequestEnd::Response { status: 503, .. } => Trouble::Unavailable,
            RequestEnd::Response { status: 500..=599, .. } => Trouble::ServerError,
            RequestEnd::Response { .. } | RequestEnd::Untried => return None,
        })
    }

    /// Its row.
    pub(crate) const fn class(self) -> Class {
        use ForUrl::{Attempt, Ends, GoesBack};
        use Outcome::{Failed, Refused};
        use SetAside::{Always, Never, Unanswered};
        let (url, server, outcome, reason) = match self {
            Trouble::Connect => (GoesBack, Always, Failed, FailureKind::Connect.name()),
            Trouble::Tls => (GoesBack, Always, Failed, FailureKind::Tls.name()),
            Trouble::Certificate => (GoesBack, Always, Failed, FailureKind::Certificate.name()),
            Trouble::HungUp => (GoesBack, Always, Failed, "connection ended before a request"),
            Trouble::TooManyRequests => (Attempt, Always, Refused, "too many requests"),
            Trouble::Unavailable => (Attempt, Always, Failed, "service unavailable"),
            Trouble::Timeout => (Attempt, Unanswered, Failed, FailureKind::Timeout.name()),
            Trouble::Slow => (Attempt, Unanswered, Failed, FailureKind::Slow.name()),
            Trouble::Reset => (Attempt, Unanswered, Failed, FailureKind::Reset.name()),
            Trouble::Protocol => (Attempt, Unanswered, Failed, FailureKind::Protocol.name()),
            Trouble::HeaderTooLarge => (Attempt, Never, Failed, FailureKind::HeaderTooLarge.name()),
            Trouble::SlowRequest => (Attempt, Never, Refused, "request timeout"),
            Trouble::ServerError => (Attempt, Never, Failed, "server error"),
            Trouble::Forbidden => (Ends, Never, Failed, FailureKind::Forbidden.name()),
        };
        Class { url, server, outcome, reason }
    }

    /// Whether the server may have heard of the request.
    pub(crate) const fn contacts(self) -> bool {
        !matches!(self, Trouble::Forbidden)
    }

    /// Whether the server answered, with whatever it was.
    pub(crate) const fn answers(self) -> bool {
        self.contacts() && matches!(self.class().server, SetAside::Never)
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Trouble::ALL.into_iter().find(|trouble| *trouble as u8 == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_comes_back_from_its_byte() {
        for byte in 0..=u8::MAX {
            let trouble = Trouble::from_byte(byte);
            assert_eq!(trouble.is_some(), (1..=14).contains(&byte));
            assert!(trouble.is_none_or(|trouble| trouble as u8 == byte));
        }
    }

    #[test]
    fn what_costs_no_attempt_sets_the_server_aside() {
        // Else it could go on for ever.
        for trouble in Trouble::ALL {
            let Class { url, server, .. } = trouble.class();
            assert!(url != ForUrl::GoesBack || server == SetAside::Always, "{trouble:?}");
        }
    }
}
