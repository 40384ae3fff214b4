//! The lives of a core: one after the other in a process, each with the partitions that the
//! instance has then.
//!
//! ```text
//!  lease ─▶ store ─▶ moves settled ─▶ core ─▶ loop ─┬─▶ told to end ─▶ lease given back
//!                        ▲                          │
//!                        └── drained: partitions ───┘
//!                            can come or go, or are others'
//! ```
//!
//! In: a stage, its configuration, the broker. Out: cores that run. Invariant: a core is opened
//! over exactly the partitions that the table of owners gives the instance, after all that was to
//! be given and taken was settled; what was committed is all that one life hands to the next.

use super::context::{Context, OpenBeside, Stage, State};
use super::disk::DiskStore;
use super::instance_state::{GoesOn, check_not_missed, shape, take_over};
use super::keeper;
use super::moves;
use super::number::Number;
use super::owners_watch::{OwnersWatch, Seat, Tables};
use super::ownership::Ownership;
use super::process::{Ended, Process};
use super::run::run;
use super::shutdown::Shutdown;
use super::telling::Telling;
use anyhow::Context as _;
use rhumb_bus::StateNote;
use rhumb_partition::{Directory, Owners};
use rhumb_stage::Rows;
use rhumb_stage::node::{BesideTables, Handover, Lease, Settled, Tenure};
use rhumb_stage::settlement::{LOOP, OUTBOX, next_epoch};
use rhumb_stage::store::Store;
use rhumb_wire::topology::{Source, StageName};
use std::sync::{Arc, PoisonError};

/// The bit from which on an epoch tells of the generation: job ids of state that was lost together
/// with the broker's buckets must not come again.
const GENERATION_IN_EPOCH: u32 = 24;

/// Runs a stage without state until it is told to end. `number`: the lease on its number, or on its
/// way.
pub(super) async fn one(
    stage: &Stage,
    mut context: Context,
    telling: Telling,
    number: Number,
    shutdown: &mut Shutdown,
) -> anyhow::Result<()> {
    context.owners = tables(stage, &context).await?;
    telling.health().prepares("begins");
    let watch = OwnersWatch::begin(context.buckets.clone(), context.owners.clone(), None);
    let mut process = Process {
        number: Some(number),
        ..Process::new(stage, context, telling, watch).await?
    };
    process.set(&process.orders.given().orders.set)?;
    let core = (stage.open)(&process.context)?;
    run(process, core, shutdown).await?;
    Ok(())
}

/// Runs a stage with state until it is told to end.
pub(super) async fn all(
    stage: &Stage,
    state: &State,
    mut context: Context,
    telling: Telling,
    shutdown: &mut Shutdown,
) -> anyhow::Result<()> {
    let name =
        StageName::from_name(stage.name).context("a stage with state is one of the pipeline")?;
    let instance = context.instance;
    telling.health().waits(format!(
        "waits for the lease of {}.{instance}: another process may hold it",
        stage.name
    ));
    let lasts = context.buckets.lease;
    let lease = tokio::select! {
        taken = keeper::take(&context.pipeline, stage.name, instance, context.life, lasts) => taken?,
        () = shutdown.signalled() => return Ok(()),
    };
    telling.health().prepares("opens its state");
    open_state(stage, state, &mut context, &lease).await?;
    context.owners = tables(stage, &context).await?;
    let seat = Seat {
        stage: name,
        instance,
    };
    let watch = OwnersWatch::begin(context.buckets.clone(), context.owners.clone(), Some(seat));
    shutdown.heed(
        watch.tables.clone(),
        seat,
        context.pipeline.moves.sigterm_wait,
    );
    // What is opened before the first life has these.
    context.partitions = context.owners_of(name).used_by(instance);
    let rows = rows(stage, state, &context)?;
    let mut process = Process {
        ownership: Some(lease),
        rows: Some(rows),
        ..Process::new(stage, context, telling, watch).await?
    };
    let mut is_first = true;
    loop {
        process
            .telling
            .health()
            .prepares("gives and takes partitions");
        let settled = tokio::select! {
            settled = settle(&mut process, state.beside, is_first) => settled?,
            () = shutdown.signalled() => {
                process.give_back_lease().await;
                return Ok(());
            }
        };
        begin_life(&mut process, name, settled, is_first).await?;
        is_first = false;
        process.set(&process.orders.given().orders.set)?;
        process.telling.health().prepares("reads its state");
        let core = (stage.open)(&process.context)?;
        match run(process, core, shutdown).await? {
            Ended::Told => return Ok(()),
            Ended::Reassigned(reassigned) => process = *reassigned,
        }
    }
}

/// Opens the store and checks that the state belongs to the crawl. One that is missed is not made
/// anew: what an operator sees in the folder is what is there.
async fn open_state(
    stage: &Stage,
    state: &State,
    context: &mut Context,
    lease: &Ownership,
) -> anyhow::Result<()> {
    let Context {
        pipeline,
        identity,
        buckets,
        instance,
        ..
    } = &*context;
    let note = buckets.register.state(stage.name, *instance).await?;
    let path = pipeline.instance_dir(stage.name, *instance);
    let place = path.display().to_string();
    if !path.exists() {
        check_not_missed(identity, note, &place)?;
    }
    let tables: Vec<_> = state
        .tables
        .iter()
        .map(|(table, _)| *table)
        .chain([LOOP, OUTBOX])
        .collect();
    let store: Arc<dyn Store> = Arc::new(DiskStore::open(&path, &tables, state.options)?);
    let stage = stage.name;
    let instance = *instance;
    match take_over(store.as_ref(), identity, note, &shape(pipeline), &place)? {
        GoesOn::Regularly => {}
        GoesOn::InNewGeneration => {
            let generation = identity.generation();
            tracing::warn!(
                stage,
                instance,
                generation,
                "a loss was accepted; going on after it"
            );
        }
        GoesOn::WithNothing => {
            tracing::warn!(
                stage,
                instance,
                "the state is gone, and its loss was accepted: it begins with nothing"
            );
        }
    }
    let noted = note.map_or(0, |note| note.epoch);
    let of_generation = u64::from(identity.generation() - 1) << GENERATION_IN_EPOCH;
    context.epoch = next_epoch(store.as_ref(), lease.taken().max(noted).max(of_generation))?;
    context.store = Some(store);
    Ok(())
}

/// Where the rows of the instance's partitions are.
fn rows(stage: &Stage, state: &State, context: &Context) -> anyhow::Result<Rows> {
    let owned = stage.sources.iter().filter_map(|source| match source {
        Source::Owned(edge) => Some(*edge),
        _ => None,
    });
    let edges = owned.collect();
    let tables = state.tables.clone();
    let directory = Directory::new(context.pipeline.partitions);
    Ok(Rows {
        store: context
            .store
            .clone()
            .context("a stage without state has no rows")?,
        tables,
        edges,
        directory,
        halve: state.halve,
    })
}

/// The owners of the partitions of all stages that a stage has to know of.
async fn tables(stage: &Stage, context: &Context) -> anyhow::Result<Tables> {
    let mut tables = Tables::new();
    let Some(name) = StageName::from_name(stage.name) else {
        return Ok(tables);
    };
    for of in name
        .watches()
        .chain(Some(name).filter(|name| name.row().has_state))
    {
        let begun = Owners::new(
            context.pipeline.partitions,
            context.pipeline.stages.of(of).replicas,
        );
        let table = context
            .buckets
            .owners
            .read_or_begin(of.name(), begun)
            .await?;
        tables.insert(of, table);
    }
    Ok(tables)
}

/// Gives and takes what is ready. `is_first`: no core of this process has worked yet.
async fn settle(
    process: &mut Process,
    open: Option<OpenBeside>,
    is_first: bool,
) -> anyhow::Result<Settled> {
    let desk = process.desk().context("a stage with state holds a lease")?;
    let context = &process.context;
    let left = context
        .beside
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let beside = match (left, open) {
        (Some(left), _) => BesideTables::Open(left),
        (None, Some(_)) => BesideTables::Closed,
        (None, None) => BesideTables::None,
    };
    let brought = std::mem::take(&mut process.brought);
    let of = desk.of.clone();
    let rows = desk.rows.clone();
    let handover = if is_first {
        Handover::at_start(of, rows, beside)
    } else {
        Handover::between(of, rows, beside, brought)
    };
    let open = || match open {
        Some(open) => open(context),
        None => anyhow::bail!("a stage that keeps nothing beside its tables"),
    };
    moves::settle(&desk, handover, open).await
}

/// Prepares the next life: its epoch, its partitions, and what it draws from.
async fn begin_life(
    process: &mut Process,
    stage: StageName,
    mut settled: Settled,
    is_first: bool,
) -> anyhow::Result<()> {
    let of = process
        .desk()
        .context("a stage with state holds a lease")?
        .of;
    let context = &mut process.context;
    let instance = context.instance;
    *context
        .beside
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = settled.beside.take();
    process.rows = Some(settled.rows.clone());
    context.owners.insert(stage, settled.table.clone());
    let lease = Lease {
        taken: process.ownership.as_ref().map_or(0, Ownership::taken),
        epoch: context.epoch,
    };
    let tenure = Tenure::begin(of, lease, settled, is_first)?;
    context.epoch = tenure.epoch();
    let note = StateNote {
        generation: context.identity.generation(),
        epoch: context.epoch,
    };
    context
        .buckets
        .register
        .note_state(stage.name(), instance, note)
        .await?;
    context.partitions = tenure.partitions().to_vec();
    process.drawn = tenure.drawn().clone();
    process.tenure = Some(tenure);
    Ok(())
}
