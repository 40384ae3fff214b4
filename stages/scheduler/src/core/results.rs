//! Results of requests: what each means for its URL, for its server, and for what is known of both.
//!
//! In: the result of one request of a job. Out: an outcome, a retry, or the URL as it was.

use crate::core::doors::Doors;
use crate::core::recrawl;
use crate::core::work::At;
use crate::frontier::rows::{FrontierUrl, read_url, remove_url};
use crate::frontier::url_end::UrlEnd;
use crate::frontier::validators;
use crate::politeness::pauses::retry_after;
use crate::politeness::trouble::{ForUrl, SetAside, Trouble};
use crate::politeness::url_fate::{UrlFate, url_fate};
use crate::politeness::visit::smooth;
use crate::servers::lease::Lease;
use crate::servers::partition::forget_fresh;
use crate::servers::server::Server;
use crate::step::staged::Staged;
use rhumb_robots::Robots;
use rhumb_stage::store::StoreError;
use rhumb_url::path_of;
use rhumb_usage::Signals;
use rhumb_wire::message::{Outcome, RequestEnd, RequestResult, ResponseSummary};
use std::time::Duration;

/// A job's URLs while its report is taken.
pub(crate) struct JobUrls<'a, 'b, 'w> {
    pub(crate) at: &'a mut At<'b, 'w>,
    /// The job brought an answer. The page of that answer may be reported after the request that
    /// failed behind it.
    pub(crate) served: bool,
    pub(crate) lease: &'a mut Lease,
    /// The rules of its server, if one of the answers was a wall.
    pub(crate) robots: Option<&'a Robots>,
    /// How long before its report the URL ended, if it did.
    pub(crate) before: Duration,
}

impl JobUrls<'_, '_, '_> {
    /// Decides what becomes of one URL, and does it. A URL that is untried is left to the caller.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn apply(&mut self, result: &RequestResult) -> Result<UrlFate, StoreError> {
        if result.end == RequestEnd::Untried {
            return Ok(UrlFate::Untried);
        }
        let At {
            key,
            server,
            partition,
            places,
            staged,
            ..
        } = &mut *self.at;
        let trouble = Trouble::of(&result.end);
        let contacted = trouble.is_none_or(Trouble::contacts);
        let lost_with_its_connection = self.served && trouble == Some(Trouble::Reset);
        let goes_back = trouble.is_some_and(|trouble| trouble.class().url == ForUrl::GoesBack);
        let counts = contacted && !goes_back && !lost_with_its_connection;
        if let RequestEnd::Response(ResponseSummary { elapsed_us, .. }) = result.end {
            places.speeds.response.add(elapsed_us);
            server.response_us = smooth(server.response_us, elapsed_us);
        }
        self.lease.contacted |= contacted;
        partition.counts.contacts += u64::from(contacted);
        take_trouble(server, self.lease, &result.end, self.served, staged);
        self.lease.progressed |= trouble.is_none_or(Trouble::answers);
        let mut url = read_url(&staged.rows, *key, result.slot)?;
        url.attempts = url.attempts.saturating_add(u8::from(counts));
        let fate = match lost_with_its_connection {
            true => UrlFate::Untried,
            false => url_fate(staged.settings, &result.end, url.attempts),
        };
        match fate {
            UrlFate::Untried => {}
            UrlFate::Retry(wait) => self.retry(result.slot, url, wait),
            UrlFate::Ends(outcome, reason) => self.end(result, url, outcome, reason)?,
        }
        Ok(fate)
    }

    fn end(
        &mut self,
        result: &RequestResult,
        url: FrontierUrl,
        outcome: Outcome,
        reason: &'static str,
    ) -> Result<(), StoreError> {
        let at = &mut *self.at;
        let dates = validators::dates(&at.staged.rows, at.key, &url, &result.end)?;
        validators::note(&mut at.staged.rows, at.key, &url, &result.end);
        let mut end = UrlEnd {
            before: self.before,
            is_asked: true,
            dates,
            ..UrlEnd::of(&result.end, outcome, reason)
        };
        if let Some(robots) = self.robots.filter(|_| !end.wall.is_empty()) {
            end.usage = Signals::of_robots_txt(&robots.usage(path_of(&url.url)));
        }
        end.finding = recrawl::found(at, &url, &end)?;
        if !url.is_planned() {
            if outcome == Outcome::Fetched {
                at.server.pages = at.server.pages.saturating_add(1);
            }
            Doors::ended(at, self.lease, (result.slot, &url.url), outcome);
        }
        at.partition.end(at.staged, at.key, result.slot, url, end);
        Ok(())
    }

    fn retry(&mut self, slot: u64, mut url: FrontierUrl, wait: Duration) {
        let At {
            key,
            server,
            partition,
            staged,
            ..
        } = &mut *self.at;
        let at = staged.now.max(server.next_contact) + wait;
        url.not_before = partition.clock.store(at);
        partition.counts.retried += 1;
        remove_url(&mut staged.rows, *key, slot);
        forget_fresh(staged, *key, slot, &url);
        server
            .queues
            .push_retry(&mut staged.rows, *key, slot, &url, at);
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
    if let RequestEnd::Response(ResponseSummary { elapsed_us, .. }) = end {
        server.downloaded(staged.now, *elapsed_us, staged.settings);
    }
    // A wall says nothing once something else is answered.
    if lease.trouble == Some(Trouble::Challenged) && Trouble::of(end).is_none_or(Trouble::answers) {
        lease.trouble = None;
    }
    let retry_after = retry_after(staged.settings, end);
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
        // Behind a wall may come an answer that asks for a wait (P2).
        if let Some(wait) = retry_after {
            server.leave_alone(staged.now, wait);
        }
        return;
    }
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
        // Whether it stays the only answer is known when the job is over.
        SetAside::Alone => {
            if !lease.progressed {
                lease.trouble = Some(trouble);
            }
            // It asks for less, whatever else it is.
            let refuses = matches!(
                end,
                RequestEnd::Response(ResponseSummary {
                    status: 429 | 503,
                    ..
                })
            );
            if let Some(wait) = retry_after {
                server.leave_alone(staged.now, wait);
            } else if refuses {
                server.strain.troubled();
                server.leave_alone(staged.now, server.gap(staged.settings));
            }
            return;
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
