//! Partitions that come and go.
//!
//! In: runs that are complete. Out: the partitions of the sieve, and the files that nothing uses any more. No question waits.

use super::Sieve;
use super::partition::Partition;
use super::run::Run;
use crate::seen::Key;

impl Sieve {
    /// Takes a partition out, with all that is known in it.
    pub(super) fn take_out(&mut self, place: usize) {
        let last = self.partitions.len() - 1;
        let partition = self.partitions.swap_remove(place);
        debug_assert!(partition.questions.is_empty(), "P3: a partition moves when no question waits");
        let moved = self.partitions.get(place).unwrap_or(&partition).number;
        self.places.swap_remove(partition.number, moved);
        for places in [&mut self.unlogged, &mut self.unfiltered] {
            places.retain(|of| usize::from(*of) != place);
            places.iter_mut().filter(|of| usize::from(**of) == last).for_each(|of| *of = place as u16);
        }
        self.delta_bytes -= partition.delta.bytes();
        partition.release(&mut self.allowance, &mut self.unused);
        self.runs_changed = true;
    }

    /// The run of an import takes the place of what was known in the partition; what became known later follows.
    pub(super) fn take_over(&mut self, run: Run, later: &[Key]) {
        if let Some(place) = self.places.of(run.partition) {
            self.take_out(place);
        }
        self.places.add(run.partition);
        let place = self.partitions.len() as u16;
        self.unfiltered.push(place);
        let mut partition = Partition::imported(run, self.log.end(), self.filter_sizes, &mut self.allowance);
        later.iter().for_each(|&key| partition.learn(key, &mut self.allowance));
        if !later.is_empty() {
            self.unlogged.push(place);
        }
        self.delta_bytes += partition.delta.bytes();
        self.partitions.push(partition);
        self.runs_changed = true;
    }
}
