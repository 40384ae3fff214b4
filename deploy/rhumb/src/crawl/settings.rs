//! Settings: what operators have set while the crawl ran, when it goes on.
//!
//! In: the orders at the broker, the configuration of a start. Out: whether they go with each
//! other. Invariant: a configuration that they do not go with is not kept, so a start without it
//! goes on.

use rhumb_bus::Buckets;
use rhumb_config::orders::Setting;
use rhumb_config::{Layers, Pipeline, assignment};

/// Checks that what is set goes with a configuration, and says which of the values that are given
/// now do not hold.
///
/// # Errors
/// It does not go with it, or the broker does not answer.
pub(crate) async fn check_set(
    buckets: &Buckets,
    layers: &Layers,
    pipeline: &Pipeline,
) -> anyhow::Result<()> {
    let set = buckets.orders.read().await?.orders.set;
    pipeline.with_earlier(&set)?;
    for (given, setting) in overridden(&layers.set, &set) {
        tracing::warn!(
            "{given} is given, and does not hold: while the crawl ran, {setting}; `rhumb set \
             --unset {}` takes that back",
            setting.key
        );
    }
    Ok(())
}

/// Assignments in whose place something else is set.
fn overridden<'a>(
    given: &'a [String],
    set: &'a [Setting],
) -> impl Iterator<Item = (&'a str, &'a Setting)> {
    given.iter().filter_map(|given| {
        let (key, value) = assignment(given).ok()?;
        let setting = set
            .iter()
            .find(|setting| setting.key == key && setting.value != value)?;
        Some((given.as_str(), setting))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::orders::Author;

    #[test]
    fn a_value_that_is_given_is_overridden_by_another_one_that_is_set() {
        let setting = |key: &str, value: &str| Setting {
            key: key.into(),
            value: value.into(),
            author: Author::default(),
        };
        let set = [
            setting("politeness.delay", "5s"),
            setting("politeness.robots_lifetime", "1h"),
        ];
        let given = [
            "politeness.delay=1s",
            "politeness.robots_lifetime=1h",
            "limits.redirects=3",
        ]
        .map(str::to_owned);
        let overridden: Vec<_> = overridden(&given, &set)
            .map(|(given, set)| (given, set.key.as_str()))
            .collect();
        assert_eq!(overridden, [("politeness.delay=1s", "politeness.delay")]);
    }
}
