//! From the command line to a running stage: the same for all of them.

use super::Args;
use super::context::{Context, Stage, State};
use super::disk::DiskStore;
use super::ownership::Ownership;
use super::run::{Process, run};
use super::settlement::{LOOP, OUTBOX, next_epoch};
use super::store::{Changes, Store, StoreError};
use crate::bus::{Bus, ensure_buckets, ensure_streams};
use crate::config::{ConfigError, Pipeline};
use crate::time::Timestamp;
use crate::{log_file, telemetry};
use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};
use std::process::ExitCode;
use std::sync::Arc;

/// Exit code for bad configuration or arguments.
const EXIT_CONFIGURATION: u8 = 2;

/// Runs a stage until it is told to end: exit 0 after a drained SIGTERM, 2 for bad configuration or arguments and for
/// stored state that cannot be gone on from, 1 otherwise.
pub fn main(stage: &Stage) -> ExitCode {
    let command = Args::command().name(stage.name).about(stage.about).after_help(
        "Run by `rhumb crawl` or `rhumb up`; on its own for deployments that run each stage by themselves:\n  \
         BROKER=nats://127.0.0.1:4222\n  \
         RHUMB__BROKER__URL=$BROKER <stage> --config pipeline.yaml --instance 0 \\\n    \
         --set 'network.user_agent=mybot/1.0 (+https://example.org/bot)'",
    );
    let args = match command.try_get_matches().and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    telemetry::init();
    if args.supervisor.is_some_and(|supervisor| !ends_with(supervisor)) {
        return ExitCode::FAILURE;
    }
    let pipeline = match args.load() {
        Ok(pipeline) => pipeline,
        Err(error) => {
            eprintln!("{}: {error}", stage.name);
            return ExitCode::from(EXIT_CONFIGURATION);
        }
    };
    if let Some(log) = &args.log {
        log_file::bound(log, pipeline.logs.bytes_max.0, pipeline.logs.kept);
    }
    if pipeline.broker.url.is_empty() {
        eprintln!(
            "{}: configuration key broker.url is empty: a stage on its own needs a broker, such as nats://127.0.0.1:4222",
            stage.name
        );
        return ExitCode::from(EXIT_CONFIGURATION);
    }
    // One thread: a stage is scaled by instances, and nothing crosses threads on the way of a message.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{}: cannot start: {error}", stage.name);
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(start(stage, pipeline, args.instance)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(stage = stage.name, instance = args.instance, "{error:#}");
            // To start again would not help.
            let is_final = error.downcast_ref::<ConfigError>().is_some()
                || matches!(error.downcast_ref(), Some(StoreError::Unusable(_)));
            if is_final { ExitCode::from(EXIT_CONFIGURATION) } else { ExitCode::FAILURE }
        }
    }
}

async fn start(stage: &Stage, mut pipeline: Pipeline, instance: u16) -> anyhow::Result<()> {
    let shutdown = shutdown_signal()?;
    let url = pipeline.broker.url.clone();
    let name = format!("{}-{instance}", stage.name);
    let mut shutdown = std::pin::pin!(shutdown);
    let bus = tokio::select! {
        bus = Bus::connect(&url, &pipeline, &name) => bus?,
        () = &mut shutdown => return Ok(()),
    };
    pipeline.broker.max_payload = bus.max_payload(&pipeline);
    ensure_streams(&bus, &pipeline, stage.edges).await?;
    let state = stage.state.map(|state| state(&pipeline));
    let buckets = ensure_buckets(&bus, &pipeline).await?;
    let lease = buckets.lease;
    let life = new_life(&name);

    let mut store: Option<Arc<dyn Store>> = None;
    let mut ownership = None;
    let (mut epoch, mut revision) = (0, 0);
    let mut replicas = 1;
    if let Some(state) = &state {
        anyhow::ensure!(
            instance < state.replicas,
            "instance {instance} of {} replicas owns no partition: stages.{}.replicas is {}",
            state.replicas,
            stage.name,
            state.replicas
        );
        let taken = tokio::select! {
            taken = Ownership::take(buckets.leases.clone(), stage.name, instance, life, lease) => taken,
            () = &mut shutdown => return Ok(()),
        };
        let opened = open_store(&pipeline, stage.name, instance, state)?;
        revision = taken.taken();
        epoch = next_epoch(opened.as_ref(), revision)?;
        replicas = state.replicas;
        ownership = Some(taken);
        store = Some(opened);
    }
    let partitions = match state {
        Some(_) => (0..pipeline.partitions).filter(|&p| Pipeline::owner(p, replicas) == instance).collect(),
        None => Vec::new(),
    };
    let context = Context { pipeline, instance, bus, buckets, store, epoch, partitions, life, now: Timestamp::ZERO };
    let core = (stage.open)(&context)?;
    let batch = (stage.batch)(&context.pipeline);
    let process = Process { stage: *stage, batch, replicas, context, ownership, taken: revision };
    run(process, core, shutdown).await
}

/// Opens the instance's store and checks that its state was made with the same partitions and replicas.
fn open_store(pipeline: &Pipeline, stage: &str, instance: u16, state: &State) -> anyhow::Result<Arc<dyn Store>> {
    let mut tables = state.tables.clone();
    tables.extend([LOOP, OUTBOX]);
    let path = pipeline.instance_dir(stage, instance);
    let store: Arc<dyn Store> = Arc::new(DiskStore::open(&path, &tables, state.options)?);
    let shape = format!("crawl {} partitions {} replicas {}", pipeline.crawl, pipeline.partitions, state.replicas);
    match store.get(LOOP, b"shape")? {
        None => {
            let mut changes = Changes::default();
            changes.put(LOOP, *b"shape", shape.as_bytes());
            store.commit(&changes)?;
        }
        Some(stored) if stored == shape.as_bytes() => {}
        Some(stored) => {
            let stored = String::from_utf8_lossy(&stored).into_owned();
            let text = format!(
                "the state in {} belongs to '{stored}', the configuration says '{shape}': they are fixed for the life of \
                 a crawl; set them back, or take another data directory",
                path.display()
            );
            return Err(StoreError::Unusable(text).into());
        }
    }
    Ok(store)
}

/// Has the system kill this process when its supervisor is gone: a crawl that is resumed must not meet the stages of
/// the one that was killed. False when it is gone already.
fn ends_with(supervisor: u32) -> bool {
    let set = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let parent = rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero);
    set.is_ok() && parent.is_some_and(|parent| i64::from(parent.get()) == i64::from(supervisor))
}

/// A number that no other life of any process has: ids and credits of one life mean nothing in the next.
pub fn new_life(name: &str) -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let text = format!("{name} {} {}", std::process::id(), since_1970.as_nanos());
    xxhash_rust::xxh3::xxh3_64(text.as_bytes())
}

/// Completes at SIGTERM or SIGINT.
fn shutdown_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
