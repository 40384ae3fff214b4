//! Parser: which links?
//!
//! In:  responses as the servers sent them (fetcher).
//! Out: their links and redirect targets (host-splitter).

use parser::core::{Parser, Settings};
use shared::config::Pipeline;
use shared::message::Edge;
use shared::stage::{Context, NoShell, Source, Stage};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Parsing;

impl Stage for Parsing {
    const NAME: &'static str = "parser";
    const ABOUT: &'static str = "Parser: charset-correct extraction of links and redirect targets";
    type Core = Parser;
    type Shell = NoShell;

    fn sources() -> Vec<Source> {
        vec![Source::Shared(Edge::Pages)]
    }

    fn batch(pipeline: &Pipeline) -> usize {
        pipeline.stages.parser.pages_in_hand as usize
    }

    fn open(context: &Context) -> anyhow::Result<(Parser, NoShell)> {
        Ok((Parser::new(Settings::from(&context.pipeline)), NoShell))
    }
}

fn main() -> ExitCode {
    shared::stage::main::<Parsing>()
}
