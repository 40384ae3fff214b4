//! `rhumb topic`: crawl goals with scopes and shares of their own, while the crawl runs.
//!
//! A topic is the keys below `topics.NAME` of the configuration: what is added or changed here is
//! what `rhumb set` would write. Invariant: what a topic follows is fixed while the topic is known,
//! because the scope has joined hosts by it.

use super::arguments::{BadArguments, Which};
use super::drop::Wanted;
use super::orders::{AuthorArgs, Heard};
use super::set::{Keys, change_keys, read};
use crate::handle::{self, Running};
use crate::output::line;
use crate::seeds::{self, Given};
use anyhow::Context as _;
use clap::{Args, Subcommand};
use rhumb_config::orders::Selection;
use rhumb_config::{Pipeline, QualityProvider, RecrawlPolicy, Scope};
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Adds, changes, removes or lists topics: crawl goals that share the fleet
///
/// Every URL has a topic, and its links inherit it, as far as the topic's scope lets them pass. A
/// URL that several topics find is fetched once, for the first. Topics of one priority share the
/// connections; those of a higher one go first. URLs without another topic are of the topic
/// 'default', which goes by `scope`.
#[derive(Args)]
#[command(
    after_help = "KEY is one of scope.follow, scope.max_depth, scope.prefixes, scope.accept, \
scope.reject, usage.purposes, usage.unwanted, priority (0 to 9, the highest first), slice, \
pages_min, pages_per_second, bytes_per_second, connections_percent, pages_max, quality, \
recrawl.policy, recrawl.requests_per_second, recrawl.interval_min, recrawl.interval_max, \
recrawl.cache_lifetime_max, recrawl.forget_after and recrawl.visits_max. A key of scope, usage or \
recrawl that is not given is as in that section of the crawl. What a topic follows stays as it was \
added. Ends with exit code 1 when a process does not answer: it goes by the new values when it is \
back.

Examples:
  rhumb topic add news scope.follow=domain scope.max_depth=5 --seed https://news.example/
  rhumb topic add docs scope.follow=any 'scope.prefixes=[\"https://(org,example,\"]' --seeds docs.txt
  rhumb topic set news 'scope.reject=[/archive/]'
  rhumb topic set news priority=9          its URLs go before all others
  rhumb topic set news pages_max=100000    what is beyond waits for a larger budget
  rhumb topic set news recrawl.policy=fresh recrawl.requests_per_second=5   has visits of its own
  rhumb topic remove news                  what waits is still fetched
  rhumb topic remove news --drop --yes     what waits ends as dropped
  rhumb topic list --json"
)]
pub(super) struct Topic {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Adds a topic, and its seeds
    Add {
        /// Letters, digits, - and _, 64 at most
        name: String,
        /// VALUE is YAML; a list takes the place of the whole list
        #[arg(value_name = "KEY=VALUE")]
        assignments: Vec<String>,
        /// A URL to begin with. Repeatable
        #[arg(long = "seed", value_name = "URL")]
        urls: Vec<OsString>,
        /// File with URLs, one a line; - reads standard input
        #[arg(long, value_name = "FILE")]
        seeds: Option<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
    /// Changes keys of a topic, for what is found from now on
    Set {
        /// The topic
        name: String,
        /// VALUE is YAML; a list takes the place of the whole list
        #[arg(value_name = "KEY=VALUE", required = true)]
        assignments: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Follows no link of a topic any more. What waits is still fetched, unless it is dropped
    Remove {
        /// The topic
        name: String,
        /// What waits ends as dropped: counted first, and asked for
        #[arg(long)]
        drop: bool,
        /// With --drop: does not ask; given twice, not even before all that waits is dropped
        #[arg(long, action = clap::ArgAction::Count, requires = "drop")]
        yes: u8,
        #[command(flatten)]
        common: Common,
    },
    /// Lists the topics, each with its whole scope and its share
    List {
        /// As JSON, a topic a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Args)]
struct Common {
    #[command(flatten)]
    author: AuthorArgs,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Topic {
    /// Changes the topics, and waits until all processes go by them; or lists.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            What::List { json, which } => {
                let running = handle::find(&which.layers()).await?;
                list(&pipeline(&running).await?, json)
            }
            What::Add {
                name,
                assignments,
                urls,
                seeds,
                common,
            } => {
                let seeds = Given::read(&urls, seeds.as_deref()).map_err(BadArguments)?;
                let (running, now) = find(&common).await?;
                let seeds = seeds
                    .in_crawl(&now.url, now.limits.url_bytes_max)
                    .map_err(BadArguments)?;
                // It is known by a key of its own, whatever else it has.
                let assignments: Vec<_> = assignments
                    .into_iter()
                    .chain(["removed=false".to_owned()])
                    .collect();
                let keys = Keys {
                    anew: Some(&name),
                    expected: Some(&|now| is_new(now, &name)),
                    ..Keys::default()
                };
                let heard = change(&running, &name, &assignments, keys, &common).await?;
                if !seeds.is_empty() {
                    let follow = pipeline(&running).await?.scope_of(&name).follow;
                    seeds::inject(&running.bus, follow, &name, &seeds, 0).await?;
                }
                check(&running, heard).await?;
                Ok(ExitCode::SUCCESS)
            }
            What::Set {
                name,
                assignments,
                common,
            } => {
                let (running, _) = find(&common).await?;
                let keys = Keys {
                    expected: Some(&|now| known(now, &name)),
                    ..Keys::default()
                };
                let heard = change(&running, &name, &assignments, keys, &common).await?;
                check(&running, heard).await?;
                Ok(ExitCode::SUCCESS)
            }
            What::Remove {
                name,
                drop,
                yes,
                common,
            } => {
                let (running, _) = find(&common).await?;
                let author = common.author.clone().author();
                let as_json = common.json;
                // One that was removed before may have URLs that wait.
                let may_go = |now: &Pipeline| {
                    if drop {
                        configured(now, &name)
                    } else {
                        known(now, &name)
                    }
                };
                let keys = Keys {
                    expected: Some(&may_go),
                    ..Keys::default()
                };
                let heard =
                    change(&running, &name, &["removed=true".to_owned()], keys, &common).await?;
                let what = Selection::Topic(name.clone());
                let wanted = Wanted {
                    what,
                    and_later: false,
                    yes,
                    author,
                    as_json,
                };
                let is_done = if drop {
                    wanted.run(&running).await
                } else {
                    Ok(true)
                };
                let is_done = is_done.with_context(|| {
                    format!(
                        "topic {name} follows no link any more; `rhumb topic remove {name} --drop` \
                         again drops what waits"
                    )
                })?;
                if drop && is_done && !as_json {
                    line(
                        "what other topics found after this one is dropped for them, too: rhumb \
                         inject --again brings it back",
                    );
                }
                // Who is late is told at the end: the others drop what waits all the same.
                check(&running, heard).await?;
                Ok(if is_done {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                })
            }
        }
    }
}

async fn find(common: &Common) -> anyhow::Result<(Running, Pipeline)> {
    let running = handle::find(&common.which.layers()).await?;
    let pipeline = pipeline(&running).await?;
    Ok((running, pipeline))
}

/// The configuration with what operators have set.
pub(super) async fn pipeline(running: &Running) -> anyhow::Result<Pipeline> {
    Ok(running.pipeline.with(&read(running).await?)?)
}

/// Writes keys of a topic, and waits until all processes go by them. Gives who does.
async fn change(
    running: &Running,
    name: &str,
    assignments: &[String],
    keys: Keys<'_>,
    common: &Common,
) -> anyhow::Result<Option<Heard>> {
    if !rhumb_config::is_name(name) {
        return Err(BadArguments(format!(
            "'{name}' is no name of a topic: it has 1 to 64 letters, digits, - and _"
        ))
        .into());
    }
    if let Some(assignment) = assignments
        .iter()
        .find(|assignment| !assignment.contains('='))
    {
        return Err(BadArguments(format!(
            "'{assignment}' sets nothing: it is KEY=VALUE, such as priority=5"
        ))
        .into());
    }
    let assignments: Vec<String> = assignments
        .iter()
        .map(|text| format!("topics.{name}.{text}"))
        .collect();
    let keys = Keys {
        assignments: &assignments,
        ..keys
    };
    let (_, heard) =
        change_keys(running, keys, &common.author.clone().author(), common.json).await?;
    Ok(heard)
}

/// Checks that all processes go by what was changed.
async fn check(running: &Running, heard: Option<Heard>) -> anyhow::Result<()> {
    match heard {
        Some(heard) => heard.check(running, "they go by the earlier values").await,
        None => Ok(()),
    }
}

fn is_new(pipeline: &Pipeline, name: &str) -> Result<(), BadArguments> {
    match pipeline.topics.get(name) {
        Some(topic) if !topic.removed => Err(BadArguments(format!(
            "there is a topic {name} already: `rhumb topic set {name} KEY=VALUE` changes it, \
             `rhumb inject --topic {name}` gives it seeds"
        ))),
        _ => Ok(()),
    }
}

/// Checks that URLs may be injected into a topic.
///
/// # Errors
/// It was removed, or there are topics, and it is none of them.
pub(super) fn known(pipeline: &Pipeline, name: &str) -> Result<(), BadArguments> {
    configured(pipeline, name)?;
    match pipeline.topics.get(name) {
        Some(topic) if topic.removed => Err(BadArguments(format!(
            "topic {name} was removed: `rhumb topic add {name}` adds it again"
        ))),
        _ => Ok(()),
    }
}

/// Checks that there is a topic, removed or not.
fn configured(pipeline: &Pipeline, name: &str) -> Result<(), BadArguments> {
    if pipeline.topics.contains_key(name) {
        return Ok(());
    }
    let names: Vec<&str> = pipeline.topics.keys().map(String::as_str).collect();
    Err(BadArguments(format!(
        "there is no topic {name}; there are: {}. `rhumb topic add {name}` adds it",
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    )))
}

/// What the list tells as JSON.
#[derive(Serialize)]
struct Told<'a> {
    name: &'a str,
    removed: bool,
    scope: Scope,
    priority: u8,
    /// In seconds.
    slice_s: f64,
    pages_min: u64,
    pages_per_second: u64,
    bytes_per_second: u64,
    connections_percent: u8,
    pages_max: u64,
    quality: QualityProvider,
    recrawl: ToldRecrawl,
}

/// By which rules pages of a topic are visited again, with what it takes over from `recrawl`.
#[derive(Serialize)]
struct ToldRecrawl {
    policy: RecrawlPolicy,
    requests_per_second: u64,
    /// This is a budget of its own.
    own_budget: bool,
    interval_min_s: u64,
    /// 0: none.
    interval_max_s: u64,
    cache_lifetime_max_s: u64,
    /// 0: never.
    forget_after_s: u64,
    /// 0: without end.
    visits_max: u32,
}

impl ToldRecrawl {
    fn of(pipeline: &Pipeline, name: &str) -> Self {
        let rules = pipeline.recrawl_of(name);
        let own = pipeline.topics.get(name).map(|topic| topic.recrawl);
        ToldRecrawl {
            policy: rules.policy,
            requests_per_second: rules.requests_per_second,
            own_budget: own.is_some_and(|own| own.requests_per_second.is_some()),
            interval_min_s: rules.interval_min.as_secs(),
            interval_max_s: rules.interval_max.as_secs(),
            cache_lifetime_max_s: rules.cache_lifetime_max.as_secs(),
            forget_after_s: rules.forget_after.as_secs(),
            visits_max: rules.visits_max,
        }
    }
}

fn list(pipeline: &Pipeline, as_json: bool) -> anyhow::Result<ExitCode> {
    if pipeline.topics.is_empty() && !as_json {
        line("no topics: all URLs go by scope");
    }
    for (name, topic) in &pipeline.topics {
        let slice = topic.slice.unwrap_or(pipeline.stages.scheduler.slice);
        let told = Told {
            name,
            removed: topic.removed,
            scope: pipeline.scope_of(name),
            priority: topic.priority,
            slice_s: slice.as_secs_f64(),
            pages_min: topic.pages_min,
            pages_per_second: topic.pages_per_second,
            bytes_per_second: topic.bytes_per_second.0,
            connections_percent: topic.connections_percent,
            pages_max: topic.pages_max,
            quality: topic.quality.unwrap_or(pipeline.stages.scheduler.quality),
            recrawl: ToldRecrawl::of(pipeline, name),
        };
        if as_json {
            line(serde_json::to_string(&told)?);
        } else {
            let scope = serde_json::to_string(&told.scope)?;
            let removed = if told.removed { " (removed)" } else { "" };
            line(format_args!(
                "{name}{removed}: priority {}, slice {slice:?}, scope {scope}",
                told.priority
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
