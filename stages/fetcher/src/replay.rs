//! Replay: the shell that answers requests from an archive, in the place of the one that asks the
//! web.
//!
//! In: effects. Out: their answers: what was recorded, cut and skipped by the same limits as what
//! comes from the web; what is not there is not archived. Invariant: nobody is contacted.

mod archive;
mod cdxj;
mod index;
mod inflater;
mod packing;
mod record;
mod recording;
mod scan;
mod table;

use self::archive::{Answered, Archive};
use self::index::Index;
use self::record::Head;
use self::recording::Recording;
use crate::effect::{Answer, Effect, End, Request, Response};
use crate::head::field_bytes;
use crate::http::{BoxFuture, HttpSettings, SendAsk};
use crate::room::Room;
use anyhow::Context as _;
use rhumb_warc::warc_files;
use rhumb_wire::message::{FailureKind, Truncation};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Between two tries to read what cannot be read.
const RETRY_WAIT: Duration = Duration::from_secs(5);
/// The head of a response and the lines of its chunks, beside the body that is wanted.
const BESIDE_BODY_BYTES: u64 = 2 << 20;

/// The shell.
#[derive(Clone)]
pub struct Replay {
    inner: Arc<Inner>,
    ask: SendAsk,
}

struct Inner {
    settings: Mutex<Arc<HttpSettings>>,
    dir: PathBuf,
    index_dir: PathBuf,
    archive: OnceLock<Archive>,
    room: Room,
}

impl Replay {
    /// A shell that answers from the WARC files in `dir`, and keeps its index of them in
    /// `index_dir`.
    ///
    /// # Errors
    /// There is no WARC file.
    pub fn new(
        dir: PathBuf,
        index_dir: PathBuf,
        settings: HttpSettings,
        ask: SendAsk,
    ) -> anyhow::Result<Replay> {
        warc_files::of_archive(&dir).map_err(anyhow::Error::msg)?;
        let room = Room::new(settings.bytes_in_hand_max);
        let settings = Mutex::new(Arc::new(settings));
        Ok(Replay {
            inner: Arc::new(Inner {
                settings,
                dir,
                index_dir,
                archive: OnceLock::new(),
                room,
            }),
            ask,
        })
    }

    /// Requests go by these from now on.
    pub fn configure(&self, settings: HttpSettings) {
        self.inner.room.resize(settings.bytes_in_hand_max);
        *self
            .inner
            .settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Performs an effect.
    pub fn perform(&self, effect: Effect) -> BoxFuture<Answer> {
        let inner = self.inner.clone();
        match effect {
            Effect::Ask { scheduler, ask } => {
                let number = ask.ask;
                let reply = (self.ask)(scheduler, ask);
                Box::pin(async move {
                    Answer::Asked {
                        scheduler,
                        ask: number,
                        result: reply.await,
                    }
                })
            }
            Effect::Index => Box::pin(async move {
                let (recordings, damaged) =
                    persistently(&inner, Inner::index).await.unwrap_or_default();
                Answer::Indexed {
                    recordings,
                    damaged,
                }
            }),
            Effect::Request(request) => Box::pin(async move {
                let job = request.job;
                let index = request.index;
                let answered = persistently(&inner, move |inner| inner.answer(&request)).await;
                let (mut end, damaged) =
                    answered.unwrap_or((End::Failure(FailureKind::NotArchived), 1));
                if let End::Response(response) = &mut end {
                    let mut room = inner.room.nothing();
                    room.take(response.body.len()).await;
                    response.room = Arc::new(room);
                }
                Answer::Response {
                    job,
                    index,
                    connect_us: None,
                    damaged,
                    end,
                }
            }),
            // Nothing was opened.
            Effect::Close { job } => Box::pin(std::future::ready(Answer::Closed { job })),
        }
    }
}

/// Does what waits for files, again until they can be read. None when it panicked.
async fn persistently<T: Send + 'static>(
    inner: &Arc<Inner>,
    work: impl Fn(&Inner) -> anyhow::Result<T> + Send + Sync + 'static,
) -> Option<T> {
    let work = Arc::new(work);
    loop {
        let inner = inner.clone();
        let work = work.clone();
        match tokio::task::spawn_blocking(move || work(&inner)).await {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => tracing::error!(
                "{error:#}: is the archive where it was, and is there room on the disk? Tried \
                 again every {} s",
                RETRY_WAIT.as_secs()
            ),
            Err(error) => {
                tracing::error!(%error, "reading the archive failed in a way that it should not");
                return None;
            }
        }
        tokio::time::sleep(RETRY_WAIT).await;
    }
}

impl Inner {
    /// Opens the archive. Returns how many responses and damaged records are there.
    fn index(&self) -> anyhow::Result<(u64, u64)> {
        let begun = Instant::now();
        let paths = warc_files::of_archive(&self.dir).map_err(anyhow::Error::msg)?;
        let index = Index::open(&paths, &self.index_dir)?;
        let recordings = index.table.about.recordings;
        let damaged = index.table.about.damaged;
        let files = paths.len();
        let took_s = begun.elapsed().as_secs();
        tracing::info!(
            files,
            recordings,
            damaged,
            took_s,
            "answers from the archive {}",
            self.dir.display()
        );
        // A second index would be of the same files.
        let _ = self.archive.set(Archive::new(index));
        Ok((recordings, damaged))
    }

    fn answer(&self, request: &Request) -> anyhow::Result<(End, u32)> {
        let begun = Instant::now();
        let settings = self
            .settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let archive = self.archive.get().context("the archive is not open")?;
        // No more than a message takes.
        let block_bytes_max = settings.body_bytes_max(0, request) as u64 + BESIDE_BODY_BYTES;
        let Answered { response, damaged } = archive.find(&request.url, block_bytes_max)?;
        let end = match response {
            Some((head, recording)) => respond(&settings, request, &head, recording, begun),
            None => End::Failure(FailureKind::NotArchived),
        };
        Ok((end, damaged))
    }
}

/// What the web would have been taken for.
fn respond(
    settings: &HttpSettings,
    request: &Request,
    head: &Head,
    recording: Recording,
    begun: Instant,
) -> End {
    let Recording {
        status,
        http_version,
        headers,
        body,
        truncated,
    } = recording;
    let header_bytes: usize = headers
        .iter()
        .map(|(name, value)| field_bytes(name, value))
        .sum();
    if header_bytes > settings.header_bytes_max {
        return End::Failure(FailureKind::HeaderTooLarge);
    }
    let mut response = Response {
        status,
        headers,
        body,
        truncated,
        keeps_open: true,
        http_version,
        request_headers: Vec::new(),
        // 0 would say that there was no response.
        fetched_at_ms: head.date_ms.max(1),
        elapsed_us: 0,
        address: head.address,
        lacks_length: false,
        leads_back: false,
        room: Arc::default(),
    };
    let bytes_max = settings.body_bytes_max(header_bytes, request);
    if request.is_page && !response.body.is_empty() && settings.skips(&response) {
        (response.body, response.truncated) = (Vec::new(), Some(Truncation::Unspecified));
    } else if response.body.len() > bytes_max {
        response.body.truncate(bytes_max);
        response.truncated = Some(Truncation::Length);
    }
    response.elapsed_us = u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX);
    End::Response(Box::new(response))
}
