//! Dedup: seen before?
//!
//! In:  found URLs by partition (host-splitter).
//! Out: those that are new, numbered (resolver).

use dedup::dedup::{Dedup, Settings, TABLES};
use shared::config::Pipeline;
use shared::message::Edge;
use shared::stage::disk::StoreOptions;
use shared::stage::{Context, NoShell, Source, Stage, State};
use shared::url_cache::UrlCache;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Deduplication;

impl Stage for Deduplication {
    const NAME: &'static str = "dedup";
    const ABOUT: &'static str = "Dedup: the exact URL-seen test, by partition";
    type Core = Dedup;
    type Shell = NoShell;

    fn sources() -> Vec<Source> {
        vec![Source::Owned(Edge::UrlsSplit), Source::Addressed(Edge::ContentAsks)]
    }

    fn state(pipeline: &Pipeline) -> Option<State> {
        let dedup = &pipeline.stages.dedup;
        Some(State {
            tables: TABLES.to_vec(),
            options: StoreOptions {
                memtable_bytes: dedup.memtable_bytes,
                cache_bytes: dedup.store_cache_bytes,
                durability: pipeline.durability,
            },
            replicas: dedup.replicas,
        })
    }

    fn open(context: &Context) -> anyhow::Result<(Dedup, NoShell)> {
        let settings = Settings::from(&context.pipeline);
        let cache = UrlCache::open("stages.dedup.cache", &context.pipeline.stages.dedup.cache)?;
        let folder = context.pipeline.instance_dir("dedup", context.instance).join("seen");
        Ok((Dedup::open(&settings, cache, &context.partitions, context.store()?, folder)?, NoShell))
    }
}

fn main() -> ExitCode {
    shared::stage::main::<Deduplication>()
}
