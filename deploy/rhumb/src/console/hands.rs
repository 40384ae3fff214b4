//! Hands: what a page may do to a crawl. Each act is a command of this program, which the page
//! shows before it is run.
//!
//! In: an act and what it is about. Out: first what will happen; then, when it is asked for again
//! without `ask`, what was done. Invariant: nothing is done without the token, and nothing that no
//! command can do.

use super::refusal::Refusal;
use super::{Shared, Which};
use anyhow::Context as _;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use rhumb_config::DEFAULT_TOPIC;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;

/// How long an act may take: partitions that move take their time, and moving goes on without the
/// command.
const ACT_MAX: Duration = Duration::from_secs(60);
/// URLs that are injected at once, at most.
const URLS_MAX: usize = 1000;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    ask: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    stage: String,
    instances: u16,
}

/// What is paused or dropped: one of these.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct What {
    host: Option<String>,
    domain: Option<String>,
    topic: Option<String>,
    matches: Option<String>,
    all: bool,
    /// Of a drop: what is found later, too.
    later: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inject {
    urls: Vec<String>,
    #[serde(default)]
    topic: String,
    #[serde(default)]
    again: bool,
}

/// An act, as it is told and as it is done.
struct Act {
    /// What will happen.
    will: String,
    /// The command, without the name of the program.
    arguments: Vec<String>,
    /// A command that tells more of what will happen.
    asks: Option<Vec<String>>,
    /// A command for somebody else to run.
    elsewhere: Option<String>,
}

impl Act {
    fn new(will: String, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Act {
            will,
            arguments: arguments.into_iter().map(Into::into).collect(),
            asks: None,
            elsewhere: None,
        }
    }
}

/// Says what an act will do, or does it.
pub(super) async fn act(
    State(shared): State<Arc<Shared>>,
    Path(what): Path<String>,
    Query(which): Query<Which>,
    Query(Asks { ask }): Query<Asks>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    shared.door.may_act(&headers)?;
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return Err(Refusal::bad("an act comes as application/json"));
    }
    let (watcher, running) = shared.running(which.crawl.as_deref()).await?;
    let act = match what.as_str() {
        "scale" => scale(
            &parse(&body)?,
            &running.pipeline.owner,
            watcher.is_deployed(),
        )?,
        "pause" => pause(&parse(&body)?)?,
        "unpause" => unpause(&parse(&body)?)?,
        "drop" => dropping(&parse(&body)?)?,
        "inject" => inject(parse(&body)?)?,
        _ => {
            return Err(Refusal::new(
                StatusCode::NOT_FOUND,
                format!("there is no act '{what}'"),
            ));
        }
    };
    if let Some(command) = act.elsewhere {
        return Ok(Json(json!({ "command": command })));
    }
    let crawl = watcher.arguments();
    if ask.is_empty() {
        let done = run(act.arguments, crawl).await?;
        return Ok(Json(json!({ "done": done })));
    }
    let more = match act.asks {
        Some(arguments) => format!(" {}", run(arguments, crawl).await?),
        None => String::new(),
    };
    Ok(Json(json!({ "will": format!("{}{more}", act.will) })))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("the act is not understood: {error}")))
}

fn scale(
    Scale { stage, instances }: &Scale,
    owner: &str,
    is_deployed: bool,
) -> Result<Act, Refusal> {
    let known = rhumb_wire::topology::StageName::from_name(stage)
        .ok_or_else(|| Refusal::bad(format!("there is no stage '{stage}'")))?;
    let mut act = Act::new(
        format!("{stage} gets {instances} instances (rhumb scale {stage}={instances})."),
        ["scale".to_owned(), format!("{stage}={instances}")],
    );
    if is_deployed {
        let kind = if known.row().keeps_files || known.row().has_state {
            "statefulset"
        } else {
            "deployment"
        };
        let (namespace, release) = owner.split_once('/').unwrap_or(("NAMESPACE", "RELEASE"));
        act.elsewhere = Some(format!(
            "kubectl -n {namespace} scale {kind}/{release}-{stage} --replicas={instances}"
        ));
    }
    Ok(act)
}

/// The option that names what an act is about, and its value.
fn selection(what: &What) -> Result<Option<(&'static str, &str)>, Refusal> {
    let options = [
        ("--host", &what.host),
        ("--domain", &what.domain),
        ("--topic", &what.topic),
        ("--match", &what.matches),
    ];
    let mut named = options
        .into_iter()
        .filter_map(|(option, value)| Some((option, value.as_deref()?)));
    match (named.next(), named.next()) {
        (Some(_), Some(_)) => Err(Refusal::bad("name one of host, domain, topic and matches")),
        (Some((option, "")), _) => Err(Refusal::bad(format!("{option} names nothing"))),
        (one, _) => Ok(one),
    }
}

fn pause(what: &What) -> Result<Act, Refusal> {
    Ok(match selection(what)? {
        Some((option @ ("--host" | "--domain"), name)) => Act::new(
            format!("{name} is left alone until it is unpaused (rhumb pause {option} {name})."),
            ["pause".to_owned(), format!("{option}={name}")],
        ),
        None if what.all => Act::new(
            "The whole crawl stands still until it is unpaused (rhumb pause).".into(),
            ["pause"],
        ),
        _ => return Err(Refusal::bad("name a host or a domain, or all")),
    })
}

fn unpause(what: &What) -> Result<Act, Refusal> {
    Ok(match selection(what)? {
        Some((option @ ("--host" | "--domain"), name)) => Act::new(
            format!("{name} may be contacted again (rhumb unpause {option} {name})."),
            ["unpause".to_owned(), format!("{option}={name}")],
        ),
        None if what.all => Act::new("The crawl goes on (rhumb unpause).".into(), ["unpause"]),
        _ => return Err(Refusal::bad("name a host or a domain, or all")),
    })
}

fn dropping(what: &What) -> Result<Act, Refusal> {
    let Some((option, name)) = selection(what)? else {
        return Err(Refusal::bad(
            "name a host, a domain, a topic or a regular expression",
        ));
    };
    let later = if what.later {
        ", and all that are found later"
    } else {
        ""
    };
    let will = format!(
        "The URLs that wait there end as dropped{later}; they do not come back (rhumb drop \
         {option} '{name}')."
    );
    let named = format!("{option}={name}");
    let mut act = Act::new(will, ["drop", &named, "--yes", "--yes"]);
    act.arguments
        .extend(what.later.then(|| "--and-later".to_owned()));
    act.asks = Some(["drop", &named, "--count"].map(str::to_owned).into());
    Ok(act)
}

fn inject(Inject { urls, topic, again }: Inject) -> Result<Act, Refusal> {
    if urls.is_empty() || urls.len() > URLS_MAX {
        return Err(Refusal::bad(format!(
            "an injection has 1 to {URLS_MAX} URLs; `rhumb inject --seeds` takes more"
        )));
    }
    for url in &urls {
        rhumb_url::canonical(url, None, None).map_err(|reason| {
            Refusal::bad(format!("'{url}' is no URL that can be crawled: {reason}"))
        })?;
    }
    let topic = if topic.is_empty() {
        DEFAULT_TOPIC.to_owned()
    } else {
        topic
    };
    let anew = if again {
        ", although they were met before"
    } else {
        ""
    };
    let will = format!(
        "{} URLs are added to topic {topic}{anew} (rhumb inject).",
        urls.len()
    );
    let mut act = Act::new(will, ["inject".to_owned(), format!("--topic={topic}")]);
    act.arguments.extend(again.then(|| "--again".to_owned()));
    act.arguments.push("--".to_owned());
    act.arguments.extend(urls);
    Ok(act)
}

/// Runs a command of this program about the crawl. Gives what it says.
async fn run(mut arguments: Vec<String>, crawl: Vec<String>) -> Result<String, Refusal> {
    let program = std::env::current_exe().context("the program does not know where it lies")?;
    // Options stand before what is no option.
    let at = arguments
        .iter()
        .position(|argument| argument == "--")
        .unwrap_or(arguments.len());
    arguments.splice(at..at, crawl);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    // It goes on when the page is closed meanwhile.
    let ended =
        tokio::time::timeout(ACT_MAX, tokio::spawn(async move { command.output().await })).await;
    let Ok(output) = ended else {
        let words = format!(
            "no answer for {} s; it goes on: see `rhumb status`",
            ACT_MAX.as_secs()
        );
        return Err(Refusal::new(StatusCode::CONFLICT, words));
    };
    let output = output
        .context("a command was cut short")?
        .context("a command cannot be started")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(Some(text(&output.stdout))
            .filter(|said| !said.is_empty())
            .unwrap_or_else(|| "done".to_owned()));
    }
    Err(Refusal::new(
        StatusCode::CONFLICT,
        text(&output.stderr)
            .trim_start_matches("rhumb: ")
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_line(arguments: &[String]) -> String {
        std::iter::once("rhumb")
            .chain(arguments.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn of<T: DeserializeOwned>(body: Value) -> T {
        parse(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn an_act_is_a_command_of_this_program() {
        let line = |act: Result<Act, Refusal>| command_line(&act.unwrap().arguments);
        assert_eq!(
            line(scale(
                &of(json!({ "stage": "fetcher", "instances": 2 })),
                "",
                false
            )),
            "rhumb scale fetcher=2"
        );
        assert_eq!(
            line(pause(&of(json!({ "host": "a.test" })))),
            "rhumb pause --host=a.test"
        );
        assert_eq!(line(unpause(&of(json!({ "all": true })))), "rhumb unpause");
        assert_eq!(
            line(dropping(&of(json!({ "matches": "x", "later": true })))),
            "rhumb drop --match=x --yes --yes --and-later"
        );
        let urls = json!({ "urls": ["http://a.test/"], "again": true });
        assert_eq!(
            line(inject(of(urls))),
            "rhumb inject --topic=default --again -- http://a.test/"
        );
        let deployed = scale(
            &of(json!({ "stage": "dedup", "instances": 2 })),
            "crawls/news",
            true,
        )
        .unwrap();
        assert_eq!(
            deployed.elsewhere.unwrap(),
            "kubectl -n crawls scale statefulset/news-dedup --replicas=2"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_run() {
        assert!(
            scale(
                &of(json!({ "stage": "nothing", "instances": 2 })),
                "",
                false
            )
            .is_err()
        );
        for what in [
            json!({}),
            json!({ "host": "a", "domain": "b" }),
            json!({ "topic": "x" }),
            json!({ "host": "" }),
        ] {
            assert!(pause(&of(what.clone())).is_err(), "{what}");
        }
        assert!(dropping(&of(json!({ "all": true }))).is_err());
        for urls in [
            json!([]),
            json!(["--data", "x"]),
            json!(["javascript:alert(1)"]),
        ] {
            assert!(inject(of(json!({ "urls": urls }))).is_err(), "{urls}");
        }
        assert!(parse::<What>(br#"{"hots":"a"}"#).is_err());
    }
}
