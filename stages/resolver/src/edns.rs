//! Whether a name server is asked with EDNS (RFC 6891), by which its answers over UDP may be
//! larger.
//!
//! In: how questions to it ended, with EDNS and without. Out: whether the next one has EDNS, and
//! whether one that had is asked once more without.
//!
//! A server that rejects a question with EDNS is asked again without (sections 6.2.2 and 7). So is
//! one that lets a question time out and has never answered one with EDNS: there are servers, and
//! firewalls, that drop what they do not understand. When it answers without, it is asked without
//! from then on. After [`AGAIN_AFTER`] a single question has EDNS again, so that a server that was
//! replaced is found out and the others need not wait.
//!
//! Invariant: a server that answers neither way is asked both ways no more often than once in
//! [`AWAY`], beside what is under way: it is away, and has nothing against EDNS.

use std::time::{Duration, Instant};

/// A server that is asked without EDNS gets a question with it again after so long.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(15 * 60);
/// After silence with EDNS and without, silence leads to no question without for so long.
const AWAY: Duration = Duration::from_secs(30);

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server answered, if only that it failed on the name.
    Answered,
    /// By FORMERR, NOTIMP or BADVERS.
    Rejected,
    /// Nothing came in time.
    Silent,
    /// In a way that says nothing of EDNS.
    Failed,
}

/// What is known of one name server.
#[derive(Debug, Default)]
pub(crate) struct Edns {
    /// It has answered a question with EDNS.
    has_answered: bool,
    /// It is asked without until then, since it answers without alone.
    without_until: Option<Instant>,
    /// Until then its silence means that it is away.
    away_until: Option<Instant>,
}

impl Edns {
    /// Returns whether the next question has EDNS.
    pub(crate) fn is_next_with(&mut self, now: Instant) -> bool {
        match self.without_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                self.without_until = Some(now + AGAIN_AFTER);
                true
            }
        }
    }

    /// A question with EDNS ended. Returns whether to ask it once more without.
    pub(crate) fn ended_with(&mut self, end: End, now: Instant) -> bool {
        match end {
            End::Answered => {
                self.has_answered = true;
                self.without_until = None;
                false
            }
            End::Rejected => true,
            End::Silent => !self.has_answered && self.away_until.is_none_or(|until| until <= now),
            End::Failed => false,
        }
    }

    /// A question that was asked once more, without EDNS, ended. Returns whether that is how the
    /// server is asked from now on, and was not before.
    pub(crate) fn ended_without(&mut self, end: End, now: Instant) -> bool {
        match end {
            End::Answered => self.without_until.replace(now + AGAIN_AFTER).is_none(),
            End::Silent => {
                self.away_until = Some(now + AWAY);
                false
            }
            End::Rejected | End::Failed => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_server_that_rejects_edns_and_answers_without_is_asked_without_for_a_while() {
        let begun = Instant::now();
        let mut edns = Edns::default();
        assert!(edns.is_next_with(begun));
        assert!(edns.ended_with(End::Rejected, begun));
        assert!(edns.ended_without(End::Answered, begun));
        assert!(!edns.is_next_with(begun + AGAIN_AFTER - SECOND));
        let again = begun + AGAIN_AFTER;
        assert!(edns.is_next_with(again), "one question tries it");
        assert!(!edns.is_next_with(again), "the others do not wait for it");
        assert!(edns.ended_with(End::Rejected, again));
        assert!(!edns.ended_without(End::Answered, again), "no news");
        assert!(!edns.is_next_with(again + SECOND));
    }

    #[test]
    fn a_server_that_answers_with_edns_again_is_asked_with_it() {
        let begun = Instant::now();
        let mut edns = Edns::default();
        edns.ended_without(End::Answered, begun);
        let again = begun + AGAIN_AFTER;
        assert!(edns.is_next_with(again));
        assert!(!edns.ended_with(End::Answered, again));
        assert!(edns.is_next_with(again));
    }

    #[test]
    fn a_server_that_rejects_whatever_it_is_asked_is_asked_with_edns_first() {
        let now = Instant::now();
        let mut edns = Edns::default();
        for end in [End::Rejected, End::Silent, End::Failed] {
            assert!(edns.ended_with(End::Rejected, now));
            assert!(!edns.ended_without(end, now));
            assert!(edns.is_next_with(now), "{end:?}");
        }
    }

    #[test]
    fn silence_leads_to_a_question_without_edns_until_the_server_is_known_to_have_nothing_against_it()
     {
        let now = Instant::now();
        let mut edns = Edns::default();
        assert!(edns.ended_with(End::Silent, now));
        assert!(
            !edns.ended_with(End::Failed, now),
            "a connection that is refused is no silence"
        );
        edns.ended_with(End::Answered, now);
        assert!(!edns.ended_with(End::Silent, now));
    }

    #[test]
    fn a_server_that_is_away_is_asked_both_ways_now_and_then() {
        let begun = Instant::now();
        let mut edns = Edns::default();
        assert!(edns.ended_with(End::Silent, begun));
        assert!(!edns.ended_without(End::Silent, begun));
        assert!(!edns.ended_with(End::Silent, begun + AWAY - SECOND));
        assert!(edns.is_next_with(begun + AWAY));
        assert!(edns.ended_with(End::Silent, begun + AWAY));
        assert!(
            edns.ended_without(End::Answered, begun + AWAY),
            "it was away, and does not know EDNS"
        );
        assert!(!edns.is_next_with(begun + AWAY));
    }
}
