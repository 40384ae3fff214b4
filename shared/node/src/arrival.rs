//! Arrival: how a stage finds the crawl that it takes part in, and which of its instances it is.
//!
//! In: the broker, the command line. Out: buckets, the crawl's identity, and the number of the
//! instance. A crawl that was not begun yet, or not wholly, is waited for: `rhumb init` makes it,
//! or the `rhumb` that runs it.

use super::Args;
use super::args::Instance;
use super::life::{is_final, new_life};
use super::ownership::{Ownership, holders};
use super::saying::Saying;
use rhumb_bus::{Buckets, Bus, Found, find_crawl};
use rhumb_config::identity::Identity;
use rhumb_config::{ConfigError, Pipeline};
use rhumb_telemetry::process::host_name;
use rhumb_wire::topology::StageName;
use std::time::{Duration, Instant};

/// Between two looks for the crawl.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Between two tries to get a number: another process may have been faster.
const TRY_AGAIN: Duration = Duration::from_millis(100);
/// Instances of a stage without state that have no number of their own: as many as a stage may
/// have.
const NUMBERS: u16 = 1000;

/// Waits for the crawl of a configuration. `id`: the one that must have begun; `says`: is told what
/// is waited for.
///
/// # Errors
/// What the broker holds does not fit the configuration, or is gone.
pub async fn crawl(
    bus: &Bus,
    pipeline: &Pipeline,
    id: Option<&str>,
    mut says: impl FnMut(&str),
) -> anyhow::Result<(Buckets, Identity)> {
    let mut saying = Saying::default();
    loop {
        let reason = match find_crawl(bus, pipeline, id).await {
            Ok(Found::Crawl(found)) => return Ok(*found),
            Ok(Found::Lacks(what)) => format!("{what} is not at the broker yet"),
            Err(error) if is_final(&error) => return Err(error),
            Err(error) => format!("{error:#}"),
        };
        says(&format!("waiting for `rhumb init`: {reason}"));
        if saying.is_due(Instant::now()) {
            tracing::info!(
                reason,
                "waiting for `rhumb init`, which makes a crawl's streams"
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The number of the instance, if the command line alone tells it: the one that is given, or of a
/// stage that keeps files the ordinal at the end of the host's name.
///
/// # Errors
/// It should tell, and does not.
pub(super) fn number(stage: &str, args: &Args) -> Result<Option<u16>, ConfigError> {
    let keeps_files = StageName::from_name(stage).is_some_and(|stage| stage.row().keeps_files);
    match args.instance {
        Instance::Number(number) => Ok(Some(number)),
        Instance::Auto if !keeps_files => Ok(None),
        Instance::Auto => {
            let host = host_name().unwrap_or_default();
            let ordinal = host
                .rsplit_once('-')
                .and_then(|(_, ordinal)| ordinal.parse().ok());
            let message = format!(
                "--instance auto: {stage} keeps files, so its number is the one at the end of the \
                 host's name, such as x-{stage}-0; this host is '{host}'. Give the number \
                 (--instance 0)"
            );
            ordinal.map(Some).ok_or(ConfigError::Range(vec![message]))
        }
    }
}

/// The lowest number that no other instance of a stage has, and the lease on it. A broker that
/// cannot give it now is waited for. `says`: is told what is waited for.
///
/// # Errors
/// All are taken.
pub(super) async fn free_number(
    buckets: &Buckets,
    stage: &str,
    mut says: impl FnMut(&str),
) -> anyhow::Result<(u16, Ownership)> {
    let mut saying = Saying::default();
    loop {
        let reason = match holders(&buckets.leases).await {
            Ok(held) => {
                let is_free = |number: &u16| !held.contains_key(&format!("{stage}.{number}"));
                let Some(number) = (0..NUMBERS).find(is_free) else {
                    anyhow::bail!(
                        "no number below {NUMBERS} is free for another instance of {stage}"
                    );
                };
                let life = new_life(&format!("{stage}-{number}"));
                match Ownership::try_take(
                    buckets.leases.clone(),
                    stage,
                    number,
                    life,
                    buckets.lease,
                )
                .await
                {
                    Ok(lease) => return Ok((number, lease)),
                    Err(reason) => reason,
                }
            }
            Err(error) => format!("{error:#}"),
        };
        says(&format!("waiting for a number: {reason}"));
        if saying.is_due(Instant::now()) {
            tracing::info!(stage, reason, "waiting for a free number");
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}
