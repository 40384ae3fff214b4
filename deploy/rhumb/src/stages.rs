//! What the command knows of the stages by name.

use rhumb_wire::topology::StageName;

/// Its instances end first, while there are schedulers that hear what they did last.
pub(crate) const FETCHER: &str = StageName::Fetcher.name();
/// Its instances end last, when all that the others did is archived.
pub(crate) const ARCHIVER: &str = StageName::Archiver.name();

/// The stages that own the state of partitions.
pub(crate) const WITH_STATE: [&str; 2] = [StageName::Dedup.name(), StageName::Scheduler.name()];

/// Returns whether a stage owns the state of partitions. It is scaled by moving them, and its
/// counts are in the equations of P3.
pub(crate) fn owns_partitions(stage: &str) -> bool {
    StageName::from_name(stage).is_some_and(|stage| stage.row().has_state)
}
