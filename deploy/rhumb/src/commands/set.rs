//! `rhumb set`: keys of the configuration of a crawl that runs have other values.
//!
//! The values are written to the broker, on top of what was configured, so they hold for processes
//! that start later, too. Then all processes are asked until each goes by them.

use super::arguments::{BadArguments, Which};
use super::drop::Wanted;
use super::follow::{check_follow, check_joined};
use super::orders::{AuthorArgs, Heard, change};
use crate::handle::{self, Running};
use crate::output::line;
use clap::Args;
use rhumb_bus::{OrdersGiven, find_orders};
use rhumb_config::orders::{Author, Selection, Setting};
use rhumb_config::topics::Topics;
use rhumb_config::{ConfigError, Field, Key, Pipeline, assignment, how_to_change, live_keys};
use serde::Serialize;
use std::process::ExitCode;

/// Changes keys of the configuration while the crawl runs
///
/// The values hold until they are taken back, for processes that start later and after --resume as
/// well. What is under way goes on: requests in hand end under the earlier values, and URLs that
/// wait are judged again only with --and-waiting.
#[derive(Args)]
#[command(
    after_help = "Without arguments it lists what is set. Ends with exit code 1 when a process does not answer: it goes by the new \
values when it is back.

Examples:
  rhumb set politeness.delay=5s --note 'the operators of example.org asked'
  rhumb set 'scope.reject=[/calendar/, \"[?&]sessionid=\"]' --and-waiting
  rhumb set --unset politeness.delay
  rhumb set --keys                         which keys may change, and what they mean"
)]
pub(super) struct Set {
    /// VALUE is YAML; a list takes the place of the whole list
    #[arg(value_name = "KEY.PATH=VALUE")]
    assignments: Vec<String>,
    /// Takes a key back to what was configured. Repeatable
    #[arg(long, value_name = "KEY.PATH")]
    unset: Vec<String>,
    /// URLs that wait are judged again by the filters as they are then; those that they reject end
    /// as dropped
    #[arg(long)]
    and_waiting: bool,
    /// With --and-waiting: does not ask; given twice, not even before all that waits is dropped
    #[arg(long, action = clap::ArgAction::Count, requires = "and_waiting")]
    yes: u8,
    #[command(flatten)]
    author: AuthorArgs,
    /// Lists the keys that may change while the crawl runs, each with its value, who goes by it,
    /// its meaning, default and range
    #[arg(long, conflicts_with_all = ["assignments", "unset", "and_waiting"])]
    keys: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// What the command tells as JSON.
#[derive(Serialize)]
struct Told<'a> {
    set: &'a [Setting],
    /// Processes that go by it.
    processes: usize,
}

impl Set {
    /// Writes the values, and waits until all go by them; or lists.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let running = handle::find(&self.which.layers()).await?;
        if self.keys {
            return list_keys(&running, self.json).await;
        }
        if self.assignments.is_empty() && self.unset.is_empty() && !self.and_waiting {
            return list(&running, self.json).await;
        }
        let author = self.author.author();
        let keys = Keys {
            assignments: &self.assignments,
            unset: &self.unset,
            ..Keys::default()
        };
        let (set, heard) = change_keys(&running, keys, &author, self.json).await?;
        let mut is_wanted = Ok(true);
        if self.and_waiting {
            let what = Selection::Rejected(Topics::from(&running.pipeline.with(&set)?).filters());
            let wanted = Wanted {
                what,
                and_later: false,
                yes: self.yes,
                author,
                as_json: self.json,
            };
            is_wanted = wanted.run(&running).await;
        }
        // Who is late is told at the end: the others drop what waits all the same.
        let late = match heard {
            Some(heard) => heard
                .check(&running, "they go by the earlier values")
                .await
                .err(),
            None => None,
        };
        match (is_wanted, late) {
            (Err(error), Some(late)) => Err(error.context(late.to_string())),
            (Err(error), None) | (Ok(_), Some(error)) => Err(error),
            (Ok(true), None) => Ok(ExitCode::SUCCESS),
            (Ok(false), None) => Ok(ExitCode::FAILURE),
        }
    }
}

/// What must hold of the configuration.
type Expected<'a> = dyn Fn(&Pipeline) -> Result<(), BadArguments> + 'a;

/// Which keys are to change.
#[derive(Default)]
pub(super) struct Keys<'a> {
    /// KEY.PATH=VALUE
    pub(super) assignments: &'a [String],
    /// These go back to what was configured.
    pub(super) unset: &'a [String],
    /// All that is set of this topic goes back first, but for what it follows.
    pub(super) anew: Option<&'a str>,
    /// What must hold of the topics in the moment of the change.
    pub(super) expected: Option<&'a Expected<'a>>,
}

/// Changes what is set, and waits until that is heeded. Gives all that is set then, and who heeds
/// it if anything was changed.
pub(super) async fn change_keys(
    running: &Running,
    Keys {
        assignments,
        unset,
        anew,
        expected,
    }: Keys<'_>,
    author: &Author,
    as_json: bool,
) -> anyhow::Result<(Vec<Setting>, Option<Heard>)> {
    let assigned: Vec<_> = assignments
        .iter()
        .map(|text| assignment(text))
        .collect::<Result<_, ConfigError>>()?;
    // Where what is set does not go with the configuration this command takes it back.
    if let Ok(now) = running.pipeline.with(&read(running).await?) {
        check_joined(
            running,
            &now,
            assigned.iter().map(|(key, value)| (key.as_str(), value)),
        )
        .await?;
    }
    let mut problem = None;
    let given = change(running, |orders| {
        problem = None;
        let before = running.pipeline.with(&orders.set);
        if let (Ok(before), Some(expected)) = (&before, expected)
            && let Err(error) = expected(before)
        {
            problem = Some(error.into());
            return false;
        }
        if let Some(name) = anew {
            let below = format!("topics.{name}.");
            let follow = format!("topics.{name}.scope.follow");
            orders
                .set
                .retain(|Setting { key, .. }| !key.starts_with(&below) || *key == follow);
        }
        for key in unset {
            if orders.unset(key).is_none() {
                problem = Some(anyhow::Error::from(BadArguments(format!(
                    "{key} is not set by rhumb set"
                ))));
                return false;
            }
        }
        for (key, value) in &assigned {
            orders.set(Setting {
                key: key.clone(),
                value: value.clone(),
                author: author.clone(),
            });
        }
        problem = match (before, running.pipeline.with(&orders.set)) {
            (Ok(before), Ok(after)) => check_follow(&before, &after).err().map(Into::into),
            (_, after) => after.err().map(Into::into),
        };
        problem.is_none() && !(unset.is_empty() && assigned.is_empty())
    });
    let OrdersGiven { orders, revision } = given.await?;
    if let Some(problem) = problem {
        return Err(problem);
    }
    if unset.is_empty() && assigned.is_empty() {
        return Ok((orders.set, None));
    }
    let heard = Heard::of(running, revision).await?;
    if as_json {
        line(serde_json::to_string(&Told {
            set: &orders.set,
            processes: heard.processes(),
        })?);
    } else {
        let keys = assigned.iter().map(|(key, _)| key).chain(unset);
        let now = |key: &String| format!("{key} = {}", value(running, &orders.set, key));
        let now: Vec<String> = keys.map(now).collect();
        line(format_args!(
            "{}; {} processes go by it",
            now.join(", "),
            heard.processes()
        ));
    }
    Ok((orders.set, Some(heard)))
}

/// The value of a key by what is set and what was configured, as JSON.
fn value(running: &Running, set: &[Setting], key: &str) -> String {
    let own = set
        .iter()
        .find(|setting| setting.key == key)
        .map(|setting| &setting.value);
    own.or_else(|| running.pipeline.configured(key))
        .map_or_else(|| "?".to_owned(), ToString::to_string)
}

/// What operators have set.
pub(super) async fn read(running: &Running) -> anyhow::Result<Vec<Setting>> {
    match find_orders(&running.bus).await? {
        Some(bucket) => Ok(bucket.read().await?.orders.set),
        None => Ok(Vec::new()),
    }
}

async fn list(running: &Running, as_json: bool) -> anyhow::Result<ExitCode> {
    let set = read(running).await?;
    if set.is_empty() && !as_json {
        line("nothing is set: all goes by the configuration");
    }
    for setting in set {
        match as_json {
            true => line(serde_json::to_string(&setting)?),
            false => line(&setting),
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list_keys(running: &Running, as_json: bool) -> anyhow::Result<ExitCode> {
    let set = read(running).await?;
    for Key { path, field } in live_keys() {
        // That of each topic is told by `rhumb topic list`.
        let value = match path.contains('*') {
            true => "null".to_owned(),
            false => value(running, &set, &path),
        };
        match as_json {
            true => line(key_as_json(&path, field, &value)?),
            false => line(key_as_text(&path, field, &value)),
        }
    }
    if !as_json {
        line(format_args!(
            "All others hold while the crawl runs: {}.",
            how_to_change("KEY")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn key_as_json(path: &str, field: &Field, value: &str) -> anyhow::Result<serde_json::Value> {
    let value: serde_json::Value = serde_json::from_str(value)?;
    let default = field.default.unwrap_or_default();
    let default: serde_json::Value =
        serde_json::from_str(default).unwrap_or_else(|_| default.into());
    let stages: Vec<&str> = field.live().iter().map(|stage| stage.name()).collect();
    Ok(serde_json::json!({
        "key": path,
        "value": value,
        "stages": stages,
        "default": default,
        "range": field.range,
        "meaning": field.meaning(),
    }))
}

/// Two lines: what the key has, and what it means.
fn key_as_text(path: &str, field: &Field, value: &str) -> String {
    let stages: Vec<&str> = field.live().iter().map(|stage| stage.name()).collect();
    let default = match field.default {
        Some("") => "empty",
        None | Some("null") => "left out",
        Some(default) => default,
    };
    let range = field.range.map(|range| format!(", range {range}"));
    format!(
        "{path:<42} {value:<20} {}\n    {} Default {default}{}.",
        stages.join(", "),
        field.meaning(),
        range.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_with_its_value_its_meaning_its_default_and_its_range() {
        let key = |path: &str| rhumb_config::field(path).unwrap();
        let delay = "politeness.delay";
        assert_eq!(
            key_as_text(delay, key(delay), "\"5s\""),
            format!(
                "{delay:<42} {:<20} scheduler, fetcher\n    Time between two contacts of a server. \
                 Default 1s, range 0s..1h.",
                "\"5s\""
            )
        );
        let told = key_as_json(delay, key(delay), "\"5s\"").unwrap();
        let expected = serde_json::json!({
            "key": delay,
            "value": "5s",
            "stages": ["scheduler", "fetcher"],
            "default": "1s",
            "range": "0s..1h",
            "meaning": "Time between two contacts of a server.",
        });
        assert_eq!(told, expected);
    }
}
