//! The page of all metrics: it is made from their tables, and says what they say.

use rhumb_node::metrics::METRICS;
use rhumb_telemetry::metrics::{PROCESS, Row, page};
use std::collections::BTreeSet;
use std::path::Path;

/// Set it to have the page written instead of compared.
const WRITE: &str = "RHUMB_WRITE_DOCS";

const HEAD: &str = "\
# Metrics

Every process serves its metrics on `/metrics`, in the text format of Prometheus: stages on `stages.<stage>.listen`, the
`rhumb` that conducts a crawl on `conductor.listen`. A name is made of `rhumb`, the stage with `_` for `-`, and what is
counted. Counters end in `_total`, and begin again at 0 with a process or, where it says so, with the crawl. A label is an
edge, a stage, an outcome, a topic or a state: never a host or a URL. `deploy/grafana/rhumb.json` shows them,
`deploy/prometheus/rules.yaml` watches them ([alerts.md](alerts.md)).

This page is made from the tables in the sources: change them, and then write it with `tests/generate`.
";

const STAGES: [(&str, &[Row]); 7] = [
    ("host-splitter", host_splitter::metrics::METRICS),
    ("dedup", dedup::metrics::METRICS),
    ("resolver", resolver::metrics::METRICS),
    ("scheduler", scheduler::metrics::METRICS),
    ("fetcher", fetcher::metrics::METRICS),
    ("parser", parser::metrics::METRICS),
    ("archiver", archiver::metrics::METRICS),
];

fn all() -> String {
    let mut sections = vec![HEAD.to_owned()];
    sections
        .extend(rhumb::tables_of_metrics().map(|(title, prefix, rows)| page(title, prefix, &rows)));
    let every: Vec<Row> = PROCESS.iter().chain(METRICS).copied().collect();
    sections.push(page("Every stage", "rhumb_<stage>", &every));
    for (stage, rows) in STAGES {
        sections.push(page(
            stage,
            &format!("rhumb_{}", stage.replace('-', "_")),
            rows,
        ));
    }
    sections.join("\n")
}

#[test]
fn the_page_of_metrics_says_what_their_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let made = all();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &made).expect("the page can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let other = kept
        .lines()
        .zip(made.lines())
        .find(|(kept, made)| kept != made);
    assert!(
        kept == made,
        "docs/metrics.md is not what the tables say: write it with tests/generate; first: {other:?}"
    );
}

#[test]
fn no_metric_of_a_stage_has_the_name_of_one_that_every_stage_has() {
    let every: BTreeSet<&str> = PROCESS.iter().chain(METRICS).map(|row| row.name).collect();
    for (stage, rows) in STAGES {
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), rows.len(), "{stage} has one name twice");
        assert!(names.is_disjoint(&every), "{stage} has a name of all");
    }
}

/// Names of metrics in a text, without what Prometheus adds to those of histograms.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let plain = |word: &str| {
        let suffixes = ["_bucket", "_sum", "_count"];
        let stem = suffixes.iter().find_map(|end| word.strip_suffix(end));
        stem.unwrap_or(word).to_owned()
    };
    words
        .filter(|word| word.starts_with("rhumb_") && !word.ends_with('_'))
        .map(plain)
        .collect()
}

#[test]
fn panels_and_alerts_name_metrics_that_the_tables_have() {
    let known = named(&all().replace("<stage>", "every"));
    let stages: Vec<String> = STAGES
        .iter()
        .map(|(stage, _)| format!("rhumb_{}_", stage.replace('-', "_")))
        .collect();
    let is_known = |name: &str| {
        let of_every = |stage: &String| {
            let rest = name.strip_prefix(stage.as_str());
            rest.is_some_and(|rest| known.contains(&format!("rhumb_every_{rest}")))
        };
        known.contains(name) || stages.iter().any(of_every)
    };
    for file in ["deploy/grafana/rhumb.json", "deploy/prometheus/rules.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = std::fs::read_to_string(path).expect("the file is there");
        let unknown: Vec<String> = named(&text)
            .into_iter()
            .filter(|name| !is_known(name))
            .collect();
        assert_eq!(unknown, [""; 0], "{file}");
    }
}
