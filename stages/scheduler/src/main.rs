//! Scheduler: which server next, and when?
//!
//! In:  new URLs with addresses (resolver), asks and reports (fetcher), errands (schedulers of other partitions).
//! Out: connection jobs (fetcher), outcomes, sitemaps (host-splitter), refreshes of addresses (resolver), errands; needs of
//! tokens (a key-value bucket).

use scheduler::quality::Provider;
use scheduler::{Scheduler, Settings, TABLES, TokenShell};
use shared::config::Pipeline;
use shared::message::Edge;
use shared::stage::disk::StoreOptions;
use shared::stage::{Context, Source, Stage, State};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Scheduling;

impl Stage for Scheduling {
    const NAME: &'static str = "scheduler";
    const ABOUT: &'static str =
        "Scheduler: the frontier, politeness and robots.txt; grants connection jobs to fetchers";
    type Core = Scheduler;
    type Shell = TokenShell;

    fn sources() -> Vec<Source> {
        vec![
            Source::Owned(Edge::UrlsReady),
            Source::Owned(Edge::FetchReports),
            Source::Addressed(Edge::FetchAsks),
            Source::OwnedSoft(Edge::Errands),
        ]
    }

    fn state(pipeline: &Pipeline) -> Option<State> {
        let scheduler = &pipeline.stages.scheduler;
        Some(State {
            tables: TABLES.to_vec(),
            options: StoreOptions {
                memtable_bytes: scheduler.memtable_bytes,
                cache_bytes: scheduler.store_cache_bytes,
                durability: pipeline.durability,
            },
            replicas: scheduler.replicas,
        })
    }

    fn open(context: &Context) -> anyhow::Result<(Scheduler, TokenShell)> {
        let quality = Provider::open(&context.pipeline.stages.scheduler)?;
        let core = Scheduler::open(
            Settings::new(&context.pipeline, quality),
            context.instance,
            context.epoch,
            &context.partitions,
            context.store()?,
            context.now,
        )?;
        Ok((core, TokenShell { bucket: context.buckets.tokens.clone() }))
    }
}

fn main() -> ExitCode {
    shared::stage::main::<Scheduling>()
}
