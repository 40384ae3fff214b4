//! The content-seen test as the parser asks it: pages wait until the dedup instance that owns their
//! body's partition has said who had the body first.
//!
//! In: pages with the fingerprint of their body; answers. Out: asks, one at a time per dedup
//! instance, for what came in a moment and while the one before was out; pages with the verdict on
//! their body.
//!
//! Invariant: every page comes out once. No answer in time counts as a body not met before.
//!
//! Source: Heydon and Najork 1999, section 3.4 (content-seen test).

use rhumb_partition::{Directory, Owners};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Body, ContentAsk, ContentReply, Place};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bodies in one ask.
const BODIES_MAX: usize = 256;
/// A page waits so long for others to be asked about with it: an ask costs the broker as much for
/// one as for many.
const GATHER_FOR: Duration = Duration::from_millis(5);

/// Work for the shell: to ask a dedup instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Ordinal of the dedup instance.
    pub dedup: u16,
    /// The question.
    pub ask: ContentAsk,
}

/// What that brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Ordinal of the dedup instance.
    pub dedup: u16,
    /// Its reply; none when it did not come in time.
    pub reply: Option<ContentReply>,
}

/// What is known of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodySeen {
    /// Not met before, as far as anybody knows.
    First,
    /// Another page had it first, and the same links were taken from it.
    SameLinks,
    /// Another page had it first: of another server, or one whose links lead elsewhere or were not
    /// taken.
    OtherLinks,
}

/// Pages `P` that wait for a verdict.
#[derive(Debug)]
pub(crate) struct Content<P> {
    /// Which partition each body belongs to.
    directory: Directory,
    /// The dedup instance that has each partition.
    owners: Vec<u16>,
    /// The line of each dedup instance.
    lines: BTreeMap<u16, Line<P>>,
}

#[derive(Debug)]
struct Line<P> {
    gathered: Vec<(Body, P)>,
    /// When to ask about them, if no ask is out then.
    ask_at: Timestamp,
    asked: Vec<(Body, P)>,
}

impl<P> Content<P> {
    /// Creates the lines to dedup instances: `owners` says which of them has each partition.
    pub(crate) fn new(owners: &Owners) -> Self {
        Content {
            directory: owners.directory(),
            owners: owners.by_partition(),
            lines: BTreeMap::new(),
        }
    }

    /// Partitions have other owners: pages about which nobody was asked yet change their lines.
    pub(crate) fn owned_by(&mut self, owners: &Owners) {
        (self.directory, self.owners) = (owners.directory(), owners.by_partition());
        let lines = self
            .lines
            .values_mut()
            .map(|line| (line.ask_at, std::mem::take(&mut line.gathered)));
        for (ask_at, gathered) in lines.collect::<Vec<_>>() {
            gathered
                .into_iter()
                .for_each(|(body, page)| self.gather(ask_at, body, page));
        }
    }

    /// A page waits for the verdict on its body.
    pub(crate) fn wait(&mut self, now: Timestamp, body: Body, page: P) {
        self.gather(now + GATHER_FOR, body, page);
    }

    fn gather(&mut self, ask_at: Timestamp, body: Body, page: P) {
        let partition = self.directory.partition_of(body.fingerprint);
        let dedup = self
            .owners
            .get(usize::from(partition))
            .copied()
            .unwrap_or_default();
        let line = self.lines.entry(dedup).or_default();
        if line.gathered.is_empty() || ask_at < line.ask_at {
            line.ask_at = ask_at;
        }
        line.gathered.push((body, page));
    }

    /// The asks to be sent now.
    pub(crate) fn asks(&mut self, now: Timestamp) -> impl Iterator<Item = Ask> {
        self.lines
            .iter_mut()
            .filter_map(move |(&dedup, line)| line.next(now, dedup))
    }

    /// When there is an ask to be sent, if no answer comes before.
    pub(crate) fn ask_at(&self) -> Option<Timestamp> {
        let waiting = self
            .lines
            .values()
            .filter(|line| line.asked.is_empty() && !line.gathered.is_empty());
        waiting.map(|line| line.ask_at).min()
    }

    /// An answer came: the pages that waited for it.
    pub(crate) fn answered(&mut self, answer: Answer) -> Vec<(P, BodySeen)> {
        let Some(line) = self.lines.get_mut(&answer.dedup) else {
            return Vec::new();
        };
        let first = answer.reply.unwrap_or_default().first;
        let mut first = first.into_iter().chain(std::iter::repeat(None));
        let pages = std::mem::take(&mut line.asked).into_iter();
        pages
            .map(|(body, page)| (page, body_seen(body.at, first.next().flatten())))
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines
            .values()
            .all(|line| line.gathered.is_empty() && line.asked.is_empty())
    }
}

impl<P> Default for Line<P> {
    fn default() -> Self {
        Line {
            gathered: Vec::new(),
            ask_at: Timestamp::ZERO,
            asked: Vec::new(),
        }
    }
}

impl<P> Line<P> {
    fn next(&mut self, now: Timestamp, dedup: u16) -> Option<Ask> {
        let is_time = self.ask_at <= now || self.gathered.len() >= BODIES_MAX;
        if !self.asked.is_empty() || self.gathered.is_empty() || !is_time {
            return None;
        }
        let n = self.gathered.len().min(BODIES_MAX);
        self.asked = self.gathered.drain(..n).collect();
        let bodies = self.asked.iter().map(|(body, _)| *body).collect();
        Some(Ask {
            dedup,
            ask: ContentAsk { bodies },
        })
    }
}

fn body_seen(at: Place, first: Option<Place>) -> BodySeen {
    match first {
        None => BodySeen::First,
        Some(first) if first.links == at.links => BodySeen::SameLinks,
        Some(_) => BodySeen::OtherLinks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of the second partition, and so of the second instance; small fingerprints are of the
    /// first.
    const OTHERS: u64 = 1 << 62;

    fn body(fingerprint: u64, url: u64) -> Body {
        Body {
            fingerprint,
            at: Place { url, links: 7 },
        }
    }

    fn content() -> Content<u64> {
        let mut owners = Owners::new(4, 1);
        owners
            .partitions
            .iter_mut()
            .zip([0, 1, 0, 1])
            .for_each(|(of, owner)| of.owner = owner);
        Content::new(&owners)
    }

    /// The dedup instances asked at a time, in milliseconds, and about what.
    fn asks(content: &mut Content<u64>, millis: u64) -> Vec<(u16, Vec<Body>)> {
        let now = Timestamp::from_micros(millis * 1000);
        content
            .asks(now)
            .map(|ask| (ask.dedup, ask.ask.bodies))
            .collect()
    }

    #[test]
    fn what_comes_in_a_moment_or_while_an_ask_is_out_is_asked_about_together() {
        let mut content = content();
        let at = |millis: u64| Timestamp::from_micros(millis * 1000);
        content.wait(at(0), body(0, 1), 1);
        content.wait(at(2), body(2, 2), 2);
        content.wait(at(3), body(OTHERS, 4), 4);
        assert_eq!(
            (asks(&mut content, 4), content.ask_at()),
            (vec![], Some(at(5)))
        );
        assert_eq!(asks(&mut content, 5), [(0, vec![body(0, 1), body(2, 2)])]);
        content.wait(at(6), body(4, 3), 3);
        assert_eq!(
            (asks(&mut content, 7), content.ask_at()),
            (vec![], Some(at(8)))
        );
        assert_eq!(asks(&mut content, 20), [(1, vec![body(OTHERS, 4)])]);
        assert_eq!(content.ask_at(), None);

        let other = Some(Place { url: 9, links: 8 });
        let reply = Some(ContentReply {
            first: vec![other, None],
        });
        let judged = content.answered(Answer { dedup: 0, reply });
        assert_eq!(judged, [(1, BodySeen::OtherLinks), (2, BodySeen::First)]);
        assert_eq!(asks(&mut content, 20), [(0, vec![body(4, 3)])]);
        assert_eq!(
            content.answered(Answer {
                dedup: 0,
                reply: None
            }),
            [(3, BodySeen::First)]
        );
        assert!(!content.is_empty(), "the other owner has not answered");
        let same = Some(Place { url: 9, links: 7 });
        let judged = content.answered(Answer {
            dedup: 1,
            reply: Some(ContentReply { first: vec![same] }),
        });
        assert_eq!(judged, [(4, BodySeen::SameLinks)]);
        assert!(content.is_empty());
    }

    #[test]
    fn enough_for_an_ask_waits_for_no_more() {
        let mut content = content();
        for n in 0..BODIES_MAX as u64 + 3 {
            content.wait(Timestamp::ZERO, body(0, n), n);
        }
        let asked = asks(&mut content, 0);
        assert_eq!((asked.len(), asked[0].1.len()), (1, BODIES_MAX));
    }
}
