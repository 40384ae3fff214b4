//! The messages of one step: outcomes and sitemaps to be published, and what another scheduler has
//! to take; jobs, requests for addresses and errands to be sent; and claims on quotas.
//!
//! Invariant: no message is larger than the broker takes.

use crate::quota::ledger::Claim;
use rhumb_stage::Output;
use rhumb_url::host_of;
use rhumb_wire::lane_of;
use rhumb_wire::message::{
    DatedPage, DnsRefresh, Errand, FoundUrls, OutcomeEntry, Outcomes, PageSignal, PageSignals,
    Report, ToFetcher,
};
use rhumb_wire::topology::Token;
use std::collections::BTreeMap;

/// Entries and bytes of one message of outcomes: well below the smallest `broker.max_payload`.
const OUTCOMES_MAX: usize = 500;
const OUTCOME_BYTES_MAX: usize = 512 << 10;
/// Servers in one request for addresses.
const REFRESHES_MAX: usize = 256;

/// The messages of one step.
#[derive(Default)]
pub(crate) struct Messages {
    outcomes: BTreeMap<u16, Vec<OutcomeEntry>>,
    refreshes: BTreeMap<u16, Vec<String>>,
    sends: Vec<(String, ToFetcher)>,
    errands: Vec<(u16, Errand)>,
    found: Vec<FoundUrls>,
    claims: Vec<Claim>,
    passed_on: Vec<Report>,
    signals: BTreeMap<u16, PageSignals>,
}

impl Messages {
    /// A URL of the partition ended.
    pub(crate) fn outcome(&mut self, partition: u16, entry: OutcomeEntry) {
        self.outcomes.entry(partition).or_default().push(entry);
    }

    /// A server's address is wanted.
    pub(crate) fn refresh(&mut self, partition: u16, server: String) {
        self.refreshes.entry(partition).or_default().push(server);
    }

    /// Tells a fetcher.
    pub(crate) fn send(&mut self, fetcher: &str, message: ToFetcher) {
        self.sends.push((fetcher.to_owned(), message));
    }

    /// Tells the scheduler of another partition.
    pub(crate) fn errand(&mut self, partition: u16, errand: Errand) {
        self.errands.push((partition, errand));
    }

    /// Tells the schedulers of other partitions.
    pub(crate) fn errands(&mut self, errands: Vec<(u16, Errand)>) {
        self.errands.extend(errands);
    }

    /// URLs were found.
    pub(crate) fn found(&mut self, found: FoundUrls) {
        self.found.push(found);
    }

    /// A report came that another scheduler has to take, which has this partition now.
    pub(crate) fn pass_on(&mut self, partition: u16, report: Report) {
        self.passed_on.push(Report {
            partition,
            ..report
        });
    }

    /// A signal came that another scheduler has to take, which has this partition now.
    pub(crate) fn signal(&mut self, partition: u16, page: PageSignal) {
        self.signals.entry(partition).or_default().pages.push(page);
    }

    /// The same of a page that a sitemap or feed dates.
    pub(crate) fn dated(&mut self, partition: u16, page: DatedPage) {
        self.signals.entry(partition).or_default().dated.push(page);
    }

    /// A ledger is to be changed.
    pub(crate) fn claim(&mut self, claim: Claim) {
        self.claims.push(claim);
    }

    /// Hands all messages over. `refresh_number` gives each request for addresses its number.
    pub(crate) fn flush(self, out: &mut Output<Claim>, mut refresh_number: impl FnMut() -> u64) {
        for (partition, entries) in self.outcomes {
            publish_outcomes(out, partition, entries);
        }
        for found in self.found {
            out.publish(
                Token::Lane(lane_of(host_of(&found.origin.page))),
                &found,
                Vec::new(),
            );
        }
        for report in self.passed_on {
            out.publish(Token::Partition(report.partition), &report, Vec::new());
        }
        for (partition, signals) in self.signals {
            let token = Token::Partition(partition);
            let signals = PageSignals {
                partition,
                ..signals
            };
            out.publish(token, &signals, Vec::new());
        }
        for (fetcher, message) in self.sends {
            out.send(Token::Instance(fetcher), &message);
        }
        for (partition, servers) in self.refreshes {
            for servers in servers.chunks(REFRESHES_MAX) {
                let refresh = DnsRefresh {
                    partition,
                    servers: servers.to_vec(),
                    number: refresh_number(),
                };
                out.send(Token::Partition(partition), &refresh);
            }
        }
        for (partition, errand) in self.errands {
            out.send(Token::Partition(partition), &errand);
        }
        out.effects.extend(self.claims);
    }
}

/// Publishes the outcomes of one step in messages that are small enough for the broker.
fn publish_outcomes<E>(out: &mut Output<E>, partition: u16, entries: Vec<OutcomeEntry>) {
    let mut message = Outcomes::default();
    let mut bytes = 0;
    for entry in entries {
        bytes += entry.url.len() + entry.origin.page.len() + entry.reason.len() + 100;
        bytes += entry.usage.bytes();
        message.entries.push(entry);
        if message.entries.len() >= OUTCOMES_MAX || bytes >= OUTCOME_BYTES_MAX {
            out.publish(Token::Partition(partition), &message, Vec::new());
            message.entries.clear();
            bytes = 0;
        }
    }
    if !message.entries.is_empty() {
        out.publish(Token::Partition(partition), &message, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::message::Outcome;

    fn entry(serial: u64) -> OutcomeEntry {
        OutcomeEntry {
            url: format!("http://a.test/{serial}"),
            serial,
            outcome: Outcome::Fetched,
            status: 200,
            attempts: 1,
            ..OutcomeEntry::default()
        }
    }

    #[test]
    fn outcomes_are_split_into_messages_of_bounded_size() {
        let mut messages = Messages::default();
        (0..1203).for_each(|serial| messages.outcome(1, entry(serial)));
        let mut out = Output::default();
        messages.flush(&mut out, || 1);
        let sizes: Vec<_> = out
            .publishes
            .iter()
            .map(|publish| {
                rhumb_wire::message::decode::<Outcomes>(&publish.payload)
                    .unwrap()
                    .entries
                    .len()
            })
            .collect();
        assert_eq!(sizes, [500, 500, 203]);
    }
}
