//! The register of a crawl: what the broker knows of its identity, in the key-value bucket
//! `identity`.
//!
//! | key | value |
//! | --- | --- |
//! | `crawl` | the [`Identity`] |
//! | `state.<stage>.<instance>` | the [`StateNote`] of an instance that has begun its state |
//! | `stream.<name>` | the generation that made the stream |
//! | `configuration` | the configuration without what others should not see, for commands that have the broker's address alone |
//! | `restoring` | the checkpoint that the crawl is being restored from, until all of it has come |
//! | `restored` | the checkpoint that it was restored from |
//! | `conducted` | when the crawl was conducted for the first time (`rhumb conduct`), in seconds since 1970 |
//!
//! Invariant: whoever creates the key `crawl` first has begun the crawl; all others take part in it
//! or end.

use anyhow::Context as _;
use async_nats::jetstream::kv;
use rhumb_config::identity::{Identity, Misfit, WAYS_OUT};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

const CRAWL: &str = "crawl";
const CONFIGURATION: &str = "configuration";
const CONDUCTED: &str = "conducted";
const RESTORING: &str = "restoring";
const RESTORED: &str = "restored";
/// How often a note is written before the broker counts as one that does not answer, and the wait
/// between: a bucket that has just got more copies may have no leader for a moment.
const TRIES: u32 = 4;
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// What the broker knows of the state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateNote {
    /// The generation in which the state was last in use.
    pub generation: u32,
    /// The epoch in which it was: state of an earlier one is an earlier copy.
    pub epoch: u64,
}

/// The bucket.
#[derive(Clone, Debug)]
pub struct Register {
    bucket: kv::Store,
}

impl Register {
    pub(super) fn new(bucket: kv::Store) -> Self {
        Register { bucket }
    }

    /// The crawl's identity, and the revision under which it lies there; none when no crawl has
    /// begun.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn read(&self) -> anyhow::Result<Option<(Identity, u64)>> {
        let entry = self
            .bucket
            .entry(CRAWL)
            .await
            .context("the broker does not tell of the crawl's identity")?;
        let Some(entry) = entry.filter(|entry| entry.operation == kv::Operation::Put) else {
            return Ok(None);
        };
        let identity = serde_json::from_slice(&entry.value).map_err(|error| {
            Misfit(format!(
                "the crawl's identity at the broker is not understood ({error}): {WAYS_OUT}"
            ))
        })?;
        Ok(Some((identity, entry.revision)))
    }

    /// Begins a crawl, unless one has begun. Returns the identity that holds.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn begin(&self, identity: Identity) -> anyhow::Result<Identity> {
        match self
            .bucket
            .create(CRAWL, serde_json::to_vec(&identity)?.into())
            .await
        {
            Ok(_) => Ok(identity),
            Err(error) if error.kind() == kv::CreateErrorKind::AlreadyExists => {
                let there = self
                    .read()
                    .await?
                    .context("the crawl's identity went while it was read")?;
                Ok(there.0)
            }
            Err(error) => {
                Err(error).context("the crawl's identity cannot be written to the broker")
            }
        }
    }

    /// Puts an identity in the place of the one that lies there under this revision; fails when
    /// that has changed.
    ///
    /// # Errors
    /// It has, or the broker does not answer.
    pub async fn replace(&self, identity: &Identity, revision: u64) -> anyhow::Result<()> {
        let value = serde_json::to_vec(identity)?.into();
        self.bucket
            .update(CRAWL, value, revision)
            .await
            .context("the crawl's identity changed meanwhile")?;
        Ok(())
    }

    /// What is known of the state of an instance; none when it never began any.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn state(&self, stage: &str, instance: u16) -> anyhow::Result<Option<StateNote>> {
        let value = self.bucket.get(format!("state.{stage}.{instance}")).await?;
        Ok(value.and_then(|value| serde_json::from_slice(&value).ok()))
    }

    /// Notes that an instance has state in use.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn note_state(
        &self,
        stage: &str,
        instance: u16,
        note: StateNote,
    ) -> anyhow::Result<()> {
        self.put(
            &format!("state.{stage}.{instance}"),
            serde_json::to_vec(&note)?,
        )
        .await
    }

    /// An instance has no state any more that could be missed.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn forget_state(&self, stage: &str, instance: u16) -> anyhow::Result<()> {
        let key = format!("state.{stage}.{instance}");
        self.bucket
            .purge(&key)
            .await
            .with_context(|| format!("{key} cannot be removed at the broker"))
    }

    /// Keeps the configuration of the crawl, for commands. There is no secret in it.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn keep_configuration(&self, text: &str) -> anyhow::Result<()> {
        self.put(CONFIGURATION, text.as_bytes().to_vec()).await
    }

    /// The configuration of the crawl, without what others should not see; none when nobody has
    /// kept it.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn configuration(&self) -> anyhow::Result<Option<String>> {
        let text = self
            .bucket
            .get(CONFIGURATION)
            .await
            .context("the broker does not tell the crawl's configuration")?;
        Ok(text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The checkpoint that the crawl is being restored from; none when it is not, or all of it has
    /// come.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn restoring(&self) -> anyhow::Result<Option<String>> {
        self.checkpoint(RESTORING).await
    }

    /// The checkpoint that the crawl was restored from; none when it was not.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn restored(&self) -> anyhow::Result<Option<String>> {
        self.checkpoint(RESTORED).await
    }

    async fn checkpoint(&self, key: &str) -> anyhow::Result<Option<String>> {
        let of = self
            .bucket
            .get(key)
            .await
            .context("the broker does not tell whether the crawl is restored")?;
        Ok(of.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The crawl begins with this checkpoint.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn restores(&self, checkpoint: &str) -> anyhow::Result<()> {
        self.put(RESTORING, checkpoint.as_bytes().to_vec()).await
    }

    /// All of this checkpoint has come.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn is_restored(&self, checkpoint: &str) -> anyhow::Result<()> {
        self.put(RESTORED, checkpoint.as_bytes().to_vec()).await?;
        self.bucket
            .purge(RESTORING)
            .await
            .context("the broker does not note that the crawl is restored")
    }

    /// When the crawl was conducted for the first time: now, if it never was.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn conducted_since(&self) -> anyhow::Result<SystemTime> {
        let now = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_secs();
        match self.bucket.create(CONDUCTED, now.to_string().into()).await {
            Ok(_) => {}
            Err(error) if error.kind() == kv::CreateErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).context("the broker does not note that the crawl is conducted");
            }
        }
        let kept = self
            .bucket
            .get(CONDUCTED)
            .await?
            .and_then(|bytes| String::from_utf8_lossy(&bytes).parse().ok());
        Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(kept.unwrap_or(now)))
    }

    /// Returns whether this generation of the crawl has made a stream.
    pub(super) async fn has_made(&self, stream: &str, identity: &Identity) -> anyhow::Result<bool> {
        let made = self.bucket.get(format!("stream.{stream}")).await?;
        Ok(made
            .is_some_and(|generation| generation == identity.generation().to_string().as_bytes()))
    }

    /// Notes that this generation of the crawl has made a stream: from now on it is missed when it
    /// is gone.
    pub(super) async fn note_made(&self, stream: &str, identity: &Identity) -> anyhow::Result<()> {
        self.put(
            &format!("stream.{stream}"),
            identity.generation().to_string().into_bytes(),
        )
        .await
    }

    async fn put(&self, key: &str, value: Vec<u8>) -> anyhow::Result<()> {
        for _ in 1..TRIES {
            match self.bucket.put(key, value.clone().into()).await {
                Ok(_) => return Ok(()),
                Err(error) => tracing::debug!("{key} cannot be noted at the broker yet: {error}"),
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
        self.bucket
            .put(key, value.into())
            .await
            .with_context(|| format!("{key} cannot be noted at the broker"))?;
        Ok(())
    }
}
