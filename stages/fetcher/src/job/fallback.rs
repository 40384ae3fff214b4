//! From HTTP/2 to HTTP/1.1: when the rest of a job goes over a second connection, and what later
//! jobs learn of that.
//!
//! In: ends of requests. Out: the close that the second connection follows; which servers
//! [`crate::http11`] knows.
//!
//! Invariant: a job goes from HTTP/2 to HTTP/1.1, once, and never back.

use super::{Phase, Running};
use crate::effect::Effect;
use crate::surroundings::Surroundings;
use rhumb_stage::Output;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::FailureKind;

impl Running {
    /// A request failed, and no head came. With the first one of a job that began over HTTP/1.1 the
    /// server is forgotten: it may have learned HTTP/2 since, or speak nothing else behind another
    /// of its addresses.
    pub(super) fn failed_before_head(&mut self, kind: FailureKind, around: &mut Surroundings) {
        let is_of_version = matches!(
            kind,
            FailureKind::Tls | FailureKind::Reset | FailureKind::Protocol
        );
        let began_over_http11 = self.http11 && self.http2_failed.is_none() && self.answered == 0;
        if is_of_version && began_over_http11 {
            around.http11.forget(&self.target.server);
        }
    }

    /// The server answered over HTTP/1.1: later jobs begin with it if HTTP/2 failed, unless it
    /// wants another connection or another version (421, 426 and 505: RFC 9110, sections 15.5.20,
    /// 15.5.22 and 15.6.6). Any other answer counts, errors too: they speak of the URL, and whoever
    /// sent them reads HTTP/1.1.
    pub(super) fn answered_over_http11(
        &mut self,
        now: Timestamp,
        status: u16,
        around: &mut Surroundings,
    ) {
        let is_first_after_http2 = self.http2_failed.take().is_some();
        if matches!(status, 421 | 426 | 505) {
            around.http11.forget(&self.target.server);
        } else if is_first_after_http2 {
            around.http11.note(now, &self.target.server);
        }
    }

    /// Returns whether another connection is wanted, because HTTP/2 failed on this one.
    pub(super) fn wants_http11(&self) -> bool {
        self.http2_failed.is_some() && !self.http11
    }

    /// Closes the connection; one over HTTP/1.1 follows when that is done (P1).
    pub(super) fn replace(&mut self, around: &mut Surroundings, out: &mut Output<Effect>) {
        let server = &self.target.server;
        let failure = self.http2_failed.map(FailureKind::name);
        tracing::debug!(server, failure, job = %self.job.id, "HTTP/2 failed; the job goes on over HTTP/1.1");
        around.tally.fallbacks += 1;
        self.http11 = true;
        self.gone = false;
        self.streams = 1;
        self.phase = Phase::Replacing;
        out.effect(Effect::Close { job: self.job.id });
    }
}
