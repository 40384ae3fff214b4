//! What a topic follows is fixed while hosts of its seeds are in the shared scope: they have joined
//! by it.

use super::arguments::BadArguments;
use crate::handle::Running;
use futures::StreamExt as _;
use rhumb_bus::SCOPE;
use rhumb_config::Pipeline;
use rhumb_config::scope_entry::ScopeEntry;

/// Checks that each topic follows what it followed before: hosts have joined by it.
pub(super) fn check_follow(before: &Pipeline, after: &Pipeline) -> Result<(), BadArguments> {
    let follow = |pipeline: &Pipeline, name: &str| pipeline.scope_of(name).follow;
    match before
        .topics
        .keys()
        .find(|name| follow(before, name) != follow(after, name))
    {
        Some(name) => Err(BadArguments(format!(
            "topic {name}: scope.follow is fixed for the life of a topic; add another topic that \
             follows other hosts"
        ))),
        None => Ok(()),
    }
}

/// Checks that no topic which was not configured so far is to follow other hosts than the crawl's
/// scope when hosts of its seeds have joined by that.
///
/// # Errors
/// They have, or the broker does not answer.
pub(super) async fn check_joined<'a>(
    running: &Running,
    now: &Pipeline,
    assigned: impl Iterator<Item = (&'a str, &'a serde_json::Value)>,
) -> anyhow::Result<()> {
    let follows = serde_json::to_value(now.scope.follow)?;
    for (key, value) in assigned {
        let name = key
            .strip_prefix("topics.")
            .and_then(|rest| rest.strip_suffix(".scope.follow"));
        if let Some(name) = name.filter(|name| !now.topics.contains_key(*name) && *value != follows)
            && has_joined(running, name).await?
        {
            let hosts = format!(
                "hosts of its seeds have joined by scope.follow={}",
                follows.as_str().unwrap_or("?")
            );
            return Err(BadArguments(format!(
                "topic {name} was in use before, and {hosts}: take another name"
            ))
            .into());
        }
    }
    Ok(())
}

/// Returns whether a topic has hosts in the shared scope.
async fn has_joined(running: &Running, topic: &str) -> anyhow::Result<bool> {
    let bucket = running
        .bus
        .jetstream
        .get_key_value(running.bus.subjects.bucket(SCOPE))
        .await?;
    if bucket.status().await?.values() == 0 {
        return Ok(false);
    }
    let mut entries = bucket.watch_with_history(">").await?;
    while let Some(entry) = entries.next().await {
        let entry = entry?;
        if ScopeEntry::read(&entry.value).is_some_and(|known| known.topic == topic) {
            return Ok(true);
        }
        if entry.delta == 0 {
            break;
        }
    }
    Ok(false)
}
