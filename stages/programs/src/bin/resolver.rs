//! Resolver: which address?
//!
//! In:  new URLs (dedup), servers whose addresses have gone stale (scheduler).
//! Out: new URLs with the addresses of their servers (scheduler).

use futures::future::BoxFuture;
use resolver::effect::{Answer, Effect};
use resolver::query::{self, Queries};
use resolver::replay;
use resolver::resolver::{Resolver, Settings};
use resolver::snapshot_file::SnapshotFile;
use rhumb_node::{AnyCore, Context, Shell, Stage, assemble};
use rhumb_wire::topology::{StageName, sources};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STAGE: Stage = Stage {
    name: "resolver",
    about: "Resolver: finds the addresses of servers, concurrently and from a cache",
    sources: sources(StageName::Resolver),
    edges: &[],
    is_required: true,
    metrics: resolver::metrics::METRICS,
    state: None,
    batch: |_| Stage::BATCH,
    open,
};

fn open(context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    let queries = match context.pipeline.replayed() {
        Some(_) => None,
        None => Some(Queries::new(&query::Settings::from(&context.pipeline))?),
    };
    let file = SnapshotFile::new(&context.pipeline.instance_dir(STAGE.name, context.instance));
    let settings = Settings::from(&context.pipeline);
    let reach = settings.reach.clone().of_this_machine();
    let mut core = Resolver::new(Settings {
        reach,
        past: context.past,
        ..settings
    });
    if let Some((snapshot, age)) = file.read() {
        match core.restore(&snapshot, age, context.now) {
            Ok(names) => tracing::info!(names, "begins with the names of an earlier life"),
            Err(_) => {
                tracing::warn!("begins without names: the snapshot of an earlier life is damaged")
            }
        }
    }
    Ok(assemble(core, DnsShell { queries, file }))
}

struct DnsShell {
    /// None in a replay: no name server is asked.
    queries: Option<Queries>,
    file: SnapshotFile,
}

impl Shell<Resolver> for DnsShell {
    fn perform(&mut self, effect: Effect) -> BoxFuture<'static, Answer> {
        match effect {
            Effect::Query { name } => match &self.queries {
                Some(queries) => queries.resolve(name),
                None => Box::pin(std::future::ready(replay::answer(name))),
            },
            Effect::Keep { snapshot } => {
                let file = self.file.clone();
                let written = tokio::task::spawn_blocking(move || file.write(&snapshot));
                Box::pin(async move {
                    if let Ok(Err(error)) = written.await {
                        tracing::warn!(%error, "the names could not be kept for the next life");
                    }
                    Answer::Kept
                })
            }
        }
    }
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
