//! From the command line to a running stage: the same for all of them.

use super::args::{Args, Instance};
use super::arrival;
use super::context::{Context, Stage};
use super::front::Front;
use super::life::{is_final, new_life};
use super::lives;
use super::number::Number;
use super::ownership::Ownership;
use super::shutdown::Shutdown;
use super::telling::Telling;
use crate::health::NOT_CONNECTED;
use crate::{exit_codes, log, log_file};
use clap::{CommandFactory as _, FromArgMatches as _};
use rhumb_bus::{Buckets, Bus, make_further_streams, stream_info};
use rhumb_config::Pipeline;
use rhumb_stage::doubt::Past;
use rhumb_url::time::Timestamp;
use rhumb_wire::topology::Edge;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

/// Runs a stage until it is told to end, with an exit code as [`exit_codes::STAGE`] says.
pub fn main(stage: &Stage) -> ExitCode {
    let command = Args::command().name(stage.name).about(stage.about).after_help(format!(
        "{}\n\nRun by `rhumb crawl` or `rhumb up`; on its own for deployments that run each stage \
         by themselves:\n  BROKER=nats://127.0.0.1:4222\n  RHUMB__BROKER__URL=$BROKER <stage> \
         --config pipeline.yaml --instance 0 \\\n    --set 'network.user_agent=mybot/1.0 \
         (+https://example.org/bot)'",
        exit_codes::help(&exit_codes::STAGE)
    ));
    let args = match command
        .try_get_matches()
        .and_then(|matches| Args::from_arg_matches(&matches))
    {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    if args
        .supervisor
        .is_some_and(|supervisor| !ends_with(supervisor))
    {
        return ExitCode::FAILURE;
    }
    let pipeline = match args.load() {
        Ok(pipeline) => pipeline,
        Err(error) => {
            eprintln!("{}: {error}", stage.name);
            return ExitCode::from(exit_codes::BAD_INPUT);
        }
    };
    log::begin(&pipeline.log, stage.name);
    if let Instance::Number(number) = args.instance {
        log::instance_is(number);
    }
    if let Some(file) = &args.log {
        log_file::bound(file, pipeline.logs.bytes_max.0, pipeline.logs.kept);
    }
    if pipeline.broker.url.is_empty() {
        let needed = "a stage on its own needs a broker, such as nats://127.0.0.1:4222";
        log::say_end(
            stage.name,
            format_args!("configuration key broker.url is empty: {needed}"),
        );
        return ExitCode::from(exit_codes::BAD_INPUT);
    }
    // One thread: a stage is scaled by instances, and nothing crosses threads on the way of a
    // message.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            log::say_end(stage.name, format_args!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(start(stage, pipeline, &args));
    log::end();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(stage = stage.name, instance = log::instance(), "{error:#}");
            if is_final(&error) {
                ExitCode::from(exit_codes::BAD_INPUT)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

async fn start(stage: &Stage, mut pipeline: Pipeline, args: &Args) -> anyhow::Result<()> {
    let mut shutdown = Shutdown::listen(args.supervisor.is_some())?;
    // From the first moment on: who waits for the broker says so to whoever probes it.
    let front = Front::open(stage, &pipeline)?;
    front.health.waits(NOT_CONNECTED);
    let number = arrival::number(stage.name, args)?;
    let name = number.map_or_else(
        || stage.name.to_owned(),
        |number| format!("{}-{number}", stage.name),
    );
    let url = pipeline.broker.url.clone();
    let arrived = async {
        let bus = Bus::connect(&url, &pipeline, &name).await?;
        front.connected(&bus);
        let found = arrival::crawl(&bus, &pipeline, args.crawl_id.as_deref(), |what| {
            front.health.waits(what)
        })
        .await?;
        anyhow::Ok((bus, found))
    };
    let (bus, (buckets, identity)) = tokio::select! {
        arrived = arrived => arrived?,
        () = shutdown.signalled() => return Ok(()),
    };
    pipeline.broker.max_payload = bus.max_payload(&pipeline);
    // An earlier start may have made the bucket with another one.
    pipeline.ownership_lease = buckets.lease;
    if !stage.edges.is_empty() {
        make_further_streams(&bus, &pipeline, stage.edges, &buckets.register, &identity).await?;
    }
    let (instance, lease) = match number {
        Some(number) => (number, None),
        None => match free_number(stage, &buckets, &front, &mut shutdown).await? {
            Some((number, lease)) => (number, Some(lease)),
            None => return Ok(()),
        },
    };
    log::instance_is(instance);
    let life = new_life(&format!("{}-{instance}", stage.name));
    let state = stage.state.map(|state| state(&pipeline));
    let past = past(&bus).await?;
    let context = Context {
        pipeline,
        instance,
        bus,
        buckets,
        identity,
        store: None,
        uncommitted: Arc::default(),
        beside: Mutex::default(),
        epoch: 0,
        partitions: Vec::new(),
        owners: BTreeMap::new(),
        life,
        past,
        now: Timestamp::ZERO,
    };
    let telling = Telling::begin(front, stage.name, &context);
    match state {
        None => {
            let taken = || Number::take(&context.buckets, stage.name, instance, life);
            let number = lease.map_or_else(taken, |lease| Number::Held(Box::new(lease)));
            lives::one(stage, context, telling, number, &mut shutdown).await
        }
        Some(state) => lives::all(stage, &state, context, telling, &mut shutdown).await,
    }
}

/// Whether contacts of the crawl have succeeded: then there was a response in the stream of pages,
/// or still is. One that began anew with the broker's memory tells nothing.
async fn past(bus: &Bus) -> anyhow::Result<Past> {
    let pages = stream_info(bus, &bus.subjects.stream(Edge::Pages.name())).await?;
    let has_pages = pages.is_some_and(|pages| pages.state.last_sequence > 0);
    Ok(if has_pages {
        Past::Successful
    } else {
        Past::Unknown
    })
}

/// The lowest number that is free, and the lease on it; none when the process is told to end before
/// it has one.
async fn free_number(
    stage: &Stage,
    buckets: &Buckets,
    front: &Front,
    shutdown: &mut Shutdown,
) -> anyhow::Result<Option<(u16, Ownership)>> {
    let free = arrival::free_number(buckets, stage.name, |what| front.health.waits(what));
    tokio::select! {
        free = free => Ok(Some(free?)),
        () = shutdown.signalled() => Ok(None),
    }
}

/// Has the system kill this process when its supervisor is gone: a crawl that is resumed must not
/// meet the stages of the one that was killed. False when it is gone already.
fn ends_with(supervisor: u32) -> bool {
    let set = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let parent = rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero);
    set.is_ok() && parent.is_some_and(|parent| i64::from(parent.get()) == i64::from(supervisor))
}
