//! Who owns the partitions of a stateful instance: a lease in a key-value bucket.
//!
//! Partition p of a stage with n replicas belongs to instance p mod n, and the instance to whoever holds its
//! lease. The lease is renewed every quarter of its lifetime; its holder counts it from before it asked, by its
//! own monotonic clock, so it knows the lease to be over before the broker lets anybody else have it, and stops
//! before it writes. A lease that lapsed because the broker was away is taken again when it is back.
//!
//! Invariant: at most one process at a time commits for an instance. The epoch (1 + the larger of the lease's
//! revision and the epoch stored with the state) grows with every change of owner.

use anyhow::Context as _;
use async_nats::jetstream::kv;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A lease, renewed by a task of its own. The supervisor of a crawl holds one, too.
pub struct Ownership {
    key: String,
    bucket: kv::Store,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Nothing may be committed after it.
    deadline: Instant,
    revision: u64,
    /// Somebody else holds the lease now.
    lost: bool,
}

impl Ownership {
    /// Takes the lease, waiting for that of an earlier owner to end.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn take(
        bucket: kv::Store,
        stage: &str,
        instance: u16,
        holder: u64,
        lease: Duration,
    ) -> anyhow::Result<Self> {
        let key = format!("{stage}.{instance}");
        let value = format!("{holder:016x}");
        let mut told = false;
        let (asked, revision) = loop {
            let asked = Instant::now();
            match bucket.create(&key, value.clone().into()).await {
                Ok(revision) => break (asked, revision),
                Err(error) if error.kind() == kv::CreateErrorKind::AlreadyExists => {
                    if !told {
                        tracing::info!(stage, instance, "waiting for the lease of an earlier owner to end");
                        told = true;
                    }
                }
                Err(error) => return Err(error).with_context(|| format!("the lease {key} cannot be taken")),
            }
            tokio::time::sleep(lease / 20).await;
        };
        let state = Arc::new(Mutex::new(State { deadline: asked + lease, revision, lost: false }));
        let task = tokio::spawn(renew(bucket.clone(), key.clone(), value, lease, state.clone()));
        Ok(Ownership { key, bucket, state, task })
    }

    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Revision under which the lease was last written.
    pub fn revision(&self) -> u64 {
        self.state().revision
    }

    /// Until when something may be committed; none when another process has become the owner.
    pub fn held_until(&self) -> Option<Instant> {
        let State { deadline, lost, .. } = self.state();
        (!lost).then_some(deadline)
    }

    /// Says whether another process has become the owner.
    pub fn is_lost(&self) -> bool {
        self.held_until().is_none()
    }

    fn holds(&self) -> bool {
        self.held_until().is_some_and(|deadline| Instant::now() < deadline)
    }

    /// Gives the lease back, so that the next owner need not wait for its end.
    pub async fn release(self) {
        self.task.abort();
        if self.holds() {
            let _ = tokio::time::timeout(Duration::from_secs(1), self.bucket.purge(&self.key)).await;
        }
    }
}

async fn renew(bucket: kv::Store, key: String, value: String, lease: Duration, state: Arc<Mutex<State>>) {
    let with = |change: &dyn Fn(&mut State)| change(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
    loop {
        tokio::time::sleep(lease / 4).await;
        let asked = Instant::now();
        let revision = state.lock().unwrap_or_else(PoisonError::into_inner).revision;
        let renewed = tokio::time::timeout(lease / 2, bucket.update(&key, value.clone().into(), revision)).await;
        match renewed {
            Ok(Ok(revision)) => with(&|s| *s = State { deadline: asked + lease, revision, lost: false }),
            Ok(Err(_)) | Err(_) => {
                // Ours under another revision (a reply was lost), nobody's (it lapsed), or another's?
                match tokio::time::timeout(lease / 2, bucket.entry(&key)).await {
                    Ok(Ok(Some(entry))) if entry.operation == kv::Operation::Put => {
                        if entry.value == value.as_bytes() {
                            with(&|s| s.revision = entry.revision);
                        } else {
                            with(&|s| s.lost = true);
                            return;
                        }
                    }
                    Ok(Ok(_)) => {
                        let asked = Instant::now();
                        if let Ok(revision) = bucket.create(&key, value.clone().into()).await {
                            with(&|s| *s = State { deadline: asked + lease, revision, lost: false });
                        }
                    }
                    // The broker is away: the deadline passes, and the stage pauses until it is back.
                    Ok(Err(_)) | Err(_) => {}
                }
            }
        }
    }
}
