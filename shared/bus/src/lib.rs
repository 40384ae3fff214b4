//! The broker: connection, streams and consumers, as the table of edges and `pipeline.yaml` say.
//!
//! Streams and consumers are created when a crawl begins or goes on, idempotently; one that exists
//! with other settings that cannot be changed in place is a clear error. Which there are,
//! [`rhumb_wire::topology`] says; their settings come from the configuration.

mod access;
mod consumers;
mod credentials;
mod info;
mod join;
mod orders;
mod owners;
mod publisher;
mod redelivery;
mod register;
pub mod spool;
mod streams;
pub mod tls;

pub use access::{Access, Obstacle};
pub use consumers::{
    Interested, Need, Owner, all_interested, consumer_name, interested, owner_in, owner_name,
    remove_consumer, required_consumers,
};
pub use info::stream_info;
pub use join::{Begins, Found, begin_generation, find_crawl, held_now, join, new_id};
pub use orders::{OrdersBucket, OrdersGiven};
pub use owners::OwnersBucket;
pub use publisher::{Publisher, StreamAnswer};
pub use redelivery::give_again;
pub use register::{Register, StateNote};
pub use streams::{
    BUCKETS, Buckets, Consumer, LEASES, PRIORITY_GROUP, SCOPE, ensure_buckets, find_buckets,
    find_orders, leave_unarchived, make_further_streams, make_streams, marked_streams, missing,
    stream_names,
};

use async_nats::ConnectOptions;
use rhumb_config::{Bytes, ConfigError, MAX_PAYLOAD_MIN, Pipeline, shown};
use rhumb_wire::Subjects;
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

/// Returns whether a subject is one on which somebody awaits an answer. An answer to any other
/// would let who may only ask write where who answers may.
pub fn is_inbox(subject: &str) -> bool {
    subject.starts_with("_INBOX")
}

/// First wait after a failed connect, doubling.
const RECONNECT_WAIT: Duration = Duration::from_millis(100);
/// Longest wait between two connects.
const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(2);

impl Bus {
    /// Connects to the broker at `url`, or to one of its servers when there are several. It tries
    /// again with back-off until the broker lets it in, and says why not: once, when the reason
    /// changes, and every `broker.connect_report_every`. Reconnects by itself for ever.
    ///
    /// # Errors
    /// The configuration cannot be used: an address, a file, or a broker that is too old.
    pub async fn connect(url: &str, pipeline: &Pipeline, name: &str) -> anyhow::Result<Bus> {
        let access = Access::of(url, &pipeline.broker)?;
        let started = Instant::now();
        let mut reported: Option<(Instant, Obstacle)> = None;
        let mut wait = RECONNECT_WAIT;
        loop {
            let options = options(name, &access);
            let obstacle = match Bus::try_connect(options, &access, pipeline).await? {
                Ok(bus) => return Ok(bus),
                Err(obstacle) => obstacle,
            };
            let is_known = |(at, known): &(Instant, Obstacle)| {
                known.is_like(&obstacle) && at.elapsed() < pipeline.broker.connect_report_every
            };
            if !reported.as_ref().is_some_and(is_known) {
                let waited_s = started.elapsed().as_secs();
                tracing::warn!(broker = access.shown(), waited_s, "{obstacle}; trying on");
                reported = Some((Instant::now(), obstacle));
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RECONNECT_WAIT_MAX);
        }
    }

    /// Connects once more, for a thread of a process that has a connection. It says nothing of what
    /// becomes of this one: the process says it of the first.
    ///
    /// # Errors
    /// As for [`connect`](Bus::connect).
    pub async fn connect_again(url: &str, pipeline: &Pipeline, name: &str) -> anyhow::Result<Bus> {
        let access = Access::of(url, &pipeline.broker)?;
        loop {
            let options = options(name, &access).event_callback(|_| async {});
            if let Ok(bus) = Bus::try_connect(options, &access, pipeline).await? {
                return Ok(bus);
            }
            tokio::time::sleep(RECONNECT_WAIT).await;
        }
    }

    /// The same for somebody who waits: a broker that does not let it in ends it at once, and one
    /// that does not answer in time.
    ///
    /// # Errors
    /// As for [`connect`](Bus::connect), and an [`Obstacle`].
    pub async fn connect_within(
        at_most: Duration,
        url: &str,
        pipeline: &Pipeline,
        name: &str,
    ) -> anyhow::Result<Bus> {
        let access = Access::of(url, &pipeline.broker)?;
        let end = tokio::time::Instant::now() + at_most;
        let mut last = Obstacle::silent(&access);
        loop {
            let trying = Bus::try_connect(options(name, &access), &access, pipeline);
            match tokio::time::timeout_at(end, trying).await {
                Ok(Ok(Ok(bus))) => return Ok(bus),
                Ok(Ok(Err(obstacle))) if obstacle.is_lasting() => return Err(obstacle.into()),
                Ok(Ok(Err(obstacle))) => last = obstacle,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(last.into()),
            }
            tokio::time::sleep(RECONNECT_WAIT).await;
        }
    }

    async fn try_connect(
        options: ConnectOptions,
        access: &Access,
        pipeline: &Pipeline,
    ) -> anyhow::Result<Result<Bus, Obstacle>> {
        let client = match options.connect(access.addresses()).await {
            Ok(client) => client,
            Err(error) => return Ok(Err(Obstacle::of(&error, access))),
        };
        check_version(access.shown(), &client.server_info().version)?;
        check_payload(
            access.shown(),
            Bytes(client.server_info().max_payload as u64),
        )?;
        let mut jetstream = async_nats::jetstream::new(client.clone());
        jetstream.set_timeout(pipeline.broker.request_timeout);
        Ok(Ok(Bus {
            client,
            jetstream,
            subjects: Arc::new(pipeline.subjects()),
        }))
    }

    /// The largest message that both take, the configuration (`broker.max_payload`) and the broker.
    pub fn max_payload(&self, pipeline: &Pipeline) -> Bytes {
        pipeline
            .broker
            .max_payload
            .min(Bytes(self.client.server_info().max_payload as u64))
    }

    /// Number of connects so far: changes with every reconnect, before anything is sent over the
    /// new connection.
    pub fn connections(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Returns whether the connection stands right now.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }
}

/// The oldest nats-server that can be used, major and minor version: lanes need its priorities of
/// consumers.
pub const OLDEST_BROKER: (u32, u32) = (2, 12);

fn check_version(url: &str, version: &str) -> Result<(), ConfigError> {
    let mut numbers = version
        .split(['.', '-'])
        .map(|number| number.parse::<u32>().ok());
    let is_old = matches!((numbers.next(), numbers.next()),
        (Some(Some(major)), Some(Some(minor))) if (major, minor) < OLDEST_BROKER);
    if !is_old {
        return Ok(());
    }
    let (major, minor) = OLDEST_BROKER;
    Err(ConfigError::Range(vec![format!(
        "configuration key broker.url = '{}': nats-server {version} runs there; {major}.{minor} or \
         newer is needed",
        shown(url)
    )]))
}

fn check_payload(url: &str, max_payload: Bytes) -> Result<(), ConfigError> {
    if max_payload >= MAX_PAYLOAD_MIN {
        return Ok(());
    }
    Err(ConfigError::Range(vec![format!(
        "configuration key broker.url = '{}': the nats-server there takes messages of \
         {max_payload}; {MAX_PAYLOAD_MIN} or more are needed (max_payload in its configuration)",
        shown(url)
    )]))
}

fn options(name: &str, access: &Access) -> ConnectOptions {
    access
        .options()
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
        .event_callback(access.listener())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::Layers;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{SocketAddr, TcpListener};

    /// A broker that lets one client in, and answers no request.
    fn silent_broker() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let lines = BufReader::new(client.try_clone().unwrap()).lines();
            let info = format!(
                "INFO {{\"server_id\":\"silent\",\"version\":\"2.12.0\",\"headers\":true,\
                 \"max_payload\":8388608,\"host\":\"127.0.0.1\",\"port\":{}}}\r\n",
                address.port()
            );
            client.write_all(info.as_bytes()).unwrap();
            for line in lines.map_while(Result::ok) {
                if line == "PING" && client.write_all(b"PONG\r\n").is_err() {
                    return;
                }
            }
        });
        address
    }

    #[tokio::test]
    async fn a_request_has_failed_after_the_time_that_is_configured() {
        let set = [
            "network.allow_private_addresses=true",
            "broker.request_timeout=1s",
        ];
        let layers = Layers {
            set: set.map(str::to_owned).into(),
            ..Layers::default()
        };
        let pipeline = layers.load_with(std::iter::empty()).unwrap();
        let url = format!("nats://{}", silent_broker());
        let bus = Bus::connect(&url, &pipeline, "test").await.unwrap();
        let began = Instant::now();
        let answer = bus.jetstream.get_stream("any").await;
        let took = began.elapsed();
        assert!(answer.is_err());
        let expected = Duration::from_secs(1)..Duration::from_secs(5);
        assert!(expected.contains(&took), "it took {took:?}");
    }

    #[test]
    fn a_broker_whose_messages_are_too_small_is_refused() {
        assert!(check_payload("nats://b.test", Bytes(1 << 20)).is_ok());
        let text = check_payload("nats://u:secret@b.test:4222", Bytes(64 << 10))
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("broker.url = 'nats://b.test:4222'")
                && text.contains("64KiB; 1MiB or more"),
            "{text}"
        );
    }

    #[test]
    fn a_broker_that_is_too_old_is_refused_by_name_and_version() {
        for version in [
            "2.12.0",
            "2.15.1",
            "3.0.0-beta.1",
            "2.12.0-RC.3",
            "unknown",
            "",
        ] {
            assert!(check_version("nats://b.test", version).is_ok(), "{version}");
        }
        for version in ["2.11.11", "2.9.25", "1.4.1", "2.11.0-preview"] {
            let text = check_version("nats://b.test", version)
                .unwrap_err()
                .to_string();
            assert!(
                text.contains("broker.url") && text.contains(version) && text.contains("2.12"),
                "{text}"
            );
        }
    }
}
