//! Partitions that come, go and are split.
//!
//! In: runs that are complete. Out: the partitions of the sieve, and the files that nothing uses
//! any more. No question waits.

use super::Sieve;
use super::partition::Partition;
use super::run::Run;
use super::run_writer::RunWriter;
use crate::seen::error::SeenError;
use crate::seen::{CopiedKeys as _, Key};
use rhumb_partition::Split;

impl Sieve {
    /// Takes a partition out, with all that is known in it.
    pub(super) fn take_out(&mut self, place: usize) {
        let last = self.partitions.len() - 1;
        let partition = self.partitions.swap_remove(place);
        debug_assert!(
            partition.questions.is_empty(),
            "P3: a partition moves when no question waits"
        );
        let moved = self.partitions.get(place).unwrap_or(&partition).number;
        self.places.swap_remove(partition.number, moved);
        for places in [&mut self.unlogged, &mut self.unfiltered] {
            places.retain(|of| usize::from(*of) != place);
            places
                .iter_mut()
                .filter(|of| usize::from(**of) == last)
                .for_each(|of| *of = place as u16);
        }
        self.delta_bytes -= partition.delta.bytes();
        partition.release(&mut self.allowance, &mut self.unused);
        self.runs_changed = true;
    }

    /// The run of an import takes the place of what was known in the partition; what became known
    /// later follows.
    pub(super) fn take_over(&mut self, run: Run, later: &[Key]) {
        if let Some(place) = self.places.of(run.partition) {
            self.take_out(place);
        }
        self.places.add(run.partition);
        let place = self.partitions.len() as u16;
        self.unfiltered.push(place);
        let mut partition =
            Partition::imported(run, self.log.end(), self.filter_sizes, &mut self.allowance);
        later
            .iter()
            .for_each(|&key| partition.learn(key, &mut self.allowance));
        if !later.is_empty() {
            self.unlogged.push(place);
        }
        self.delta_bytes += partition.delta.bytes();
        self.partitions.push(partition);
        self.runs_changed = true;
    }

    /// What is known in a partition that was split goes to its halves: one pass over its runs
    /// writes a run for each. Keys begin with the hash of their host, so the lower half's come
    /// first. Filters are filled as after a start.
    pub(super) fn take_apart(&mut self, place: usize, split: &Split) -> Result<(), SeenError> {
        let [(lower, hashes), (upper, _)] = &split.halves;
        let mut lower = RunWriter::create(&self.folder, *lower, self.next_generation)?;
        let mut upper = RunWriter::create(&self.folder, *upper, self.next_generation)?;
        self.next_generation += 1;
        let mut push = |key: Key| {
            if key.0 <= *hashes.end() {
                lower.push(key)
            } else {
                upper.push(key)
            }
        };
        self.partitions[place].now().visit(&mut push)?;
        let runs = [lower.finish()?, upper.finish()?];
        self.take_out(place);
        self.log_has_forgotten = true;
        runs.into_iter().for_each(|run| self.take_over(run, &[]));
        Ok(())
    }
}
