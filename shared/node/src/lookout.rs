//! The lookout: does the broker still hold the crawl that a process takes part in?
//!
//! In: the crawl's identity, and which streams the process reads and writes. Out: how these streams
//! are, every [`LOOK_EVERY`] and after every reconnect; or that the crawl or a stream is gone. A
//! look is a few requests, none for any page.

use anyhow::Context as _;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use rhumb_bus::{Bus, held_now, stream_info};
use rhumb_config::identity::{Identity, Misfit, WAYS_OUT};
use rhumb_stage::settlement::{Expected, StreamLook};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// What does not fit must be seen so often, with this wait between: a broker that has just started
/// may not know all of its streams yet.
const SEEN_TIMES: u32 = 4;
const SEE_AGAIN: Duration = Duration::from_millis(500);

/// Looks at the broker for one process.
pub(super) struct Lookout {
    eye: Eye,
    under_way: Option<JoinHandle<anyhow::Result<Vec<StreamLook>>>>,
    next: Instant,
}

/// What a look needs.
#[derive(Clone)]
struct Eye {
    bus: Bus,
    identity: Identity,
}

impl Lookout {
    pub(super) fn new(bus: &Bus, identity: &Identity) -> Self {
        let eye = Eye {
            bus: bus.clone(),
            identity: identity.clone(),
        };
        Lookout {
            eye,
            under_way: None,
            next: Instant::now() + LOOK_EVERY,
        }
    }

    /// Looks at once.
    ///
    /// # Errors
    /// The crawl or a stream is gone ([`Misfit`]), or the broker does not answer.
    pub(super) async fn look(&mut self, wanted: &[Expected]) -> anyhow::Result<Vec<StreamLook>> {
        self.next = Instant::now() + LOOK_EVERY;
        // What an earlier look finds may be of a broker that is no more.
        if let Some(earlier) = self.under_way.take() {
            earlier.abort();
        }
        self.eye.look(wanted).await
    }

    /// The next look comes soon.
    pub(super) fn hurry(&mut self) {
        self.next = Instant::now();
    }

    /// Begins a look when it is time, and gives the one that has ended. A broker that does not
    /// answer is no news.
    ///
    /// # Errors
    /// The crawl or a stream is gone.
    pub(super) async fn glance(
        &mut self,
        wanted: impl FnOnce() -> Vec<Expected>,
    ) -> anyhow::Result<Vec<StreamLook>> {
        if let Some(look) = self.under_way.take_if(|look| look.is_finished()) {
            return match look.await.context("a look at the broker was cut short")? {
                Ok(looks) => Ok(looks),
                Err(error) if error.downcast_ref::<Misfit>().is_some() => Err(error),
                Err(error) => {
                    tracing::debug!("{error:#}");
                    Ok(Vec::new())
                }
            };
        }
        if self.under_way.is_none() && self.next <= Instant::now() && self.eye.bus.is_connected() {
            self.next = Instant::now() + LOOK_EVERY;
            let eye = self.eye.clone();
            let wanted = wanted();
            self.under_way = Some(tokio::spawn(async move { eye.look(&wanted).await }));
        }
        Ok(Vec::new())
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        if let Some(look) = &self.under_way {
            look.abort();
        }
    }
}

impl Eye {
    async fn look(&self, wanted: &[Expected]) -> anyhow::Result<Vec<StreamLook>> {
        for _ in 1..SEEN_TIMES {
            match self.look_once(wanted).await {
                Err(error) if error.downcast_ref::<Misfit>().is_some() => {
                    tokio::time::sleep(SEE_AGAIN).await
                }
                looked => return looked,
            }
        }
        self.look_once(wanted).await
    }

    async fn look_once(&self, wanted: &[Expected]) -> anyhow::Result<Vec<StreamLook>> {
        self.identity
            .check_still(held_now(&self.bus).await?.as_ref())?;
        let mut looks = Vec::with_capacity(wanted.len());
        for expected in wanted {
            let stream = &expected.stream;
            let Some(info) = stream_info(&self.bus, stream).await? else {
                return Err(self.gone(stream).into());
            };
            self.identity.check_stream(stream, &info.config.metadata)?;
            looks.push(StreamLook {
                created: i64::try_from(info.created.unix_timestamp_nanos()).unwrap_or(i64::MAX),
                last: info.state.last_sequence,
                at_given: match expected.given {
                    0 => None,
                    given => self.stamp(stream, given).await?,
                },
                expected: expected.clone(),
            });
        }
        Ok(looks)
    }

    fn gone(&self, stream: &str) -> Misfit {
        Misfit(format!(
            "the stream {stream} of {} is gone from the broker: {WAYS_OUT}",
            self.identity.mark
        ))
    }

    /// The time stamp of a message, if it is still there.
    async fn stamp(&self, stream: &str, sequence: u64) -> anyhow::Result<Option<i64>> {
        let stream = self.bus.jetstream.get_stream_no_info(stream).await?;
        match stream.get_raw_message(sequence).await {
            Ok(message) => Ok(i64::try_from(message.time.unix_timestamp_nanos()).ok()),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(error).context("the broker does not tell of a message"),
        }
    }
}
