//! What a job reports: renewals while it is under way, and its end.

use super::{Phase, Running};
use crate::effect::Effect;
use crate::surroundings::Surroundings;
use rhumb_stage::Output;
use rhumb_url::time::{Timestamp, micros};
use rhumb_wire::message::{Report, RequestEnd};
use rhumb_wire::topology::Token;

impl Running {
    /// When to send the next renewal, if one is needed. One report at a time, so that they reach
    /// their stream in order.
    pub(super) fn renew_at(&self) -> Option<Timestamp> {
        let in_use = matches!(
            self.phase,
            Phase::Unconnected | Phase::Open | Phase::Replacing
        );
        // A full stream keeps pages waiting after the close: without a lease they would all be
        // fetched again. What is in hand when no more is requested takes its time, too.
        let needed = (in_use && (!self.stopped || self.turns.in_hand() > 0)) || self.unstored() > 0;
        if needed && self.report_tag.is_none() {
            self.lease.renew_at()
        } else {
            None
        }
    }

    pub(super) fn renew(
        &mut self,
        now: Timestamp,
        around: &mut Surroundings,
        out: &mut Output<Effect>,
    ) {
        let tag = around.tag();
        let report = self.report(false, around);
        self.lease
            .sent(report.sequence, now, around.settings.renew_every);
        self.report_tag = Some(tag);
        self.new_tags.push(tag);
        out.publish_tagged(
            Token::Partition(self.job.partition),
            &report,
            Vec::new(),
            tag,
        );
    }

    pub(super) fn report_last(&mut self, around: &mut Surroundings, out: &mut Output<Effect>) {
        for index in self.turns.take_untried() {
            around.tally.untried += 1;
            let slot = self.job.requests[index].slot;
            self.findings.ended(slot, RequestEnd::Untried);
        }
        let report = self.report(true, around);
        out.publish(Token::Partition(self.job.partition), &report, Vec::new());
    }

    fn report(&mut self, last: bool, around: &mut Surroundings) -> Report {
        around.tally.reports += 1;
        self.sequence += 1;
        Report {
            job: self.job.id,
            fetcher: around.settings.instance.clone(),
            partition: self.job.partition,
            server: self.target.server.clone(),
            sequence: self.sequence,
            last,
            results: std::mem::take(&mut self.findings.results),
            connect_us: self.times.connect_us,
            requests: self.answered,
            busy_us: micros(self.times.busy),
            elapsed_us: micros(self.times.elapsed),
            closed_by_server: self.closed_by_server,
            robots: self.findings.robots.take(),
        }
    }
}
