//! Turns: contenders that do the same work in turn on one machine, round after round.
//!
//! In: contenders, a web, how many rounds. Out: the rounds of each, to be shown by [`Table`].
//!
//! Invariants: no two work at a time; each of two builds comes right behind the other equally
//! often, in an even number of rounds; a round whose work was not whole is an error, since only the
//! same work compares.

mod contender;
mod round;
mod table;
mod watch;
mod web;
mod wget2;

pub use contender::Contender;
pub(super) use contender::{ROUND_AT_MOST, cpu_of_ended_processes};
pub use round::{Round, Spread, What};
pub use table::Table;
pub use web::Web;

use synthetic_web::Profile;

/// Rounds of contenders in turn: for each contender one of each round. Tells on standard error how
/// far it is.
///
/// # Errors
/// A contender did not do the whole work, or cannot be run.
pub fn take_turns(
    contenders: &[Contender],
    profile: &Profile,
    set: &[String],
    rounds: usize,
) -> anyhow::Result<Vec<Vec<Round>>> {
    let mut taken = vec![Vec::with_capacity(rounds); contenders.len()];
    for round in 0..rounds {
        for turn in 0..contenders.len() {
            let who = whose_turn(round, turn, contenders.len());
            let contender = &contenders[who];
            let done = contender.round(profile, set)?;
            eprintln!(
                "round {} of {rounds}: {contender} {:.3} CPU ms a page",
                round + 1,
                done.all(What::CpuMs)
            );
            taken[who].push(done);
        }
    }
    Ok(taken)
}

/// Who takes a turn of a round. In every second round the first two change places, so that each
/// comes as often right behind the other as behind the one that is last: the same crawl costs up to
/// a tenth less right behind another crawl.
fn whose_turn(round: usize, turn: usize, contenders: usize) -> usize {
    if turn < 2 && contenders >= 2 {
        turn ^ (round % 2)
    } else {
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_a_turn_in_each_round_and_the_first_two_follow_each_other_in_turn() {
        let of = |round, contenders| {
            (0..contenders)
                .map(|turn| whose_turn(round, turn, contenders))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            [of(0, 4), of(1, 4), of(2, 4)],
            [[0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 2, 3]]
        );
        assert_eq!([of(0, 1), of(1, 1)], [[0], [0]]);
    }
}
