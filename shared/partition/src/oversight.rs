//! What an instance of a stage with state does about the table of its stage's owners, as it looks
//! at it now and then.
//!
//! In: the table, which instances live, the time. Out: what is to be changed in the table; whether
//! the instance is to have other partitions than it works with. Nothing is kept but since when
//! receivers are away.

use super::owners::Owners;
use std::collections::BTreeMap;
use std::time::Duration;

/// A receiver that is away for longer gets nothing any more: the owner keeps what it was to give.
const RECEIVER_AWAY_MAX: Duration = Duration::from_secs(10);
/// How long partitions that are ready wait for others that are on their way.
const MORE_TO_COME_MAX: Duration = Duration::from_secs(3);

/// What is to be done about a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Partitions leave that others are to have.
    Plan,
    /// The instance keeps these, which were on their way to instances that have gone.
    Keep(Vec<(u16, u16)>),
}

/// How an instance sees to its stage's table.
#[derive(Clone, Debug, Default)]
pub struct Oversight {
    /// Receivers of this instance's partitions that are away, and since when.
    away_since: BTreeMap<u16, Duration>,
}

impl Oversight {
    /// Returns whether no receiver is known to be away.
    pub fn is_at_ease(&self) -> bool {
        self.away_since.is_empty()
    }

    /// What an instance is to do about the table at a time.
    pub fn due(
        &mut self,
        now: Duration,
        owners: &Owners,
        instance: u16,
        lives: impl Fn(u16) -> bool,
    ) -> Due {
        if owners.are_even() {
            self.away_since.clear();
            return Due::Nothing;
        }
        let receivers: Vec<(u16, u16)> = owners
            .leaving(instance)
            .into_iter()
            .chain(owners.given_by(instance))
            .collect();
        self.away_since
            .retain(|away, _| receivers.iter().any(|(_, to)| to == away) && !lives(*away));
        for (_, to) in receivers.iter().filter(|(_, to)| !lives(*to)) {
            self.away_since.entry(*to).or_insert(now);
        }
        let has_gone = |to: u16| {
            self.away_since
                .get(&to)
                .is_some_and(|&since| now - since > RECEIVER_AWAY_MAX)
        };
        let kept: Vec<(u16, u16)> = receivers
            .into_iter()
            .filter(|(_, to)| has_gone(*to))
            .collect();
        match (kept.is_empty(), owners.moving()) {
            (false, _) => Due::Keep(kept),
            (true, 0) => Due::Plan,
            (true, _) => Due::Nothing,
        }
    }
}

impl Due {
    /// Changes the table as it is by now; says whether that changed anything.
    pub fn change(&self, owners: &mut Owners, instance: u16, lives: impl Fn(u16) -> bool) -> bool {
        match self {
            Due::Nothing => false,
            Due::Plan => owners.plan(lives) > 0,
            Due::Keep(kept) => {
                let keeps = |(partition, _): &(u16, u16)| owners.keep(*partition, instance);
                kept.iter().map(keeps).fold(false, |any, kept| any | kept)
            }
        }
    }
}

/// What an instance has done of its moves while it worked: partitions with their copies.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    /// Those that it has sent, but for what changes until it gives them.
    pub to_give: Vec<(u16, u64)>,
    /// Those that have come, to the last row.
    pub to_take: Vec<(u16, u64)>,
}

/// Returns whether an instance that works with these partitions is to have others. `ready_since`:
/// since when some are ready; others that are on their way come and go with them, unless that takes
/// long.
pub fn is_to_have_others(
    now: Duration,
    owners: &Owners,
    instance: u16,
    partitions: &[u16],
    ready: &Ready,
    ready_since: &mut Option<Duration>,
) -> bool {
    let leaving = owners.leaving(instance);
    let coming = owners.coming_to(instance);
    let given = owners.given_to(instance);
    let is_copied = |(partition, copy): &&(u16, u64)| owners.copy(*partition) == Some(*copy);
    let gives = ready
        .to_give
        .iter()
        .filter(is_copied)
        .filter(|(of, _)| leaving.iter().any(|(leaving, _)| leaving == of));
    let takes = ready
        .to_take
        .iter()
        .filter(is_copied)
        .filter(|(of, _)| given.contains(of));
    let n_ready = gives.count() + takes.count();
    let moves = if n_ready == 0 {
        *ready_since = None;
        false
    } else {
        let since = *ready_since.get_or_insert(now);
        n_ready == leaving.len() + coming.len() || now - since > MORE_TO_COME_MAX
    };
    moves || owners.used_by(instance) != *partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_to_go_to_one_that_has_gone_is_kept() {
        let mut owners = Owners::new(2, 1);
        let mut oversight = Oversight::default();
        assert_eq!(oversight.due(at(0), &owners, 0, |_| true), Due::Nothing);
        owners.wanted = 2;
        let due = oversight.due(at(1), &owners, 0, |_| true);
        assert!(
            due == Due::Plan
                && due.change(&mut owners, 0, |_| true)
                && !due.change(&mut owners, 0, |_| true)
        );
        let gone = |instance| instance == 0;
        let leaving = owners.leaving(0);
        for second in [5, 15] {
            assert_eq!(
                oversight.due(at(second), &owners, 0, gone),
                Due::Nothing,
                "{second}"
            );
        }
        assert_eq!(
            oversight.due(at(15), &owners, 0, |_| true),
            Due::Nothing,
            "it is back"
        );
        assert_eq!(oversight.due(at(16), &owners, 0, gone), Due::Nothing);
        let due = oversight.due(at(27), &owners, 0, gone);
        assert_eq!(due, Due::Keep(leaving));
        assert!(
            due.change(&mut owners, 0, gone)
                && owners.moving() == 0
                && !due.change(&mut owners, 0, gone)
        );
    }

    #[test]
    fn partitions_come_and_go_together_unless_some_take_long() {
        let mut owners = Owners::new(2, 1);
        owners.wanted = 2;
        assert!(owners.send(0, 1) && owners.send(1, 1));
        let mut since = None;
        let mut giver = Ready::default();
        let mut taker = Ready::default();
        let nothing = |owners: &Owners, since: &mut Option<Duration>| {
            !is_to_have_others(at(0), owners, 0, &[0, 1], &Ready::default(), since)
        };
        assert!(nothing(&owners, &mut since), "it has sent nothing");
        giver.to_give = vec![(0, 7)];
        assert!(
            !is_to_have_others(at(0), &owners, 0, &[0, 1], &giver, &mut since),
            "the other has no copy"
        );
        assert!(owners.copied(0, 1, 7, 1));
        assert!(
            !is_to_have_others(at(1), &owners, 0, &[0, 1], &giver, &mut since),
            "another one leaves, too"
        );
        assert!(
            is_to_have_others(at(5), &owners, 0, &[0, 1], &giver, &mut since),
            "that takes its time"
        );
        assert!(nothing(&owners, &mut since) && since.is_none());
        giver.to_give.push((1, 7));
        assert!(owners.copied(1, 1, 7, 1));
        assert!(is_to_have_others(
            at(1),
            &owners,
            0,
            &[0, 1],
            &giver,
            &mut since
        ));
        assert!(owners.give(0, 7, 0));
        assert!(
            is_to_have_others(at(1), &owners, 0, &[0, 1], &Ready::default(), &mut None),
            "one was given"
        );
        since = None;
        taker.to_take = vec![(0, 6)];
        assert!(
            !is_to_have_others(at(1), &owners, 1, &[], &taker, &mut since),
            "it has another copy than was given"
        );
        taker.to_take = vec![(0, 7)];
        assert!(!is_to_have_others(
            at(1),
            &owners,
            1,
            &[],
            &taker,
            &mut since
        ));
        assert!(owners.give(1, 7, 0));
        taker.to_take.push((1, 7));
        assert!(is_to_have_others(
            at(1),
            &owners,
            1,
            &[],
            &taker,
            &mut since
        ));
        assert!(owners.take(0, 1, 1) && owners.take(1, 1, 1));
        assert!(
            !is_to_have_others(at(1), &owners, 1, &[0, 1], &taker, &mut since) && since.is_none()
        );
    }
}
