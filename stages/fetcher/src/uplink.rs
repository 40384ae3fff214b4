//! Uplink: whether servers can be reached from here at all, and what follows when that is in doubt.
//!
//! In: how requests ended. Out: the same, or that the verdict is withheld; how many jobs may be
//! asked for; what an operator is told.
//!
//! While there is [`Doubt`], a server that does not answer is not held against it: its URL goes
//! back as untried. One job at a time is asked for, and none for a moment after it failed. A
//! refused connection is a server's answer; one that a proxy refuses is none.

use crate::effect::End;
use crate::job::Running;
use rhumb_stage::Count;
use rhumb_stage::doubt::{Doubt, Failure, Past, Verdict};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::FailureKind;
use std::time::Duration;

/// Whether servers can be reached.
pub(crate) struct Uplink(Doubt);

/// What the end of a request says about the network here.
enum Says {
    /// An answer came, or at least the server was reached.
    Reached,
    /// Something came from the server; what it answers will show.
    Heard,
    /// There was no answer.
    Failed(Failure),
    Nothing,
}

/// `served`: its connection brought an answer before.
fn says(end: &End, served: bool) -> Says {
    match end {
        End::Response(_) | End::BodyFailed(_) => Says::Reached,
        End::Refused => Says::Failed(Failure::Refusal),
        End::Failure(kind) => match kind {
            FailureKind::Connect | FailureKind::Timeout => Says::Failed(Failure::Silence),
            FailureKind::Certificate
            | FailureKind::Slow
            | FailureKind::NoLength
            | FailureKind::Protocol
            | FailureKind::HeaderTooLarge => Says::Reached,
            // A connection that breaks may break anywhere: also near here, when it never brought
            // anything. One that breaks in the handshake is one of these.
            FailureKind::Reset | FailureKind::Tls if !served => Says::Failed(Failure::Refusal),
            FailureKind::Reset
            | FailureKind::Tls
            | FailureKind::Forbidden
            | FailureKind::NotArchived => Says::Nothing,
        },
        End::Gone if !served => Says::Failed(Failure::Refusal),
        // The server chose HTTP/2 in the handshake; what comes over HTTP/1.1 will tell more.
        End::Http2Failed(_) => Says::Heard,
        End::Withheld | End::Gone => Says::Nothing,
    }
}

impl Uplink {
    /// Nothing is in doubt. When it is, it is for `doubt_max` at most.
    pub(crate) fn new(doubt_max: Duration, past: Past) -> Self {
        Uplink(Doubt::new(doubt_max, past))
    }

    /// Takes the end of a request of a job. Gives it back as it counts, and says whether doubt
    /// begins with it.
    pub(crate) fn judge(&mut self, now: Timestamp, running: &Running, end: End) -> (End, bool) {
        let began = running.busy_since();
        let server = running.server();
        let failure = match says(&end, running.has_served()) {
            Says::Nothing => return (end, false),
            Says::Reached => {
                tell_end(self.0.succeeded(now, began, server), server);
                return (end, false);
            }
            Says::Heard => {
                tell_end(self.0.heard(now), server);
                return (end, false);
            }
            Says::Failed(failure) => failure,
        };
        if failure == Failure::Refusal {
            tell_end(self.0.heard(now), server);
        }
        match self.0.failed(now, began, server, failure) {
            Verdict::Counts => (end, false),
            Verdict::Withheld { begins } => {
                if begins {
                    tracing::warn!(
                        "no server can be reached from here: is the network of this machine \
                         broken? Until one can be, or for network.doubt_max, no failure is held \
                         against any server"
                    );
                }
                (End::Withheld, begins)
            }
        }
    }

    /// Takes a look at the time.
    pub(crate) fn look(&mut self, now: Timestamp) {
        if self.0.look(now) {
            tracing::warn!(
                "no server could be reached for network.doubt_max; from now on failures count"
            );
        }
    }

    /// When the doubt began that there was at the last look.
    pub(crate) fn doubt_began(&self) -> Option<Timestamp> {
        self.0.began()
    }

    /// How many jobs may be asked for, when so many connections are free, and so many jobs in hand
    /// were begun in doubt.
    pub(crate) fn wanted(&self, now: Timestamp, free: u32, tries: usize) -> u32 {
        match self.0.is_on(now) {
            false => free,
            true if tries == 0 && self.0.may_try(now) => free.min(1),
            true => 0,
        }
    }

    /// When to look again although nothing came.
    pub(crate) fn wake_at(&self, tries: usize) -> Option<Timestamp> {
        self.0.wake_at(tries == 0)
    }

    /// Why this fetcher does not do its work, while there is doubt.
    pub(crate) fn hindrance(&self, now: Timestamp) -> Option<String> {
        let since = self.0.since(now)?;
        let until = self.0.until()?;
        let lasts = now.since(since).as_secs();
        let left = until.since(now).as_secs();
        Some(format!(
            "no server can be reached from here for {lasts} s; for {left} s more no failure is \
             held against any server"
        ))
    }

    pub(crate) fn counts(&self) -> [Count; 3] {
        self.0.counts()
    }
}

/// Says that doubt has ended that lasted so long, if one has.
fn tell_end(lasted: Option<Duration>, server: &str) {
    if let Some(lasted) = lasted {
        tracing::info!(
            server,
            lasted_s = lasted.as_secs(),
            "servers can be reached again"
        );
    }
}
