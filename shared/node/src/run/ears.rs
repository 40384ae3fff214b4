//! What a process listens to, apart from its work and the clock.

use super::{Heard, Opened, SoftInputs, StreamInputs};
use crate::process::Process;
use futures::stream::StreamExt as _;
use rhumb_bus::Bus;
use std::task::{Context as PollContext, Poll};

/// What a process listens to.
pub(super) struct Ears {
    pub(super) control: ControlRequests,
    pub(super) inputs: Inputs,
    /// Came while the process stood still, until the lease was over: it waits for the lease to be
    /// held again.
    pub(super) late: Option<Heard>,
}

/// Where its inputs come from.
pub(super) struct Inputs {
    pub(super) soft: SoftInputs,
    pub(super) streams: StreamInputs,
    /// A stream is listened to before soft messages: those had the last turn.
    streams_first: bool,
}

type ControlRequests = futures::stream::Select<async_nats::Subscriber, async_nats::Subscriber>;

impl Ears {
    /// Begins to listen: to who controls the process first. Gives the streams that were opened as
    /// well.
    ///
    /// # Errors
    /// The broker does not answer, or lacks a stream.
    pub(super) async fn open(process: &Process) -> anyhow::Result<(Ears, Vec<Opened>)> {
        let control = control_requests(process).await?;
        let soft = process.inputs().soft(process.stage.sources).await?;
        let (streams, opened) = process.inputs().streams(process.stage.sources).await?;
        let inputs = Inputs {
            soft,
            streams,
            streams_first: false,
        };
        Ok((
            Ears {
                control,
                inputs,
                late: None,
            },
            opened,
        ))
    }
}

impl Inputs {
    /// Listens to soft messages and to streams in turn, so that however many come of the ones the
    /// others are heard, too.
    pub(super) fn poll(
        &mut self,
        context: &mut PollContext<'_>,
        takes_stream: bool,
    ) -> Poll<Heard> {
        for of_streams in [self.streams_first, !self.streams_first] {
            let heard = match of_streams {
                true if !takes_stream => continue,
                true => self
                    .streams
                    .poll_next_unpin(context)
                    .map(|message| message.map(Heard::Message)),
                false => self
                    .soft
                    .poll_next_unpin(context)
                    .map(|message| message.map(Heard::Soft)),
            };
            if let Poll::Ready(Some(heard)) = heard {
                self.streams_first = !of_streams;
                return Poll::Ready(heard);
            }
        }
        Poll::Pending
    }

    /// What is there at the moment, if anything is.
    pub(super) async fn next_now(&mut self, takes_stream: bool) -> Option<Heard> {
        let now = |context: &mut PollContext<'_>| {
            Poll::Ready(match self.poll(context, takes_stream) {
                Poll::Ready(heard) => Some(heard),
                Poll::Pending => None,
            })
        };
        std::future::poll_fn(now).await
    }
}

async fn control_requests(process: &Process) -> anyhow::Result<ControlRequests> {
    let Bus {
        client, subjects, ..
    } = &process.context.bus;
    let name = format!("{}.{}", process.stage.name, process.context.instance);
    let one = client.subscribe(subjects.control(&name)).await?;
    let all = client.subscribe(subjects.control("all")).await?;
    Ok(futures::stream::select(one, all))
}
