//! What a process gives to a checkpoint: its partitions as they were at one moment, while it works
//! on.
//!
//! In: requests of a `rhumb checkpoint`. Out: whether the partitions are captured; their pieces,
//! one for each request. Invariants: a partition is captured only while the crawl is held and the
//! instance has nothing in hand, so that nothing is missing which belongs to it; what is being
//! collected stays until it is given to its end, or nobody asks for it any more.

use super::Loop;
use crate::moves::{Capture, Piece};
use async_nats::Subject;
use rhumb_bus::is_inbox;
use rhumb_stage::ControlRequest;
use rhumb_wire::topology::StageName;

impl Loop {
    /// Answers a control request.
    pub(super) async fn control(&mut self, request: async_nats::Message) {
        let reply = request.reply.clone().filter(|reply| is_inbox(reply));
        match (reply, serde_json::from_slice(&request.payload)) {
            (Some(reply), Ok(ControlRequest::Capture(number))) => {
                self.answer_capture(reply, number).await
            }
            (Some(reply), Ok(ControlRequest::Piece(number))) => {
                self.give_piece(reply, number).await
            }
            (_, Ok(ControlRequest::Forget(number))) => {
                _ = self.capture.take_if(|capture| capture.number == number)
            }
            _ => {
                if self.process.telling.answer(request, self.moment()).await {
                    self.process.orders.look();
                }
            }
        }
    }

    async fn answer_capture(&mut self, reply: Subject, number: u64) {
        if self.node.tenure().is_none() {
            return;
        }
        let captured = self.capture(number);
        let captured = self.process.telling.captured(captured);
        if let Ok(payload) = serde_json::to_vec(&captured) {
            let _ = self
                .process
                .context
                .bus
                .client
                .publish(reply, payload.into())
                .await;
        }
    }

    /// Captures the partitions of the instance. Gives them with their versions, or says why it does
    /// not.
    fn capture(&mut self, number: u64) -> Result<Vec<(u16, u64)>, String> {
        let refused = |why: &str| Err(why.to_owned());
        if self.node.is_draining() || self.node.is_moving() {
            return refused("its partitions are on their way, or it ends");
        }
        if !self.node.settlement.may_step(self.now()) {
            return refused("it does not hold the lease of its partitions now");
        }
        if !self.process.orders.is_held() {
            return refused("it does not heed that the crawl is held");
        }
        if !self.core.is_idle() || !self.node.settlement.is_settled() {
            return refused("it still has something in hand");
        }
        if self
            .capture
            .as_ref()
            .is_some_and(Capture::is_being_collected)
        {
            return refused("another checkpoint is being collected: try again when it has ended");
        }
        let (Some(desk), Some(own)) = (
            self.process.desk(),
            StageName::from_name(self.process.stage.name),
        ) else {
            return refused("it has no state");
        };
        let owners = self.process.context.owners_of(own);
        let versions = self
            .process
            .context
            .partitions
            .iter()
            .map(|&partition| (partition, owners.version(partition)));
        let versions: Vec<(u16, u64)> = versions.collect();
        let capture = Capture::begin(&desk, &versions, self.core.beside(), number)
            .map_err(|error| error.to_string())?;
        let stage = own.name();
        let instance = desk.of.instance;
        let partitions = versions.len();
        tracing::info!(
            stage,
            instance,
            partitions,
            "captures its partitions for a checkpoint"
        );
        self.capture = Some(capture);
        Ok(versions)
    }

    async fn give_piece(&mut self, reply: Subject, number: u64) {
        let client = &self.process.context.bus.client;
        match self
            .capture
            .as_mut()
            .filter(|capture| capture.number == number)
        {
            Some(capture) => capture.give(client.clone(), reply),
            None => {
                let why = "it does not know of it any more: it has begun anew since, or was not \
                           asked for a while";
                let _ = client
                    .publish(reply, Piece::Failed(why.to_owned()).to_bytes())
                    .await;
            }
        }
    }
}
