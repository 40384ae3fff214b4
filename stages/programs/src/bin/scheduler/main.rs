//! Scheduler: which server next, and when?
//!
//! In: new URLs with addresses (resolver), asks and reports (fetcher), errands (schedulers of other
//! partitions). Out: connection jobs (fetcher), outcomes, sitemaps (host-splitter), refreshes of
//! addresses (resolver), errands; claims on quotas (a key-value bucket).

mod ledgers;

use ledgers::LedgerShell;
use rhumb_config::Pipeline;
use rhumb_node::disk::StoreOptions;
use rhumb_node::{AnyCore, Context, Stage, State, assemble};
use rhumb_stage::Core as _;
use rhumb_url::time::{Timestamp, millis};
use rhumb_wire::topology::{StageName, sources};
use scheduler::quality::Qualities;
use scheduler::{Scheduler, Schedulers, Settings, TABLES, halve};
use std::process::ExitCode;
use std::time::SystemTime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STAGE: Stage = Stage {
    name: "scheduler",
    about: "Scheduler: the frontier, politeness and robots.txt; grants connection jobs to fetchers",
    sources: sources(StageName::Scheduler),
    edges: &[],
    is_required: true,
    metrics: scheduler::metrics::METRICS,
    state: Some(state),
    batch: |_| Stage::BATCH,
    open,
};

fn state(pipeline: &Pipeline) -> State {
    let scheduler = &pipeline.stages.scheduler;
    State {
        tables: TABLES.to_vec(),
        options: StoreOptions {
            memtable_bytes: scheduler.memtable_bytes,
            cache_bytes: scheduler.store_cache_bytes,
            durability: pipeline.durability,
        },
        replicas: scheduler.replicas,
        beside: None,
        halve,
    }
}

fn open(context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    let quality = Qualities::open(&context.pipeline)?;
    let owners = context.owners_of(StageName::Scheduler);
    let schedulers = Schedulers::of(&owners, context.instance);
    let directory = owners.directory();
    let generation = context.identity.generation();
    let mut core = Scheduler::open(
        Settings {
            generation,
            life: context.life,
            schedulers,
            directory,
            origin_ms: origin_ms(context.now),
            ..Settings::new(&context.pipeline, quality)
        },
        context.instance,
        context.epoch,
        &context.partitions,
        context.store()?,
        context.now,
    )?;
    for stage in [StageName::Scheduler, StageName::Dedup] {
        core.owners(stage, &context.owners_of(stage));
    }
    Ok(assemble(
        core,
        LedgerShell {
            bucket: context.buckets.tokens.clone(),
        },
    ))
}

/// Milliseconds of Unix time at the origin of the process's time.
fn origin_ms(now: Timestamp) -> u64 {
    let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    millis(unix).saturating_sub(now.as_micros() / 1000)
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
