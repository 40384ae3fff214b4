//! What lies in a stream and is still to be acked by the consumers that the crawl waits for.

use async_nats::jetstream;
use async_nats::jetstream::consumer::Info;
use futures::TryStreamExt as _;
use rhumb_bus::{Bus, Interested, consumer_name};
use rhumb_config::Pipeline;
use rhumb_config::required_by_interest;
use rhumb_wire::topology::StageName;
use std::ops::AddAssign;

/// How far consumers are behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Messages that were not given to them yet.
    pub(crate) waiting: u64,
    /// Messages that they were given and have not acked.
    pub(crate) unacked: u64,
    /// Messages of these that they were given more than once.
    pub(crate) redelivered: u64,
}

impl Behind {
    /// Messages that they have not acked.
    pub(crate) fn messages(&self) -> u64 {
        self.waiting + self.unacked
    }

    /// One that was given nothing of so many messages.
    pub(super) fn all_of(messages: u64) -> Behind {
        Behind {
            waiting: messages,
            ..Behind::default()
        }
    }
}

impl AddAssign for Behind {
    fn add_assign(&mut self, more: Behind) {
        self.waiting += more.waiting;
        self.unacked += more.unacked;
        self.redelivered += more.redelivered;
    }
}

impl From<&Info> for Behind {
    fn from(info: &Info) -> Behind {
        let Info {
            num_pending,
            num_ack_pending,
            num_redelivered,
            ..
        } = *info;
        Behind {
            waiting: num_pending,
            unacked: num_ack_pending as u64,
            redelivered: num_redelivered as u64,
        }
    }
}

impl From<&Interested> for Behind {
    fn from(of: &Interested) -> Behind {
        let Interested {
            waiting,
            unacked,
            redelivered,
            ..
        } = *of;
        Behind {
            waiting,
            unacked,
            redelivered,
        }
    }
}

/// How far some consumers of a stream are behind.
pub(super) async fn backlog(stream: &jetstream::stream::Stream, consumers: &[String]) -> Behind {
    let mut behind = Behind::default();
    for name in consumers {
        behind += match stream.consumer_info(name).await {
            Ok(info) => Behind::from(&info),
            // It does not exist yet.
            Err(_) => Behind::all_of(stream.cached_info().state.messages),
        };
    }
    behind
}

/// How far the owners of partitions are behind in a stream, whichever instances they are; none
/// while the broker does not tell. A partition on its way may have no consumer: then its owner is
/// missing, too.
pub(super) async fn owners_backlog(stream: &jetstream::stream::Stream) -> Option<Behind> {
    let infos: Vec<Info> = stream.consumers().try_collect().await.ok()?;
    if infos.is_empty() {
        return Some(Behind::all_of(stream.cached_info().state.messages));
    }
    let mut behind = Behind::default();
    infos.iter().for_each(|info| behind += Behind::from(info));
    Some(behind)
}

/// Counts the messages that the archiver has not acked.
///
/// # Errors
/// The broker does not answer.
pub(crate) async fn unarchived(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<u64> {
    let mut left = 0;
    for (edge, stage) in required_by_interest(pipeline) {
        if stage == StageName::Archiver {
            let stream = bus
                .jetstream
                .get_stream(bus.subjects.stream(edge.name()))
                .await?;
            left += backlog(&stream, &[consumer_name(stage.name(), None)])
                .await
                .messages();
        }
    }
    Ok(left)
}
