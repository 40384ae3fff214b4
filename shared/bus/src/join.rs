//! How a process takes part in a crawl: it finds the crawl at the broker; or it begins the crawl,
//! or goes on with it, and makes what is missing there.
//!
//! In: a connection. Out: the [`Identity`] that holds, and all streams. Invariant: a process that
//! takes part has met no stream of another crawl, and none of its own crawl's was gone. Stages make
//! no bucket and no stream.

use super::Bus;
use super::info::stream_info;
use super::streams::{
    Buckets, find_buckets, find_register, make_streams, marked_streams, missing, stream_names,
};
use anyhow::Context as _;
use rhumb_config::Pipeline;
use rhumb_config::identity::{Identity, Mark, Misfit};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A new id: 128 random bits in hexadecimal digits.
pub fn new_id() -> String {
    // Each state has keys of its own from the system's source of randomness.
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

/// What a process that may begin a crawl does when it finds none at the broker.
#[derive(Clone, Debug)]
pub enum Begins {
    /// It begins a new one.
    Any,
    /// It begins this one.
    This(Box<Identity>),
}

/// What a stage finds at the broker.
#[derive(Debug)]
pub enum Found {
    /// All that it needs.
    Crawl(Box<(Buckets, Identity)>),
    /// Something was not made yet: what, in words.
    Lacks(String),
}

/// Looks for the crawl of a configuration at the broker, with all its buckets and streams. `id`:
/// the crawl that must have begun.
///
/// # Errors
/// What the broker holds does not fit, or is gone ([`Misfit`]); or it does not answer.
pub async fn find_crawl(bus: &Bus, pipeline: &Pipeline, id: Option<&str>) -> anyhow::Result<Found> {
    let lacks_crawl = || match id {
        Some(id) => Err(Misfit::gone(&format!("crawl {id}")).into()),
        None => Ok(Found::Lacks(format!("the crawl '{}'", pipeline.crawl))),
    };
    let Some(buckets) = find_buckets(bus).await? else {
        return lacks_crawl();
    };
    let Some((identity, _)) = buckets.register.read().await? else {
        return lacks_crawl();
    };
    identity.check(pipeline)?;
    Ok(
        match missing(bus, pipeline, &buckets.register, &identity).await? {
            Some(what) => Found::Lacks(what),
            None => Found::Crawl(Box::new((buckets, identity))),
        },
    )
}

/// Takes part in the crawl that the broker holds, or begins it; makes the streams that are missing.
///
/// # Errors
/// What the broker holds does not fit ([`Misfit`]), or it does not answer.
pub async fn join(
    bus: &Bus,
    pipeline: &Pipeline,
    buckets: &Buckets,
    begins: Begins,
) -> anyhow::Result<Identity> {
    let register = &buckets.register;
    let identity = match (register.read().await?, begins) {
        (Some((identity, _)), _) => identity,
        (None, begins) => {
            check_streams(bus, pipeline).await?;
            let begun = match begins {
                Begins::This(begun) => *begun,
                _ => Identity::new(new_id(), pipeline),
            };
            register.begin(begun).await?
        }
    };
    identity.check(pipeline)?;
    make_streams(bus, pipeline, register, &identity).await?;
    Ok(identity)
}

/// Checks before a crawl begins that no stream in its place is of another format. Those of this
/// format may have been made this moment, by a process that was faster.
async fn check_streams(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<()> {
    for stream in stream_names(bus, pipeline) {
        if let Some(info) = stream_info(bus, &stream).await? {
            Mark::of_usable_stream(&stream, &info.config.metadata)?;
        }
    }
    Ok(())
}

/// The identity of the crawl that the broker holds now; none when it holds none, or has lost the
/// bucket itself.
///
/// # Errors
/// The broker does not answer.
pub async fn held_now(bus: &Bus) -> anyhow::Result<Option<Identity>> {
    match find_register(bus).await? {
        Some(register) => Ok(register.read().await?.map(|(identity, _)| identity)),
        None => Ok(None),
    }
}

/// Begins another generation of a crawl, with what its streams hold. `revision` is that of the
/// identity which it replaces at the broker; none when the broker knows no crawl. All streams that
/// are missing are made.
///
/// # Errors
/// A stream belongs to another crawl or is of another format ([`Misfit`]), another process was
/// faster, or the broker does not answer.
pub async fn begin_generation(
    bus: &Bus,
    pipeline: &Pipeline,
    buckets: &Buckets,
    identity: &Identity,
    revision: Option<u64>,
) -> anyhow::Result<()> {
    let register = &buckets.register;
    let mut found = Vec::new();
    for stream in stream_names(bus, pipeline) {
        let Some(info) = stream_info(bus, &stream).await? else {
            continue;
        };
        let mark = Mark::of_usable_stream(&stream, &info.config.metadata)?;
        if mark.id != identity.mark.id {
            let what = format!(
                "the stream {stream} at the broker belongs to {mark}, expected is {}",
                identity.mark
            );
            return Err(Misfit(format!(
                "{what}: delete it, or give this crawl another name"
            ))
            .into());
        }
        found.push(info.config);
    }
    // The streams of further edges, which the configuration does not know.
    for config in marked_streams(bus, &identity.mark.id).await? {
        if found.iter().all(|found| found.name != config.name) {
            found.push(config);
        }
    }
    match revision {
        Some(revision) => register.replace(identity, revision).await?,
        None => anyhow::ensure!(
            register.begin(identity.clone()).await? == *identity,
            "another crawl has just begun"
        ),
    }
    for mut config in found {
        config.metadata.extend(identity.mark.metadata());
        let stream = config.name.clone();
        bus.jetstream
            .update_stream(config)
            .await
            .with_context(|| format!("stream {stream} cannot be changed"))?;
        register.note_made(&stream, identity).await?;
    }
    make_streams(bus, pipeline, register, identity).await
}
