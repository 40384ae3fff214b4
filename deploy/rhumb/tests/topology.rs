//! `rhumb topology`, and the lists and drawings that must agree with the table of edges.

use rhumb_wire::topology::{Edge, PICTURE, dot, text};
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

#[test]
fn the_readme_begins_with_the_same_drawing() {
    let readme = include_str!("../../../README.md");
    let block = readme
        .split_once("```text\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .map(|(block, _)| block);
    assert_eq!(block, Some(PICTURE));
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
