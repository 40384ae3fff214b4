//! From the command line to a running stage: the same for all of them.

use super::disk::{DiskStore, StoreOptions};
use super::outbox::{LOOP, OUTBOX};
use super::ownership::Ownership;
use super::run::{Process, run};
use super::store::{Changes, Store, StoreError, Table};
use super::{Args, Core};
use crate::bus::{Buckets, Bus, ensure_buckets, ensure_streams};
use crate::config::{ConfigError, Pipeline};
use crate::telemetry;
use crate::time::Timestamp;
use crate::topology::Source;
use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};
use futures::future::BoxFuture;
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;

/// Does the work that waits.
pub trait Shell<C: Core>: 'static {
    /// Performs an effect; what it brings goes back to the core. Must not panic, whatever the network sends.
    fn perform(&mut self, effect: C::Effect) -> BoxFuture<'static, C::Answer>;
}

/// The shell of a core without effects.
#[derive(Debug)]
pub struct NoShell;

impl<C: Core<Effect = Infallible>> Shell<C> for NoShell {
    fn perform(&mut self, effect: Infallible) -> BoxFuture<'static, C::Answer> {
        match effect {}
    }
}

/// A stage: its name, where its input comes from, and how its core is made.
pub trait Stage {
    /// As in the picture.
    const NAME: &'static str;
    /// One sentence for `--help`.
    const ABOUT: &'static str;
    /// Its core.
    type Core: Core;
    /// Its shell.
    type Shell: Shell<Self::Core>;

    /// Where its input comes from.
    fn sources() -> Vec<Source>;

    /// Tables of its state and how they are stored; none for a stage without state.
    fn state(_pipeline: &Pipeline) -> Option<State> {
        None
    }

    /// Messages asked of the broker at once.
    fn batch(_pipeline: &Pipeline) -> usize {
        200
    }

    /// Makes core and shell.
    fn open(context: &Context) -> anyhow::Result<(Self::Core, Self::Shell)>;
}

/// The state of a stateful stage.
#[derive(Clone, Debug)]
pub struct State {
    /// Its tables.
    pub tables: Vec<Table>,
    /// Memory and durability of the store.
    pub options: StoreOptions,
    /// Instances among which the partitions are shared out.
    pub replicas: u16,
}

/// What a core and a shell are made from.
pub struct Context {
    /// The configuration.
    pub pipeline: Pipeline,
    /// Ordinal of the instance.
    pub instance: u16,
    /// The broker.
    pub bus: Bus,
    /// Its key-value buckets.
    pub buckets: Buckets,
    /// The state of a stateful stage.
    pub store: Option<Arc<dyn Store>>,
    /// Epoch of the ownership; 0 for a stage without state.
    pub epoch: u64,
    /// Partitions owned by the instance; none for a stage without state.
    pub partitions: Vec<u16>,
    /// Changes with every life of the process.
    pub life: u64,
    /// Now.
    pub now: Timestamp,
}

impl Context {
    /// The store of a stateful stage.
    pub fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.store.clone().context("a stage without state has no store")
    }
}

/// Exit code for bad configuration or arguments.
const EXIT_CONFIGURATION: u8 = 2;

/// Runs a stage until it is told to end: exit 0 after a drained SIGTERM, 2 for bad configuration or arguments and for
/// stored state that cannot be gone on from, 1 otherwise.
pub fn main<S: Stage>() -> ExitCode {
    let command = Args::command().name(S::NAME).about(S::ABOUT).after_help(
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
            eprintln!("{}: {error}", S::NAME);
            return ExitCode::from(EXIT_CONFIGURATION);
        }
    };
    if pipeline.broker.url.is_empty() {
        eprintln!(
            "{}: configuration key broker.url is empty: a stage on its own needs a broker, such as nats://127.0.0.1:4222",
            S::NAME
        );
        return ExitCode::from(EXIT_CONFIGURATION);
    }
    // One thread: a stage is scaled by instances, and nothing crosses threads on the way of a message.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{}: cannot start: {error}", S::NAME);
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(start::<S>(pipeline, args.instance)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(stage = S::NAME, instance = args.instance, "{error:#}");
            // To start again would not help.
            let is_final = error.downcast_ref::<ConfigError>().is_some()
                || matches!(error.downcast_ref(), Some(StoreError::Unusable(_)));
            if is_final { ExitCode::from(EXIT_CONFIGURATION) } else { ExitCode::FAILURE }
        }
    }
}

async fn start<S: Stage>(mut pipeline: Pipeline, instance: u16) -> anyhow::Result<()> {
    let shutdown = shutdown_signal()?;
    let url = pipeline.broker.url.clone();
    let name = format!("{}-{instance}", S::NAME);
    let mut shutdown = std::pin::pin!(shutdown);
    let bus = tokio::select! {
        bus = Bus::connect(&url, &pipeline, &name) => bus?,
        () = &mut shutdown => return Ok(()),
    };
    pipeline.broker.max_payload = bus.max_payload(&pipeline);
    ensure_streams(&bus, &pipeline).await?;
    let state = S::state(&pipeline);
    let buckets = ensure_buckets(&bus, pipeline.ownership_lease).await?;
    let lease = buckets.lease;
    let life = new_life(&name);

    let mut store: Option<Arc<dyn Store>> = None;
    let mut ownership = None;
    let mut epoch = 0;
    let mut replicas = 1;
    if let Some(state) = &state {
        anyhow::ensure!(
            instance < state.replicas,
            "instance {instance} of {} replicas owns no partition: stages.{}.replicas is {}",
            state.replicas,
            S::NAME,
            state.replicas
        );
        let taken = tokio::select! {
            taken = Ownership::take(buckets.leases.clone(), S::NAME, instance, life, lease) => taken?,
            () = &mut shutdown => return Ok(()),
        };
        let opened = open_store(&pipeline, S::NAME, instance, state)?;
        epoch = next_epoch(opened.as_ref(), taken.revision())?;
        replicas = state.replicas;
        ownership = Some(taken);
        store = Some(opened);
    }
    let partitions = match state {
        Some(_) => (0..pipeline.partitions).filter(|&p| Pipeline::owner(p, replicas) == instance).collect(),
        None => Vec::new(),
    };
    let context = Context { pipeline, instance, bus, buckets, store, epoch, partitions, life, now: Timestamp::ZERO };
    let (core, shell) = S::open(&context)?;
    let process = Process {
        stage: S::NAME,
        sources: S::sources(),
        batch: S::batch(&context.pipeline),
        replicas,
        context,
        ownership,
    };
    run(process, core, shell, shutdown).await
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

/// 1 + the larger of the lease's revision and the epoch stored with the state; stored before it is used.
fn next_epoch(store: &dyn Store, revision: u64) -> Result<u64, StoreError> {
    let stored = store.get(LOOP, b"epoch")?.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let epoch = 1 + stored.max(revision);
    let mut changes = Changes::default();
    changes.put(LOOP, *b"epoch", epoch.to_le_bytes());
    store.commit(&changes)?;
    Ok(epoch)
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
