//! Results of requests: what each means for its URL, for its server, and for what is known of both.
//!
//! In: the result of one request of a job. Out: an outcome, a retry, or the URL as it was.

use crate::budget::shares::Shares;
use crate::frontier::rows::{FrontierUrl, read_url, remove_url};
use crate::frontier::url_end::UrlEnd;
use crate::frontier::validators;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::topic_of;
use crate::politeness::pauses::retry_after;
use crate::politeness::trouble::{ForUrl, SetAside, Trouble};
use crate::politeness::url_fate::{UrlFate, url_fate};
use crate::politeness::visit::smooth;
use crate::ranking::speeds::Speeds;
use crate::servers::lease::Lease;
use crate::servers::partition::{Partition, forget_fresh};
use crate::servers::server::Server;
use crate::step::staged::Staged;
use rhumb_stage::store::StoreError;
use rhumb_url::shape_hash;
use rhumb_wire::message::{Outcome, RequestEnd, RequestResult};
use std::time::Duration;

/// A job's URLs while its report is taken.
pub(crate) struct JobUrls<'a, 's> {
    pub(crate) key: ServerKey,
    pub(crate) speeds: &'a mut Speeds,
    pub(crate) shares: &'a mut Shares,
    pub(crate) server: &'a mut Server,
    pub(crate) partition: &'a mut Partition,
    /// The job brought an answer. The page of that answer may be reported after the request that
    /// failed behind it.
    pub(crate) served: bool,
    pub(crate) lease: &'a mut Lease,
    /// How long before its report the URL ended, if it did.
    pub(crate) before: Duration,
    pub(crate) staged: &'a mut Staged<'s>,
}

impl JobUrls<'_, '_> {
    /// Decides what becomes of one URL, and does it. A URL that is untried is left to the caller.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn apply(&mut self, result: &RequestResult) -> Result<UrlFate, StoreError> {
        if result.end == RequestEnd::Untried {
            return Ok(UrlFate::Untried);
        }
        let trouble = Trouble::of(&result.end);
        let contacted = trouble.is_none_or(Trouble::contacts);
        let lost_with_its_connection = self.served && trouble == Some(Trouble::Reset);
        let goes_back = trouble.is_some_and(|trouble| trouble.class().url == ForUrl::GoesBack);
        let counts = contacted && !goes_back && !lost_with_its_connection;
        if let RequestEnd::Response { elapsed_us, .. } = result.end {
            self.speeds.response.add(elapsed_us);
            self.server.response_us = smooth(self.server.response_us, elapsed_us);
        }
        self.lease.contacted |= contacted;
        self.partition.counts.contacts += u64::from(contacted);
        take_trouble(
            self.server,
            self.lease,
            &result.end,
            self.served,
            self.staged,
        );
        self.lease.progressed |= trouble.is_none_or(Trouble::answers);
        let mut url = read_url(&self.staged.rows, self.key, result.slot)?;
        url.attempts = url.attempts.saturating_add(u8::from(counts));
        let fate = match lost_with_its_connection {
            true => UrlFate::Untried,
            false => url_fate(self.staged.settings, &result.end, url.attempts),
        };
        match fate {
            UrlFate::Untried => {}
            UrlFate::Retry(wait) => self.retry(result.slot, url, wait),
            UrlFate::Ends(outcome, reason) => {
                validators::note(&mut self.staged.rows, self.key, &url, &result.end);
                let end = UrlEnd {
                    before: self.before,
                    ..UrlEnd::of(&result.end, outcome, reason)
                };
                if outcome == Outcome::Fetched {
                    self.server.pages = self.server.pages.saturating_add(1);
                    self.server.shapes.fetched(|| shape_hash(&url.url));
                    let topic = self.partition.topics.index_of(topic_of(result.slot));
                    self.shares.fetched(self.staged, self.server.domain, topic);
                }
                self.partition
                    .end(self.staged, self.key, result.slot, url, end);
            }
        }
        Ok(fate)
    }

    fn retry(&mut self, slot: u64, mut url: FrontierUrl, wait: Duration) {
        let at = self.staged.now.max(self.server.next_contact) + wait;
        url.not_before = self.partition.clock.store(at);
        self.partition.counts.retried += 1;
        remove_url(&mut self.staged.rows, self.key, slot);
        forget_fresh(self.staged, self.key, slot, &url);
        self.server
            .queues
            .push_retry(&mut self.staged.rows, self.key, slot, &url, at);
    }
}

/// Notes by the end of a request that the server answered, and in what time, or leaves it alone for
/// longer. `served`: its job brought an answer. The job may be one for a robots.txt.
pub(crate) fn take_trouble(
    server: &mut Server,
    lease: &mut Lease,
    end: &RequestEnd,
    served: bool,
    staged: &Staged<'_>,
) {
    if let RequestEnd::Response { elapsed_us, .. } = end {
        server.downloaded(staged.now, *elapsed_us, staged.settings);
    }
    // Only the first trouble of a job counts: failures in a row are counted by jobs.
    let is_first = lease.trouble.is_none();
    let Some(trouble) = Trouble::of(end) else {
        match lease.robots {
            None if !is_first => server.strain.answered(),
            _ if !is_first => {}
            Some(_) => server.answered_robots(),
            None => server.answered(),
        }
        return;
    };
    if !is_first {
        return;
    }
    let retry_after = retry_after(staged.settings, end);
    let is_set_aside = match trouble.class().server {
        SetAside::Always => true,
        SetAside::General if retry_after.is_some() => true,
        // Some servers end a connection so; its URL goes back.
        SetAside::General if served && trouble == Trouble::Reset => return,
        SetAside::General => {
            // What refuses is an answer itself.
            if served && !trouble.refuses() {
                server.strain.has_served();
            }
            server.strain.troubled()
        }
        SetAside::Never => {
            if trouble.answers() {
                server.answered();
            }
            return;
        }
    };
    lease.trouble = Some(trouble);
    if is_set_aside {
        server.set_aside(staged.now, trouble, retry_after, staged.settings);
        if lease.robots.is_some() {
            server.failed_robots();
        }
    } else {
        server.leave_alone(staged.now, server.gap(staged.settings));
    }
}
