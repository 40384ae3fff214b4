//! How a process takes part in a crawl: it finds the crawl's identity at the broker, or begins the crawl.
//!
//! In: a connection and the buckets. Out: the [`Identity`] that holds, and all streams. Invariant: a process that has joined
//! has met no stream of another crawl, and none of its own crawl's was gone.

use super::Bus;
use super::streams::{Buckets, ensure_streams, find_register, marked_streams, stream_info, stream_names};
use crate::config::Pipeline;
use crate::identity::{Identity, Mark, Misfit};
use crate::topology::Edge;
use anyhow::Context as _;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A new id: 128 random bits in hexadecimal digits.
pub fn new_id() -> String {
    // Each state has keys of its own from the system's source of randomness.
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

/// What a process does that finds no crawl at the broker.
#[derive(Clone, Debug)]
pub enum Begins {
    /// It begins a new one.
    Any,
    /// It begins this one.
    This(Box<Identity>),
    /// It begins none: the crawl with this id had begun.
    None(String),
}

impl Begins {
    /// None if it is known which crawl it must be, else any.
    pub fn unless_known(id: Option<&str>) -> Begins {
        id.map_or(Begins::Any, |id| Begins::None(id.to_owned()))
    }
}

/// Takes part in the crawl that the broker holds, or begins it; makes the streams that are missing.
///
/// # Errors
/// What the broker holds does not fit ([`Misfit`]), or it does not answer.
pub async fn join(
    bus: &Bus,
    pipeline: &Pipeline,
    further: &[Edge],
    buckets: &Buckets,
    begins: Begins,
) -> anyhow::Result<Identity> {
    let register = &buckets.register;
    let identity = match (register.read().await?, begins) {
        (Some((identity, _)), _) => identity,
        (None, Begins::None(id)) => return Err(Misfit::gone(&format!("crawl {id}")).into()),
        (None, begins) => {
            check_streams(bus, pipeline, further).await?;
            let begun = match begins {
                Begins::This(begun) => *begun,
                _ => Identity::new(new_id(), pipeline),
            };
            register.begin(begun).await?
        }
    };
    identity.check(pipeline)?;
    ensure_streams(bus, pipeline, further, register, &identity).await?;
    Ok(identity)
}

/// Checks before a crawl begins that no stream in its place is of another format. Those of this format may have been made
/// this moment, by a process that was faster.
async fn check_streams(bus: &Bus, pipeline: &Pipeline, further: &[Edge]) -> anyhow::Result<()> {
    for stream in stream_names(bus, pipeline, further)? {
        if let Some(info) = stream_info(bus, &stream).await? {
            Mark::of_usable_stream(&stream, &info.config.metadata)?;
        }
    }
    Ok(())
}

/// The identity of the crawl that the broker holds now; none when it holds none, or has lost the bucket itself.
///
/// # Errors
/// The broker does not answer.
pub async fn held_now(bus: &Bus) -> anyhow::Result<Option<Identity>> {
    match find_register(bus).await? {
        Some(register) => Ok(register.read().await?.map(|(identity, _)| identity)),
        None => Ok(None),
    }
}

/// Begins another generation of a crawl, with what its streams hold. `revision` is that of the identity which it replaces
/// at the broker; none when the broker knows no crawl. All streams that are missing are made.
///
/// # Errors
/// A stream belongs to another crawl or is of another format ([`Misfit`]), another process was faster, or the broker does not answer.
pub async fn begin_generation(
    bus: &Bus,
    pipeline: &Pipeline,
    buckets: &Buckets,
    identity: &Identity,
    revision: Option<u64>,
) -> anyhow::Result<()> {
    let register = &buckets.register;
    let mut found = Vec::new();
    for stream in stream_names(bus, pipeline, &[])? {
        let Some(info) = stream_info(bus, &stream).await? else { continue };
        let mark = Mark::of_usable_stream(&stream, &info.config.metadata)?;
        if mark.id != identity.mark.id {
            let what = format!("the stream {stream} at the broker belongs to {mark}, expected is {}", identity.mark);
            return Err(Misfit(format!("{what}: delete it, or give this crawl another name")).into());
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
        None => anyhow::ensure!(register.begin(identity.clone()).await? == *identity, "another crawl has just begun"),
    }
    for mut config in found {
        config.metadata = identity.mark.metadata();
        let stream = config.name.clone();
        bus.jetstream.update_stream(config).await.with_context(|| format!("stream {stream} cannot be changed"))?;
        register.note_made(&stream, identity).await?;
    }
    ensure_streams(bus, pipeline, &[], register, identity).await
}
