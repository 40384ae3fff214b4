//! Scaling: the table of owners as processes see it and see to it, late and each by itself; when
//! others are wanted, and which partitions are split.
//!
//! Invariant: the table itself changes in one moment, as a compare-and-swap has it; what a process
//! knows of it may be old.

use super::agenda::{Happening, Incident, Input, Place, Process};
use super::around::Around;
use super::plan::{MILLISECOND, Micros, SECOND};
use bytes::Bytes;
use rhumb_partition::{Due, LEADER, Oversight, Owners, OwnersTable};
use rhumb_stage::node::Change;
use rhumb_wire::topology::StageName;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::time::Duration;

/// As in the watch on the owners.
const LOOK_EVERY: Micros = SECOND;
/// Instances of a stage with state that a run may have.
pub(crate) const INSTANCES_MAX: u16 = 3;

/// What the broker has of owners and moves, and which instances draw what.
#[derive(Default)]
pub(crate) struct Moves {
    pub(crate) tables: BTreeMap<StageName, OwnersTable>,
    /// The stream of moves: the parts of a partition under a version of its ownership, by their
    /// places in the stream.
    pub(crate) parts: HashMap<(StageName, u16, u64), BTreeMap<u64, Bytes>>,
    /// Parts that were ever in the stream.
    pub(crate) published: u64,
    /// Places that were started at least once.
    pub(crate) started: BTreeSet<Place>,
    /// Places between two lives of a core: nothing reaches them but their lease and the tables.
    pub(crate) between: BTreeSet<Place>,
    /// The partitions that the core of a place works with.
    pub(crate) used: BTreeMap<Place, Vec<u16>>,
    /// The hashes of these.
    pub(crate) hashes: BTreeMap<Place, Vec<RangeInclusive<u64>>>,
    /// Partitions taken over.
    pub(crate) taken: u64,
    /// Partitions whose rows were halved, of all stages.
    pub(crate) halved: u64,
}

impl Moves {
    /// Puts parts into the stream.
    pub(crate) fn publish(&mut self, of: (StageName, u16, u64), parts: Vec<Bytes>) {
        let stream = self.parts.entry(of).or_default();
        for part in parts {
            self.published += 1;
            stream.insert(self.published, part);
        }
    }

    /// The first part from a place in the stream on.
    pub(crate) fn next_part(&self, of: (StageName, u16, u64), from: u64) -> Option<(u64, Bytes)> {
        self.parts
            .get(&of)?
            .range(from..)
            .next()
            .map(|(sequence, part)| (*sequence, part.clone()))
    }
}

/// Whether a question to the broker arrives, and whether its answer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Answered,
    Unanswered,
    Lost,
}

impl Around {
    /// How a question of a place to the broker fares.
    pub(crate) fn asks_broker(&mut self, place: Place) -> Asked {
        match (self.is_lost(place), self.dice.below(2)) {
            (false, _) => Asked::Answered,
            (true, 0) if !self.is_cut_off(place) => Asked::Unanswered,
            (true, _) => Asked::Lost,
        }
    }

    /// Changes the owners of a stage's partitions in one moment.
    pub(crate) fn change_owners(
        &mut self,
        stage: StageName,
        change: impl FnOnce(&mut Owners) -> bool,
    ) -> OwnersTable {
        let table = self
            .moves
            .tables
            .get_mut(&stage)
            .expect("a stage with state has a table");
        let mut owners = table.owners.clone();
        if change(&mut owners) {
            *table = OwnersTable {
                owners,
                revision: table.revision + 1,
            };
        }
        table.clone()
    }

    /// Makes a change of the table of owners.
    pub(crate) fn make(&mut self, place: Place, change: &Change) -> OwnersTable {
        let Place { stage, instance } = place;
        let before = self.moves.tables[&stage].revision;
        let table = self.change_owners(stage, |owners| change.apply(owners, instance));
        let has_changed = table.revision > before;
        match change {
            Change::Take(taken) => {
                let owners = &table.owners;
                let is_taken = |(partition, version): &&(u16, u64)| {
                    has_changed && owners.version(*partition) == version + 1
                };
                self.moves.taken += taken.iter().filter(is_taken).count() as u64;
            }
            Change::Halve { .. } => self.moves.halved += u64::from(has_changed),
            _ => {}
        }
        table
    }

    /// A place asks the broker to make a change. Returns whether it hears that it is made.
    pub(crate) fn asks_to_make(&mut self, place: Place, change: &Change) -> bool {
        let asked = self.asks_broker(place);
        if asked != Asked::Lost {
            self.make(place, change);
        }
        asked == Asked::Answered
    }

    /// Draws when other numbers of instances are wanted.
    pub(crate) fn plan_scalings(&mut self) {
        for _ in 0..self.faults.scalings {
            let at = self.dice.within(0..self.faults.until_s * SECOND);
            let stage = *self
                .dice
                .pick(&[StageName::Dedup, StageName::Scheduler])
                .expect("two stages");
            let wanted = self.dice.within(1..u64::from(INSTANCES_MAX) + 1) as u16;
            self.agenda.at(at, Happening::Scaling(stage, wanted));
            let at = self.dice.within(0..self.faults.until_s * SECOND);
            let hash = self.dice.number();
            self.agenda.at(at, Happening::Split(hash));
        }
    }

    /// An operator has a partition split, or dedup finds that it is too large.
    pub(crate) fn split(&mut self, hash: u64) {
        let table = self.change_owners(LEADER, |owners| {
            owners.split(owners.directory().partition_of(hash)).is_ok()
        });
        self.tell(|| format!("a partition is to be split: {:?}", table.owners));
    }

    /// From now on so many instances of a stage are wanted; those that never ran are started some
    /// time later.
    pub(crate) fn scale(&mut self, stage: StageName, wanted: u16) {
        let instance = self.dice.below(usize::from(INSTANCES_MAX)) as u16;
        let most = *self.dice.pick(&[1, 10_000]).expect("two");
        let ids = self.moves.tables[&stage].owners.partitions.len() as u16;
        let urls: Vec<(u16, u64)> = (0..ids)
            .map(|partition| (partition, self.dice.within(0..most)))
            .collect();
        // What an owner says of its partitions comes at any time.
        let table = self.change_owners(stage, |owners| {
            let has_weighed = owners.weigh(instance, &urls);
            std::mem::replace(&mut owners.wanted, wanted) != wanted || has_weighed
        });
        self.tell(|| format!("{wanted} instances of {stage:?} are wanted"));
        for instance in table.owners.needed() {
            let place = Place { stage, instance };
            if self.moves.started.insert(place) {
                let at = self.now + self.dice.within(50 * MILLISECOND..20 * SECOND);
                self.agenda
                    .at(at, Happening::Incident(place, Incident::Restart));
            }
        }
    }

    /// Whether all partitions are where they are to be.
    pub(crate) fn is_scaled(&self) -> bool {
        self.moves.between.is_empty()
            && self
                .moves
                .tables
                .values()
                .all(|table| table.owners.are_even())
    }

    /// The instance of a stage whose core works with a partition now.
    pub(crate) fn user_of(&self, stage: StageName, partition: u16) -> Option<Place> {
        let used = self
            .moves
            .used
            .iter()
            .find(|(place, used)| place.stage == stage && used.contains(&partition));
        used.map(|(place, _)| *place)
    }
}

/// The watch of a process on the tables of the stages that it has to know of.
pub(crate) struct Watch {
    pub(crate) tables: BTreeMap<StageName, OwnersTable>,
    oversight: Oversight,
    next_look: Option<Micros>,
    /// Tables came that the core was not told.
    pub(crate) has_news: bool,
}

impl Watch {
    /// A watch that begins with the tables as they are.
    pub(crate) fn begin(place: Place, around: &Around) -> Self {
        let own = Some(place.stage).filter(|stage| stage.row().has_state);
        let stages = place.stage.watches().chain(own);
        let tables = stages
            .map(|stage| (stage, around.moves.tables[&stage].clone()))
            .collect();
        let next_look = (around.faults.scalings > 0).then_some(around.now + LOOK_EVERY);
        Watch {
            tables,
            oversight: Oversight::default(),
            next_look,
            has_news: false,
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Micros> {
        self.next_look
    }

    /// Asks for the tables, when it is time: they come some time later, as they were at a moment of
    /// that time.
    pub(crate) fn tick(&mut self, process: Process, around: &mut Around) {
        if self.next_look.is_none_or(|at| at > around.now) {
            return;
        }
        self.next_look = Some(around.now + LOOK_EVERY);
        for stage in self.tables.keys() {
            if around.asks_broker(process.place) == Asked::Answered {
                let longest = if around.dice.below(8) == 0 {
                    10 * SECOND
                } else {
                    100 * MILLISECOND
                };
                let at = around.now + around.dice.within(MILLISECOND..longest);
                let table = around.moves.tables[stage].clone();
                around
                    .agenda
                    .at(at, Happening::To(process, Input::Owners(*stage, table)));
            }
        }
    }

    /// A table has come; the process sees to that of its own stage.
    pub(crate) fn sees(
        &mut self,
        place: Place,
        stage: StageName,
        mut table: OwnersTable,
        around: &mut Around,
    ) {
        let follows = place.stage.row().has_state && place.stage != LEADER && stage == LEADER;
        if follows && around.asks_broker(place) != Asked::Lost {
            around.change_owners(place.stage, |owners| owners.follow(&table.owners));
        }
        if stage == place.stage {
            let now = Duration::from_micros(around.now);
            let instance = place.instance;
            let live: Vec<u16> = (0..INSTANCES_MAX)
                .filter(|&instance| around.leases.is_held(around.now, Place { stage, instance }))
                .collect();
            let lives = |instance: u16| live.contains(&instance);
            let due = self.oversight.due(now, &table.owners, instance, lives);
            if due != Due::Nothing && around.asks_broker(place) != Asked::Lost {
                table = around.change_owners(stage, |owners| due.change(owners, instance, lives));
                around
                    .tell(|| format!("{place:?} sees to the owners: {due:?}: {:?}", table.owners));
            }
        }
        let known = self.tables.get(&stage).map_or(0, |known| known.revision);
        if known < table.revision {
            self.tables.insert(stage, table);
            self.has_news = true;
        }
    }
}
