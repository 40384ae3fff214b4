//! How URLs enter a crawl from outside: they are read and made canonical, their hosts join the
//! scope, and they are published on `urls.found`.
//!
//! Invariants: seeds that a crawl was given reach the broker, also when its start was cut short. A
//! host is in the scope before a page can lead to it.

mod given;
mod known;

pub(crate) use given::Given;
pub(crate) use known::{KnownPage, KnownPages};

use anyhow::Context as _;
use bytes::Bytes;
use rhumb_bus::{Bus, Publisher, SCOPE};
use rhumb_config::scope_entry::ScopeEntry;
use rhumb_config::{Follow, Pipeline};
use rhumb_stage::settlement::Outgoing;
use rhumb_telemetry::whole_file;
use rhumb_url::host_of;
use rhumb_wire::message::{Edge, FoundUrls, Origin, encode, frame};
use rhumb_wire::topology::Token;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seeds in one message.
const SEEDS_PER_MESSAGE: usize = 256;
/// How long the broker may take to store them.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);

/// Seeds of a crawl on their way to the broker: in a file, so that `--resume` goes on with those of
/// a start that was cut short.
pub(crate) struct Seeds {
    /// The seeds, those of such a start first.
    pub(crate) urls: Vec<String>,
    file: PathBuf,
}

/// The file, in the data directory.
pub(crate) const SEEDS: &str = "seeds.unstored";

impl Seeds {
    /// Puts seeds into the file in `data`.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn keep(data: &Path, seeds: &[String]) -> anyhow::Result<Self> {
        let file = data.join(SEEDS);
        let left = match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            left => left.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let urls: Vec<String> = left
            .lines()
            .map(str::to_owned)
            .chain(seeds.iter().cloned())
            .collect();
        if !urls.is_empty() {
            let written = whole_file::replace(&file, urls.join("\n").as_bytes());
            written.with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(Seeds { urls, file })
    }

    /// Removes the file: the broker has stored all seeds.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn stored(self) -> anyhow::Result<()> {
        match std::fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.file.display()))
            }
            _ => Ok(()),
        }
    }
}

/// A number that no other injection has: by it the URL-seen test knows an injection that is
/// delivered twice.
pub(crate) fn injection() -> u64 {
    let since_1970 = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default();
    // 64 bits of nanoseconds last until 2554.
    u64::try_from(since_1970.as_nanos())
        .unwrap_or(u64::MAX)
        .max(1)
}

/// Lets the hosts of seeds join the topic's scope, publishes the seeds, and waits until the broker
/// has stored both. `again` is the [`injection`] that wants them fetched although they were met
/// before, or 0.
pub(crate) async fn inject(
    bus: &Bus,
    follow: Follow,
    topic: &str,
    seeds: &[String],
    again: u64,
) -> anyhow::Result<()> {
    let origin = Origin {
        again,
        ..Origin::seed(topic)
    };
    let message = |urls: &[String]| {
        let payload = encode(&FoundUrls {
            origin: origin.clone(),
            urls: urls.iter().collect(),
            ..FoundUrls::default()
        });
        let id = format!("inject-{:016x}-{}", xxhash(&payload), std::process::id());
        found(bus, id, payload)
    };
    let hosts = seeds.iter().map(|seed| (topic, host_of(seed)));
    let entries = entries(bus, |_| follow, hosts);
    store(bus, entries, seeds.chunks(SEEDS_PER_MESSAGE).map(message)).await
}

/// Gives pages to the crawl as known, and waits until the broker has stored them. Their hosts join
/// the scopes of their topics. The ids of the messages begin with `id`, which no others have.
pub(crate) async fn give(
    bus: &Bus,
    pipeline: &Pipeline,
    pages: &[KnownPage],
    id: &str,
) -> anyhow::Result<()> {
    let payload = |page: &KnownPage| {
        encode(&FoundUrls {
            origin: Origin::known(&page.topic, page.depth, page.last),
            urls: [&page.url].into_iter().collect(),
            ..FoundUrls::default()
        })
    };
    let message = |(number, pages): (usize, &[KnownPage])| {
        let payloads: Vec<Bytes> = pages.iter().map(payload).collect();
        let payload = frame(Edge::UrlsFound, &payloads);
        found(bus, format!("{id}-{number}"), payload)
    };
    let hosts = pages.iter().map(|page| (&*page.topic, host_of(&page.url)));
    let entries = entries(bus, |topic| pipeline.scope_of(topic).follow, hosts);
    let messages = pages.chunks(SEEDS_PER_MESSAGE).enumerate().map(message);
    store(bus, entries, messages).await
}

/// A message with found URLs.
fn found(bus: &Bus, id: String, payload: Bytes) -> Outgoing {
    Outgoing {
        subject: bus.subjects.of(Edge::UrlsFound, &Token::None),
        id,
        headers: Vec::new(),
        payload,
    }
}

/// Publishes entries of the scope, then messages, and waits until the broker has stored both.
async fn store(
    bus: &Bus,
    entries: Vec<Outgoing>,
    messages: impl Iterator<Item = Outgoing>,
) -> anyhow::Result<()> {
    let stored = async {
        Publisher::new(bus).await?.store_all(entries).await;
        Publisher::new(bus).await?.store_all(messages).await;
        Ok(())
    };
    tokio::time::timeout(STORE_TIMEOUT, stored)
        .await
        .context("the broker did not store the URLs in time")?
}

/// What puts hosts into the scope bucket, each with its topic: a message to the stream behind it
/// for each entry.
fn entries<'a>(
    bus: &Bus,
    follow: impl Fn(&str) -> Follow,
    hosts: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<Outgoing> {
    let entry = |(topic, host)| {
        let follow = follow(topic);
        (follow != Follow::Any).then(|| ScopeEntry::of(follow, topic, host))
    };
    let entries: BTreeSet<ScopeEntry> = hosts.filter_map(entry).collect();
    let put = |entry: ScopeEntry| Outgoing {
        subject: bus.subjects.bucket_key(SCOPE, &entry.key()),
        id: format!("join-{}", entry.key()),
        headers: Vec::new(),
        payload: entry.value().into(),
    };
    entries.into_iter().map(put).collect()
}

fn xxhash(payload: &[u8]) -> u64 {
    // The envelope's checksum is the hash of the message.
    payload
        .get(8..16)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_a_start_that_was_cut_short_are_there_at_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["http://a.test/", "http://b.test/"].map(str::to_owned);
        assert!(Seeds::keep(folder.path(), &[]).unwrap().urls.is_empty());
        drop(Seeds::keep(folder.path(), std::slice::from_ref(&a)).unwrap());
        let both = Seeds::keep(folder.path(), std::slice::from_ref(&b)).unwrap();
        assert_eq!(both.urls, [a, b.clone()]);
        both.stored().unwrap();
        let last = Seeds::keep(folder.path(), std::slice::from_ref(&b)).unwrap();
        assert_eq!(last.urls, [b]);
        last.stored().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
