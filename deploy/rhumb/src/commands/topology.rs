//! `rhumb topology`: the stages and the edges between them, from the tables that the stages
//! themselves are connected by.

use crate::output::line;
use clap::{Args, ValueEnum};
use rhumb_wire::topology;

/// Prints the stages and the edges between them; no crawl has to run
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  rhumb topology
  rhumb topology --format dot | dot -Tsvg >topology.svg        a graph, drawn by Graphviz")]
pub(super) struct Topology {
    /// A drawing with lists of edges and stages, or a graph for Graphviz
    #[arg(long, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Dot,
}

impl Topology {
    /// Prints it in the form that was asked for.
    pub(super) fn print(&self) {
        let text = match self.format {
            Format::Text => topology::text(),
            Format::Dot => topology::dot(),
        };
        line(text.trim_end());
    }
}
