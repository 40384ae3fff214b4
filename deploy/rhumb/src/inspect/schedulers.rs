//! The schedulers that a command has to reach, and how it names those that did not answer.

use super::owners::owners;
use crate::handle::Running;
use rhumb_wire::topology::StageName;
use std::collections::BTreeSet;

/// The instances of the scheduler that have partitions, or are to have some: partitions may be on
/// their way.
///
/// # Errors
/// The broker does not tell.
pub(crate) async fn needed(running: &Running) -> anyhow::Result<BTreeSet<u16>> {
    Ok(owners(running, StageName::Scheduler.name()).await?.needed())
}

/// Who has each partition of the scheduler, and since which version; none while one is on its way
/// or being split. What is the same before and after all answered was in somebody's answer.
///
/// # Errors
/// The broker does not tell.
pub(crate) async fn settled(running: &Running) -> anyhow::Result<Option<Vec<(u16, u64)>>> {
    let owners = owners(running, StageName::Scheduler.name()).await?;
    let is_settled = owners.moving() == 0;
    Ok(is_settled.then(|| {
        owners
            .partitions
            .iter()
            .map(|of| (of.owner, of.version))
            .collect()
    }))
}

/// Names instances of the scheduler with the partitions that they have.
///
/// # Errors
/// The broker does not tell.
pub(crate) async fn in_words(
    running: &Running,
    instances: &BTreeSet<u16>,
) -> anyhow::Result<String> {
    let owners = owners(running, StageName::Scheduler.name()).await?;
    let named = |&instance: &u16| match ranges(&owners.used_by(instance)).as_str() {
        "" => format!("scheduler.{instance}"),
        ranges => format!("scheduler.{instance} (partitions {ranges})"),
    };
    Ok(instances.iter().map(named).collect::<Vec<_>>().join(", "))
}

/// Numbers in order, with those that follow each other as one range.
fn ranges(numbers: &[u16]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let text = |run: &[u16]| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    runs.map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_listed_in_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
    }
}
