//! What a process listens to, apart from its work and the clock.

use super::{Heard, Opened, SoftInputs, StreamInputs};
use crate::bus::Bus;
use crate::stage::process::Process;

/// What a process listens to.
pub(super) struct Ears {
    pub(super) control: ControlRequests,
    pub(super) soft: SoftInputs,
    pub(super) streams: StreamInputs,
    /// Came while the process stood still, until the lease was over: it waits for the lease to be held again.
    pub(super) late: Option<Heard>,
}

type ControlRequests = futures::stream::Select<async_nats::Subscriber, async_nats::Subscriber>;

impl Ears {
    /// Begins to listen: to who controls the process first. Gives the streams that were opened as well.
    ///
    /// # Errors
    /// The broker does not answer, or lacks a stream.
    pub(super) async fn open(process: &Process) -> anyhow::Result<(Ears, Vec<Opened>)> {
        let control = control_requests(process).await?;
        let soft = process.inputs().soft(process.stage.sources).await?;
        let (streams, opened) = process.inputs().streams(process.stage.sources).await?;
        Ok((Ears { control, soft, streams, late: None }, opened))
    }
}

async fn control_requests(process: &Process) -> anyhow::Result<ControlRequests> {
    let Bus { client, subjects, .. } = &process.context.bus;
    let name = format!("{}.{}", process.stage.name, process.context.instance);
    let one = client.subscribe(subjects.control(&name)).await?;
    let all = client.subscribe(subjects.control("all")).await?;
    Ok(futures::stream::select(one, all))
}
