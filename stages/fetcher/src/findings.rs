//! What a job has to report: how its URLs ended, and the robots.txt that it was for.
//!
//! In: ends of requests, and which pages are in their stream. Out: what goes into the next report.
//!
//! Invariant: what is said of a page waits until the page is stored (P3).

use crate::room::Taken;
use rhumb_wire::message::{RequestEnd, RequestResult, RobotsResponse};
use std::sync::Arc;

/// What is reported of a response; of a robots.txt with its rules.
pub(crate) type Reported = (RequestResult, Option<RobotsResponse>);

#[derive(Default)]
pub(crate) struct Findings {
    /// What is reported of pages on their way to their stream, by their tags, and the room that
    /// they take.
    unstored: Vec<(u64, Option<Reported>, Arc<Taken>)>,
    /// For the next report.
    pub(crate) results: Vec<RequestResult>,
    pub(crate) robots: Option<RobotsResponse>,
}

impl Findings {
    /// A page is on its way to its stream.
    pub(crate) fn await_page(&mut self, tag: u64, reported: Option<Reported>, room: Arc<Taken>) {
        self.unstored.push((tag, reported, room));
    }

    /// A page is in its stream.
    pub(crate) fn stored(&mut self, tag: u64) {
        if let Some(index) = self.unstored.iter().position(|(page, ..)| *page == tag) {
            let (_, reported, _) = self.unstored.remove(index);
            self.note(reported);
        }
    }

    /// Pages on their way to their stream.
    pub(crate) fn unstored(&self) -> usize {
        self.unstored.len()
    }

    /// Something is to be reported.
    pub(crate) fn note(&mut self, reported: Option<Reported>) {
        let Some((result, robots)) = reported else {
            return;
        };
        self.results.push(result);
        self.robots = robots.or(self.robots.take());
    }

    /// The request for the URL in a slot ended so.
    pub(crate) fn ended(&mut self, slot: u64, end: RequestEnd) {
        self.results.push(RequestResult { slot, end });
    }
}
