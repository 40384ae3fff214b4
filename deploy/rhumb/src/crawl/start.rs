//! The start of a crawl: what can be checked beforehand is checked; then broker, streams, processes
//! and seeds. A crawl whose stages are deployed is waited for and taken over: `rhumb init` makes
//! its streams.
//!
//! In: a plan. Out: [`Parts`]: all that runs. What was started ends when its value is dropped.

use super::Stages;
use super::fleet::Fleet;
use super::front::Front;
use super::here::Here;
use super::kubernetes::Kubernetes;
use super::membership::Membership;
use super::partitions::Partitions;
use super::plan::{Plan, Runs};
use super::ports::check_ports;
use super::restoring::check_restored;
use super::settings::check_set;
use super::tide::Tide;
use crate::binaries;
use crate::broker::{Broker, BrokerOptions};
use crate::control::SUPERVISOR;
use crate::handle::{self, Handle, assignment, keep};
use crate::lock::{LOCK, lock};
use crate::processes::{Launch, Processes};
use crate::report;
use crate::seeds::{SEEDS, Seeds, inject};
use anyhow::Context as _;
use async_nats::jetstream::kv;
use rhumb_bus::spool::Sweeper;
use rhumb_bus::{
    Buckets, Bus, ensure_buckets, find_buckets, give_again, leave_unarchived, make_streams,
};
use rhumb_config::identity::{Identity, Misfit};
use rhumb_config::shown;
use rhumb_config::{ConfigError, Durability, Follow, Pipeline, open_url_cache};
use rhumb_node::{Ownership, holders, new_life, wait_for_crawl};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks whether leases of the dead have ended.
const LEASES_EVERY: Duration = Duration::from_millis(100);

/// What runs of a crawl that has started, in the order in which it ends when it is dropped.
pub(super) struct Parts {
    /// The stages, and the private broker.
    pub(super) stages: Stages,
    /// Its health, and what is told of the crawl.
    pub(super) front: Front,
    /// The connection to the broker.
    pub(super) bus: Bus,
    /// Its key-value buckets.
    pub(super) buckets: Buckets,
    /// Which crawl it is.
    pub(super) identity: Identity,
    /// The instances that partitions are to be shared out among.
    pub(super) partitions: Partitions,
    /// How high the streams stand.
    pub(super) tide: Tide,
    /// The configuration without what others should not see; none where others keep it.
    pub(super) configuration: Option<String>,
    /// How long the crawl has been conducted.
    pub(super) elapsed: Duration,
    /// Number of connects after which the streams were made.
    pub(super) connections: u64,
    /// While it lasts nobody else runs this crawl on the broker.
    pub(super) lease: Ownership,
}

/// Starts a crawl here, or takes over one whose stages are deployed.
///
/// # Errors
/// The configuration cannot work, another `rhumb` runs the crawl, or a part does not start.
pub(super) async fn start(plan: &Plan) -> anyhow::Result<Parts> {
    match &plan.runs {
        Runs::Here => start_here(plan).await,
        Runs::Deployed { statefulsets } => take_over_fleet(plan, statefulsets).await,
    }
}

async fn start_here(plan: &Plan) -> anyhow::Result<Parts> {
    let pipeline = &plan.pipeline;
    check(pipeline)?;
    let data = data_directory(pipeline)?;
    let lock = lock(&data.join(LOCK)).await?;
    let front = Front::open(pipeline)?;
    let broker = match pipeline.broker.url.is_empty() {
        true => Some((
            start_broker(pipeline, &data).await?,
            Sweeper::open(pipeline)?,
        )),
        false => None,
    };
    let url = broker
        .as_ref()
        .map_or(pipeline.broker.url.as_str(), |(broker, _)| broker.url())
        .to_owned();
    let bus = connect(&url, pipeline).await?;
    front.connected(&bus);
    let (buckets, lease) = take_over(&bus, pipeline, broker.is_some(), &url).await?;
    if plan.accept_loss && plan.seeds.is_empty() && !data.join(SEEDS).exists() {
        check_scope(&buckets, pipeline).await?;
    }
    let restore = plan.restore.as_ref();
    let membership = Membership {
        pipeline,
        data: &data,
        bus: &bus,
        buckets: &buckets,
        restore,
    };
    match restore {
        Some(restore) => {
            if !restore.goes_on(&buckets, pipeline).await? {
                membership.check_new().await?;
                restore.announce(&buckets).await?;
            }
            restore.prepare(&buckets, pipeline).await?;
        }
        None => check_restored(&buckets).await?,
    }
    check_set(&buckets, &plan.layers, pipeline).await?;
    let mut tide = Tide::open(&data, pipeline)?;
    let identity = membership.settle(&mut tide, plan.accept_loss).await?;
    let product_token = pipeline.product_token();
    tracing::info!(
        crawl = pipeline.crawl,
        id = identity.mark.id,
        product_token,
        "crawling"
    );
    // Nobody has written what a crawl or a checkpoint keeps.
    let is_kept = plan.layers.file == Some(Pipeline::kept_file(&data)) || restore.is_some();
    if !is_kept {
        handle::warn(pipeline);
    }
    leave_unarchived(&bus, pipeline).await?;
    give_again_if_alone(&bus, &buckets, pipeline).await;

    keep(&plan.layers, &data)?;
    let configuration = plan.layers.public_text()?;
    buckets.register.keep_configuration(&configuration).await?;
    if let Some(restore) = restore {
        restore.send(&bus, &buckets, &identity).await?;
    }
    let seeds = Seeds::keep(&data, &plan.seeds)?;
    let mut processes = new_processes(pipeline, &data, &url, identity.mark.id.clone())?;
    let mut partitions = Partitions::open(&buckets, pipeline, &data).await?;
    // A conductor may have stopped it before.
    partitions.stop(false).await?;
    processes.start_stateless(pipeline)?;
    report::remove(&data);
    Handle {
        broker: url,
        crawl: pipeline.crawl.clone(),
    }
    .write(&data)?;
    inject(
        &bus,
        pipeline.scope_of(&plan.topic).follow,
        &plan.topic,
        &seeds.urls,
        0,
    )
    .await?;
    seeds.stored()?;
    let stages = Stages::Here(Box::new(Here::new(broker, processes, lock, pipeline)));
    let elapsed = Duration::ZERO;
    let connections = bus.connections();
    let configuration = Some(configuration);
    Ok(Parts {
        stages,
        front,
        bus,
        buckets,
        identity,
        partitions,
        tide,
        configuration,
        elapsed,
        connections,
        lease,
    })
}

/// Takes over a crawl whose stages are deployed. One that was stopped goes on, unless its time is
/// over.
async fn take_over_fleet(
    plan: &Plan,
    statefulsets: &BTreeMap<String, String>,
) -> anyhow::Result<Parts> {
    let pipeline = &plan.pipeline;
    let url = &pipeline.broker.url;
    let kubernetes = if statefulsets.is_empty() {
        None
    } else {
        Some(Kubernetes::of_this_pod(statefulsets)?)
    };
    let front = Front::open(pipeline)?;
    let bus = connect(url, pipeline).await?;
    front.connected(&bus);
    // Before the look: what goes with the broker's memory later is made again.
    let connections = bus.connections();
    let (buckets, identity) = match begun(&bus, pipeline).await? {
        // All of it was there once: what went with the broker's memory is made again here.
        Some(begun) => begun,
        None => wait_for_crawl(&bus, pipeline, None, |what| front.health.waits(what)).await?,
    };
    check_restored(&buckets).await?;
    front
        .health
        .waits("waits for the lease of the crawl's conductor: another may hold it");
    let lease = take_lease(buckets.leases.clone(), buckets.lease, pipeline, url).await?;
    let elapsed = buckets
        .register
        .conducted_since()
        .await?
        .elapsed()
        .unwrap_or_default();
    let mut partitions = Partitions::find(&buckets, pipeline).await?;
    if plan.at_most.is_none_or(|at_most| elapsed < at_most) {
        partitions.stop(false).await?;
    }
    let product_token = pipeline.product_token();
    tracing::info!(
        crawl = pipeline.crawl,
        id = identity.mark.id,
        product_token,
        broker = shown(url),
        "conducting"
    );
    let stages = Stages::Deployed(Box::new(Fleet::new(
        buckets.leases.clone(),
        buckets.lease,
        kubernetes,
    )));
    let tide = Tide::in_memory(pipeline);
    let configuration = None;
    Ok(Parts {
        stages,
        front,
        bus,
        buckets,
        identity,
        partitions,
        tide,
        configuration,
        elapsed,
        connections,
        lease,
    })
}

/// The crawl that the broker holds, with streams that it lost with its memory made again; none when
/// it holds none, or when `rhumb init` has not ended yet.
async fn begun(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<Option<(Buckets, Identity)>> {
    let Some(buckets) = find_buckets(bus).await? else {
        return Ok(None);
    };
    let Some((identity, _)) = buckets.register.read().await? else {
        return Ok(None);
    };
    if buckets.register.configuration().await?.is_none() {
        return Ok(None);
    }
    identity.check(pipeline)?;
    make_streams(bus, pipeline, &buckets.register, &identity).await?;
    Ok(Some((buckets, identity)))
}

/// Checks that the broker still holds the scope, which is kept nowhere else: without it every link
/// would be filtered.
async fn check_scope(buckets: &Buckets, pipeline: &Pipeline) -> anyhow::Result<()> {
    let held = buckets
        .scope
        .status()
        .await
        .context("the broker does not tell of the scope")?;
    let follows_some = |name: &String| pipeline.scope_of(name).follow != Follow::Any;
    if pipeline.scope.follow != Follow::Any
        && pipeline.topics.keys().all(follows_some)
        && held.values() == 0
    {
        return Err(Misfit(
            "the broker holds no scope any more, so no link could be followed: name the seeds \
             again (rhumb crawl --resume --accept-loss SEED...), and those that were injected"
                .to_owned(),
        )
        .into());
    }
    Ok(())
}

/// Checks what a stage would find out only when the crawl is under way.
fn check(pipeline: &Pipeline) -> anyhow::Result<()> {
    let stages = &pipeline.stages;
    check_replicas(pipeline)?;
    check_credentials(pipeline)?;
    for (key, cache) in [
        ("host-splitter", &stages.host_splitter.cache),
        ("dedup", &stages.dedup.cache),
    ] {
        open_url_cache(&format!("stages.{key}.cache"), cache)?;
    }
    scheduler::quality::Qualities::open(pipeline)?;
    for (stage, common) in stages.common() {
        check_ports(stage, common, common.replicas)?;
    }
    Ok(())
}

/// A private broker is one server.
fn check_replicas(pipeline: &Pipeline) -> Result<(), ConfigError> {
    let streams = pipeline.edges.streams();
    let edges = [("defaults", &pipeline.edges.defaults)]
        .into_iter()
        .chain(streams);
    let edges = edges.map(|(key, edge)| (format!("edges.{key}.replicas"), edge.replicas));
    let mut keys =
        std::iter::once(("broker.replicas".to_owned(), pipeline.broker.replicas)).chain(edges);
    match keys
        .find(|(_, replicas)| *replicas > 1)
        .filter(|_| pipeline.broker.url.is_empty())
    {
        None => Ok(()),
        Some((key, replicas)) => Err(ConfigError::Range(vec![format!(
            "configuration key {key} = {replicas}: the private broker is one server; accepted is \
             1, or set broker.url to a cluster of at least {replicas}"
        )])),
    }
}

/// A private broker lets in who knows its token, and listens on loopback without TLS.
fn check_credentials(pipeline: &Pipeline) -> Result<(), ConfigError> {
    let broker = &pipeline.broker;
    let mut files = [("credentials", &broker.credentials), ("ca", &broker.ca)].into_iter();
    match files
        .find(|(_, file)| !file.as_os_str().is_empty())
        .filter(|_| broker.url.is_empty())
    {
        None => Ok(()),
        Some((key, file)) => Err(ConfigError::Range(vec![format!(
            "configuration key broker.{key} = '{}': it is for a broker of yours, and broker.url \
             names none; accepted is nothing, or set broker.url",
            file.display()
        )])),
    }
}

/// Creates the data directory and returns its absolute path.
fn data_directory(pipeline: &Pipeline) -> anyhow::Result<PathBuf> {
    let data = &pipeline.data;
    std::fs::create_dir_all(data)
        .with_context(|| format!("cannot create the data directory {}", data.display()))?;
    std::fs::canonicalize(data).with_context(|| format!("cannot find {}", data.display()))
}

async fn start_broker(pipeline: &Pipeline, data: &Path) -> anyhow::Result<Broker> {
    let mut options = BrokerOptions::new(data);
    options.sync_interval = match pipeline.durability {
        Durability::Process => pipeline.broker.sync_interval,
        Durability::Power => Duration::ZERO,
    };
    options.max_payload = u32::try_from(pipeline.broker.max_payload.0).unwrap_or(u32::MAX);
    Broker::start(options)
        .await
        .context("the private broker cannot be started")
}

async fn connect(url: &str, pipeline: &Pipeline) -> anyhow::Result<Bus> {
    let bus = Bus::connect(url, pipeline, "rhumb").await?;
    let wanted = pipeline.broker.max_payload;
    let max_payload = bus.max_payload(pipeline);
    if max_payload < wanted {
        tracing::warn!(
            "the broker takes messages of at most {max_payload} (max_payload in its \
             configuration), not the {wanted} of broker.max_payload: longer pages are cut there"
        );
    }
    Ok(bus)
}

/// Makes the buckets, and takes the lease of the crawl's supervisor.
async fn take_over(
    bus: &Bus,
    pipeline: &Pipeline,
    broker_is_ours: bool,
    url: &str,
) -> anyhow::Result<(Buckets, Ownership)> {
    let buckets = ensure_buckets(bus, pipeline).await?;
    let leases = buckets.leases.clone();
    if broker_is_ours {
        // Leases that are there are those of a `rhumb` that was killed and of its stages, which
        // ended with it: we have the lock on the data directory. Nobody need wait for their end.
        for key in holders(&leases).await?.into_keys() {
            let _ = leases.purge(key).await;
        }
    }
    let lease = take_lease(leases, buckets.lease, pipeline, url).await?;
    Ok((buckets, lease))
}

/// Has the broker give out at once what processes had that were killed, unless others still work on
/// the crawl. Without that it is waited for.
async fn give_again_if_alone(bus: &Bus, buckets: &Buckets, pipeline: &Pipeline) {
    let given = async {
        // Every process holds a lease; one of them is ours. Those of the dead end up to a quarter
        // of their length after that of their supervisor, which was renewed with them.
        let until = Instant::now() + buckets.lease / 2;
        loop {
            if holders(&buckets.leases).await?.len() <= 1 {
                return give_again(bus, pipeline).await;
            }
            if Instant::now() >= until {
                return Ok(0);
            }
            tokio::time::sleep(LEASES_EVERY).await;
        }
    };
    match given.await {
        Ok(0) => {}
        Ok(messages) => tracing::info!(
            messages,
            "messages that dead processes had in hand are given out again"
        ),
        Err(error) => {
            tracing::warn!("messages that dead processes had in hand are waited for: {error:#}")
        }
    }
}

/// Takes the lease, and waits for that of a `rhumb` that was killed to end.
async fn take_lease(
    leases: kv::Store,
    lease: Duration,
    pipeline: &Pipeline,
    url: &str,
) -> anyhow::Result<Ownership> {
    let taken =
        Ownership::take_from_the_dead(leases, SUPERVISOR, 0, new_life(SUPERVISOR), lease).await;
    taken.map_err(|other| {
        anyhow::anyhow!(
            "another rhumb runs the crawl '{}' on {} ({}): give this one a name of its own (--set \
             crawl=NAME)",
            pipeline.crawl,
            shown(url),
            other.whereabouts
        )
    })
}

fn new_processes(
    pipeline: &Pipeline,
    data: &Path,
    broker: &str,
    crawl_id: String,
) -> anyhow::Result<Processes> {
    let set = vec![
        assignment("data", &data.display().to_string()),
        format!("limits.max_pages={}", pipeline.limits.max_pages),
    ];
    Processes::new(Launch {
        binaries: binaries::folder()?,
        config: Pipeline::kept_file(data),
        broker: broker.to_owned(),
        crawl_id,
        set,
        logs: data.join("logs"),
    })
}
