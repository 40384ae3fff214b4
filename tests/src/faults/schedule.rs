//! Schedule: which faults a seed brings, upon what, when and for how long, and in which setting.
//!
//! Invariants: the same seed and kinds give the same schedule; all faults are over after
//! [`SCHEDULE_MAX_MS`], but for the orders of [`super::scalings`] and the kills between them.

use super::kind::{BrokerKind, Kind};
use super::scalings;
use crate::simulation::dice::Dice;
use crate::stages::STAGES;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// From the first request of the crawl to the end of its last fault.
const SCHEDULE_MAX_MS: u64 = 30_000;
/// When faults begin, after the first request.
const BEGINS_MS: Range<u64> = 500..18_000;
/// Faults of a schedule, at most; an operator's orders and the kills between them are one.
const FAULTS_MAX: u64 = 5;
/// What an operator has set for a while.
const LONGER_DELAY: &str = "politeness.delay=2s";
const STATELESS: [&str; 4] = ["host-splitter", "resolver", "fetcher", "parser"];
/// Half of the time the crawl waits longer for a lease than most faults last.
const JOB_LEASES: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(20)];
/// Half of the time every robots.txt lapses during the crawl, and so do those of servers that are
/// set aside.
const ROBOTS_LIFETIMES: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(24 * 3600)];

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// A stage, the number of a host, or what else the kind is about; an order in the words of the
    /// command line.
    pub(crate) target: String,
    /// Counted from the first request of the crawl.
    pub(crate) at_ms: u64,
    /// 0 for what happens at once.
    pub(crate) lasts_ms: u64,
}

/// What stays the same during a crawl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) broker: BrokerKind,
    pub(crate) dedups: u16,
    pub(crate) schedulers: u16,
    pub(crate) fetchers: u16,
    pub(crate) archiver: bool,
    pub(crate) job_lease: Duration,
    pub(crate) robots_lifetime: Duration,
}

/// The faults of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) seed: u64,
    pub(crate) setting: Setting,
    /// In the order in which they begin.
    pub(crate) faults: Vec<Fault>,
}

impl Schedule {
    /// Draws the schedule of a seed from these kinds, of which there is at least one.
    pub fn draw(seed: u64, kinds: &[Kind]) -> Schedule {
        let mut dice = Dice::new(seed);
        let all = [BrokerKind::Private, BrokerKind::Own, BrokerKind::Cluster];
        // Only where a fault needs another one is it not the one that `rhumb` runs.
        let is_of_use = |broker: &&BrokerKind| {
            kinds
                .iter()
                .any(|kind| kind.broker().unwrap_or(BrokerKind::Private) == **broker)
        };
        let brokers: Vec<BrokerKind> = all.iter().filter(is_of_use).copied().collect();
        let setting = Setting {
            broker: dice.pick(&brokers).copied().unwrap_or(BrokerKind::Private),
            dedups: 1 + dice.below(2) as u16,
            schedulers: 1 + dice.below(2) as u16,
            fetchers: 1 + dice.below(2) as u16,
            archiver: dice.chance(3_000),
            job_lease: JOB_LEASES[dice.below(JOB_LEASES.len())],
            robots_lifetime: ROBOTS_LIFETIMES[dice.below(ROBOTS_LIFETIMES.len())],
        };
        let possible = |kind: &&Kind| kind.fits(setting.broker);
        let mut kinds: Vec<Kind> = kinds.iter().filter(possible).copied().collect();
        let mut faults = Vec::new();
        for _ in 0..1 + dice.within(0..FAULTS_MAX) {
            let Some(&kind) = dice.pick(&kinds) else {
                break;
            };
            match kind {
                Kind::Scalings => faults.extend(scalings::draw(&mut dice, &setting)),
                _ => faults.push(Fault::draw(kind, &mut dice, &setting)),
            }
            kinds.retain(|other| *other != kind || !kind.is_met_once());
        }
        faults.sort_by_key(|fault| fault.at_ms);
        Schedule {
            seed,
            setting,
            faults,
        }
    }

    /// Whether a fault of this kind, and upon this target if one is given, is among them.
    pub(crate) fn has(&self, kind: Kind, target: Option<&str>) -> bool {
        self.faults
            .iter()
            .any(|fault| fault.kind == kind && target.is_none_or(|target| target == fault.target))
    }
}

impl Fault {
    fn draw(kind: Kind, dice: &mut Dice, setting: &Setting) -> Fault {
        let stages: Vec<&str> = STAGES
            .into_iter()
            .chain(setting.archiver.then_some("archiver"))
            .collect();
        let mut one_of = |names: &[&'static str]| dice.pick(names).copied().unwrap_or_default();
        let (target, lasts) = match kind {
            Kind::Kill => (one_of(&stages), 0..1),
            Kind::Stop if setting.broker == BrokerKind::Cluster => (one_of(&stages), 300..12_000),
            Kind::Stop => (
                one_of(&[stages.as_slice(), &["broker", "rhumb"]].concat()),
                300..12_000,
            ),
            Kind::Broker => (
                "broker",
                if setting.broker == BrokerKind::Own {
                    100..8_000
                } else {
                    0..1
                },
            ),
            Kind::Rhumb => ("rhumb", 0..1),
            Kind::Disk => ("broker", 2_000..10_000),
            Kind::Scale => (one_of(&STATELESS), 1_000..10_000),
            Kind::Cut => (
                one_of(&[stages.as_slice(), &["all", "rhumb"]].concat()),
                300..12_000,
            ),
            Kind::Restore => (one_of(&["all", "publishers-first"]), 1_000..8_000),
            Kind::Node => (one_of(&["0", "1", "2"]), 500..10_000),
            Kind::Clock => (one_of(&["+1h", "-1h"]), 1_000..10_000),
            Kind::Consumer => ("find-titles", 1_000..3_000),
            Kind::Web => (one_of(&["silent", "broken"]), 300..12_000),
            Kind::Names => ("names", 1_000..12_000),
            Kind::State => ("dedup", 0..1),
            Kind::Pause => (
                one_of(&["crawl", "0", "3", "6", "9", "12", "15"]),
                3_000..10_000,
            ),
            Kind::Set => (LONGER_DELAY, 5_000..12_000),
            Kind::Drop => (one_of(&["1", "4", "7", "10", "13", "16"]), 0..1),
            Kind::Scalings => unreachable!("an operator's orders are drawn together"),
        };
        let at_ms = dice.within(BEGINS_MS);
        let lasts_ms = dice.within(lasts).min(SCHEDULE_MAX_MS - at_ms);
        Fault {
            kind,
            target: target.to_owned(),
            at_ms,
            lasts_ms,
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting {
            broker,
            dedups,
            schedulers,
            fetchers,
            archiver,
            job_lease,
            robots_lifetime,
        } = &self.setting;
        write!(
            f,
            "[{dedups} dedup, {schedulers} scheduler, {fetchers} fetcher, lease {}s",
            job_lease.as_secs()
        )?;
        write!(f, ", robots {}s", robots_lifetime.as_secs())?;
        write!(
            f,
            "{}, {broker:?} broker]",
            if *archiver { ", archiver" } else { "" }
        )?;
        for fault in &self.faults {
            write!(f, " {fault};")?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| ms as f64 / 1e3;
        match self.kind {
            Kind::Scalings => write!(f, "{}", self.target)?,
            kind => write!(f, "{} {}", kind.name(), self.target)?,
        }
        write!(f, " at {:.1}", seconds(self.at_ms))?;
        match self.lasts_ms {
            0 => Ok(()),
            lasts_ms => write!(f, "+{:.1}", seconds(lasts_ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn a_seed_is_one_schedule_within_its_time_and_of_the_kinds_that_are_asked_for() {
        let all: Vec<Kind> = Kind::value_variants()
            .iter()
            .copied()
            .filter(|kind| *kind != Kind::Scalings)
            .collect();
        for seed in 0..2_000 {
            let kinds = &all[seed as usize % all.len()..];
            let schedule = Schedule::draw(seed, kinds);
            assert_eq!(schedule, Schedule::draw(seed, kinds));
            assert!(
                (1..=FAULTS_MAX as usize).contains(&schedule.faults.len()),
                "{schedule}"
            );
            for fault in &schedule.faults {
                assert!(
                    fault.at_ms + fault.lasts_ms <= SCHEDULE_MAX_MS && kinds.contains(&fault.kind),
                    "{schedule}"
                );
                assert!(fault.kind.fits(schedule.setting.broker), "{schedule}");
            }
        }
    }

    #[test]
    fn every_kind_is_drawn_of_all() {
        let all = Kind::value_variants();
        let schedules: Vec<Schedule> = (0..200).map(|seed| Schedule::draw(seed, all)).collect();
        for kind in all {
            assert!(
                schedules.iter().any(|schedule| schedule.has(*kind, None)),
                "{kind:?}"
            );
        }
    }
}
