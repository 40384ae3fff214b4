//! Who is an instance of a stage with state: a lease in a key-value bucket.
//!
//! The table of [owners](rhumb_partition::Owners) says which instance has which partition; who
//! holds the instance's lease may write for it. The lease is renewed every quarter of its lifetime;
//! its holder counts it from before it asked, by its own monotonic clock, so it knows the lease to
//! be over before the broker lets anybody else have it, and stops before it writes. A lease that
//! lapsed because the broker was away is taken again when it is back. Who waits for a lease says
//! so, and why, once a minute.
//!
//! Invariant: at most one process at a time commits for an instance. The epoch (1 + the larger of
//! the lease's revision and the epoch stored with the state) grows whenever the lease is taken:
//! also when its holder takes it again after it had lapsed, since another process may have come and
//! gone in between.

use super::saying::Saying;
use async_nats::jetstream::kv;
use futures::TryStreamExt as _;
use rhumb_telemetry::process::host_name;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is said of a broker that does not.
const SILENT: &str = "the broker does not answer";

/// A lease, renewed by a task of its own. The supervisor of a crawl holds one, too.
pub struct Ownership {
    lease: Lease,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

/// A key of the bucket, and what its holder writes there.
#[derive(Clone)]
struct Lease {
    bucket: kv::Store,
    key: String,
    /// Of the holder; no other process has the same.
    life: u64,
    value: String,
    lasts: Duration,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Nothing may be committed after it.
    deadline: Instant,
    revision: u64,
    /// The revision under which it was taken.
    taken: u64,
    /// Somebody else holds the lease now.
    lost: bool,
}

impl Ownership {
    /// Takes the lease, waiting for that of an earlier owner to end, and for a broker that cannot
    /// give it now.
    pub async fn take(
        bucket: kv::Store,
        stage: &str,
        instance: u16,
        life: u64,
        lasts: Duration,
    ) -> Self {
        let lease = Lease::new(bucket, stage, instance, life, lasts);
        let mut saying = Saying::default();
        let state = loop {
            let reason = match lease.take().await {
                Ok(state) => break state,
                Err(reason) => reason,
            };
            if saying.is_due(Instant::now()) {
                tracing::info!(lease = lease.key, reason, "waiting for the lease");
            }
            tokio::time::sleep(lasts / 20).await;
        };
        Ownership::held(lease, state)
    }

    /// Takes the lease, waiting for that of an owner who died to end, however long the broker is
    /// away meanwhile.
    ///
    /// # Errors
    /// Its holder, who lives: the lease was renewed while this waited.
    pub async fn take_from_the_dead(
        bucket: kv::Store,
        stage: &str,
        instance: u16,
        life: u64,
        lasts: Duration,
    ) -> Result<Self, Holder> {
        let key = lease_key(stage, instance);
        tokio::select! {
            biased;
            taken = Ownership::take(bucket.clone(), stage, instance, life, lasts) => Ok(taken),
            holder = renewing(&bucket, &key, life, lasts / 8) => Err(holder),
        }
    }

    /// Takes the lease if nobody holds it.
    ///
    /// # Errors
    /// Somebody does, or the broker cannot give it now.
    pub async fn try_take(
        bucket: kv::Store,
        stage: &str,
        instance: u16,
        life: u64,
        lasts: Duration,
    ) -> Result<Self, String> {
        let lease = Lease::new(bucket, stage, instance, life, lasts);
        let state = lease.take().await?;
        Ok(Ownership::held(lease, state))
    }

    fn held(lease: Lease, state: State) -> Self {
        let state = Arc::new(Mutex::new(state));
        let task = tokio::spawn(keep(lease.clone(), state.clone()));
        Ownership { lease, state, task }
    }

    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Revision under which the lease was taken. It is another one when the lease had lapsed and
    /// was taken again.
    pub fn taken(&self) -> u64 {
        self.state().taken
    }

    /// Until when something may be committed; none when another process has become the owner.
    pub fn held_until(&self) -> Option<Instant> {
        let State { deadline, lost, .. } = self.state();
        (!lost).then_some(deadline)
    }

    /// Says to others of this process whether the lease is held.
    pub(super) fn fence(&self) -> Fence {
        Fence(self.state.clone())
    }

    /// Returns whether another process has become the owner.
    pub fn is_lost(&self) -> bool {
        self.held_until().is_none()
    }

    fn holds(&self) -> bool {
        self.held_until()
            .is_some_and(|deadline| Instant::now() < deadline)
    }

    /// Gives the lease back, so that the next owner need not wait for its end.
    pub async fn release(self) {
        self.task.abort();
        if self.holds() {
            let _ = tokio::time::timeout(
                Duration::from_secs(1),
                self.lease.bucket.purge(&self.lease.key),
            )
            .await;
        }
    }
}

/// Whether a lease is held: nothing is written after its end.
#[derive(Clone)]
pub(super) struct Fence(Arc<Mutex<State>>);

impl Fence {
    /// Returns whether something may be written now.
    pub(super) fn is_held(&self) -> bool {
        let State { deadline, lost, .. } = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !lost && Instant::now() < deadline
    }
}

/// Renews a lease until somebody else has it.
async fn keep(lease: Lease, state: Arc<Mutex<State>>) {
    let get = || *state.lock().unwrap_or_else(PoisonError::into_inner);
    let mut saying = Saying::default();
    loop {
        tokio::time::sleep(lease.lasts / 4).await;
        let before = get();
        let (after, reason) = lease.renew(before).await;
        *state.lock().unwrap_or_else(PoisonError::into_inner) = after;
        if after.lost {
            return;
        }
        let now = Instant::now();
        match reason {
            Some(reason) if after.deadline <= now && saying.is_due(now) => {
                tracing::warn!(
                    lease = lease.key,
                    reason,
                    "the lease is over and cannot be renewed: trying on"
                );
            }
            None if saying.has_said() => {
                saying = Saying::default();
                tracing::info!(lease = lease.key, "the lease is held again");
            }
            Some(_) | None => {}
        }
    }
}

impl Lease {
    /// The lease on the partitions of an instance. Its value is the life of the holder, and where
    /// that is for people.
    fn new(bucket: kv::Store, stage: &str, instance: u16, life: u64, lasts: Duration) -> Self {
        Lease {
            bucket,
            key: lease_key(stage, instance),
            life,
            value: format!("{life:016x} {}", whereabouts()),
            lasts,
        }
    }

    /// How long the broker may take to answer.
    fn patience(&self) -> Duration {
        self.lasts / 2
    }

    /// Takes the lease if nobody holds it, or says why not.
    async fn take(&self) -> Result<State, String> {
        let asked = Instant::now();
        let taken = tokio::time::timeout(
            self.patience(),
            self.bucket.create(&self.key, self.value.clone().into()),
        )
        .await;
        match taken {
            Ok(Ok(revision)) => Ok(State {
                deadline: asked + self.lasts,
                revision,
                taken: revision,
                lost: false,
            }),
            Ok(Err(error)) if error.kind() == kv::CreateErrorKind::AlreadyExists => {
                match holder(&self.bucket, &self.key).await {
                    Some(holder) if holder.life == self.life => self.take_up(holder.revision).await,
                    Some(holder) => Err(format!("{} holds it", holder.whereabouts)),
                    None => Err("it has just been held".to_owned()),
                }
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(SILENT.to_owned()),
        }
    }

    /// Takes up a lease that is held already, under this revision: the broker gave it, and its
    /// answer came too late.
    async fn take_up(&self, revision: u64) -> Result<State, String> {
        let asked = Instant::now();
        let update = self
            .bucket
            .update(&self.key, self.value.clone().into(), revision);
        match tokio::time::timeout(self.patience(), update).await {
            Ok(Ok(revision)) => Ok(State {
                deadline: asked + self.lasts,
                revision,
                taken: revision,
                lost: false,
            }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(SILENT.to_owned()),
        }
    }

    /// Renews a lease, or finds out what has become of it; and says why it is not renewed.
    async fn renew(&self, held: State) -> (State, Option<String>) {
        let asked = Instant::now();
        let update = self
            .bucket
            .update(&self.key, self.value.clone().into(), held.revision);
        let reason = match tokio::time::timeout(self.patience(), update).await {
            Ok(Ok(revision)) => {
                return (
                    State {
                        deadline: asked + self.lasts,
                        revision,
                        ..held
                    },
                    None,
                );
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => SILENT.to_owned(),
        };
        // Ours under another revision (a reply was lost), nobody's (it lapsed), or another's?
        match tokio::time::timeout(self.patience(), self.bucket.entry(&self.key)).await {
            Ok(Ok(Some(entry))) if entry.operation == kv::Operation::Put => {
                let revision = entry.revision;
                let lost = entry.value != self.value.as_bytes();
                // After its end it may be one that was taken again, although the broker's word of
                // that was lost.
                let taken = if held.deadline <= asked {
                    revision
                } else {
                    held.taken
                };
                (
                    State {
                        revision,
                        taken,
                        lost,
                        ..held
                    },
                    Some(reason),
                )
            }
            Ok(Ok(_)) => match self.take().await {
                Ok(state) => (state, None),
                Err(reason) => (held, Some(reason)),
            },
            // The broker is away: the deadline passes, and the stage pauses until it is back.
            Ok(Err(_)) | Err(_) => (held, Some(reason)),
        }
    }
}

/// The key of the lease on the partitions of an instance.
fn lease_key(stage: &str, instance: u16) -> String {
    format!("{stage}.{instance}")
}

/// Who holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// No other process has the same.
    pub life: u64,
    /// For people: process and machine.
    pub whereabouts: String,
    /// Grows with every renewal.
    pub revision: u64,
}

/// The holders of all leases in a bucket, by their keys.
///
/// # Errors
/// The broker does not tell.
pub async fn holders(bucket: &kv::Store) -> anyhow::Result<BTreeMap<String, Holder>> {
    let keys: Vec<String> = bucket.keys().await?.try_collect().await?;
    let mut holders = BTreeMap::new();
    for key in keys {
        if let Some(holder) = holder(bucket, &key).await {
            holders.insert(key, holder);
        }
    }
    Ok(holders)
}

/// How many instances of a stage hold a lease.
///
/// # Errors
/// The broker does not tell.
pub(super) async fn instances(bucket: &kv::Store, stage: &str) -> anyhow::Result<u16> {
    let keys: Vec<String> = bucket.keys().await?.try_collect().await?;
    let is_of = |key: &&String| key.rsplit_once('.').is_some_and(|(of, _)| of == stage);
    Ok(u16::try_from(keys.iter().filter(is_of).count()).unwrap_or(u16::MAX))
}

/// Waits until the holder of a lease, another life than `own`, renews it.
async fn renewing(bucket: &kv::Store, key: &str, own: u64, look_every: Duration) -> Holder {
    let mut before: Option<Holder> = None;
    loop {
        let now = holder(bucket, key).await;
        let is_renewed = |before: &Holder, now: &Holder| {
            now.life == before.life && now.life != own && now.revision > before.revision
        };
        match (&before, now) {
            (Some(before), Some(now)) if is_renewed(before, &now) => return now,
            (_, now) => before = now,
        }
        tokio::time::sleep(look_every).await;
    }
}

/// Who holds the lease on the partitions of an instance; none when nobody does.
///
/// # Errors
/// The broker does not tell.
pub async fn holder_of(
    bucket: &kv::Store,
    stage: &str,
    instance: u16,
) -> anyhow::Result<Option<Holder>> {
    Ok(bucket
        .entry(lease_key(stage, instance))
        .await?
        .and_then(read_holder))
}

/// Who holds a lease; none when nobody does, or the broker does not tell.
async fn holder(bucket: &kv::Store, key: &str) -> Option<Holder> {
    bucket.entry(key).await.ok()?.and_then(read_holder)
}

fn read_holder(entry: kv::Entry) -> Option<Holder> {
    let value = String::from_utf8_lossy(&entry.value).into_owned();
    let (life, whereabouts) = value.split_once(' ').unwrap_or((&value, "another process"));
    let life = u64::from_str_radix(life, 16).unwrap_or_default();
    let whereabouts = whereabouts.to_owned();
    (entry.operation == kv::Operation::Put).then_some(Holder {
        life,
        whereabouts,
        revision: entry.revision,
    })
}

/// Where this process is, for people.
fn whereabouts() -> String {
    let pid = std::process::id();
    match host_name() {
        Some(host) => format!("pid {pid} on {host}"),
        None => format!("pid {pid}"),
    }
}
