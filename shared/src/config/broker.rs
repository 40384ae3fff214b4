//! The section `broker` of `pipeline.yaml`.

use super::units::{Bytes, duration};
use serde::Deserialize;
use std::time::Duration;

/// The smallest `max_payload` that a broker may have: the default of a nats-server.
pub const MAX_PAYLOAD_MIN: Bytes = Bytes(1 << 20);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Broker {
    pub url: String,
    #[serde(deserialize_with = "duration")]
    pub sync_interval: Duration,
    pub max_payload: Bytes,
    #[serde(deserialize_with = "duration")]
    pub connect_report_every: Duration,
    #[serde(deserialize_with = "duration")]
    pub consumer_expiry: Duration,
}

/// A broker's URL as logs and errors have it: without name and password.
pub fn shown(url: &str) -> String {
    let Some((before, host)) = url.rsplit_once('@') else { return url.to_owned() };
    let scheme = before.split_once("://").map_or("nats", |(scheme, _)| scheme);
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, expected) in [
            ("nats://b.test:4222", "nats://b.test:4222"),
            ("tls://u:p@ss@b.test", "tls://b.test"),
            ("nats://token@[::1]:4222", "nats://[::1]:4222"),
            ("u:secret@b.test:4222", "nats://b.test:4222"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }
}
