//! The shell: does over HTTP what the core says.
//!
//! In: effects. Out: their answers. Whatever a server sends becomes an answer: each effect runs in a task of
//! its own, so that a panic in a library ends that task and no other (P9). Bodies stay as sent.
//!
//! Must run on a current-thread runtime: on several threads the client's pool was seen to open a second
//! connection while the first was on its way back.

use crate::connection::{Connected, Connection};
use crate::effect::{Answer, Asked, Effect, End, Request, Response};
use crate::failure::end_of;
use anyhow::Context as _;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderValue};
use reqwest::{StatusCode, Version};
use shared::config::Pipeline;
use shared::message::{Ask, FailureKind, HttpVersion, JobId};
use shared::tls::client_config;
use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// A boxed future, as the stage loop takes it.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What sends an ask to a scheduler instance and waits for its reply.
pub type SendAsk = Arc<dyn Fn(u16, Ask) -> BoxFuture<Asked> + Send + Sync>;

/// What a crawler would rather have.
const ACCEPTED: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
/// What the parser can undo.
const ENCODINGS: &str = "gzip, deflate, br, zstd";
/// Headers of a response, at most. The client stops at 100 unless told; there are pages with more.
const HEADERS_MAX: usize = 256;
/// A body's buffer starts no larger, whatever length its server announces.
const BODY_RESERVED_MAX: usize = 256 << 10;
/// HTTP/2: bytes a server may send ahead of what was read, for a stream and for the connection.
const WINDOW_BYTES: u32 = 1 << 20;
/// What a message needs beside a page's URLs, headers and body.
const ENVELOPE_BYTES: usize = 8 << 10;
/// How many times a close lets all other tasks run before it counts as done. Dropping the client wakes the
/// connection's task: with HTTP/1.1 it says good-bye and closes the socket in its next turn, with HTTP/2 in the
/// one after (both were counted; the rest is margin). That holds because a runtime takes tasks in turn: what the
/// drop woke is before what yields after it. The stage loop itself is not taken in turn, hence a task.
const TURNS_TO_CLOSE: usize = 8;

/// Limits and identity of all connections.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Sent with every request.
    pub user_agent: String,
    /// To open a connection, TLS included.
    pub connect_timeout: Duration,
    /// From sending a request to the end of its body.
    pub request_timeout: Duration,
    /// All headers of a response together.
    pub header_bytes_max: usize,
    /// A URL.
    pub url_bytes_max: usize,
    /// A message with its page; a body is cut where it would become larger.
    pub message_bytes_max: usize,
    /// Whether the identity of servers is taken on trust.
    pub accept_invalid_certificates: bool,
}

impl HttpSettings {
    /// From the configuration.
    pub fn new(pipeline: &Pipeline) -> Self {
        let limits = &pipeline.limits;
        HttpSettings {
            user_agent: pipeline.user_agent(),
            connect_timeout: limits.connect_timeout,
            request_timeout: limits.request_timeout,
            header_bytes_max: limits.header_bytes_max.as_usize(),
            url_bytes_max: limits.url_bytes_max,
            message_bytes_max: pipeline.broker.max_payload.as_usize(),
            accept_invalid_certificates: pipeline.stages.fetcher.accept_invalid_certificates,
        }
    }
}

/// The shell.
#[derive(Clone)]
pub struct Http {
    web: Arc<Web>,
    ask: SendAsk,
}

struct Web {
    settings: HttpSettings,
    headers: HeaderMap,
    tls: rustls::ClientConfig,
    connections: Mutex<HashMap<JobId, Arc<Connection>>>,
}

impl Http {
    /// A shell without connections.
    ///
    /// # Errors
    ///
    /// When the user agent cannot be a header's value, or no root certificates can be had.
    pub fn new(settings: HttpSettings, ask: SendAsk) -> anyhow::Result<Http> {
        let mut tls = client_config(settings.accept_invalid_certificates).context("cannot set up TLS")?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let user_agent =
            HeaderValue::from_str(&settings.user_agent).context("network.user_agent cannot be sent as a header")?;
        let mut headers = HeaderMap::new();
        headers.insert(reqwest::header::USER_AGENT, user_agent);
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS));
        let web = Web { settings, headers, tls, connections: Mutex::default() };
        Ok(Http { web: Arc::new(web), ask })
    }

    /// Performs an effect.
    pub fn perform(&self, effect: Effect) -> BoxFuture<Answer> {
        let web = self.web.clone();
        match effect {
            Effect::Ask { scheduler, ask } => {
                let number = ask.ask;
                let reply = (self.ask)(scheduler, ask);
                Box::pin(async move { Answer::Asked { scheduler, ask: number, result: reply.await } })
            }
            Effect::Request(request) => Box::pin(async move {
                let (job, index) = (request.job, request.index);
                let task = tokio::spawn(async move { web.request(request).await });
                let (connect_us, end) = task.await.unwrap_or_else(|error| {
                    tracing::error!(%error, "the HTTP client failed on a response");
                    (None, End::Failure(FailureKind::Protocol))
                });
                Answer::Response { job, index, connect_us, end }
            }),
            Effect::Close { job } => Box::pin(async move {
                let task = tokio::spawn(async move { web.close(job).await });
                if let Err(error) = task.await {
                    tracing::error!(%error, "the HTTP client failed on a close");
                }
                Answer::Closed { job }
            }),
        }
    }
}

impl Web {
    fn connections(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn close(&self, job: JobId) {
        let connection = self.connections().remove(&job);
        drop(connection);
        for _ in 0..TURNS_TO_CLOSE {
            tokio::task::yield_now().await;
        }
    }

    /// How a request ended, and how long its connection took when it was the first of its job.
    async fn request(&self, request: Request) -> (Option<u32>, End) {
        let connection = match self.connection(&request) {
            Ok(Some(connection)) => connection,
            Ok(None) => return (None, End::Failure(FailureKind::Forbidden)),
            Err(error) => {
                tracing::error!(%error, "cannot make an HTTP client");
                return (None, End::Failure(FailureKind::Connect));
            }
        };
        let Ok(url) = reqwest::Url::parse(&request.url) else {
            return (None, End::Failure(FailureKind::Forbidden));
        };
        if !connection.may_request(&url) {
            return (None, End::Failure(FailureKind::Forbidden));
        }
        let is_first = connection.link.connected().is_none();
        let end = self.request_in_time(&connection, url, is_first, &request).await;
        let connected = connection.link.connected().filter(|_| is_first);
        (connected.map(|Connected { took, .. }| micros(took)), end)
    }

    /// The job's connection; a new one for its first request.
    fn connection(&self, request: &Request) -> Result<Option<Arc<Connection>>, reqwest::Error> {
        if let Some(connection) = self.connections().get(&request.job) {
            return Ok(Some(connection.clone()));
        }
        let Some(connection) = Connection::new(self.client(), request)? else {
            return Ok(None);
        };
        let connection = Arc::new(connection);
        self.connections().insert(request.job, connection.clone());
        Ok(Some(connection))
    }

    fn client(&self) -> reqwest::ClientBuilder {
        let header_bytes_max = u32::try_from(self.settings.header_bytes_max).unwrap_or(u32::MAX);
        reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .default_headers(self.headers.clone())
            .connect_timeout(self.settings.connect_timeout)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(None)
            .http1_max_headers(HEADERS_MAX)
            .http2_max_header_list_size(header_bytes_max)
            .http2_initial_stream_window_size(WINDOW_BYTES)
            .http2_initial_connection_window_size(WINDOW_BYTES)
    }

    /// The time for a request counts from when it was sent, that is, for the first one, from when the connection
    /// was there; the time for that is bounded by the client.
    async fn request_in_time(
        &self,
        connection: &Connection,
        url: reqwest::Url,
        is_first: bool,
        request: &Request,
    ) -> End {
        let begun = Instant::now();
        let longest = self.settings.request_timeout;
        let timeout = request.timeout.map_or(longest, |timeout| timeout.min(longest));
        let sent_at = || match connection.link.connected() {
            Some(connected) if is_first => connected.at,
            Some(_) => begun,
            None => begun + self.settings.connect_timeout,
        };
        let mut exchange = pin!(self.exchange(connection, url, request, &sent_at));
        let mut deadline = begun + timeout;
        loop {
            match tokio::time::timeout_at(deadline, &mut exchange).await {
                Ok(end) => return end,
                Err(_) if sent_at() + timeout > deadline => deadline = sent_at() + timeout,
                Err(_) => return End::Failure(FailureKind::Timeout),
            }
        }
    }

    async fn exchange(
        &self,
        connection: &Connection,
        url: reqwest::Url,
        request: &Request,
        sent_at: &(impl Fn() -> Instant + Sync),
    ) -> End {
        let mut response = match connection.client.get(url).send().await {
            Ok(response) => response,
            Err(error) => return end_of(&error, connection.is_https()),
        };
        let fetched_at_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, millis);
        let head_bytes = head_bytes(response.headers());
        if head_bytes > self.settings.header_bytes_max {
            return End::Failure(FailureKind::HeaderTooLarge);
        }
        let beside = head_bytes + 2 * self.settings.url_bytes_max + ENVELOPE_BYTES;
        let bytes_max = request.body_bytes_max.min(self.settings.message_bytes_max.saturating_sub(beside));
        let mut truncated = false;
        let body = match read_body(&mut response, bytes_max).await {
            Body::Whole(body) => body,
            Body::Cut(body) => {
                truncated = true;
                body
            }
            Body::Failed(error) => return end_of(&error, connection.is_https()),
        };
        End::Response(Box::new(Response {
            status: response.status().as_u16(),
            keeps_open: !truncated && keeps_open(&response),
            truncated,
            fetched_at_ms,
            elapsed_us: micros(sent_at().elapsed()),
            address: response.remote_addr().map(|address| address.ip()),
            http_version: match response.version() {
                Version::HTTP_2 => HttpVersion::Http2,
                Version::HTTP_11 => HttpVersion::Http11,
                _ => HttpVersion::Http10,
            },
            request_headers: headers(&self.headers),
            headers: headers(response.headers()),
            body,
        }))
    }
}

enum Body {
    Whole(Vec<u8>),
    /// Longer than allowed, or ended early.
    Cut(Vec<u8>),
    /// Nothing of it came.
    Failed(reqwest::Error),
}

async fn read_body(response: &mut reqwest::Response, bytes_max: usize) -> Body {
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut body = Vec::with_capacity(announced.unwrap_or(0).min(bytes_max).min(BODY_RESERVED_MAX));
    loop {
        match response.chunk().await {
            Ok(None) => return Body::Whole(body),
            Ok(Some(chunk)) if chunk.len() > bytes_max - body.len() => {
                body.extend_from_slice(&chunk[..bytes_max - body.len()]);
                return Body::Cut(body);
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Err(error) if body.is_empty() => return Body::Failed(error),
            Err(_) => return Body::Cut(body),
        }
    }
}

/// Bytes of the headers as they stand in a message of HTTP/1.1, at least what they take in ours.
fn head_bytes(headers: &HeaderMap) -> usize {
    const BESIDE: usize = 16;
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + BESIDE).sum()
}

fn headers(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let owned = |(name, value): (&reqwest::header::HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), value.as_bytes().to_vec())
    };
    headers.iter().map(owned).collect()
}

/// Whether a server that sent this whole response keeps the connection (RFC 9112, sections 6.3 and 9.3).
fn keeps_open(response: &reqwest::Response) -> bool {
    let headers = response.headers();
    let says = |wanted: &str| {
        let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    let status = response.status();
    let ends_by_itself = status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || headers.contains_key(CONTENT_LENGTH)
        || headers.contains_key(reqwest::header::TRANSFER_ENCODING);
    match response.version() {
        Version::HTTP_2 => true,
        Version::HTTP_11 => ends_by_itself && !says("close") && status != StatusCode::SWITCHING_PROTOCOLS,
        _ => ends_by_itself && says("keep-alive"),
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
