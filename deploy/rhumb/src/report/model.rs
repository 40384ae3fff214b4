//! What a report says. It is a file beside the page, for programs, and all that the page is made
//! from.
//!
//! Invariant: [`VERSION`] grows with each change after which a program that reads the file would be
//! wrong. A field that is new has a default. There is no secret in it.

use super::gathering::Gathered;
use crate::status::{Recrawled, Snapshot, Summary, TopicUse};
use anyhow::{Context as _, ensure};
use rhumb_config::{Difference, differences};
use rhumb_stage::{Leaders, Tallied};
use rhumb_wire::message::FilterReason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Version of the file.
const VERSION: u32 = 1;
/// Names that one list of the sum over all schedulers has, at most.
const NAMES_MAX: usize = 64;

/// How a crawl stands.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing is left to do.
    Complete,
    /// It has ended before that: at a limit, or because somebody ended it.
    Stopped,
    /// It goes on.
    Running,
}

/// What became of the URLs that were found.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Urls {
    /// All that were found.
    pub found: u64,
    /// Rejected before the URL-seen test.
    pub filtered: u64,
    /// Known already.
    pub repeated: u64,
    /// Not met before.
    pub new: u64,
    /// New ones that wait.
    pub waiting: u64,
    /// Those of them that wait for a larger budget.
    pub waiting_over_budget: u64,
    /// URLs among them that are kept back in traps.
    pub waiting_trapped: u64,
    /// New ones that are in connection jobs.
    pub in_flight: u64,
    /// New ones that were lost, and whose loss was accepted.
    pub lost: u64,
}

/// A report about a crawl.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Report {
    /// Version of this file.
    pub version: u32,
    /// Version of the program that wrote it.
    pub program: String,
    /// Name of the crawl.
    pub crawl: String,
    /// How it stands.
    pub state: State,
    /// When the report was made, in seconds since 1970.
    pub at_s: u64,
    /// Seconds since the crawl was started, in this run.
    pub elapsed_s: f64,
    /// Seconds that it has run, those of earlier runs included.
    pub ran_s: f64,
    /// Pages fetched.
    pub pages: u64,
    /// Bytes of their bodies, as sent.
    pub bytes: u64,
    /// What became of the URLs that were found.
    pub urls: Urls,
    /// URLs by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// URLs among those refused whose page was hidden by a challenge.
    #[serde(default)]
    pub walls: u64,
    /// Pages that are visited again; none where no page is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recrawl: Option<Recrawled>,
    /// What was counted of those that ended.
    pub ended: Tallied,
    /// Hosts and servers that stand out.
    pub leaders: Leaders,
    /// Filtered URLs by reason.
    pub filtered: BTreeMap<String, u64>,
    /// What each topic has; none where no topic is configured.
    #[serde(default)]
    pub topics: BTreeMap<String, TopicUse>,
    /// What of the configuration is not as it was shipped, what operators have set while the crawl
    /// ran included.
    #[serde(default)]
    pub configuration: Vec<Difference>,
    /// Requests made again because the job that made them was lost.
    pub refetched: u64,
    /// Processes that died and were started again, in this run.
    pub restarts: u64,
    /// Messages put aside.
    pub dead: u64,
    /// What is missing in the report, in words.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// What a report is made of.
pub(crate) struct Of<'a> {
    pub(crate) crawl: &'a str,
    pub(crate) state: State,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) summary: &'a Summary,
    pub(crate) gathered: Gathered,
    /// The configuration as text, if it is known.
    pub(crate) configuration: Option<&'a str>,
}

impl Report {
    /// Makes it.
    ///
    /// # Errors
    /// The configuration is no YAML.
    pub(crate) fn of(of: Of<'_>) -> anyhow::Result<Report> {
        let Of {
            summary, snapshot, ..
        } = of;
        let missing = missing(&of);
        let Gathered {
            mut tallied,
            ran,
            leaders,
            set,
            ..
        } = of.gathered;
        let configuration = of
            .configuration
            .map(|text| differences(text, &set))
            .transpose()?;
        tallied.bound(NAMES_MAX);
        let filtered = FilterReason::ALL.map(|reason| {
            let n = snapshot.total("dedup", &format!("filtered_{}_total", reason.name()));
            (reason.name().to_owned(), n)
        });
        Ok(Report {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            crawl: of.crawl.to_owned(),
            state: of.state,
            at_s: SystemTime::UNIX_EPOCH
                .elapsed()
                .unwrap_or_default()
                .as_secs(),
            elapsed_s: summary.elapsed_s,
            ran_s: ran.as_secs_f64(),
            pages: summary.pages,
            bytes: summary.bytes,
            urls: urls(summary),
            outcomes: summary.outcomes.clone(),
            walls: summary.walls,
            recrawl: summary.recrawl.clone(),
            ended: tallied,
            leaders,
            filtered: filtered.into(),
            topics: summary.topics.clone(),
            configuration: configuration.unwrap_or_default(),
            refetched: summary.refetched,
            restarts: summary.restarts,
            dead: summary.dead,
            missing,
        })
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is damaged, or of a later version.
    pub(crate) fn read(bytes: &[u8]) -> anyhow::Result<Report> {
        let value: serde_json::Value = serde_json::from_slice(bytes).context("it is damaged")?;
        let version = value["version"].as_u64().context("it is no report")?;
        ensure!(
            version <= VERSION.into(),
            "it is of version {version}, and this program reads up to {VERSION}"
        );
        serde_json::from_value(value).context("it is damaged")
    }
}

fn urls(summary: &Summary) -> Urls {
    Urls {
        found: summary.urls_found,
        filtered: summary.urls_filtered,
        repeated: summary.urls_repeated,
        new: summary.urls_new,
        waiting: summary.waiting,
        waiting_over_budget: summary.waiting_over_budget,
        waiting_trapped: summary.waiting_trapped,
        in_flight: summary.in_flight,
        lost: summary.lost,
    }
}

/// What is missing, in words.
fn missing(of: &Of<'_>) -> Vec<String> {
    let Of {
        gathered, summary, ..
    } = of;
    let mut missing = Vec::new();
    if !gathered.silent.is_empty() {
        let silent: Vec<String> = gathered
            .silent
            .iter()
            .map(|instance| format!("scheduler.{instance}"))
            .collect();
        missing.push(format!(
            "No answer from {}: what ended in their partitions is missing.",
            silent.join(", ")
        ));
    }
    missing.extend(
        gathered
            .errors
            .iter()
            .map(|error| format!("What cannot be told: {error}.")),
    );
    if gathered.is_partial {
        missing.push(
            "There was no time to look at all hosts and servers: their lists are partial."
                .to_owned(),
        );
    }
    let ended: u64 = summary.outcomes.values().sum();
    let counted = gathered.tallied.counted();
    // While it goes on, processes do not answer at the same moment.
    if of.state != State::Running && counted > ended {
        missing.push(
            "Partitions moved while the schedulers were asked: some of what ended is counted twice."
                .to_owned(),
        );
    }
    if of.state != State::Running && counted < ended || counted == 0 && ended > 0 {
        missing.push(format!(
            "{} of {ended} URLs that ended are in the outcomes alone: they ended before this was \
             counted, or their scheduler did not answer.",
            ended.saturating_sub(counted)
        ));
    }
    if of.configuration.is_none() {
        missing.push("The configuration of the crawl is not known.".to_owned());
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::Layers;

    fn report(state: State, gathered: Gathered, configuration: Option<&str>) -> Report {
        let outcomes = [("fetched".to_owned(), 5), ("gone".to_owned(), 0)].into();
        let summary = Summary {
            pages: 5,
            outcomes,
            walls: 2,
            urls_new: 5,
            ..Summary::default()
        };
        let snapshot = &Snapshot::default();
        Report::of(Of {
            crawl: "a",
            state,
            snapshot,
            summary: &summary,
            gathered,
            configuration,
        })
        .unwrap()
    }

    #[test]
    fn what_is_missing_is_named() {
        let text = Layers {
            set: Vec::new(),
            file: Some("/dev/null".into()),
        }
        .public_text()
        .unwrap();
        let mut tallied = Tallied::default();
        tallied.add_end("fetched", "", 5);
        let whole = Gathered {
            tallied: tallied.clone(),
            ..Gathered::default()
        };
        assert_eq!(report(State::Complete, whole, Some(&text)).missing, [""; 0]);
        tallied.add_end("fetched", "", 7);
        let later = Gathered {
            tallied,
            ..Gathered::default()
        };
        assert_eq!(
            report(State::Running, later, Some(&text)).missing,
            [""; 0],
            "it went on in between"
        );
        let lacking = Gathered {
            silent: [1, 3].into(),
            is_partial: true,
            errors: vec!["scheduler.2: why".into()],
            ..Gathered::default()
        };
        let missing = report(State::Stopped, lacking, None).missing.join("\n");
        for words in [
            "scheduler.1, scheduler.3",
            "scheduler.2: why",
            "partial",
            "5 of 5 URLs",
            "configuration",
        ] {
            assert!(missing.contains(words), "{words}: {missing}");
        }
    }

    #[test]
    fn every_reason_to_filter_is_told() {
        let report = report(State::Complete, Gathered::default(), None);
        assert_eq!(report.filtered.len(), FilterReason::ALL.len());
    }

    #[test]
    fn visits_are_told_and_a_file_from_before_has_none() {
        let mut report = report(State::Complete, Gathered::default(), None);
        assert_eq!(report.recrawl, None);
        let before = serde_json::to_vec(&report).unwrap();
        assert_eq!(Report::read(&before).unwrap(), report);
        report.recrawl = Some(Recrawled {
            known: 3,
            visits: [("changed".to_owned(), 2)].into(),
            ..Recrawled::default()
        });
        let bytes = serde_json::to_vec(&report).unwrap();
        assert_eq!(Report::read(&bytes).unwrap(), report);
    }

    #[test]
    fn walls_are_told_and_a_file_from_before_has_none() {
        let report = report(State::Complete, Gathered::default(), None);
        assert_eq!(report.walls, 2);
        let mut file = serde_json::to_value(&report).unwrap();
        file.as_object_mut().unwrap().remove("walls");
        let bytes = serde_json::to_vec(&file).unwrap();
        assert_eq!(Report::read(&bytes).unwrap().walls, 0);
    }
}
