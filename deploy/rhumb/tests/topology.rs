//! `rhumb topology`, and the lists, drawings and files that must agree with the tables of edges and
//! stages.

use rhumb_wire::topology::{
    Division, EDGES, Edge, EdgeRow, Kind, PICTURE, Party, Retention, STAGES, dot, text,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn rhumb(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhumb"));
    command
        .args(arguments)
        .output()
        .expect("rhumb can be started")
}

fn printed(arguments: &[&str]) -> String {
    let output = rhumb(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_topology_is_printed_as_text_and_as_a_graph_without_a_crawl() {
    assert_eq!(printed(&["topology"]), text());
    assert_eq!(printed(&["topology", "--format", "text"]), text());
    assert_eq!(printed(&["topology", "--format", "dot"]), dot());
    assert!(
        dot().starts_with("digraph rhumb {\n") && dot().ends_with("}\n"),
        "{}",
        dot()
    );
}

#[test]
fn another_format_is_refused_with_those_that_there_are() {
    let output = rhumb(&["topology", "--format", "png"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("png") && error.contains("text") && error.contains("dot"),
        "{error}"
    );
}

/// Set it to have README written instead of compared.
const WRITE: &str = "RHUMB_WRITE_DOCS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_readme_begins_with_the_same_drawing() {
    let readme = text_of("README.md");
    let (before, rest) = readme.split_once("```text\n").expect("a block of text");
    let (block, after) = rest.split_once("```").expect("an end of the block");
    if std::env::var_os(WRITE).is_some() && block != PICTURE {
        let drawn = format!("{before}```text\n{PICTURE}```{after}");
        std::fs::write(root().join("README.md"), drawn).expect("README can be written");
        return;
    }
    assert!(
        block == PICTURE,
        "README.md has another drawing than topology/picture.txt: write it with {WRITE}=1"
    );
}

/// The row of an edge on the page of the architecture, before and behind what it carries.
fn row_of(row: &EdgeRow) -> (String, String) {
    let initial = row.consumers.first().map_or("", |party| &party.name()[..1]);
    let divided = match row.division {
        Division::Whole => String::new(),
        Division::Partition => ".<p>".to_owned(),
        Division::PartitionInLane => ".<p>.<l>".to_owned(),
        Division::Lane => ".<l>".to_owned(),
        Division::Instance => format!(".<{initial}>"),
    };
    let reply = row.reply;
    let reply = reply.map_or_else(String::new, |reply| format!(", answered by `{reply}`"));
    let names = |parties: &[Party]| {
        let name = |party: &Party| match party {
            Party::Stage(stage) => stage.name(),
            Party::Rhumb => "`rhumb`",
            Party::Tap => "taps",
        };
        parties.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let others = match row.kind {
        Kind::Stream(Retention::Interest) => ", further stages",
        _ => "",
    };
    let kind = match (row.kind, row.edge.has_lanes()) {
        (Kind::Core, _) => "soft",
        (_, true) => "stream, in lanes",
        _ => "stream",
    };
    let from = names(row.producers);
    let to = names(row.consumers);
    (
        format!("| `{}{divided}` | `{}`{reply} | ", row.name, row.message),
        format!(" | {from} → {to}{others} | {kind} |"),
    )
}

#[test]
fn the_page_of_the_architecture_has_a_row_for_each_edge() {
    let page = text_of("docs/architecture.md");
    for row in &EDGES {
        let (begin, end) = row_of(row);
        let is_it = |line: &str| line.starts_with(&begin) && line.ends_with(&end);
        assert!(
            page.lines().any(is_it),
            "docs/architecture.md, What is on each edge, has no row:\n{begin}…{end}"
        );
    }
}

#[test]
fn the_schema_of_the_chart_knows_each_stream() {
    let schema: serde_json::Value =
        serde_json::from_str(&text_of("deploy/kubernetes/rhumb/values.schema.json")).unwrap();
    for edge in Edge::ALL
        .into_iter()
        .filter(|edge| edge.retention().is_some())
    {
        let path = edge.name().replace('.', "/properties/");
        let path = format!("/properties/config/properties/edges/properties/{path}");
        assert!(
            schema.pointer(&path).is_some(),
            "values.schema.json knows nothing of edges.{}: make it with \
             tests/generate",
            edge.name()
        );
    }
}

/// The places beside the tables in which a stage stands: the file, the word before its name, and
/// the one behind it.
const PLACES: [(&str, &str, &str); 6] = [
    ("deploy/docker/Dockerfile", " ", ""),
    (
        "deploy/docker/compose.yaml",
        "    command: [",
        ", --instance",
    ),
    (
        "deploy/kubernetes/rhumb/templates/_helpers.tpl",
        "",
        ": {key: ",
    ),
    ("pipeline.yaml", "\n  ", ":"),
    ("tests/tests/metrics.rs", "    (\"", "\", "),
    ("tests/kubernetes_checks/cluster.py", "\"", "\""),
];

#[test]
fn every_stage_stands_in_every_place() {
    for (path, before, behind) in PLACES {
        let text = text_of(path);
        for row in &STAGES {
            let place = format!("{before}{}{behind}", row.name);
            assert!(text.contains(&place), "{path} has no {place:?}");
        }
    }
    // The values of the chart name a stage as Go does.
    let values = text_of("deploy/kubernetes/rhumb/values.yaml");
    for row in &STAGES {
        let mut words = row.name.split('-');
        let mut key = words.next().unwrap_or_default().to_owned();
        for word in words {
            key.push_str(&word[..1].to_uppercase());
            key.push_str(&word[1..]);
        }
        assert!(
            values.contains(&format!("\n{key}:")),
            "deploy/kubernetes/rhumb/values.yaml has no {key}"
        );
    }
}

#[test]
fn the_help_of_the_tap_names_every_edge() {
    let help = printed(&["tap", "--help"]);
    let names = help
        .split_once("Edges: ")
        .and_then(|(_, rest)| rest.split_once("\n\n"))
        .expect("a list of edges")
        .0;
    assert_eq!(
        names.split_whitespace().collect::<Vec<_>>(),
        Edge::ALL.map(Edge::name)
    );
}
