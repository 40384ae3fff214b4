//! The content-seen test as the parser asks it: pages wait until the dedup instance that owns their body's partition
//! has said who had the body first.
//!
//! In: pages with the fingerprint of their body; answers. Out: asks, one at a time per dedup instance, so that what
//! comes meanwhile goes together in the next; pages with the verdict on their body.
//!
//! Invariant: every page comes out once. No answer in time counts as a body not met before.
//!
//! Source: Heydon and Najork 1999, section 3.4 (content-seen test).

use shared::config::Pipeline;
use shared::message::{Body, ContentAsk, ContentReply, Place};
use std::collections::BTreeMap;

/// Bodies in one ask.
const BODIES_MAX: usize = 256;

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
pub(crate) enum Verdict {
    /// Not met before, as far as anybody knows.
    First,
    /// Another page had it first, and the same links were taken from it.
    SameLinks,
    /// Another page had it first: of another server, or one whose links lead elsewhere or were not taken.
    OtherLinks,
}

/// Pages `P` that wait for a verdict.
#[derive(Debug)]
pub(crate) struct Content<P> {
    partitions: u16,
    instances: u16,
    /// By dedup instance.
    lines: BTreeMap<u16, Line<P>>,
}

#[derive(Debug)]
struct Line<P> {
    gathered: Vec<(Body, P)>,
    asked: Vec<(Body, P)>,
}

impl<P> Content<P> {
    /// For so many partitions, shared out among so many dedup instances.
    pub(crate) fn new(partitions: u16, instances: u16) -> Self {
        Content { partitions, instances, lines: BTreeMap::new() }
    }

    /// A page waits for the verdict on its body; the ask to be sent, if it can be sent now.
    pub(crate) fn wait(&mut self, body: Body, page: P) -> Option<Ask> {
        let partition = (body.fingerprint % u64::from(self.partitions)) as u16;
        let dedup = Pipeline::owner(partition, self.instances);
        let line = self.lines.entry(dedup).or_insert_with(|| Line { gathered: Vec::new(), asked: Vec::new() });
        line.gathered.push((body, page));
        line.next(dedup)
    }

    /// An answer came: the pages that waited for it, and the next ask.
    pub(crate) fn answered(&mut self, answer: Answer) -> (Vec<(P, Verdict)>, Option<Ask>) {
        let Some(line) = self.lines.get_mut(&answer.dedup) else { return (Vec::new(), None) };
        let first = answer.reply.unwrap_or_default().first;
        let mut first = first.into_iter().chain(std::iter::repeat(None));
        let pages = std::mem::take(&mut line.asked).into_iter();
        let judged = pages.map(|(body, page)| (page, verdict(body.at, first.next().flatten()))).collect();
        (judged, line.next(answer.dedup))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.values().all(|line| line.gathered.is_empty() && line.asked.is_empty())
    }
}

impl<P> Line<P> {
    fn next(&mut self, dedup: u16) -> Option<Ask> {
        if !self.asked.is_empty() || self.gathered.is_empty() {
            return None;
        }
        let n = self.gathered.len().min(BODIES_MAX);
        self.asked = self.gathered.drain(..n).collect();
        let bodies = self.asked.iter().map(|(body, _)| *body).collect();
        Some(Ask { dedup, ask: ContentAsk { bodies } })
    }
}

fn verdict(at: Place, first: Option<Place>) -> Verdict {
    match first {
        None => Verdict::First,
        Some(first) if first.links == at.links => Verdict::SameLinks,
        Some(_) => Verdict::OtherLinks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(fingerprint: u64, url: u64) -> Body {
        Body { fingerprint, at: Place { url, links: 7 } }
    }

    fn content() -> Content<u64> {
        Content::new(4, 2)
    }

    #[test]
    fn what_comes_while_an_ask_is_out_goes_together_in_the_next() {
        let mut content = content();
        let first = content.wait(body(0, 1), 1).expect("an ask");
        assert_eq!((first.dedup, &first.ask.bodies[..]), (0, &[body(0, 1)][..]));
        assert_eq!(content.wait(body(2, 2), 2), None);
        assert_eq!(content.wait(body(4, 3), 3), None);
        assert_eq!(content.wait(body(1, 4), 4).expect("another owner").dedup, 1);

        let other = Some(Place { url: 9, links: 8 });
        let reply = Some(ContentReply { first: vec![other] });
        let (judged, next) = content.answered(Answer { dedup: 0, reply });
        assert_eq!(judged, [(1, Verdict::OtherLinks)]);
        assert_eq!(next.expect("an ask").ask.bodies, [body(2, 2), body(4, 3)]);

        let (judged, next) = content.answered(Answer { dedup: 0, reply: None });
        assert_eq!(judged, [(2, Verdict::First), (3, Verdict::First)]);
        assert!(next.is_none() && !content.is_empty(), "the other owner has not answered");
        let same = Some(Place { url: 9, links: 7 });
        let (judged, _) = content.answered(Answer { dedup: 1, reply: Some(ContentReply { first: vec![same] }) });
        assert_eq!(judged, [(4, Verdict::SameLinks)]);
        assert!(content.is_empty());
    }
}
