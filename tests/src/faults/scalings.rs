//! Scalings: what an operator orders of a crawl in the course of it, so that the number of
//! instances of every stage changes, partitions move and partitions split; and what is killed
//! between the orders and while they are carried out.
//!
//! Invariants: the same dice give the same scalings. The last order says how many instances dedup
//! and scheduler are to have; nothing is killed shortly before it, or later.

use super::kind::Kind;
use super::schedule::{Fault, Setting};
use crate::simulation::dice::Dice;
use crate::stages::STAGES;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Orders that a crawl gets.
const SCALINGS: usize = 10;
/// When the first order is given, after the first request.
const FIRST_MS: Range<u64> = 2_000..5_000;
/// Until the next order: too short for most orders to be carried out...
const HASTE_MS: Range<u64> = 300..3_000;
/// ... and long enough for many.
const PATIENCE_MS: Range<u64> = 5_000..9_000;
/// Instances of a stage, at most: of dedup and scheduler, and of others.
const WITH_STATE_MAX: usize = 4;
const STATELESS_MAX: usize = 3;
/// Those whose partitions move are scaled, and killed, more often.
const WITH_STATE: [&str; 2] = ["dedup", "scheduler"];
/// What a crawl has at its beginning, unless the configuration says otherwise.
const PARTITIONS: usize = 64;
/// Partitions that are moved or split at once, at most.
const AT_ONCE: usize = 4;

/// Draws the orders of a crawl, and the kills, in any order.
pub(super) fn draw(dice: &mut Dice, setting: &Setting) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut replicas = Replicas::of(setting);
    let mut at_ms = dice.within(FIRST_MS);
    for number in 1..=SCALINGS {
        let target = if number == SCALINGS {
            last(dice)
        } else {
            replicas.order(dice)
        };
        faults.push(Fault {
            kind: Kind::Scalings,
            target,
            at_ms,
            lasts_ms: 0,
        });
        let is_hasty = number < SCALINGS - 1 && dice.chance(4_000);
        let pause_ms = dice.within(if is_hasty { HASTE_MS } else { PATIENCE_MS });
        for _ in 0..if number < SCALINGS - 1 {
            dice.below(3)
        } else {
            0
        } {
            let killed_at_ms = at_ms + dice.within(0..pause_ms);
            let kill = killed(dice, setting, killed_at_ms);
            if kill.kind == Kind::Rhumb {
                // Resumed, it has what its configuration says.
                replicas = Replicas::of(setting);
            }
            faults.push(kill);
        }
        at_ms += pause_ms;
    }
    faults
}

/// How many instances each stage has when all orders are carried out.
struct Replicas(BTreeMap<&'static str, usize>);

impl Replicas {
    fn of(setting: &Setting) -> Replicas {
        let Setting {
            dedups,
            schedulers,
            fetchers,
            archiver,
            ..
        } = *setting;
        let mut replicas: BTreeMap<&str, usize> = STAGES.map(|stage| (stage, 1)).into();
        replicas.extend([
            ("dedup", dedups.into()),
            ("scheduler", schedulers.into()),
            ("fetcher", fetchers.into()),
        ]);
        replicas.extend(archiver.then_some(("archiver", 1)));
        Replicas(replicas)
    }

    fn order(&mut self, dice: &mut Dice) -> String {
        match dice.below(10) {
            0 => format!("split {}", partitions(dice)),
            1 | 2 => {
                let stage = WITH_STATE[dice.below(WITH_STATE.len())];
                let instance = dice.below(self.0.get(stage).copied().unwrap_or(1));
                format!("move {} --to {stage}.{instance}", partitions(dice))
            }
            _ => self.scale(dice),
        }
    }

    fn scale(&mut self, dice: &mut Dice) -> String {
        let stages: Vec<&str> = self.0.keys().copied().chain(WITH_STATE).collect();
        let mut to = BTreeMap::new();
        for _ in 0..=dice.below(3) {
            let stage = stages[dice.below(stages.len())];
            let most = if WITH_STATE.contains(&stage) {
                WITH_STATE_MAX
            } else {
                STATELESS_MAX
            };
            to.insert(stage, 1 + dice.below(most));
        }
        let counts: Vec<String> = to
            .iter()
            .map(|(stage, replicas)| format!("{stage}={replicas}"))
            .collect();
        let mut order = format!("scale {}", counts.join(" "));
        for (stage, replicas) in to {
            if WITH_STATE.contains(&stage) && replicas > 1 && dice.chance(2_000) {
                order.push_str(&format!(" --without {stage}.{}", dice.below(replicas)));
            }
            self.0.insert(stage, replicas);
        }
        order
    }
}

/// Half of the time back to one of each.
fn last(dice: &mut Dice) -> String {
    let most = if dice.chance(5_000) {
        1
    } else {
        WITH_STATE_MAX
    };
    WITH_STATE.iter().fold("scale".to_owned(), |order, stage| {
        format!("{order} {stage}={}", 1 + dice.below(most))
    })
}

/// Some of the partitions that the crawl begins with.
fn partitions(dice: &mut Dice) -> String {
    let numbers = (0..=dice.below(AT_ONCE)).map(|_| dice.below(PARTITIONS));
    // None twice.
    let numbers: Vec<String> = BTreeSet::from_iter(numbers)
        .iter()
        .map(usize::to_string)
        .collect();
    numbers.join(" ")
}

/// One of twenty times `rhumb` itself is killed, and one of twenty the broker.
fn killed(dice: &mut Dice, setting: &Setting, at_ms: u64) -> Fault {
    let mut stages: Vec<&str> = WITH_STATE.repeat(3);
    stages.extend(STAGES);
    stages.extend(setting.archiver.then_some("archiver"));
    let (kind, target) = match dice.below(20) {
        0 => (Kind::Rhumb, "rhumb"),
        1 => (Kind::Broker, "broker"),
        _ => (Kind::Kill, stages[dice.below(stages.len())]),
    };
    Fault {
        kind,
        target: target.to_owned(),
        at_ms,
        lasts_ms: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::schedule::Schedule;

    #[test]
    fn a_crawl_gets_ten_orders_and_the_last_one_in_peace() {
        let schedules: Vec<Schedule> = (0..200)
            .map(|seed| Schedule::draw(seed, &[Kind::Scalings]))
            .collect();
        for schedule in &schedules {
            let (orders, kills): (Vec<&Fault>, Vec<&Fault>) = schedule
                .faults
                .iter()
                .partition(|fault| fault.kind == Kind::Scalings);
            assert_eq!(orders.len(), SCALINGS, "{schedule}");
            let last = orders[SCALINGS - 1];
            let one_before = orders[SCALINGS - 2];
            assert!(
                last.target.starts_with("scale dedup=") && last.target.contains(" scheduler="),
                "{schedule}"
            );
            assert!(
                last.at_ms <= FIRST_MS.end + (SCALINGS as u64 - 1) * PATIENCE_MS.end,
                "{schedule}"
            );
            assert!(
                kills.iter().all(|kill| kill.at_ms < one_before.at_ms),
                "{schedule}"
            );
        }
        let all: Vec<&Fault> = schedules
            .iter()
            .flat_map(|schedule| &schedule.faults)
            .collect();
        for word in [
            "dedup=4",
            "scheduler=4",
            "parser=3",
            "archiver=2",
            "--without",
            "move ",
            "split ",
        ] {
            assert!(
                all.iter().any(|fault| fault.target.contains(word)),
                "{word}"
            );
        }
        for kind in [Kind::Kill, Kind::Rhumb, Kind::Broker] {
            assert!(all.iter().any(|fault| fault.kind == kind), "{kind:?}");
        }
    }
}
