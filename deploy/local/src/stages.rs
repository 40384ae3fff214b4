//! What the command knows of the stages by name.

use shared::config::Pipeline;
use shared::topology::StageName;

/// Its instances end first, while there are schedulers that hear what they did last.
pub(crate) const FETCHER: &str = StageName::Fetcher.name();
/// Its instances end last, when all that the others did is archived.
pub(crate) const ARCHIVER: &str = StageName::Archiver.name();

/// Says whether a stage owns the state of partitions. It is scaled by moving them, and its counts are in the equations of
/// P3.
pub(crate) fn owns_partitions(stage: &str) -> bool {
    StageName::from_name(stage).is_some_and(|stage| stage.row().has_state)
}

/// Why schedulers keep their partitions, and what an operator can do.
pub(crate) const BUDGETS: &str = "the schedulers of this crawl divide limits.max_pages or limits.pages_per_domain among them; set both to 0 \
                                  (--resume --set limits.max_pages=0 --set limits.pages_per_domain=0)";

/// Says whether the partitions of a stage stay where they are, for the reason in [`BUDGETS`].
pub(crate) fn divides_budgets(stage: &str, pipeline: &Pipeline) -> bool {
    StageName::from_name(stage).is_some_and(|stage| pipeline.divides_budgets(stage))
}
