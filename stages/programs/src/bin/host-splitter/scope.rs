//! The topics' scopes: entries in a key-value bucket that all instances watch.

use async_nats::jetstream::kv::{Entry, Operation, Store, Watch};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use host_splitter::effect::Answer;
use rhumb_config::scope_entry::ScopeEntry;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// After a failure of the broker.
const RETRY_WAIT: Duration = Duration::from_millis(500);

/// The scope bucket.
pub(crate) struct Scope {
    bucket: Store,
    watching: Arc<Mutex<Watching>>,
}

/// How far the watch has come.
enum Watching {
    NotYet,
    /// Entries that were there at the beginning are still coming.
    CatchingUp(Watch),
    /// The entries of the beginning have come; whether the core knows.
    CaughtUp {
        watch: Watch,
        told: bool,
    },
}

impl Scope {
    pub(crate) fn new(bucket: Store) -> Scope {
        Scope {
            bucket,
            watching: Arc::new(Mutex::new(Watching::NotYet)),
        }
    }

    /// The next entry, or that all entries of the beginning have come.
    pub(crate) fn next(&self) -> BoxFuture<'static, Answer> {
        let bucket = self.bucket.clone();
        let watching = self.watching.clone();
        Box::pin(async move {
            let mut watching = watching.lock().await;
            loop {
                if let Some(answer) = step(&mut watching, &bucket).await {
                    return answer;
                }
            }
        })
    }

    /// Adds an entry; comes back when the broker has it.
    pub(crate) fn join(&self, entry: ScopeEntry) -> BoxFuture<'static, Answer> {
        let bucket = self.bucket.clone();
        Box::pin(async move {
            while let Err(error) = bucket.put(entry.key(), entry.value().into()).await {
                tracing::debug!(%error, "the scope cannot be written for now");
                tokio::time::sleep(RETRY_WAIT).await;
            }
            Answer::Joined(entry)
        })
    }
}

async fn step(watching: &mut Watching, bucket: &Store) -> Option<Answer> {
    match watching {
        Watching::NotYet => match begin(bucket).await {
            Ok((watch, 0)) => {
                *watching = Watching::CaughtUp { watch, told: true };
                Some(Answer::ScopeCaughtUp)
            }
            Ok((watch, _)) => {
                *watching = Watching::CatchingUp(watch);
                None
            }
            Err(error) => {
                tracing::debug!(%error, "the scope cannot be watched for now");
                tokio::time::sleep(RETRY_WAIT).await;
                None
            }
        },
        Watching::CatchingUp(watch) => {
            let Some(Ok(entry)) = watch.next().await else {
                *watching = Watching::NotYet;
                return None;
            };
            if entry.delta > 0 {
                return answer(&entry);
            }
            // The last entry of the beginning: it goes in first, then the news that it was the
            // last.
            let Watching::CatchingUp(watch) = std::mem::replace(watching, Watching::NotYet) else {
                return None;
            };
            *watching = Watching::CaughtUp { watch, told: false };
            answer(&entry)
        }
        Watching::CaughtUp { told, .. } if !*told => {
            *told = true;
            Some(Answer::ScopeCaughtUp)
        }
        Watching::CaughtUp { watch, .. } => match watch.next().await {
            Some(Ok(entry)) => answer(&entry),
            _ => {
                *watching = Watching::NotYet;
                None
            }
        },
    }
}

/// A watch, and how many entries there are at its beginning.
async fn begin(bucket: &Store) -> anyhow::Result<(Watch, u64)> {
    let entries = bucket.status().await?.values() as u64;
    Ok((bucket.watch_with_history(">").await?, entries))
}

fn answer(entry: &Entry) -> Option<Answer> {
    if entry.operation != Operation::Put {
        return None;
    }
    ScopeEntry::read(&entry.value).map(Answer::Scope)
}
