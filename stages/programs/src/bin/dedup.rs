//! Dedup: seen before?
//!
//! In: found URLs by partition (host-splitter), questions about bodies (parser). Out: those URLs
//! that are new, numbered (resolver); answers: which page had each body first (parser).

use dedup::dedup::{Dedup, Settings, TABLES};
use dedup::meta::last_serial;
use dedup::moving::MovingKeys;
use rhumb_config::{Pipeline, open_url_cache};
use rhumb_node::disk::StoreOptions;
use rhumb_node::{AnyCore, Context, NoShell, Stage, State, assemble};
use rhumb_stage::Beside;
use rhumb_wire::topology::{StageName, sources};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STAGE: Stage = Stage {
    name: "dedup",
    about: "Dedup: the exact URL-seen test, by partition",
    sources: sources(StageName::Dedup),
    edges: &[],
    is_required: true,
    metrics: dedup::metrics::METRICS,
    state: Some(state),
    batch: |_| Stage::BATCH,
    open,
};

fn state(pipeline: &Pipeline) -> State {
    let dedup = &pipeline.stages.dedup;
    State {
        tables: TABLES.to_vec(),
        options: StoreOptions {
            memtable_bytes: dedup.memtable_bytes,
            cache_bytes: dedup.store_cache_bytes,
            durability: pipeline.durability,
        },
        replicas: dedup.replicas,
        beside: Some(beside),
        halve: last_serial,
    }
}

fn seen(context: &Context) -> anyhow::Result<MovingKeys> {
    let folder = context
        .pipeline
        .instance_dir("dedup", context.instance)
        .join("seen");
    let store = context.store()?;
    Ok(MovingKeys::open(
        &(&context.pipeline).into(),
        store.as_ref(),
        folder,
        &context.partitions,
    )?)
}

fn beside(context: &Context) -> anyhow::Result<Box<dyn Beside>> {
    Ok(Box::new(seen(context)?))
}

fn open(context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    let generation = context.identity.generation();
    let directory = context.owners_of(StageName::Dedup).directory();
    let settings = Settings {
        generation,
        directory,
        ..Settings::from(&context.pipeline)
    };
    let cache = open_url_cache("stages.dedup.cache", &context.pipeline.stages.dedup.cache)?;
    let seen = context.take_beside().map_or_else(|| seen(context), Ok)?;
    let core = Dedup::open(
        &settings,
        cache,
        &context.partitions,
        context.store()?,
        seen,
    )?;
    Ok(assemble(core, NoShell))
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
