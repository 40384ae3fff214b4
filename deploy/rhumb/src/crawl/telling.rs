//! What a crawl tells of itself to whoever asks how it stands.
//!
//! In: questions of `rhumb status` and the like. Out: what only the supervisor or conductor knows.
//! Invariant: an answer has the numbers of a look that began after its question, and looks follow
//! each other: the sums of a later answer are not smaller.

use super::{Crawl, Stages};
use crate::control::SupervisorRequest;
use crate::status::{LastKnown, Supervision};
use bytes::Bytes;
use futures::stream::{Stream, StreamExt as _};
use rhumb_bus::is_inbox;
use rhumb_telemetry::process::reachable;
use tokio::task::JoinSet;

impl Crawl<'_> {
    /// Answers so many of those who have asked, the first ones.
    pub(super) async fn tell(&mut self, askers: usize) {
        if askers == 0 {
            return;
        }
        let answer = self.in_bytes();
        for asker in self.asked.drain(..askers) {
            // One that is gone needs no answer.
            let _ = self.bus.client.publish(asker, answer.clone()).await;
        }
    }

    /// While the crawl ends, tells who asks how it stood before: what processes counted that have
    /// ended counts on. It does so until what is returned is dropped.
    pub(super) async fn tell_end(
        &mut self,
        mut requests: impl Stream<Item = async_nats::Message> + Unpin + Send + 'static,
    ) -> JoinSet<()> {
        self.tell(self.asked.len()).await;
        let client = self.bus.client.clone();
        let answer = self.in_bytes();
        let mut telling = JoinSet::new();
        telling.spawn(async move {
            while let Some(request) = requests.next().await {
                let is_look = matches!(
                    serde_json::from_slice(&request.payload),
                    Ok(SupervisorRequest::Status)
                );
                if let Some(asker) = request.reply.filter(|reply| is_look && is_inbox(reply)) {
                    let _ = client.publish(asker, answer.clone()).await;
                }
            }
        });
        telling
    }

    /// The answer. Where it is larger than a message can be, as with thousands of instances, it
    /// leaves out what can be asked elsewhere.
    fn in_bytes(&self) -> Bytes {
        let supervision = self.supervision();
        let bytes = serde_json::to_vec(&supervision).unwrap_or_default();
        if bytes.len() <= self.bus.client.server_info().max_payload {
            return bytes.into();
        }
        let supervision = Supervision {
            last_known: LastKnown::default(),
            ..supervision
        };
        serde_json::to_vec(&supervision).unwrap_or_default().into()
    }

    fn supervision(&self) -> Supervision {
        Supervision {
            last_known: self.standing.last_known(),
            restarts: self.restarts(),
            listen: reachable(self.front.listen()),
            answering: self.answering(),
            elapsed_s: self.standing.elapsed().as_secs_f64(),
            deployed: matches!(self.stages, Stages::Deployed(_)),
            broker: self.broker_use(),
            consumers_removed: self.bystanders.removed().to_vec(),
            waits: self.waits.now().unwrap_or_default().to_owned(),
            elsewhere: match &self.stages {
                Stages::Here(_) => self.partitions.elsewhere().in_words(),
                Stages::Deployed(fleet) => fleet.in_words(),
            },
        }
    }
}
