//! `rhumb drop`: waiting URLs that an operator wants to be rid of end as `dropped`.
//!
//! What waits is counted first, by the schedulers, piece by piece. Then the order is written to the
//! broker: each partition carries it out once, also when its scheduler is away now. An order about
//! what waits is forgotten when all have.

mod carrying;
mod counting;
mod dropping;
mod given;

use self::counting::Count;
pub(super) use self::dropping::Wanted;
use self::given::{Named, list, take_back};
use super::arguments::{BadArguments, Which};
use super::orders::{AuthorArgs, canonical_domain, canonical_host};
use crate::handle;
use clap::{ArgAction, Args};
use rhumb_config::orders::Selection;
use std::process::ExitCode;

/// Ends URLs that wait, as dropped
///
/// Counts first, and asks. What is in a job at that moment is dropped unless its request is under
/// way. Each URL keeps one outcome: dropped, in crawl.jsonl as well. What was dropped does not come
/// back.
#[derive(Args)]
#[command(
    after_help = "Where it cannot ask, it needs --yes; where that may be all that waits (99 of 100) or all that is found \
later, --yes twice. Ends with exit code 1 when the answer is no, when a scheduler does not answer (it drops what it has when it is \
back), or when somebody takes the order back meanwhile.

Examples:
  rhumb drop --host www.example.org
  rhumb drop --prefix 'http://(org,example,www,)/calendar/' --and-later --note 'a calendar without end'
  rhumb drop --match '[?&]sessionid=' --count
  rhumb drop --match '[?&]sessionid=' --yes
  rhumb drop --list
  rhumb drop --take-back --prefix 'http://(org,example,www,)/calendar/'"
)]
pub(super) struct Drop {
    #[command(flatten)]
    what: What,
    /// What is found later, too, until it is taken back
    #[arg(long)]
    and_later: bool,
    /// Counts what waits there, and drops nothing
    #[arg(long, requires = "what", conflicts_with_all = ["and_later", "yes", "note", "by", "list", "take_back"])]
    count: bool,
    /// Does not ask; given twice, not even before all that waits is dropped
    #[arg(long, action = ArgAction::Count)]
    yes: u8,
    #[command(flatten)]
    author: AuthorArgs,
    /// Lists the orders that hold, each with its number
    #[arg(long, conflicts_with_all = ["what", "and_later", "yes", "note", "by", "take_back"])]
    list: bool,
    /// Takes an order back: what is found from now on is not dropped
    #[arg(long, requires = "what", conflicts_with_all = ["and_later", "yes", "note", "by"])]
    take_back: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Which URLs are meant.
#[derive(Args)]
#[group(id = "what", multiple = false)]
struct What {
    /// Those of a host
    #[arg(long)]
    host: Option<String>,
    /// Those of a registered domain, such as example.org, and of the names below it
    #[arg(long)]
    domain: Option<String>,
    /// Those whose SURT begins so, as in scope.prefixes
    #[arg(long, value_name = "SURT")]
    prefix: Option<String>,
    /// Those in which a regular expression matches somewhere
    #[arg(long, value_name = "REGEX")]
    r#match: Option<String>,
    /// Those of a topic
    #[arg(long)]
    topic: Option<String>,
    /// With --take-back: those of the order that has this number in --list
    #[arg(long, value_name = "NUMBER", requires = "take_back")]
    id: Option<u64>,
}

impl What {
    fn selection(&self) -> Result<Option<Selection>, BadArguments> {
        Ok(match self {
            What {
                host: Some(host), ..
            } => Some(Selection::Host(canonical_host("--host", host)?)),
            What {
                domain: Some(domain),
                ..
            } => Some(Selection::Domain(canonical_domain(domain)?)),
            What {
                prefix: Some(prefix),
                ..
            } => {
                let prefix = prefix.to_ascii_lowercase();
                let is_surt = ["http://(", "https://("]
                    .iter()
                    .any(|start| prefix.starts_with(start));
                if !is_surt {
                    return Err(BadArguments(format!(
                        "--prefix {prefix}: this is no SURT of a URL, which begins as \
                         http://(org,example,www,)/path"
                    )));
                }
                Some(Selection::Prefix(prefix))
            }
            What {
                r#match: Some(expression),
                ..
            } => {
                let what = Selection::Match(expression.clone());
                what.selector()
                    .map_err(|error| BadArguments(format!("--match {expression}: {error}")))?;
                Some(what)
            }
            What {
                topic: Some(topic), ..
            } => Some(Selection::Topic(topic.clone())),
            _ => None,
        })
    }
}

impl Drop {
    /// Counts, asks, and drops; or counts alone, lists or takes back orders.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let what = self.what.selection()?;
        let running = handle::find(&self.which.layers()).await?;
        match (what, self.what.id) {
            _ if self.list => list(&running, self.json).await?,
            (_, Some(id)) => take_back(&running, &Named::Id(id), self.json).await?,
            (Some(what), None) if self.take_back => {
                take_back(&running, &Named::What(what), self.json).await?
            }
            (Some(what), None) if self.count => {
                Count::of(&running, &what)
                    .await?
                    .tell(&running, &what, self.json)
                    .await?
            }
            (Some(what), None) => {
                let Drop {
                    and_later,
                    yes,
                    author,
                    json: as_json,
                    ..
                } = self;
                let wanted = Wanted {
                    what,
                    and_later,
                    yes,
                    author: author.author(),
                    as_json,
                };
                return Ok(if wanted.run(&running).await? {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                });
            }
            (None, None) => {
                let missing = "which URLs? Name them by --host, --domain, --prefix, --match or \
                               --topic; or --list what is dropped";
                return Err(BadArguments(missing.to_owned()).into());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        drop: Drop,
    }

    #[test]
    fn arguments_that_would_be_ignored_are_refused() {
        for (arguments, is_good) in [
            (&["--list", "--json"][..], true),
            (&["--list", "--host", "a.test"], false),
            (&["--list", "--note", "why"], false),
            (&["--list", "--count"], false),
            (&["--count", "--match", "x", "--json"], true),
            (&["--count", "--match", "x", "--yes"], false),
            (&["--count"], false),
            (&["--take-back", "--id", "7"], true),
            (&["--take-back", "--host", "a.test"], true),
            (&["--take-back", "--host", "a.test", "--by", "anna"], false),
            (&["--take-back", "--id", "7", "--host", "a.test"], false),
            (&["--take-back"], false),
            (&["--id", "7"], false),
            (
                &[
                    "--host",
                    "a.test",
                    "--and-later",
                    "--yes",
                    "--yes",
                    "--note",
                    "why",
                ],
                true,
            ),
        ] {
            let parsed = Cli::try_parse_from(["drop"].iter().chain(arguments));
            assert_eq!(parsed.is_ok(), is_good, "{arguments:?}");
        }
    }

    #[test]
    fn an_expression_that_is_none_or_too_large_is_refused_by_name() {
        for (expression, why) in [
            ("(", "no regular expression"),
            (r"(\w{1000}){1000}", "too large"),
        ] {
            let cli = Cli::try_parse_from(["drop", "--match", expression]).expect("arguments");
            let error = cli
                .drop
                .what
                .selection()
                .expect_err("a bad expression")
                .to_string();
            assert!(
                error.starts_with(&format!("--match {expression}: this ")) && error.contains(why),
                "{error}"
            );
        }
    }
}
