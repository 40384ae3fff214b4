//! What a sieve finds in its folder when it is opened.
//!
//! In: the committed state. Out: partitions with their runs and with what the logs add to them.
//! Files that the state does not name are removed.

use super::filters::Allowance;
use super::manifest;
use super::partition::{FilterSizes, Partition};
use crate::seen::error::SeenError;
use crate::seen::folder::{Folder, Name};
use crate::seen::log::Log;
use crate::seen::state::State;
use crate::seen::{Key, Settings};
use std::collections::HashSet;

/// The parts of a sieve that come from its folder; see there.
pub(super) struct Opened {
    pub(super) partitions: Vec<Partition>,
    pub(super) places: Places,
    pub(super) allowance: Allowance,
    pub(super) filter_sizes: FilterSizes,
    pub(super) manifest: Option<(u64, u64, u64)>,
    pub(super) log: Log,
    pub(super) last_log: Option<Log>,
}

impl Opened {
    /// Reads the indexes of the runs and the logs. `asked_for`: partitions there will be questions
    /// about.
    pub(super) fn read(
        settings: &Settings,
        folder: &Folder,
        asked_for: &[u16],
        state: Option<State>,
    ) -> Result<Opened, SeenError> {
        let mut allowance = Allowance {
            used: 0,
            max: settings.filter_bytes_max,
        };
        let filter_sizes = FilterSizes::of(
            settings.filter_urls,
            settings.filter_bytes_max,
            asked_for.len(),
        );
        let mut partitions = Vec::new();
        let mut manifest = None;
        if let Some((generation, sum)) = state.and_then(|state| state.manifest) {
            let (entries, bytes) = manifest::read(folder, generation, sum)?;
            manifest = Some((generation, sum, bytes));
            for entry in entries {
                partitions.push(Partition::open(
                    folder,
                    &entry,
                    filter_sizes,
                    &mut allowance,
                )?);
            }
        }
        let mut places = Places::default();
        partitions
            .iter()
            .for_each(|partition| places.add(partition.number));
        for &number in asked_for {
            if places.of(number).is_none() {
                places.add(number);
                partitions.push(Partition::new(number, filter_sizes, &mut allowance));
            }
        }
        let mut named: HashSet<Name> = partitions.iter().flat_map(Partition::names).collect();
        let mut replay = |at, number, keys: &[Key]| {
            let place = places.of(number).unwrap_or_else(|| {
                places.add(number);
                partitions.push(Partition::new(number, filter_sizes, &mut allowance));
                partitions.len() - 1
            });
            let partition = &mut partitions[place];
            if at >= partition.log_from {
                keys.iter()
                    .for_each(|&key| partition.learn(key, &mut allowance));
            }
            Ok(())
        };
        let (log, last_log) = match state {
            None => {
                folder.remove_all_but(&named)?;
                (Log::create(folder, 1)?, None)
            }
            Some(state) => {
                let mut open =
                    |(generation, length)| Log::open(folder, generation, length, &mut replay);
                let last_log = state.last_log.map(&mut open).transpose()?;
                let log = open(state.log)?;
                named.extend(manifest.map(|(generation, ..)| Name::Manifest { generation }));
                named.extend([&log].into_iter().chain(&last_log).map(Log::name));
                folder.remove_all_but(&named)?;
                (log, last_log)
            }
        };
        partitions
            .iter_mut()
            .for_each(|partition| partition.delta.set_logged());
        Ok(Opened {
            partitions,
            places,
            allowance,
            filter_sizes,
            manifest,
            log,
            last_log,
        })
    }
}

/// The place of each partition, by its number.
#[derive(Default)]
pub(super) struct Places {
    slots: Vec<Option<u16>>,
    next: u16,
}

impl Places {
    pub(super) fn of(&self, number: u16) -> Option<usize> {
        self.slots
            .get(usize::from(number))
            .copied()
            .flatten()
            .map(usize::from)
    }

    /// The next place is this partition's.
    pub(super) fn add(&mut self, number: u16) {
        let length = self.slots.len().max(usize::from(number) + 1);
        self.slots.resize(length, None);
        self.slots[usize::from(number)] = Some(self.next);
        // The 65,536th is the last there can be.
        self.next = self.next.wrapping_add(1);
    }

    /// A partition leaves its place to the one in the last place.
    pub(super) fn swap_remove(&mut self, number: u16, last: u16) {
        self.slots[usize::from(last)] = self.slots[usize::from(number)];
        self.slots[usize::from(number)] = None;
        self.next = self.next.wrapping_sub(1);
    }
}
