//! The broker: connection, subjects, streams and consumers made from `pipeline.yaml`.
//!
//! Streams and consumers are created when a crawl begins or goes on, idempotently; one that exists with other
//! settings that cannot be changed in place is a clear error. Which there are, [`crate::topology`] says; their subjects and
//! settings come from the configuration.

mod consumers;
mod join;
mod lanes;
mod owners;
mod publisher;
mod register;
mod streams;
mod subjects;

pub use crate::config::shown;
pub use consumers::{
    Interested, Need, all_interested, consumer_name, edges_by_interest, interested, remove_consumer,
    required_by_interest, required_consumers,
};
pub(crate) use consumers::{Owner, owner_in, owner_name};
pub use join::{Begins, Found, begin_generation, find_crawl, held_now, join, new_id};
pub(crate) use lanes::priority;
pub use lanes::{LANES, LaneConsumer, lane_consumers, lane_of, lane_of_hash};
pub use owners::{OwnersBucket, OwnersTable};
pub use publisher::{Publisher, StreamAnswer};
pub use register::{Register, StateNote};
pub(crate) use streams::PRIORITY_GROUP;
pub use streams::{
    BUCKETS, Buckets, Consumer, LEASES, SCOPE, ensure_buckets, find_buckets, lasting_streams, leave_unarchived,
    make_streams, marked_streams, stream_info, stream_names,
};
pub(crate) use streams::{make_further_streams, missing};
pub use subjects::{ParkedUnder, Subjects};

use crate::config::{Bytes, ConfigError, Credentials, MAX_PAYLOAD_MIN, Pipeline, Servers};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A connection to the broker, shared by all that a process does there.
#[derive(Clone)]
pub struct Bus {
    /// Core NATS.
    pub client: async_nats::Client,
    /// JetStream.
    pub jetstream: async_nats::jetstream::Context,
    /// The subjects of this crawl.
    pub subjects: Arc<Subjects>,
}

/// First wait after a failed connect, doubling.
const RECONNECT_WAIT: Duration = Duration::from_millis(100);
/// Longest wait between two connects.
const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest time that a request to the broker itself may take.
const API_TIMEOUT: Duration = Duration::from_secs(10);

impl Bus {
    /// Connects to the broker at `url`, or to one of its servers when there are several. It tries again with back-off
    /// until the broker answers, and says so once and then every `broker.connect_report_every`. Reconnects by itself
    /// for ever.
    pub async fn connect(url: &str, pipeline: &Pipeline, name: &str) -> anyhow::Result<Bus> {
        let servers = Servers::read(url).map_err(|error| {
            ConfigError::Range(vec![format!("configuration key broker.url = '{}': {error}", shown(url))])
        })?;
        let started = Instant::now();
        let mut reported: Option<Instant> = None;
        let mut wait = RECONNECT_WAIT;
        loop {
            match options(name, servers.credentials.clone()).connect(servers.addresses.clone()).await {
                Ok(client) => {
                    check_version(url, &client.server_info().version)?;
                    check_payload(url, Bytes(client.server_info().max_payload as u64))?;
                    let mut jetstream = async_nats::jetstream::new(client.clone());
                    jetstream.set_timeout(API_TIMEOUT);
                    let subjects = Arc::new(Subjects::new(pipeline));
                    return Ok(Bus { client, jetstream, subjects });
                }
                Err(error) => {
                    if reported.is_none_or(|at| at.elapsed() >= pipeline.broker.connect_report_every) {
                        tracing::warn!(
                            broker = shown(url),
                            waited_s = started.elapsed().as_secs(),
                            %error,
                            "the broker cannot be reached; trying on (set broker.url, or start it there)"
                        );
                        reported = Some(Instant::now());
                    }
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RECONNECT_WAIT_MAX);
                }
            }
        }
    }

    /// The largest message that both take, the configuration (`broker.max_payload`) and the broker.
    pub fn max_payload(&self, pipeline: &Pipeline) -> Bytes {
        pipeline.broker.max_payload.min(Bytes(self.client.server_info().max_payload as u64))
    }

    /// Number of connects so far: changes with every reconnect, before anything is sent over the new connection.
    pub fn connections(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Says whether the connection stands right now.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }
}

/// The oldest nats-server that can be used, major and minor version: lanes need its priorities of consumers.
pub const OLDEST_BROKER: (u32, u32) = (2, 12);

fn check_version(url: &str, version: &str) -> Result<(), ConfigError> {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().ok());
    let is_old = matches!((numbers.next(), numbers.next()),
        (Some(Some(major)), Some(Some(minor))) if (major, minor) < OLDEST_BROKER);
    if !is_old {
        return Ok(());
    }
    let (major, minor) = OLDEST_BROKER;
    Err(ConfigError::Range(vec![format!(
        "configuration key broker.url = '{}': nats-server {version} runs there; {major}.{minor} or newer is needed",
        shown(url)
    )]))
}

fn check_payload(url: &str, max_payload: Bytes) -> Result<(), ConfigError> {
    if max_payload >= MAX_PAYLOAD_MIN {
        return Ok(());
    }
    Err(ConfigError::Range(vec![format!(
        "configuration key broker.url = '{}': the nats-server there takes messages of {max_payload}; {MAX_PAYLOAD_MIN} or \
         more are needed (max_payload in its configuration)",
        shown(url)
    )]))
}

/// Options of a connection with these credentials: the client does not look for them in the address.
pub fn identified(credentials: Option<Credentials>) -> async_nats::ConnectOptions {
    match credentials {
        None => async_nats::ConnectOptions::new(),
        Some(Credentials::Token(token)) => async_nats::ConnectOptions::with_token(token),
        Some(Credentials::User(name, password)) => async_nats::ConnectOptions::with_user_and_password(name, password),
    }
}

fn options(name: &str, credentials: Option<Credentials>) -> async_nats::ConnectOptions {
    identified(credentials)
        .name(name)
        .max_reconnects(None)
        .connection_timeout(Duration::from_secs(5))
        .request_timeout(Some(Duration::from_secs(5)))
        // Found by a ping: a broker that was cut off without a close.
        .ping_interval(Duration::from_secs(10))
        .subscription_capacity(64 * 1024)
        .reconnect_delay_callback(|attempts| {
            let doubling = RECONNECT_WAIT.saturating_mul(1 << attempts.min(10) as u32);
            doubling.min(RECONNECT_WAIT_MAX)
        })
        .event_callback(|event| async move {
            match event {
                async_nats::Event::Disconnected => tracing::warn!("the broker is gone; reconnecting"),
                // One event a lost message: never a line each.
                async_nats::Event::SlowConsumer(_) => {}
                event => tracing::debug!(%event, "broker connection"),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_whose_messages_are_too_small_is_refused() {
        assert!(check_payload("nats://b.test", Bytes(1 << 20)).is_ok());
        let text = check_payload("nats://u:secret@b.test:4222", Bytes(64 << 10)).unwrap_err().to_string();
        assert!(text.contains("broker.url = 'nats://b.test:4222'") && text.contains("64KiB; 1MiB or more"), "{text}");
    }

    #[test]
    fn a_broker_that_is_too_old_is_refused_by_name_and_version() {
        for version in ["2.12.0", "2.15.1", "3.0.0-beta.1", "2.12.0-RC.3", "unknown", ""] {
            assert!(check_version("nats://b.test", version).is_ok(), "{version}");
        }
        for version in ["2.11.11", "2.9.25", "1.4.1", "2.11.0-preview"] {
            let text = check_version("nats://b.test", version).unwrap_err().to_string();
            assert!(text.contains("broker.url") && text.contains(version) && text.contains("2.12"), "{text}");
        }
    }
}
