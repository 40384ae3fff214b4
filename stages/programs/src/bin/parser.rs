//! Parser: which links?
//!
//! In: responses as the servers sent them (fetcher). Out: their links and redirect targets
//! (host-splitter), questions about their bodies (dedup), what documents say of themselves
//! (archiver).

use futures::future::BoxFuture;
use parser::content::{Answer, Ask};
use parser::core::{Parser, Settings};
use rhumb_bus::Bus;
use rhumb_node::{AnyCore, Context, Shell, Stage, assemble};
use rhumb_wire::message::{Edge, decode, encode};
use rhumb_wire::topology::Token;
use rhumb_wire::topology::{StageName, sources};
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STAGE: Stage = Stage {
    name: "parser",
    about: "Parser: charset-correct extraction of links and redirect targets",
    sources: sources(StageName::Parser),
    edges: &[],
    is_required: true,
    metrics: parser::metrics::METRICS,
    state: None,
    batch: |pipeline| pipeline.stages.parser.pages_in_hand as usize,
    open,
};

fn open(context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    let dedups = context.owners_of(StageName::Dedup);
    let settings = Settings {
        dedups,
        ..Settings::from(&context.pipeline)
    };
    Ok(assemble(
        Parser::new(settings),
        AskShell(context.bus.clone()),
    ))
}

/// How long dedup may take to say whether bodies were met before.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

struct AskShell(Bus);

impl Shell<Parser> for AskShell {
    fn perform(&mut self, Ask { dedup, ask }: Ask) -> BoxFuture<'static, Answer> {
        let bus = self.0.clone();
        Box::pin(async move {
            let subject = bus
                .subjects
                .of(Edge::ContentAsks, &Token::Instance(dedup.to_string()));
            let request = bus.client.request(subject, encode(&ask));
            let reply = tokio::time::timeout(REPLY_TIMEOUT, request).await;
            let reply = reply
                .ok()
                .and_then(Result::ok)
                .and_then(|reply| decode(&reply.payload).ok());
            Answer { dedup, reply }
        })
    }
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
