//! How a process ends: what it was delivered and has not taken, or cannot finish, is for the next
//! one.

use super::{Ears, Heard, Loop, StreamInputs};
use crate::process::Ended;
use async_nats::Subject;
use async_nats::jetstream::AckKind;
use futures::future::FutureExt as _;
use futures::stream::StreamExt as _;
use std::sync::Mutex;
use std::time::Duration;

/// How long the last words to the broker may take.
const FLUSH_MAX: Duration = Duration::from_secs(2);

impl Loop {
    /// Ends the pulls and returns what they delivered and nobody took, `late` with it: the next
    /// owner need not wait for `ack_wait`.
    pub(super) async fn give_back(&self, mut streams: StreamInputs, late: Option<Subject>) {
        let mut left = Vec::from_iter(late);
        // All that is there, not only what one turn of the runtime grants.
        while let Some(Some(message)) =
            tokio::task::coop::unconstrained(streams.next()).now_or_never()
        {
            left.extend(message.and_then(|message| message.message.message.reply));
        }
        // First the end of the pulls: what is returned must not come to this process again.
        drop(streams);
        for reply in left {
            let _ = self
                .process
                .context
                .bus
                .client
                .publish(reply, AckKind::Nak(None).into())
                .await;
        }
    }

    /// The end of a process that cannot go on: what it was delivered and has in hand is for the
    /// next life, at once.
    pub(super) async fn give_up(&mut self, ears: Ears) {
        self.node.settlement.give_back();
        let late = ears.late.and_then(Heard::answer_to);
        let words = async {
            self.give_back(ears.inputs.streams, late).await;
            let _ = self.carry_out().await;
            let _ = self.process.context.bus.client.flush().await;
        };
        // A broker that is away takes no words.
        let _ = tokio::time::timeout(FLUSH_MAX, words).await;
    }

    /// The end of a drained loop: what is stored is cleared, what is left in hand given back, the
    /// connection flushed. When the process ends, the lease is given back, too.
    pub(super) async fn end(mut self) -> anyhow::Result<Ended> {
        self.node.settlement.upkeep(self.now());
        self.carry_out().await?;
        self.in_hand.end();
        let left = self.node.settlement.unsettled();
        let stage = self.process.stage.name;
        let instance = self.process.context.instance;
        if let Some(since) = self.node.reassigned_at() {
            let still_since = self.instant(since);
            self.node.settlement.give_back();
            let _ = self.carry_out().await;
            let _ = tokio::time::timeout(FLUSH_MAX, self.process.context.bus.client.flush()).await;
            tracing::info!(
                stage,
                instance,
                left,
                "ends a life, for other partitions or settings"
            );
            let Loop {
                mut process,
                core,
                node,
                workers,
                ..
            } = self;
            if let Some(workers) = workers {
                process.brought = workers.end(node).await;
            }
            process.still_since = Some(still_since);
            process.context.beside = Mutex::new(core.into_beside());
            return Ok(Ended::Reassigned(Box::new(process)));
        }
        if let Some(workers) = self.workers.take() {
            // Before the lease goes.
            workers.end(self.node).await;
        }
        tracing::info!(stage, instance, left, "ended");
        if left == 0 && self.process.rows.is_some() && self.process.context.partitions.is_empty() {
            let forgotten = self
                .process
                .context
                .buckets
                .register
                .forget_state(stage, instance);
            // What is not forgotten is missed when its folder is gone: an operator is told then.
            let _ = tokio::time::timeout(FLUSH_MAX, forgotten).await;
        }
        self.process.give_back_lease().await;
        let _ = tokio::time::timeout(FLUSH_MAX, self.process.context.bus.client.flush()).await;
        Ok(Ended::Told)
    }
}
