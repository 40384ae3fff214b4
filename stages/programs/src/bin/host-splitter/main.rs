//! Host-splitter: which partition?
//!
//! In: found URLs (parser, scheduler, `rhumb`), the scope that all instances share (a key-value
//! bucket). Out: those that pass the filters, regrouped by partition (dedup); the others (taps);
//! hosts of seeds (the scope).

mod scope;

use futures::future::BoxFuture;
use host_splitter::effect::{Answer, Effect};
use host_splitter::splitter::{Settings, Splitter};
use rhumb_config::open_url_cache;
use rhumb_node::{AnyCore, Context, Shell, Stage, assemble};
use rhumb_stage::Core as _;
use rhumb_wire::topology::{StageName, sources};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STAGE: Stage = Stage {
    name: "host-splitter",
    about: "Host-splitter: filters found URLs and groups the others by partition",
    sources: sources(StageName::HostSplitter),
    edges: &[],
    is_required: true,
    metrics: host_splitter::metrics::METRICS,
    state: None,
    batch: |_| Stage::BATCH,
    open,
};

fn open(context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    let cache = &context.pipeline.stages.host_splitter.cache;
    let cache = open_url_cache("stages.host-splitter.cache", cache)?;
    let mut core = Splitter::new(Settings::from(&context.pipeline), cache, context.life);
    core.owners(StageName::Dedup, &context.owners_of(StageName::Dedup));
    Ok(assemble(
        core,
        ScopeShell(scope::Scope::new(context.buckets.scope.clone())),
    ))
}

struct ScopeShell(scope::Scope);

impl Shell<Splitter> for ScopeShell {
    fn perform(&mut self, effect: Effect) -> BoxFuture<'static, Answer> {
        match effect {
            Effect::NextScope => self.0.next(),
            Effect::Join(entry) => self.0.join(entry),
        }
    }
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
